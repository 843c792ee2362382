/* Frames of clients that wait in a server: in a queue for each connection. The connections take
 * turns, one frame each, so that a client that sends many frames delays itself and not the other
 * clients. */
#ifndef LSFS_SERVER_INBOX_H
#define LSFS_SERVER_INBOX_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/server/frame_queue.h"

struct inbox_queue;
RB_HEAD(inbox_tree, inbox_queue);
TAILQ_HEAD(inbox_turns, inbox_queue);

struct inbox {
	struct inbox_tree queues; /* by connection; only those that hold frames */
	struct inbox_turns turns;
	size_t bytes; /* of all waiting frames */
};

void inbox_init(struct inbox *in);
void inbox_free(struct inbox *in);
/* Takes over `frame`. Returns the number of waiting bytes of the connection. */
size_t inbox_put(struct inbox *in, uint64_t conn, struct bytes frame);
/* The number of waiting bytes of the connection. */
size_t inbox_bytes(const struct inbox *in, uint64_t conn);
/* Is there a connection whose first frame is `ready`? */
bool inbox_has(const struct inbox *in, bool (*ready)(void *user, uint64_t conn, struct bytes frame),
               void *user);
/* Removes the first frame of the next connection whose first frame is `ready`, with the ownership
 * of it; false when there is none. */
bool inbox_take(struct inbox *in, bool (*ready)(void *user, uint64_t conn, struct bytes frame),
                void *user, struct queued_frame *queued);
/* Frees the frames of a connection that is gone. */
void inbox_drop(struct inbox *in, uint64_t conn);

#endif
