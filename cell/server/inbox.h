/* Clients' frames that wait for their turn in a server: a queue for each connection, and the
 * connections in turn, one frame each. So whoever sends much waits for itself, not the others for
 * it. */
#ifndef LSFS_SERVER_INBOX_H
#define LSFS_SERVER_INBOX_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/server/frame_queue.h"

struct inbox_queue;
RB_HEAD(inbox_tree, inbox_queue);
TAILQ_HEAD(inbox_turns, inbox_queue);

struct inbox {
	struct inbox_tree queues;  /* by connection, of those from which something waits */
	struct inbox_turns turns;
	size_t bytes;              /* that wait */
};

void inbox_init(struct inbox *in);
void inbox_free(struct inbox *in);
/* Takes over `frame`. Returns how many bytes of the connection wait. */
size_t inbox_put(struct inbox *in, uint64_t conn, struct bytes frame);
bool inbox_empty(const struct inbox *in);
/* Bytes of the connection that wait. */
size_t inbox_bytes(const struct inbox *in, uint64_t conn);
/* Takes the first frame of the next connection whose first one is `ready`; false when none is. */
bool inbox_take(struct inbox *in, bool (*ready)(void *user, uint64_t conn, struct bytes frame),
                void *user, struct queued_frame *queued);
/* The connection is gone, and what waits of it. */
void inbox_drop(struct inbox *in, uint64_t conn);

#endif
