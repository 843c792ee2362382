/* The rows that have changed since they were last handed out. Only their keys are noted; the row
 * itself, or that it is gone, is looked up when rows are asked for: so an object that changed a
 * thousand times is written once. */
#ifndef LSFS_TREE_DIRTY_ROWS_H
#define LSFS_TREE_DIRTY_ROWS_H

#include <bsd/sys/tree.h>
#include "cell/tree/tree.h"

struct dirty_row {
	RB_ENTRY(dirty_row) in_tree; /* by table and key */
	enum row_table table;
	uint64_t key[3];
};

RB_HEAD(dirty_rows, dirty_row);

struct dirty {
	struct dirty_rows rows;
	size_t n;
	uint64_t saved; /* applied index in the rows that were handed out last */
};

/* The row of this key has changed, or is gone: of the table nodes, */
void dirty_node(struct tree *t, uint64_t node);
/* of openers, */
void dirty_opener(struct tree *t, uint64_t session, uint64_t opened);
/* of locks, */
void dirty_lock(struct tree *t, uint64_t node);
/* of holders, */
void dirty_holder(struct tree *t, uint64_t node, uint64_t session, uint64_t owner);
/* of sessions, */
void dirty_session(struct tree *t, uint64_t session);
/* of results, */
void dirty_result(struct tree *t, uint64_t session, uint64_t number);
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
bool dirty_rows_show(const struct tree *t, enum row_table table, const uint64_t *key,
                     struct row *row);

#endif
