#include "fs/mount/event_watch.h"
#include <poll.h>
#include "fs/mount/internal.h"

/* All kinds that the master knows. */
#define EVERY_KIND ((2u << EVENT_GAP) - (1u << EVENT_CONTENTS_MODIFIED))

enum {
	ALWAYS = POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM, /* of files that never block */
};

/* ---- watching ---- */

/* A handle for which the node is to be watched; NULL: there is none. */
static const struct handle *
wants(const struct mount *m, const struct inode *i)
{
	const struct handle *h;

	TAILQ_FOREACH(h, &i->handles, of_inode)
		if (!h->dead && (h->polled || !TAILQ_EMPTY(&m->streams)))
			return h;
	return NULL;
}

static void
ask(struct mount *m, const struct inode *i, uint32_t mask, struct bytes user)
{
	struct mount_update *u = m->update;

	ARRAY_ROOM(u->watches, u->watches_n, u->watches_room);
	u->watches[u->watches_n++] =
	    (struct mount_watch){i->ino, mask, i->attr.content_generation, mount_keep(m, user)};
	MOUNT_TRACE(m, "node %llu is %s", (unsigned long long)i->ino,
	            mask ? "watched" : "watched no more");
}

void
event_watch_follow(struct mount *m, struct inode *i)
{
	const struct handle *h = wants(m, i);

	if ((h != NULL) == i->watched)
		return;
	i->watched = h != NULL;
	ask(m, i, h != NULL ? EVERY_KIND : 0, h != NULL ? h->user : (struct bytes){0});
}

void
event_watch_follow_all(struct mount *m)
{
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		event_watch_follow(m, i);
}

void
event_watch_forget_all(struct mount *m)
{
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		i->watched = false;
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

static void
pend(struct mount *m, struct inode *i)
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
			pend(m, i);
}

static void
pend_of(struct mount *m, const struct client_watched *w)
{
	struct inode *i = w->node == 0 ? NULL : inode_find(m, w->node);

	if (i != NULL)
		pend(m, i);
	if (i != NULL && (w->kind == EVENT_HANDLE_INVALID || w->kind == EVENT_GAP))
		i->watched = false; /* the client has ended the watch */
	if (w->node == 0 && (w->kind == EVENT_GAP || w->kind == EVENT_MASTER_FAILED_OVER))
		pend_all(m);
}

void
event_watch_told(struct mount *m, const struct mount_event *e)
{
	pend_of(m, e->watched);
	if (!TAILQ_EMPTY(&m->streams))
		event_stream_told(m, e->watched, e->wall_ns);
}

/* ---- poll ---- */

/* The first poll of a handle begins the watch. The handle may have read older contents than the
 * mount knows by now. */
static void
begin(struct mount *m, struct handle *h)
{
	h->polled = true;
	h->pending |= h->base != NULL && h->base->generation != h->inode->attr.content_generation;
	event_watch_follow(m, h->inode);
}

static unsigned
revents(const struct handle *h)
{
	if (h->stream != NULL)
		return event_stream_readable(h) ? POLLIN | POLLRDNORM : 0;
	if (h->dead)
		return ALWAYS | POLLERR | POLLHUP;
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
	if (h->inode != NULL && !h->polled && !h->dead)
		begin(m, h);
	r = call_reply(m, c, MOUNT_POLLED);
	r->revents = revents(h);
	call_end(m, c);
}
