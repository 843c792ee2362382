/* The members of the cell: a list that one command replaces as a whole, by at most one voter at a
 * time, so that the majorities of a list and of the next one share a voter. A removed member stays
 * in the list for a while, so that it learns of it. */
#ifndef LSFS_TREE_MEMBER_TABLE_H
#define LSFS_TREE_MEMBER_TABLE_H

#include "cell/tree/apply.h"

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
/* There is no list, until an epoch brings a new first one. */
void member_table_clear(struct tree *t);
/* Frees the table. */
void member_table_free(struct tree *t);

#endif
