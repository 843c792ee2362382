/* Session leases that are longer than the setting while the master is loaded. The longest that may
 * be promised is replicated first, because a new master waits for it before it ends a session; it
 * is the setting again when the last longer promise is over (see lowered_lease.h). */
#ifndef LSFS_MASTER_LENGTHENED_LEASE_H
#define LSFS_MASTER_LENGTHENED_LEASE_H

#include <stdbool.h>
#include "cell/base/mono.h"
#include "cell/master/lease_load.h"

struct master;

struct lengthened_leases {
	struct lease_load load;
	bool due;          /* longer leases are needed than the log allows */
	uint64_t proposed; /* ms: an entry under way allows leases as long as this; 0: none is */
	bool settling;     /* behind an entry under way none is longer than the setting */
	mono_t until;      /* the last promise longer than the setting ends then */
};

/* An epoch begins: leases are as long as they are set. */
void m_lengthened_begin(struct master *m);
/* The length of each session lease that is promised now. */
span_t m_lengthened(const struct master *m);
/* A lease of this length from now on was promised. */
void m_lengthened_promised(struct master *m, span_t lease);
/* A KeepAlive was answered that is part of the load. */
void m_lengthened_count(struct master *m);
/* Proposes to allow longer leases, which are due. */
void m_lengthened_propose(struct master *m);
/* That was applied. */
void m_lengthened_applied(struct master *m);
/* The session lease is to be settled: true, and no longer lease is promised until that is applied;
 * false when longer promises do not end before *until. */
bool m_lengthened_settle(struct master *m, mono_t *until);
/* That was applied. */
void m_lengthened_settled(struct master *m);

#endif
