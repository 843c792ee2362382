/* The conditions and roles of a replica in words, for all that report them. */
#ifndef LSFS_WIRE_CONDITION_H
#define LSFS_WIRE_CONDITION_H

#include "cell/wire/types.h"

struct condition_words {
	const char *name;
	const char *means; /* after "replica N" */
	const char *todo;  /* NULL: the replica comes out of it by itself, or nothing is wrong */
};

/* The words for an enum voting_condition, which may come from a newer replica: never NULL. */
const struct condition_words *condition_words(unsigned condition);
/* The word for an enum replica_role; "unknown" for a role of a newer replica. */
const char *condition_role(unsigned role);

#endif
