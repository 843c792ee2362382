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
 * that replicas apply in step. A function that changes a stored object notes its dirty row. */
#ifndef LSFS_TREE_INTERNAL_H
#define LSFS_TREE_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdint.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/setting.h"
#include "cell/tree/apply.h"
#include "cell/tree/lock_table.h"
#include "cell/tree/node.h"
#include "cell/tree/rows.h"
#include "cell/tree/session_table.h"
#include "cell/tree/signing.h"
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

/* ---- tree.c ----
 *
 * Epochs: each master begins one before it serves. */

struct epochs {
	uint64_t current;      /* 0 if none has begun */
	uint64_t settled;      /* the last one whose barrier has fallen */
	uint64_t first_number; /* the next instance number when the current one began */
};

/* Skips that many epochs. */
void tree_skip_epochs(struct tree *t, uint64_t epochs);

/* ---- member_table.c ----
 *
 * The members of the cell: a list that one command replaces as a whole, by at most one voter at a
 * time, so that the majorities of a list and of the next one share a voter. A removed member stays
 * in the list for a while, so that it learns of it. */

struct member_row {
	struct member member; /* owns its texts */
	uint64_t since;       /* log index of the list that gave it its role */
};

struct member_table {
	struct member_row *rows; /* by id */
	size_t n, room;
	uint64_t version; /* index of the entry that made the list */
};

/* The row of this id; NULL when there is none. */
struct member_row *member_row_find(const struct tree *t, uint8_t id);
/* Adds a copy of the member, whose id is not in the list. */
void member_row_add(struct tree *t, const struct member *m, uint64_t since);
/* True if the member makes sense by itself. */
bool member_table_sound(const struct member *m);
/* Takes a new cell's first list; RC_INVAL when it cannot be one. */
enum rc member_table_begin(struct execution *x, struct wire_list list);
/* Empties the list, until an epoch brings a new first one. */
void member_table_clear(struct tree *t);
/* Frees the table. */
void member_table_free(struct tree *t);

/* ---- principal_table.c ----
 *
 * The principals of the cell: names with the public keys that prove them. Their rows are replicated
 * like everything else. A principal that was removed and added again is a different one, with a
 * generation of its own: sessions and connections of the former inherit nothing. */

struct principal {
	RB_ENTRY(principal) by_generation, by_name, by_key;
	uint64_t generation;    /* index of the log entry that added it; each adds one at most */
	struct bytes name, key; /* owned; an empty key: of the administrator of a cell in one
	                         * process, whose only client needs none */
};

RB_HEAD(principal_generations, principal);
RB_HEAD(principal_names, principal);
RB_HEAD(principal_keys, principal);

struct principal_table {
	struct principal_generations by_generation;
	struct principal_names by_name;
	struct principal_keys by_key; /* those that have one */
	size_t n;
};

/* The principal of this generation; NULL when there is none. */
struct principal *principal_find(const struct tree *t, uint64_t generation);
/* The principal of this name; NULL when there is none. */
struct principal *principal_named(const struct tree *t, struct bytes name);
/* The principal that has this key; NULL when there is none. */
struct principal *principal_of_key(const struct tree *t, struct bytes key);
/* True if a principal's row can have this name and this key: one of 32 bytes, or none. */
bool principal_sound(struct bytes name, struct bytes key);
/* A new principal, whose name and key no other one has; both are copied. */
void principal_add(struct tree *t, uint64_t generation, struct bytes name, struct bytes key);
/* True if this can be the key of the principal `admin`: no other one has it. */
bool principal_table_may_begin(const struct tree *t, struct bytes admin_key);
/* The administrator of a new cell, or of one that was restored, gets this key: its key file was
 * made with the cell file. */
void principal_table_begin(struct execution *x, struct bytes admin_key);
/* Frees the table. */
void principal_table_free(struct tree *t);

/* ---- settings.c ----
 *
 * The settings of the cell. A promised length that is lowered still counts as the longest until the
 * master records that all promises of it have ended: a master that begins in between waits so
 * long. A length that the master promises for a while, without its being set, counts likewise. */

/* The length of a setting that may still be promised. */
struct lowered {
	uint64_t longest;
	uint64_t since; /* log index of the lowering, or of the last lengthening; 0: it is the
	                 * value in force */
};

struct tree_settings {
	struct settings in_force; /* all given */
	struct lowered lowered[SETTING_CODES];
};

/* Sets the values of a new cell; 0: the default. */
void settings_begin(struct tree *t, const struct settings *first);
/* Reads a new cell's first settings; RC_INVAL when a cell cannot have them. */
enum rc settings_read(struct wire_list list, struct settings *first);

/* ---- change_history.c ----
 *
 * The changes that the last entries made, for those who want to read them again. Apply forgets the
 * oldest when they are more, or older by the stamps of the log, than the settings say. A node has
 * one path all its life: it stands in the change that deletes it, and until then in the tree. */

struct change {
	uint64_t number; /* grows by one */
	uint64_t index;  /* of the entry */
	int64_t stamp_ns;
	enum change_kind kind;
	uint64_t node;
	uint64_t generation;   /* of new contents, or of the lock; else 0 */
	uint64_t parent;       /* of a deleted node, as are */
	struct bytes path;     /* its path, and */
	struct bytes acl_read; /* the name of the ACL that gave the right to read it */
};

struct deletion {
	RB_ENTRY(deletion) link;
	uint64_t node;
	uint64_t number, index, parent; /* as in its change */
	struct bytes path, acl_read;    /* owned */
};

RB_HEAD(deletions, deletion);

/* A busy cell has hundreds of thousands of changes. Most of them consist only of numbers, which are
 * stored in order, in chunks. */
struct change_history {
	struct kept_change **chunks; /* the oldest first */
	size_t chunks_n, chunks_room;
	size_t forgotten; /* places of the first chunk */
	size_t n;
	uint64_t first; /* number of the oldest change */
	struct deletions deletions;
	uint64_t last;      /* number of the newest change */
	uint64_t compacted; /* changes of entries up to here may be missing */
	uint64_t bytes;     /* as they count against history_bytes */
};

/* Adds the changes that the entry has noted, and forgets old ones. */
void change_history_note(struct execution *x);
/* Adds the newest change, whose texts are taken over. */
void change_add(struct tree *t, const struct change *c);
/* The change with this number, with views of its texts; false when it is not kept. */
bool change_at(const struct tree *t, uint64_t number, struct change *c);
/* The deletion of the node; NULL: there is none in the history. */
const struct deletion *change_deletion(const struct tree *t, uint64_t node);
/* A page of the changes above the index `since` that the subject may read; packed into `list`. */
void change_history_read(const struct tree *t, const struct subject *who, uint64_t since,
                         struct result_changes *r, struct buffer *list);
/* Forgets all changes up to the entry that is applied. */
void change_history_clear(struct tree *t);
/* The first invariant that the history violates; NULL: none. */
const char *change_history_check(const struct tree *t);
/* Frees the history: the tree ends. */
void change_history_free(struct tree *t);

/* ---- slice.c ----
 *
 * Digests through the log: replicas that applied the same entries must agree not only in what they
 * answered (tree_digest), but in what they hold. A slice of the nodes is compared at a time, so
 * that it costs the same however large the tree is. */

struct slices {
	uint64_t behind; /* the next slice begins after this node */
};

/* ---- dirty_rows.c ----
 *
 * The rows that have changed since they were last handed out. The row itself, or that it is gone,
 * is noted when rows are asked for: so an object that changed a thousand times is written once. An
 * object of the tables that every command changes is noted with its key; each of these is noted as
 * gone before it is freed. Objects of other tables are looked up. */

struct dirty_row {
	RB_ENTRY(dirty_row) in_tree; /* by table and key */
	enum row_table table;
	uint64_t key[3];
	const void *object; /* a node, session, cached reply or change; NULL: it is looked up */
	bool gone;
};

RB_HEAD(dirty_rows, dirty_row);

struct dirty {
	struct dirty_rows rows;
	size_t n;
	uint64_t saved; /* applied index in the rows that were handed out last */
};

/* Notes that the row has changed, or is gone. */
void dirty_rows_add(struct tree *t, const struct dirty_row *row);
#define DIRTY_ROW(t, name, ...) \
	dirty_rows_add(t, &(struct dirty_row){.table = ROWS_##name, __VA_ARGS__})
/* The row of the node has changed. */
void dirty_node(struct tree *t, const struct node *n);
/* The row of the session has changed. */
void dirty_session(struct tree *t, const struct session *s);
/* No row is dirty. */
void dirty_rows_forget(struct tree *t);
/* The row as it is now; false when there is none of this key. Its texts are views. */
bool dirty_rows_show(const struct tree *t, enum row_table table, const uint64_t key[3],
                     struct row *row);

/* ---- quota.c ----
 *
 * The quota bounds the nodes and bytes of a cell, and a budget those below one directory. How many
 * there are is not stored, but for the sum that a state is checked with. */

struct tree_counts {
	uint64_t nodes, bytes; /* as they count against the quota */
	uint64_t scarce_n;     /* directories of whose budget of bytes little is left */
};

/* ---- load.c ----
 *
 * Loading a tree from its rows. */

struct loading {
	struct row_list rows; /* that refer to other rows, until tree_load_done */
	bool meta;            /* the row of the table meta was loaded, */
	uint64_t bytes;       /* and counts this number of bytes */
};

/* ---- the tree ---- */

struct tree {
	char *cell;
	struct tree_position position;
	struct tree_commands commands; /* of the entry that is applied; apply.c */
	struct buffer done;            /* by the transaction that is applied; transaction.c */
	struct epochs epochs;
	struct tree_nodes nodes;
	struct tree_counts counts;
	struct removed_names removed;
	struct mortal_files mortal;
	struct tree_locks locks;
	struct lock_delays delays;
	struct tree_sessions sessions;
	struct member_table members;
	struct principal_table principals;
	struct tree_settings settings;
	struct tree_signing signing;
	struct change_history history;
	struct slices slices;
	struct dirty dirty;
	struct loading loading;
};

/* ---- node.c: names ---- */

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
/* True if the ACL file of this name gives its right to the subject. */
bool acl_gives(const struct tree *t, struct bytes name, const struct subject *who);
/* Frees the lines of the file as they were parsed: its contents change, or it is deleted. */
void acl_forget_lines(struct node *n);
/* True if /acl/admin names the subject. */
bool acl_is_operator(const struct tree *t, const struct subject *who);
/* True if the node is /acl/admin. */
bool acl_is_admin_file(const struct node *n);
/* True if the node is a file in /acl, on which rights depend. */
bool acl_is_file(const struct node *n);
/* True if the node may be neither deleted nor renamed. */
bool acl_is_needed(const struct tree *t, const struct node *n);
/* True if the node may have these contents: those of /acl/admin must leave an administrator. */
bool acl_allows_contents(const struct tree *t, const struct node *n, struct bytes contents);

/* ---- node_commands.c: contents ---- */

/* The file gets its next version, a heap block that is taken over. */
void contents_replace(struct execution *x, struct node *n, struct bytes contents);

/* ---- transaction.c ---- */

/* Adds the nodes that the transaction touches or asks about, whatever it does. */
void transaction_footprint(const struct tree *t, uint64_t session, const struct op_transaction *o,
                           struct footprint *f);
/* Adds the nodes that it would change. */
void transaction_changes(const struct tree *t, uint64_t session, const struct subject *who,
                         const struct op_transaction *o, struct footprint *f);
/* The node was created in the transaction of the journal. */
void journal_created(struct journal *j, struct node *n);
/* The node was deleted in it: it is detached, and freed when nothing is undone any more. */
void journal_deleted(struct journal *j, struct node *n);

/* ---- acl.c: a removed name ---- */

/* Adds what purge_name changes. */
void acl_purge_changes(const struct tree *t, struct bytes principal, struct footprint *f);

/* ---- permission.c ---- */

/* The right that the subject, for which the requester acts, is missing for the operation; node 0:
 * none. */
struct result_refused permission_missing(const struct tree *t, const struct requester *requester,
                                         const struct subject *who, const struct op *op);

/* ---- children.c ---- */

/* Packs a page of the listing into `packed`, to which the result then refers. */
enum rc children_list(const struct tree *t, const struct node *n, const struct op_get_listing *o,
                      const struct subject *who, struct result_listing *r, struct buffer *packed);

/* ---- footprint.c ---- */

/* Adds the key of all rights, if keys of /acl or of a file in it are there. */
void footprint_add_rights(struct footprint *f, const struct tree *t);
/* Adds the keys that the deletion of the node may change in whatever order others are deleted. */
void footprint_add_with_directories(struct footprint *f, const struct node *n);
/* True if the command that is executed, which is permitted, changes only what it has declared to
 * change. */
bool changes_are_declared(const struct execution *x);
/* True if the command that is executed may delete the node with the session that it ends: a bounded
 * one takes away no more than it declares. */
bool changes_allow_deletion(const struct execution *x, const struct node *n);

/* ---- acl.c ---- */

/* True if /acl/admin names a principal that there is, other than `without` (NULL: any). */
bool acl_has_administrator(const struct tree *t, const struct principal *without);

/* ---- quota.c ---- */

/* Bytes that a node costs beyond its contents: without them, empty files would be free of
 * charge. */
enum { QUOTA_NODE_BYTES = 256 };

/* Counts the node, in the cell and below each directory above it. */
void quota_add(struct tree *t, struct node *n);
/* Counts the node no longer. */
void quota_remove(struct tree *t, struct node *n);
/* Counts the length of the contents that the node is about to have. */
void quota_resize(struct tree *t, struct node *n, size_t len);
/* Counts what is below each directory of a tree that was loaded; false: a chain of parents is
 * endless. */
bool quota_count_all(struct tree *t);
/* True if little is left of the directory's budget of bytes. */
bool quota_is_scarce(const struct node *directory);
/* The greatest budget that a directory can have. */
uint64_t quota_highest(enum quota_kind which);
/* Sets the directory's budget. */
void quota_set_budget(struct tree *t, struct node *n, enum quota_kind which, uint64_t most);
/* RC_NOSPC if the quota of the cell, RC_DQUOT if the budget of the directory or of one above it
 * does not allow so many more nodes and bytes of contents in the directory. */
enum rc quota_check(const struct tree *t, const struct node *directory, uint64_t nodes,
                    uint64_t contents);
/* The usage of the cell, and what bounds the node: of each kind the quota of which least is left.
 * RC_STALE: there is no such node. */
enum rc quota_usage(const struct tree *t, uint64_t node, struct result_usage *u);
/* True if the budgets allow that the source gets the target's place (NULL: a new one in `parent`).
 * For a directory below which it stays it is not more. */
bool budget_allows_rename(const struct node *source, const struct node *parent,
                          const struct node *target);

/* ---- lock_view.c ---- */

/* True if the node must keep its name for its lock's sake: a session other than this one holds the
 * lock, or its lock-delay runs, which a node that is created again would not have. Operators may
 * take it away all the same. */
bool lock_keeps_node(const struct tree *t, const struct node *n, uint64_t session,
                     const struct subject *who);

/* ---- node_commands.c: delete ---- */

/* Deletes a childless node with its lock and openers, and the ephemeral directories above it whose
 * last child is deleted with it. */
void delete_node(struct execution *x, struct node *n);
/* Frees the deleted node, which is detached, with all that it has. */
void end_deleted(struct tree *t, struct node *n);

#endif
