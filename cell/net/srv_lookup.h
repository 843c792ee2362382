/* Addresses by a DNS name of type SRV (RFC 2782). DNS gives addresses, never keys, and does not say
 * which replica has which: each address is tried with the key of each replica. */
#ifndef LSFS_NET_SRV_LOOKUP_H
#define LSFS_NET_SRV_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include "cell/base/bytes.h"
#include "cell/base/limit.h"

struct srv_addresses {
	char list[LIMIT_REPLICAS][LIMIT_ADDRESS + 1]; /* HOST:PORT, the preferred ones first */
	int n;
};

/* Looks the name up, which takes as long as the C library waits for DNS. False with one line in
 * `why`: there is no address. */
bool srv_lookup(const char *name, struct srv_addresses *found, char *why, size_t why_size);
/* The addresses in an answer of DNS; there may be none. False: it is no answer. */
bool srv_parse(struct bytes answer, struct srv_addresses *found);
/* The address at which the replica with this index is tried for the first, second, ... time (0, 1,
 * ...): first its own, if that is one of them. Of addresses, of which there is one at least. */
const char *srv_address(const struct srv_addresses *a, const char *own, int index, unsigned time);

#endif
