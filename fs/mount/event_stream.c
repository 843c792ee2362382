#include "fs/mount/event_stream.h"
#include <fcntl.h>
#include <string.h>
#include "fs/mount/event_text.h"
#include "fs/mount/internal.h"

enum { UNREAD_MAX = 256 * 1024, LINE_ROOM = 16 * 1024 };

/* ---- the file ---- */

void
event_stream_open(struct mount *m, struct handle *h)
{
	struct event_stream *s = memory_zero(1, sizeof *s);

	s->handle = h;
	s->lines = BUFFER(UNREAD_MAX);
	TAILQ_INIT(&s->readers);
	h->stream = s;
	TAILQ_INSERT_TAIL(&m->streams, s, entry);
	event_watch_follow_all(m);
}

void
event_stream_close(struct mount *m, struct handle *h)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&h->stream->readers)) != NULL)
		call_status(m, c, EBADF);
	event_stream_free(m, h);
	event_watch_follow_all(m);
}

void
event_stream_free(struct mount *m, struct handle *h)
{
	struct event_stream *s = h->stream;

	if (s == NULL)
		return;
	TAILQ_REMOVE(&m->streams, s, entry);
	buffer_free(&s->lines);
	free(s);
	h->stream = NULL;
}

/* ---- reading ---- */

bool
event_stream_readable(const struct handle *h)
{
	return h->stream->lines.len > 0;
}

static bool
has_room(const struct event_stream *s)
{
	return UNREAD_MAX - s->lines.len >= 2 * LINE_ROOM;
}

/* The gap stands where the lines are missing. */
static void
put_gap(struct mount *m, struct event_stream *s)
{
	const struct client_watched gap = {.kind = EVENT_GAP};

	event_text(&s->lines, m->config.cell, &gap, s->lost_ns);
	s->lost = false;
}

static void
serve(struct mount *m, struct event_stream *s, struct call *c)
{
	struct bytes all = buffer_view(&s->lines);
	size_t n = all.len < c->event.size ? all.len : c->event.size;

	call_data(m, c, (struct bytes){all.data, n});
	if (n == 0)
		return;
	s->lines.len -= n;
	memmove(s->lines.data, s->lines.data + n, s->lines.len);
	if (s->lost && has_room(s))
		put_gap(m, s);
}

void
event_stream_read(struct mount *m, struct call *c)
{
	struct event_stream *s = c->handle->stream;

	if (s->lines.len > 0 || c->event.size == 0) {
		serve(m, s, c);
	} else if (c->event.flags & O_NONBLOCK) {
		call_status(m, c, EAGAIN);
	} else {
		c->queue = &s->readers;
		TAILQ_INSERT_TAIL(&s->readers, c, waiting);
	}
}

/* ---- events ---- */

/* A line is appended whole, and only if there is room for the longest one, and for a gap. */
static void
append(struct mount *m, struct event_stream *s, const struct client_watched *w, int64_t wall_ns)
{
	if (s->lost || !has_room(s)) {
		s->lost = true;
		s->lost_ns = wall_ns;
		return;
	}
	event_text(&s->lines, m->config.cell, w, wall_ns);
	must(!s->lines.failed);
}

void
event_stream_told(struct mount *m, const struct client_watched *w, int64_t wall_ns)
{
	struct event_stream *s;
	struct call *c;

	TAILQ_FOREACH(s, &m->streams, entry) {
		append(m, s, w, wall_ns);
		event_watch_wake(m, s->handle);
		while (s->lines.len > 0 && (c = TAILQ_FIRST(&s->readers)) != NULL)
			serve(m, s, c);
	}
}
