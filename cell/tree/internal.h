/* Inside the tree: its state, made of parts that one file each writes, and the functions of files
 * that have no state of their own. When a tree is loaded, load.c writes the parts.
 *
 *   tree --> nodes (by number) --> children (by name)      sessions (by number, by nonce)
 *              |                                              |
 *              +--> openers (by session, opened) <-- same --->+ openers (by opened)
 *              `--> lock --> holders (by session, owner) <--->+ holders (by node, owner)
 *                                                             `--> kept results (by number)
 *
 * Every object owns its texts and contents. All orders are orders of values, never of addresses, so
 * that replicas apply in step. A function that changes a stored object calls its dirty_*. */
#ifndef LSFS_TREE_INTERNAL_H
#define LSFS_TREE_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/tree/apply.h"
#include "cell/tree/dirty_rows.h"
#include "cell/tree/ephemeral.h"
#include "cell/tree/epoch.h"
#include "cell/tree/load.h"
#include "cell/tree/lock_delay.h"
#include "cell/tree/lock_table.h"
#include "cell/tree/member_table.h"
#include "cell/tree/node.h"
#include "cell/tree/principal_table.h"
#include "cell/tree/removed.h"
#include "cell/tree/reply_cache.h"
#include "cell/tree/session_table.h"
#include "cell/tree/settings.h"
#include "cell/tree/signing.h"
#include "cell/tree/slice.h"
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct tree {
	char *cell;
	struct tree_position position;
	struct tree_commands commands; /* of the entry that is applied; apply.c */
	struct epochs epochs;
	struct tree_nodes nodes;
	struct removed_names removed;
	struct tree_locks locks;
	struct lock_delays delays;
	struct tree_sessions sessions;
	struct member_table members;
	struct principal_table principals;
	struct tree_settings settings;
	struct tree_signing signing;
	struct slices slices;
	struct dirty dirty;
	struct loading loading;
};

/* ---- name.c ---- */

/* RC_OK if a node of this name may be created in `directory`, else the rule that the name
 * violates. */
enum rc name_check(const struct node *directory, struct bytes name);
/* True if a node can have this name at all. */
bool name_valid(struct bytes name);
/* The child of this name: RC_STALE or RC_NOTDIR if there is no such directory, RC_NAMETOOLONG, or
 * RC_NOENT, also for a name that no node may have. */
enum rc name_look_up(const struct tree *t, uint64_t directory, struct bytes name, struct node **n);
/* The length of the node's path with its first slash; more than LIMIT_PATH for an endless chain of
 * parents. */
size_t name_path_length(const struct node *n);

/* ---- acl.c ---- */

/* The subject's rights on the node: RIGHT_READ and so on. */
uint8_t acl_rights(const struct tree *t, const struct node *n, const struct subject *who);
/* The contents of the file change, or it goes. */
void acl_forget_lines(struct node *n);
/* True if the node is /acl/admin, which has to stay where it is; */
bool acl_is_admin_file(const struct node *n);
/* true if it is a file in /acl, from which rights depend; */
bool acl_is_file(const struct node *n);
/* and true if the node may have these contents: an administrator is left. */
bool acl_allows_contents(const struct tree *t, const struct node *n, struct bytes contents);

/* ---- permission.c ---- */

/* True if the subject, for which the requester acts, has the right that the operation needs. */
bool permission_given(const struct tree *t, const struct requester *requester,
                      const struct subject *who, const struct op *op);

/* ---- children.c ---- */

/* Packs a page of the listing into `packed`, to which the result then refers. */
enum rc children_list(const struct tree *t, const struct node *n, const struct op_get_listing *o,
                      const struct subject *who, struct result_listing *r, struct buffer *packed);

/* ---- footprint.c, changes.c ---- */

/* Adds the keys that the deletion of the node changes: those of the ephemeral directories above it
 * that are empty then, and of the directory that is left. */
void footprint_add_deletion(struct footprint *f, const struct node *n);
/* Adds the key of all rights, if keys of /acl or of a file in it are there. */
void footprint_add_rights(struct footprint *f, const struct tree *t);
/* True if the command, which is permitted, changes only what it has declared to change. */
bool changes_are_declared(const struct tree *t, const struct tree_command *c);
/* True if the command that is executed may delete the node with the session that it ends: a bounded
 * one takes away no more than it declares. */
bool changes_allow_deletion(const struct execution *x, const struct node *n);

/* ---- acl.c ---- */

/* True if /acl/admin names a principal that there is, other than `without` (NULL: any). */
bool acl_has_administrator(const struct tree *t, const struct principal *without);

/* ---- quota.c ---- */

/* True if the quota allows one more node. */
bool quota_allows_node(const struct tree *t);
/* True if contents may become so much longer. */
bool quota_allows_bytes(const struct tree *t, size_t more);

/* ---- delete.c ---- */

/* Deletes a childless node with its lock and openers, and the ephemeral directories above it whose
 * last child is deleted with it. */
void delete_node(struct execution *x, struct node *n);

#endif
