#include "cell/server/inbox.h"

#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"

struct inbox_queue {
	RB_ENTRY(inbox_queue) link;
	TAILQ_ENTRY(inbox_queue) turn;
	uint64_t conn;
	struct frame_queue frames;
	size_t bytes;
};

static int
by_conn(const struct inbox_queue *a, const struct inbox_queue *b)
{
	return a->conn < b->conn ? -1 : a->conn > b->conn;
}

RB_GENERATE_INTERNAL(inbox_tree, inbox_queue, link, by_conn, __attribute__((unused)) static)

static struct inbox_queue *
find(const struct inbox *in, uint64_t conn)
{
	return RB_FIND(inbox_tree, (struct inbox_tree *)&in->queues,
	               &(struct inbox_queue){.conn = conn});
}

static struct inbox_queue *
queue_new(struct inbox *in, uint64_t conn)
{
	struct inbox_queue *q = memory_zero(1, sizeof *q);

	q->conn = conn;
	TAILQ_INIT(&q->frames);
	must(RB_INSERT(inbox_tree, &in->queues, q) == NULL);
	TAILQ_INSERT_TAIL(&in->turns, q, turn);
	return q;
}

static void
queue_free(struct inbox *in, struct inbox_queue *q)
{
	RB_REMOVE(inbox_tree, &in->queues, q);
	TAILQ_REMOVE(&in->turns, q, turn);
	in->bytes -= q->bytes;
	frame_queue_free(&q->frames);
	free(q);
}

void
inbox_init(struct inbox *in)
{
	RB_INIT(&in->queues);
	TAILQ_INIT(&in->turns);
	in->bytes = 0;
}

void
inbox_free(struct inbox *in)
{
	while (!TAILQ_EMPTY(&in->turns))
		queue_free(in, TAILQ_FIRST(&in->turns));
}

size_t
inbox_put(struct inbox *in, uint64_t conn, struct bytes frame)
{
	struct inbox_queue *q = find(in, conn);

	if (q == NULL)
		q = queue_new(in, conn);
	frame_queue_put(&q->frames, (struct queued_frame){.conn = conn, .frame = frame});
	q->bytes += frame.len;
	in->bytes += frame.len;
	return q->bytes;
}

size_t
inbox_bytes(const struct inbox *in, uint64_t conn)
{
	const struct inbox_queue *q = find(in, conn);

	return q != NULL ? q->bytes : 0;
}

/* The next connection whose first frame is ready; NULL: there is none. */
static struct inbox_queue *
next(const struct inbox *in, bool (*ready)(void *user, uint64_t conn, struct bytes frame),
     void *user)
{
	struct inbox_queue *q;

	TAILQ_FOREACH(q, &in->turns, turn)
		if (ready(user, q->conn, TAILQ_FIRST(&q->frames)->frame))
			break;
	return q;
}

bool
inbox_has(const struct inbox *in, bool (*ready)(void *user, uint64_t conn, struct bytes frame),
          void *user)
{
	return next(in, ready, user) != NULL;
}

bool
inbox_take(struct inbox *in, bool (*ready)(void *user, uint64_t conn, struct bytes frame),
           void *user, struct queued_frame *queued)
{
	struct inbox_queue *q = next(in, ready, user);

	if (q == NULL)
		return false;
	must(frame_queue_take(&q->frames, queued));
	q->bytes -= queued->frame.len;
	in->bytes -= queued->frame.len;
	TAILQ_REMOVE(&in->turns, q, turn);
	TAILQ_INSERT_TAIL(&in->turns, q, turn);
	if (TAILQ_EMPTY(&q->frames))
		queue_free(in, q);
	return true;
}

void
inbox_drop(struct inbox *in, uint64_t conn)
{
	struct inbox_queue *q = find(in, conn);

	if (q != NULL)
		queue_free(in, q);
}
