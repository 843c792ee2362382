/* .cell/changes: a line for each change of the last minutes. An open file is read from the place to
 * which it was sought, an index of the log, and from there on one read goes on where the last one
 * has ended, whatever offset the kernel counts. The master tells nobody of changes without a watch,
 * so a reader at the end asks again, at the latest after a second; until then it polls in vain. */
#include <fcntl.h>
#include <string.h>
#include "fs/mount/event_text.h"
#include "fs/mount/internal.h"

enum { ASK_AGAIN_MS = 1000 };

static void
serve(struct mount *m, struct call *c)
{
	struct buffer *lines = &c->handle->edited;
	const size_t n = lines->len < c->event.size ? lines->len : c->event.size;

	c->handle->answer_at = c->event.offset + (int64_t)n;
	call_data(m, c, (struct bytes){lines->data, n});
	lines->len -= n;
	if (n > 0)
		memmove(lines->data, lines->data + n, lines->len);
}

static void
ask_again(struct mount *m)
{
	if (m->changes.ask_at.ns == 0)
		m->changes.ask_at = mono_add(m->now, span_ms(ASK_AGAIN_MS));
}

static void ask(struct mount *m, struct call *c);

static void
heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_changes *r = &a->result.changes;
	struct cursor from = cursor_of(r->changes.packed);
	struct handle *h = c->handle;
	struct past_change change;
	const int error = call_errno(m, c, a);

	if (error != 0 || c->answered) {
		call_status(m, c, error);
		return;
	}
	h->at_end = false;
	h->edited.limit = LIMIT_FRAME;
	if (r->compacted > 0)
		event_text_compacted(&h->edited, m->config.cell, r->compacted);
	while (wire_next_past_change(&from, &change))
		event_text_change(&h->edited, m->config.cell, &change);
	h->since = r->upto;
	if (h->edited.failed) {
		call_status(m, c, EFBIG);
	} else if (h->edited.len > 0) {
		serve(m, c);
	} else if (r->more) {
		ask(m, c);
	} else if (c->event.flags & O_NONBLOCK) {
		h->at_end = true;
		ask_again(m);
		call_status(m, c, EAGAIN);
	} else {
		ask_again(m);
		c->queue = &m->changes.readers;
		TAILQ_INSERT_TAIL(&m->changes.readers, c, waiting);
	}
}

static void
ask(struct mount *m, struct call *c)
{
	call_ask(m, c, &(struct op){.code = OP_get_changes, .get_changes.since = c->handle->since},
	         heard);
}

static void
entered(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->event.offset != h->answer_at) {
		buffer_reset(&h->edited);
		h->since = (uint64_t)c->event.offset;
		h->answer_at = c->event.offset; /* a read that is repeated goes on, too */
	}
	if (h->edited.len > 0 || c->event.size == 0)
		serve(m, c);
	else
		ask(m, c);
}

void
change_file_read(struct mount *m, struct call *c)
{
	handle_enter(m, c, entered);
}

void
change_file_ask(struct mount *m)
{
	struct call_list waiting = TAILQ_HEAD_INITIALIZER(waiting);
	struct handle *h;
	struct call *c;

	if (m->changes.ask_at.ns == 0)
		return;
	m->changes.ask_at.ns = 0;
	TAILQ_FOREACH(h, &m->handles.all, of_mount)
		if (h->kind == HANDLE_VIRTUAL && h->at_end) {
			h->at_end = false;
			event_watch_wake(m, h);
		}
	TAILQ_CONCAT(&waiting, &m->changes.readers, waiting);
	while ((c = TAILQ_FIRST(&waiting)) != NULL) {
		TAILQ_REMOVE(&waiting, c, waiting);
		c->queue = NULL;
		ask(m, c);
	}
}
