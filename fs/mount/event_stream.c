#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include "fs/mount/event_text.h"
#include "fs/mount/internal.h"

enum {
	UNREAD_MAX = 256 * 1024,
	LINE_ROOM = 16 * 1024,
	AGAIN_S = 1, /* until a watch that was refused is asked for again */
};

/* ---- the file ---- */

void
event_stream_make(struct mount *m, struct handle *h)
{
	struct event_stream *s = memory_zero(1, sizeof *s);

	s->handle = h;
	s->lines = BUFFER(UNREAD_MAX);
	TAILQ_INIT(&s->readers);
	h->stream = s;
	TAILQ_INSERT_TAIL(&m->streams, s, entry);
}

/* The first reader of .cell/events has come, or the last one has left: watches of nodes begin, or
 * end. */
static void
follow_all(struct mount *m)
{
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		event_watch_follow(m, i);
}

void
event_stream_open(struct mount *m, struct handle *h)
{
	event_stream_make(m, h);
	follow_all(m);
}

void
event_stream_close(struct mount *m, struct handle *h)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&h->stream->readers)) != NULL)
		call_status(m, c, EBADF);
	event_stream_free(m, h);
	follow_all(m);
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

/* Appends the event to all streams; `wall_ns`: now, by the time of day. */
static void
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

/* ---- watched nodes, and poll ---- */

/* All kinds that the master knows. */
#define EVERY_KIND ((2u << EVENT_GAP) - (1u << EVENT_CONTENTS_MODIFIED))

enum {
	ALWAYS = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM, /* of files that never block */
};

/* ---- watching ---- */

/* A handle for which the node is to be watched: first of all one whose user was not refused the
 * watch, then one whose user may read, since it is refused to others and is for all, then one that
 * wants its tree; NULL: there is none. */
static const struct handle *
wants(const struct mount *m, const struct inode *i)
{
	const struct handle *h, *best = NULL;
	int rank, highest = 0;

	TAILQ_FOREACH(h, &i->handles, of_inode) {
		if (h->dead || (!h->polled && TAILQ_EMPTY(&m->streams)))
			continue;
		rank = 1 + h->tree + 2 * ((h->opened.rights & RIGHT_READ) != 0) +
		       4 * !h->watch_refused;
		if (rank > highest) {
			highest = rank;
			best = h;
		}
	}
	return best;
}

void
event_watch_follow(struct mount *m, struct inode *i)
{
	const struct handle *h = wants(m, i);
	const uint32_t mask = h == NULL ? 0 : EVERY_KIND | (h->tree ? WATCH_TREE : 0);
	const struct bytes user = h != NULL ? h->user : (struct bytes){0};
	struct mount_update *u = m->update;

	if (mask == i->watched && (mask == 0 || bytes_equal(user, i->watcher)))
		return;
	if (h != NULL && i->dead)
		return;
	i->watched = mask;
	bytes_set(&i->watcher, user);
	ARRAY_ROOM(u->watches, u->watches_n, u->watches_room);
	u->watches[u->watches_n++] =
	    (struct mount_watch){i->ino, mask, i->attr.content_generation, mount_keep(m, user)};
	MOUNT_TRACE(m, "node %llu is %s", (unsigned long long)i->ino,
	            mask ? "watched" : "watched no more");
}

void
event_watch_forget_all(struct mount *m)
{
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		i->watched = 0;
}

void
event_watch_tree(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	c->handle->tree = true;
	event_watch_follow(m, c->handle->inode);
	call_status(m, c, c->handle->dead ? ESTALE : 0);
}

/* ---- events ---- */

void
event_watch_wake(struct mount *m, struct handle *h)
{
	struct mount_update *u = m->update;

	if (!h->wakes)
		return;
	h->wakes = false;
	ARRAY_ROOM(u->woken, u->woken_n, u->woken_room);
	u->woken[u->woken_n++] = h->fh;
}

void
event_watch_seen(struct handle *h)
{
	h->pending = false;
}

void
event_watch_pend(struct mount *m, struct inode *i)
{
	struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode) {
		h->pending = true;
		event_watch_wake(m, h);
	}
}

/* Any node may have been changed. */
static void
pend_all(struct mount *m)
{
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		if (i->watched)
			event_watch_pend(m, i);
}

/* The client has ended the watch: its user may not read the node any more, or too many are watched.
 * The next user may have the right. When none is left all try again after a while. */
static void
refused(struct mount *m, struct inode *i)
{
	const struct handle *next;
	struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		h->watch_refused |= bytes_equal(h->user, i->watcher);
	next = wants(m, i);
	if (next != NULL && !next->watch_refused) {
		event_watch_follow(m, i);
		return;
	}
	TAILQ_FOREACH(h, &i->handles, of_inode)
		h->watch_refused = false;
	i->watch_refused = true;
	if (m->watch_again.ns == 0)
		m->watch_again = mono_add(m->now, span_s(AGAIN_S));
}

/* Changes of a node that is not watched are not told: its pollers look from time to time. */
void
event_watch_timeout(struct mount *m)
{
	struct inode *i;

	if (m->watch_again.ns == 0 || !mono_reached(m->now, m->watch_again))
		return;
	m->watch_again.ns = 0;
	RB_FOREACH(i, inode_numbers, &m->inodes) {
		if (i->watch_refused)
			event_watch_pend(m, i);
		i->watch_refused = false;
	}
}

/* An event of a node stands in the stream by the path of the node. The cell says no path where the
 * watch was refused, or the node was gone before the watch began. */
static void
stream(struct mount *m, const struct client_watched *watched, int64_t wall_ns)
{
	struct client_watched w = *watched;
	struct buffer path = BUFFER(LIMIT_PATH);

	if (w.node == 0 || w.path.len > 0) {
		event_stream_told(m, &w, wall_ns);
	} else if (inode_path(m, w.node, &path)) {
		w.path = buffer_view(&path);
		event_stream_told(m, &w, wall_ns);
	}
	buffer_free(&path);
}

void
event_watch_told(struct mount *m, const struct mount_event *e)
{
	const struct client_watched *w = e->watched;
	struct inode *i = w->node == 0 ? NULL : inode_find(m, w->node);

	if (i != NULL) {
		i->told_gone |= w->kind == EVENT_HANDLE_INVALID;
		event_watch_pend(m, i);
		if (w->kind == EVENT_HANDLE_INVALID || w->kind == EVENT_GAP)
			i->watched = 0; /* the client has ended the watch */
		if (w->kind == EVENT_GAP)
			refused(m, i);
	} else if (w->node == 0 && w->kind == EVENT_GAP) {
		pend_all(m);
	}
	if (!TAILQ_EMPTY(&m->streams))
		stream(m, w, e->wall_ns);
	change_file_ask(m);
}

/* ---- poll ---- */

/* The first poll of a handle begins the watch, and so does one that finds that it was refused a
 * while ago. The handle may have read older contents than the mount knows by now, or its node be
 * gone. */
static void
begin(struct mount *m, struct handle *h)
{
	const uint64_t seen = h->base != NULL ? h->base->generation : h->seen;

	h->polled = true;
	h->pending |= h->inode->dead || seen != h->inode->attr.content_generation;
	event_watch_follow(m, h->inode);
}

/* A file that was deleted here lives on for its handles. */
static bool
is_gone(const struct inode *i)
{
	return (i->dead || i->told_gone) && !inode_lives_on(i);
}

static bool
is_to_be_asked_for(const struct inode *i)
{
	return i->watched == 0 && !i->watch_refused && !i->told_gone;
}

static unsigned
revents(const struct handle *h)
{
	if (h->stream != NULL)
		return h->stream->lines.len > 0 ? POLLIN | POLLRDNORM : 0;
	if (h->dead || (h->inode != NULL && is_gone(h->inode)))
		return ALWAYS | POLLERR | POLLHUP;
	if (h->kind == HANDLE_VIRTUAL && h->at_end) /* of .cell/changes */
		return 0;
	return ALWAYS | (h->pending ? POLLPRI : 0);
}

void
event_watch_poll(struct mount *m, struct call *c)
{
	struct handle *h = handle_find(m, c->event.fh);
	struct mount_reply *r;

	if (h == NULL) {
		call_status(m, c, EBADF);
		return;
	}
	h->wakes |= c->event.wait;
	if (h->inode != NULL && !h->dead && (!h->polled || is_to_be_asked_for(h->inode)))
		begin(m, h);
	if (c->event.again && h->pending) /* the kernel has the answer of before */
		event_watch_wake(m, h);
	r = call_reply(m, c, MOUNT_POLLED);
	r->revents = revents(h);
	call_end(m, c);
}
