/* What waits at a replica for its turn: entries for room in the log, clients for the epoch. */
#ifndef LSFS_CELL_WAITING_H
#define LSFS_CELL_WAITING_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"

struct waiting {
	TAILQ_ENTRY(waiting) entry;
	uint64_t conn;
	struct bytes bytes; /* owned */
};
TAILQ_HEAD(waiting_list, waiting);

/* At the end; takes `owned` over. */
void waiting_push(struct waiting_list *list, uint64_t conn, struct bytes owned);
/* Drops the first one. */
void waiting_pop(struct waiting_list *list);
void waiting_clear(struct waiting_list *list);

#endif
