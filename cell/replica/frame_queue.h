/* Frames that wait: at a replica for its epoch; in its server until they can be delivered, until a
 * record is durable, or until they can be read. */
#ifndef LSFS_REPLICA_FRAME_QUEUE_H
#define LSFS_REPLICA_FRAME_QUEUE_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"

struct queued_frame {
	TAILQ_ENTRY(queued_frame) link;
	uint64_t conn;
	uint8_t peer;       /* the replica that it is for; 0: it is for the connection */
	uint64_t after;     /* number of the write to the log that must be durable first */
	bool datagram;      /* to be sent beside the connection */
	bool close;         /* no frame, but an order to close the connection */
	struct bytes frame; /* owned */
};

TAILQ_HEAD(frame_queue, queued_frame);

/* Appends a copy of the struct, which owns the frame from here on. */
void frame_queue_put(struct frame_queue *list, struct queued_frame queued);
/* Removes the first frame, which the caller then owns; false when there is none. */
bool frame_queue_take(struct frame_queue *list, struct queued_frame *queued);
/* Removes a frame of the queue and frees it. */
void frame_queue_drop(struct frame_queue *list, struct queued_frame *queued);
/* Frees a frame that was taken. */
void queued_frame_free(struct queued_frame *queued);
/* Frees the frames that are left. */
void frame_queue_free(struct frame_queue *list);

#endif
