/* .cell/locks: every lock that is held, delayed or awaited, in the order of the nodes. The cell is
 * asked for one lock after the other, so each is shown as it was at one moment. */
#include "fs/mount/internal.h"
#include "fs/mount/lock_text.h"

static void
put_lock(struct buffer *to, const struct result_queue *q)
{
	struct cursor holders = cursor_of(q->holders.packed);
	struct cursor waiters = cursor_of(q->waiters.packed);
	struct lock_holder h;
	struct lock_waiter w;

	buffer_printf(to, "%spath: %.*s\nlock: ", to->len ? "\n" : "", (int)q->path.len,
	              (const char *)q->path.data);
	lock_text_state(to, q->state, q->holders.count, q->delay_left_s);
	buffer_printf(to, "\n");
	while (wire_next_lock_holder(&holders, &h)) {
		buffer_printf(to, "holder: ");
		lock_text_holder(to, &h, q->now_ns);
		buffer_printf(to, "\n");
	}
	while (wire_next_lock_waiter(&waiters, &w)) {
		buffer_printf(to, "waiter: ");
		lock_text_waiter(to, &w, q->now_ns);
		buffer_printf(to, "\n");
	}
}

static void
ask_next(struct mount *m, struct call *c, uint64_t after, call_then *then)
{
	struct op op = {.code = OP_get_queue, .get_queue = {.node = after, .next = 1}};

	call_ask(m, c, &op, then);
}

static void
queue_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_queue *q = &a->result.queue;
	struct handle *h = c->handle;
	int error = call_errno(m, c, a);

	if (error == 0 && q->node != 0 && q->path.len > 0)
		put_lock(&h->edited, q);
	if (h->edited.failed)
		error = EFBIG;
	if (error != 0 || c->answered)
		call_status(m, c, error);
	else if (q->node != 0)
		ask_next(m, c, q->node, queue_heard);
	else
		virtual_text(m, c, 0);
}

static void
locks_entered(struct mount *m, struct call *c)
{
	if (c->event.offset != 0) {
		virtual_text(m, c, 0);
		return;
	}
	buffer_reset(&c->handle->edited);
	c->handle->edited.limit = LIMIT_FRAME;
	ask_next(m, c, 0, queue_heard);
}

void
virtual_locks_read(struct mount *m, struct call *c)
{
	handle_enter(m, c, locks_entered);
}
