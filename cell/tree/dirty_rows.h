/* The rows that have changed since they were last handed out. The row itself, or that it is gone,
 * is noted when rows are asked for: so an object that changed a thousand times is written once. An
 * object of the tables that every command changes is noted with its key; each of these is noted as
 * gone before it is freed. Objects of other tables are looked up. */
#ifndef LSFS_TREE_DIRTY_ROWS_H
#define LSFS_TREE_DIRTY_ROWS_H

#include <bsd/sys/tree.h>
#include "cell/tree/tree.h"

struct cached_reply;
struct node;
struct session;

struct dirty_row {
	RB_ENTRY(dirty_row) in_tree; /* by table and key */
	enum row_table table;
	uint64_t key[3];
	const void *object; /* a node, session or cached reply; NULL: it is looked up */
	bool gone;
};

RB_HEAD(dirty_rows, dirty_row);

struct dirty {
	struct dirty_rows rows;
	size_t n;
	uint64_t saved; /* applied index in the rows that were handed out last */
};

/* The row of the node has changed, */
void dirty_node(struct tree *t, const struct node *n);
/* that of the session, */
void dirty_session(struct tree *t, const struct session *s);
/* that of the session's result. */
void dirty_result(struct tree *t, uint64_t session, const struct cached_reply *k);
/* The node is going, and its number is never used again; */
void dirty_node_gone(struct tree *t, uint64_t node);
/* the session; */
void dirty_session_gone(struct tree *t, uint64_t session);
/* the session's result. */
void dirty_result_gone(struct tree *t, uint64_t session, uint64_t number);
/* The row of this key has changed, or is gone: of openers, */
void dirty_opener(struct tree *t, uint64_t session, uint64_t opened);
/* of locks, */
void dirty_lock(struct tree *t, uint64_t node);
/* of holders, */
void dirty_holder(struct tree *t, uint64_t node, uint64_t session, uint64_t owner);
/* of members, */
void dirty_member(struct tree *t, uint8_t id);
/* of settings, */
void dirty_setting(struct tree *t, uint8_t code);
/* of principals. */
void dirty_principal(struct tree *t, uint64_t generation);
/* of the signing keys. */
void dirty_signing_keys(struct tree *t);
/* No row is dirty. */
void dirty_rows_forget(struct tree *t);
/* The row as it is now; false when there is none of this key. Its texts are views. */
bool dirty_rows_show(const struct tree *t, enum row_table table, const uint64_t key[3],
                     struct row *row);

#endif
