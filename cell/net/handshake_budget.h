/* How many handshakes a replica makes with each key. A handshake costs more than a request: whoever
 * connects without end would have the time of all others.
 *
 * After a fail-over all clients of a principal come at once, and some of them twice; beyond that so
 * many a second are enough. Each key has its own: one that comes too often is in nobody's way. All
 * keys that the cell does not know have one together. The rule is that of a leaky bucket (ITU-T
 * I.371, the virtual scheduling algorithm). */
#ifndef LSFS_NET_HANDSHAKE_BUDGET_H
#define LSFS_NET_HANDSHAKE_BUDGET_H

#include <bsd/sys/tree.h>
#include "cell/base/limit.h"
#include "cell/base/mono.h"
#include "cell/wire/noise.h"

enum {
	HANDSHAKE_MS = 10,                               /* one in this time, */
	HANDSHAKES_AHEAD = 4 * LIMIT_PRINCIPAL_SESSIONS, /* and so many ahead of it */
};

struct handshake_key;
RB_HEAD(handshake_keys, handshake_key);

struct handshake_budget {
	struct handshake_keys keys; /* those that have made one lately */
	size_t n;
};

/* No key has made any. */
void handshake_budget_init(struct handshake_budget *b);
/* Frees what it keeps of keys. */
void handshake_budget_free(struct handshake_budget *b);
/* Counts one more of the key, NULL: of one that is not known. False: there were too many; ask again
 * at *again. A key whose handshakes were all some time ago is forgotten. */
bool handshake_budget_take(struct handshake_budget *b, const uint8_t key[NOISE_KEY], mono_t now,
                           mono_t *again);

#endif
