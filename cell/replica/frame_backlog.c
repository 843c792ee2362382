#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/replica/frame_backlog.h"

void
frame_backlog_push(struct frame_backlog *list, uint64_t conn, struct bytes owned)
{
	struct backlog_frame *w = memory_zero(1, sizeof *w);

	w->conn = conn;
	w->bytes = owned;
	TAILQ_INSERT_TAIL(list, w, entry);
}

void
frame_backlog_pop(struct frame_backlog *list)
{
	struct backlog_frame *w = TAILQ_FIRST(list);

	TAILQ_REMOVE(list, w, entry);
	free((void *)w->bytes.data);
	free(w);
}

void
frame_backlog_clear(struct frame_backlog *list)
{
	while (!TAILQ_EMPTY(list))
		frame_backlog_pop(list);
}
