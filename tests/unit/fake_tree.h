/* A stand-in for the tree, for tests of storage: it keeps the rows that it is given. */
#ifndef LSFS_TESTS_FAKE_TREE_H
#define LSFS_TESTS_FAKE_TREE_H

#include "cell/tree/tree.h"

const struct row_list *fake_tree_rows(const struct tree *t);
/* The loaded row of `table` with this first key; NULL if there is none. */
const struct row *fake_tree_find(const struct tree *t, enum row_table table, int64_t key);

/* A meta row that says `applied`. */
struct row fake_meta(uint64_t applied);
/* A file's row: what is not named is made up from the number. */
struct row fake_node(int64_t node, const char *name, struct bytes contents);

#endif
