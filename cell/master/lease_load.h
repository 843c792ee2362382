/* How much longer session leases have to be for a master to bear their KeepAlives, pure (Chubby,
 * section 4.1: the lease is increased "from the default 12s up to around 60s when under heavy
 * load", so that the master handles fewer KeepAlives). The master counts what it answers; the
 * factor grows at once, and shrinks step by step when the load has been low for a while. */
#ifndef LSFS_MASTER_LEASE_LOAD_H
#define LSFS_MASTER_LEASE_LOAD_H

#include "cell/base/mono.h"

enum { LEASE_LOAD_MOST = 5 }; /* times the lease that is set */

struct lease_load {
	unsigned bearable; /* KeepAlives a second */
	unsigned factor;   /* 1 to LEASE_LOAD_MOST, by which leases are longer than set */
	uint64_t answered; /* KeepAlives in this window, */
	span_t window;     /* which is so long */
	mono_t end;        /* and ends then */
};

/* Nothing was answered yet. */
void lease_load_begin(struct lease_load *l, unsigned bearable);
/* Windows that have ended by `now` decide about the factor. `lease`: as it is set. */
void lease_load_pass(struct lease_load *l, mono_t now, span_t lease);
/* A KeepAlive is answered at `now`. */
void lease_load_answered(struct lease_load *l, mono_t now, span_t lease);

#endif
