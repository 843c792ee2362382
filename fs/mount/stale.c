/* A call whose path leads to a dead node is answered ESTALE, and the kernel walks the path again,
 * looking up every name. It repeats the walk only once: if the second walk leads to a node that has
 * died since, the call is answered ENOENT, which was true when that node died.
 *
 * The second walk is recognized by the calls of the thread: lookups, then a call of the same kind
 * as before, for the inode that was found last. Every other call of the thread, and a name that is
 * not found, end the walk: then the next dead node starts a new one. */
#include "fs/mount/internal.h"

enum { WALK_MS = 1000 }; /* the second walk follows at once */

static struct stale_walk *
walk_of(struct mount *m, pid_t thread)
{
	for (size_t n = 0; thread && n < STALE_WALKS; n++) {
		struct stale_walk *w = &m->stale.ring[n];

		if (w->thread == thread && !mono_reached(m->now, w->until))
			return w;
	}
	return NULL;
}

int
stale_path(struct mount *m, const struct call *c)
{
	struct stale_walk *w = walk_of(m, c->event.thread);
	bool second = w && w->kind == c->event.kind && w->found && w->found == c->event.ino;

	if (w == NULL) {
		w = &m->stale.ring[m->stale.next];
		m->stale.next = (m->stale.next + 1) % STALE_WALKS;
	}
	*w = (struct stale_walk){.thread = second ? 0 : c->event.thread,
	                         .kind = c->event.kind,
	                         .until = mono_add(m->now, span_ms(WALK_MS))};
	m->stale.until = w->until;
	MOUNT_TRACE(m, "call %llu has come to a dead node%s", (unsigned long long)c->event.call,
	            second ? " again: the file is gone" : ": the kernel looks the name up again");
	return second ? ENOENT : ESTALE;
}

void
stale_called(struct mount *m, const struct mount_event *e)
{
	struct stale_walk *w = walk_of(m, e->thread);

	if (w && e->kind != MOUNT_LOOKUP && e->kind != w->kind)
		w->thread = 0;
}

void
stale_found(struct mount *m, const struct call *c, uint64_t ino)
{
	struct stale_walk *w = walk_of(m, c->event.thread);

	if (w && ino == 0)
		w->thread = 0;
	else if (w)
		w->found = ino;
}

void
stale_clear(struct mount *m, const struct call *c)
{
	struct stale_walk *w = walk_of(m, c->event.thread);

	if (w && w->kind == c->event.kind && w->kind != MOUNT_LOOKUP)
		w->thread = 0;
}
