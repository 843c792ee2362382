/* The rights on a node that the cell has answered, by the users that asked. */
#ifndef LSFS_CLIENT_CACHE_RIGHTS_H
#define LSFS_CLIENT_CACHE_RIGHTS_H

#include "cell/base/bytes.h"

enum { CACHE_SUBJECTS = 8 }; /* a further one replaces the oldest */

struct cache_rights {
	struct {
		struct bytes user; /* owned; empty: the principal itself */
		uint8_t rights;
	} of[CACHE_SUBJECTS];
	size_t n, next;
};

/* Keeps the rights of the user. */
void cache_rights_put(struct cache_rights *r, struct bytes user, uint8_t rights);
/* True if the rights of the user are known. */
bool cache_rights_known(const struct cache_rights *r, struct bytes user, uint8_t *rights);
/* Frees what it owns. */
void cache_rights_free(struct cache_rights *r);

#endif
