/* Stored rows in memory: what state.db is to a replica. */
#ifndef LSFS_TESTS_ROW_STORE_H
#define LSFS_TESTS_ROW_STORE_H

#include "cell/tree/tree.h"

/* Sorted by table and key; every list entry owns its bytes. */
struct row_store {
	struct row_list rows;
};

/* Writes rows that have changed. */
void row_store_put(struct row_store *store, const struct row_list *changes);
/* Writes what has changed in the tree since the last time. */
void row_store_save(struct row_store *store, struct tree *t);
/* A tree from the rows; NULL, with the reason in `why`, when they make no sense. */
struct tree *row_store_load(const struct row_store *store, char *why, size_t why_size);
bool row_store_equal(const struct row_store *a, const struct row_store *b);
/* The first row of this table at or after position `from`; NULL if there is none. */
struct row *row_store_find(struct row_store *store, enum row_table table, size_t from);
void row_store_copy(struct row_store *to, const struct row_store *from);
void row_store_free(struct row_store *store);

#endif
