/* A queue of clients' frames that wait at a replica for its epoch. */
#ifndef LSFS_REPLICA_FRAME_BACKLOG_H
#define LSFS_REPLICA_FRAME_BACKLOG_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"

struct backlog_frame {
	TAILQ_ENTRY(backlog_frame) entry;
	uint64_t conn;      /* of the client that has sent it */
	struct bytes bytes; /* owned */
};
TAILQ_HEAD(frame_backlog, backlog_frame);

/* Adds a frame at the end; takes `owned` over. */
void frame_backlog_push(struct frame_backlog *list, uint64_t conn, struct bytes owned);
/* Frees the first frame; the queue must not be empty. */
void frame_backlog_pop(struct frame_backlog *list);
/* Frees all frames. */
void frame_backlog_clear(struct frame_backlog *list);

#endif
