#include "cell/replica/frame_queue.h"

#include <stdlib.h>

#include "cell/base/memory.h"

void
frame_queue_put(struct frame_queue *list, struct queued_frame queued)
{
	struct queued_frame *p = memory_zero(1, sizeof *p);

	*p = queued;
	TAILQ_INSERT_TAIL(list, p, link);
}

bool
frame_queue_take(struct frame_queue *list, struct queued_frame *queued)
{
	struct queued_frame *p = TAILQ_FIRST(list);

	if (p == NULL)
		return false;
	TAILQ_REMOVE(list, p, link);
	*queued = *p;
	free(p);
	return true;
}

void
frame_queue_drop(struct frame_queue *list, struct queued_frame *queued)
{
	TAILQ_REMOVE(list, queued, link);
	queued_frame_free(queued);
	free(queued);
}

void
queued_frame_free(struct queued_frame *queued)
{
	free((void *)queued->frame.data);
	queued->frame = (struct bytes){NULL, 0};
}

void
frame_queue_free(struct frame_queue *list)
{
	struct queued_frame queued;

	while (frame_queue_take(list, &queued))
		queued_frame_free(&queued);
}
