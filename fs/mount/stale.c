/* A call whose path leads to a dead node is answered ESTALE, and the kernel walks the path again,
 * looking up every name. It repeats the walk only once, or once for the names and once for the call
 * itself: if a later walk leads to a node that has died since, the call is answered ENOENT. That is
 * true: a name led to the node while the call was under way, and there was no such file when the
 * node died.
 *
 * So a walk begins when a call of a thread is answered ESTALE. It goes on until a call of the
 * thread is answered otherwise, or one arrives that the kernel does not make in a walk. If the
 * thread comes to a dead node meanwhile, to which a name has led since the walk began, that is a
 * second one. */
#include "cell/base/checksum.h"
#include "fs/mount/internal.h"

enum { WALK_MS = 2000 }; /* the second walk follows at once, as do its calls one another */

static bool
is_under_way(const struct mount *m, const struct stale_walk *w)
{
	return w->thread != 0 && !mono_reached(m->now, w->until);
}

static struct stale_walk *
walk_of(struct mount *m, pid_t thread)
{
	if (!mono_before(m->now, m->stale.until))
		return NULL;
	for (size_t n = 0; n < m->stale.n; n++) {
		struct stale_walk *w = &m->stale.walks[n];

		if (w->thread == thread && is_under_way(m, w))
			return w;
	}
	return NULL;
}

static bool
found_since(struct mount *m, const struct stale_walk *w, uint64_t ino)
{
	const struct inode *i = inode_find(m, ino);

	return i != NULL && i->found > w->began;
}

/* A walk may begin in a dead directory, the caller's own, where a name is looked up, and absent,
 * before a node is made. */
static bool
is_second(struct mount *m, const struct stale_walk *w, const struct mount_event *e)
{
	return (e->ino == w->dead && e->ino == w->absent_in) || found_since(m, w, e->ino) ||
	       (e->kind == MOUNT_RENAME && found_since(m, w, e->new_ino));
}

int
stale_path(struct mount *m, const struct call *c)
{
	struct stale_walk *w = walk_of(m, c->event.thread);
	const bool second = w && is_second(m, w, &c->event);
	struct stale_walks *all = &m->stale;
	size_t n = 0;

	if (w == NULL) {
		/* The place of one that is over, or a new one: no other thread's is forgotten. */
		while (n < all->n && is_under_way(m, &all->walks[n]))
			n++;
		if (n == all->n) {
			ARRAY_ROOM(all->walks, all->n, all->room);
			all->n++;
		}
		w = &all->walks[n];
	}
	*w = (struct stale_walk){.thread = second ? 0 : c->event.thread,
	                         .call = c->event.call,
	                         .dead = c->event.ino,
	                         .began = m->stale.found,
	                         .until = mono_add(m->now, span_ms(WALK_MS))};
	m->stale.until = w->until;
	MOUNT_TRACE(m, "call %llu has come to a dead node%s", (unsigned long long)c->event.call,
	            second ? " again: the file is gone" : ": the kernel looks the name up again");
	return second ? ENOENT : ESTALE;
}

/* After an absent name the walk is over, except for a call that makes the name. The kernel looks up
 * such a name twice when it remembered another node. */
static bool
goes_on(const struct stale_walk *w, const struct mount_event *e)
{
	switch (e->kind) {
	case MOUNT_LOOKUP:
		return w->absent_in == 0 ||
		       (!w->twice && w->absent_in == e->ino && w->absent == checksum(e->name));
	case MOUNT_CREATE:
	case MOUNT_MKDIR:
	case MOUNT_MKNOD:
	case MOUNT_RENAME:
		return true;
	default:
		return w->absent_in == 0 && e->fh == 0;
	}
}

void
stale_called(struct mount *m, const struct mount_event *e)
{
	struct stale_walk *w = walk_of(m, e->thread);

	if (w && goes_on(w, e))
		m->stale.until = w->until = mono_add(m->now, span_ms(WALK_MS));
	else if (w)
		w->thread = 0;
}

void
stale_found(struct mount *m, const struct call *c, struct inode *i)
{
	struct stale_walk *w = walk_of(m, c->event.thread);

	i->found = ++m->stale.found;
	if (w)
		w->absent_in = 0;
}

void
stale_absent(struct mount *m, const struct call *c)
{
	struct stale_walk *w = walk_of(m, c->event.thread);

	if (w == NULL)
		return;
	w->twice = w->absent_in != 0;
	w->absent_in = c->event.ino;
	w->absent = checksum(c->event.name);
}

/* Within other calls the kernel asks for attributes that nodes have not; chown(2) of a file then
 * asks for its mode, too. */
void
stale_answered(struct mount *m, const struct call *c, int error)
{
	struct stale_walk *w = walk_of(m, c->event.thread);
	const bool lacks = error && c->event.kind == MOUNT_GETXATTR;

	if (w == NULL || w->call == c->event.call)
		return;
	if (!lacks && !(w->lacks && !error && c->event.kind == MOUNT_GETATTR))
		w->thread = 0;
	w->lacks = lacks;
}
