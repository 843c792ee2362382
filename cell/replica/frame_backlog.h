/* What waits at a replica for its turn: entries for room in the log, clients for the epoch. */
#ifndef LSFS_REPLICA_FRAME_BACKLOG_H
#define LSFS_REPLICA_FRAME_BACKLOG_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"

struct backlog_frame {
	TAILQ_ENTRY(backlog_frame) entry;
	uint64_t conn;
	struct bytes bytes; /* owned */
};
TAILQ_HEAD(frame_backlog, backlog_frame);

/* At the end; takes `owned` over. */
void frame_backlog_push(struct frame_backlog *list, uint64_t conn, struct bytes owned);
/* Drops the first one. */
void frame_backlog_pop(struct frame_backlog *list);
void frame_backlog_clear(struct frame_backlog *list);

#endif
