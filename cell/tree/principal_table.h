/* The principals of the cell: names with the public keys that prove them. Their rows are replicated
 * like everything else. A principal that was removed and added again is another one, with a
 * generation of its own: sessions and connections of the former inherit nothing. */
#ifndef LSFS_TREE_PRINCIPAL_TABLE_H
#define LSFS_TREE_PRINCIPAL_TABLE_H

#include <bsd/sys/tree.h>
#include "cell/tree/apply.h"

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

#endif
