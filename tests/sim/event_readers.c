/* On a mount one more process reads .cell/events. The mount watches each node that is open there,
 * which watches.c judges; and every event of its client is a line that the process reads, once and
 * in order. */
#include <fcntl.h>
#include <string.h>
#include "cell/base/memory.h"
#include "fs/mount/event_text.h"
#include "tests/sim/sim.h"

/* ROOM: of what is unread in bytes, the mount has place for as much at least. */
enum { HESITATION_MS = 500, THREAD = 900, ROOM = 200 << 10 };

static void
call(struct sim *s, struct machine *m, struct mount_event event)
{
	event.call = m->reader.call = ++m->calls;
	event.thread = event.pid = THREAD;
	event.ino = MOUNT_INO_EVENTS;
	event.fh = m->reader.fh;
	event.fate = FATE_ALIVE;
	m->reader.event = event;
	mounts_event(s, m, event);
	mounts_flush(s, m);
}

static void run_read(struct sim *s, struct event *e);

static void
read_soon(struct sim *s, const struct machine *m)
{
	const int64_t delay = (int64_t)rng_below(&s->watching, HESITATION_MS) * MS;

	heap_push(&s->heap, (struct event){.at = m->paused_until > s->now + delay ? m->paused_until
	                                                                          : s->now + delay,
	                                   .run = run_read,
	                                   .who = m->id,
	                                   .life = m->life});
}

static void
run_read(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];

	if (!m->up || m->life != e->life || m->closing)
		return;
	if (m->paused_until > s->now)
		read_soon(s, m);
	else if (m->reader.fh == 0)
		call(s, m, (struct mount_event){.kind = MOUNT_OPEN, .flags = O_RDONLY});
	else
		call(s, m, (struct mount_event){.kind = MOUNT_READ, .size = 4096});
}

void
event_readers_start(struct sim *s, struct machine *m)
{
	m->reader.lines = m->reader.text = BUFFER(SIZE_MAX);
	if (s->swarm.watches)
		read_soon(s, m);
}

void
event_readers_stop(struct machine *m)
{
	buffer_free(&m->reader.lines);
	buffer_free(&m->reader.text);
	m->reader = (struct event_reader){0};
}

void
event_readers_told(struct machine *m, const struct client_watched *w)
{
	if (m->reader.fh == 0)
		return;
	if (w->node != 0 && w->path.len == 0)
		m->reader.unnamed++;
	else
		event_text(&m->reader.lines, "sim", w, 0);
	m->reader.overfull = m->reader.overfull || m->reader.lines.len > ROOM;
}

static bool
is_gap(struct bytes line)
{
	static const char gap[] = "{\"event\": \"gap\"";

	return line.len >= sizeof gap - 1 && memcmp(line.data, gap, sizeof gap - 1) == 0;
}

/* The next event; or that of a node which the client cannot name, and the mount perhaps can; or a
 * gap, in place of those for which the mount had no room. */
static void
take_line(struct sim *s, struct machine *m, struct bytes line)
{
	struct event_reader *r = &m->reader;
	const uint8_t *at = memmem(r->lines.data, r->lines.len, line.data, line.len);

	if (at != NULL && (at == r->lines.data || r->skips)) {
		at += line.len;
		r->lines.len -= (size_t)(at - r->lines.data);
		memmove(r->lines.data, at, r->lines.len);
		r->skips = false;
		r->overfull = r->overfull && r->lines.len > 0;
	} else if (r->overfull && is_gap(line)) {
		r->skips = true;
	} else if (r->unnamed-- == 0) {
		sim_fail(s, "client %d reads an event that there was not", m->id + 1);
	}
}

static void
take_text(struct sim *s, struct machine *m, struct bytes data)
{
	struct buffer *text = &m->reader.text;
	const uint8_t *end;
	size_t n;

	buffer_put_bytes(text, data);
	while (text->len > 0 && (end = memchr(text->data, '\n', text->len)) != NULL) {
		n = (size_t)(end + 1 - text->data);
		take_line(s, m, (struct bytes){text->data, n});
		text->len -= n;
		memmove(text->data, text->data + n, text->len);
	}
}

bool
event_readers_replied(struct sim *s, struct machine *m, const struct mount_reply *r)
{
	if (r->call != m->reader.call || r->call == 0)
		return false;
	m->reader.call = 0;
	if (r->error == 0 && r->kind == MOUNT_OPENED)
		m->reader.fh = r->fh;
	if (r->error == 0 && r->kind == MOUNT_DATA)
		take_text(s, m, r->data);
	read_soon(s, m);
	return true;
}

void
event_readers_check_end(struct sim *s)
{
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		if (m->up && m->reader.call != 0 && m->reader.lines.len > 0 && !m->reader.skips)
			sim_fail(s, "client %d does not read all events", i + 1);
	}
}
