/* Frames that wait in a server: for their delivery, for a record to be durable, for their turn to
 * be read. */
#ifndef LSFS_SERVER_FRAME_QUEUE_H
#define LSFS_SERVER_FRAME_QUEUE_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"

struct queued_frame {
	TAILQ_ENTRY(queued_frame) link;
	uint64_t conn;
	uint8_t peer;       /* to a replica, not to a connection; 0: no */
	uint64_t after;     /* the write to the log that must be durable first */
	bool close;         /* no frame: the replica closes the connection */
	struct bytes frame; /* owned */
};

TAILQ_HEAD(frame_queue, queued_frame);

/* Appends a copy of the struct, which owns the frame from here on. */
void frame_queue_put(struct frame_queue *list, struct queued_frame queued);
/* Takes the first one out: false when there is none. */
bool frame_queue_take(struct frame_queue *list, struct queued_frame *queued);
void queued_frame_free(struct queued_frame *queued);
/* Frees all that are left. */
void frame_queue_free(struct frame_queue *list);

#endif
