/* How long commands took from their proposal by this replica, as the master, until they were
 * applied. */
#ifndef LSFS_REPLICA_COMMIT_TIMES_H
#define LSFS_REPLICA_COMMIT_TIMES_H

#include <stddef.h>
#include "cell/base/latency.h"

struct commit_times {
	mono_t *proposed; /* owned; of the slots from `first` on */
	size_t n, room;
	uint64_t first;
	struct latency seen;
};

/* The command was proposed for that slot: the one after the last, if there is any. */
void commit_times_proposed(struct commit_times *c, uint64_t slot, mono_t now);
/* All up to that index are applied. */
void commit_times_applied(struct commit_times *c, uint64_t index, mono_t now);
/* This replica is no longer master: what became of its proposals is not counted. */
void commit_times_forget(struct commit_times *c);

#endif
