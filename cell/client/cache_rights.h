/* The rights on a node that the cell has answered, by the users that asked. */
#ifndef LSFS_CLIENT_CACHE_RIGHTS_H
#define LSFS_CLIENT_CACHE_RIGHTS_H

#include "cell/base/bytes.h"
#include "cell/base/limit.h"
#include "cell/wire/types.h"

enum { CACHE_SUBJECTS = 8 }; /* another user replaces the oldest */

struct cache_rights {
	struct {
		struct bytes user; /* owned; empty: the principal itself */
		uint8_t rights;
		bool checked; /* with check digits: a listing has none */
		uint8_t check[LIMIT_CHECK];
	} of[CACHE_SUBJECTS];
	size_t n, next;
};

/* Keeps the rights of the user, with their check digits, which may be empty. */
void cache_rights_put(struct cache_rights *r, struct bytes user, uint8_t rights,
                      struct bytes check);
/* True if the rights of the user are known, and the needed ones are among them. */
bool cache_rights_allow(const struct cache_rights *r, struct bytes user, unsigned needed,
                        uint8_t *rights, struct bytes *check);
/* Shows attributes that were sent to one subject to another, with the rights of the other: the
 * checksum only if it may read. False if the first was not shown all that the other may see. */
bool cache_rights_show(const struct attr *from, uint8_t rights, struct attr *to);
/* Frees what it owns. */
void cache_rights_free(struct cache_rights *r);

#endif
