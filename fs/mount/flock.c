/* flock(2): the owner is the open file description, which is the handle. The lock owner in the
 * kernel's request is not used: it is derived from an address, which is soon used again for another
 * file. */
#include "fs/mount/internal.h"

static struct mount_lock *
flock_of(const struct handle *h)
{
	return lock_find(h->inode, LOCK_FLOCK, h->fh);
}

static int
flock_refused(const struct handle *h)
{
	if (h->dead || h->inode->dead)
		return ESTALE;
	return record_lock_through(h) ? EDEADLK : 0;
}

/* An unlock fails if the lock was lost: its holder must learn that it was not protected. */
static int
unlock_refused(const struct handle *h)
{
	return h->dead || h->inode->dead ? ESTALE : 0;
}

static void
acquire_committed(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;

	if (c->error == 0)
		c->error = flock_refused(h);
	if (c->error || c->answered) {
		call_status(m, c, c->error);
		return;
	}
	handle_leave(m, c);
	lock_refer(c, lock_get(m, h->inode, LOCK_FLOCK, h->fh));
	lock_acquire(m, c);
}

/* The lock is released even if the commit before it fails. */
static void
unlock_committed(struct mount *m, struct call *c)
{
	struct handle *h = c->handle;
	struct mount_lock *l = flock_of(h);
	int owed = commit_owed(h);

	if (c->error == 0)
		c->error = owed;
	handle_leave(m, c);
	if (l == NULL) {
		call_status(m, c, c->error);
		return;
	}
	lock_refer(c, l);
	lock_unlock(m, c);
}

static void
flock_entered(struct mount *m, struct call *c)
{
	struct mount_lock *l = flock_of(c->handle);

	event_watch_seen(c->handle);
	if (c->mode != LOCK_NONE)
		commit(m, c, acquire_committed);
	else if (l && l->mode != LOCK_NONE)
		commit(m, c, unlock_committed);
	else
		unlock_committed(m, c);
}

void
flock_call(struct mount *m, struct call *c)
{
	struct handle *h;
	int error;

	if (!handle_of_call(m, c))
		return;
	h = c->handle;
	c->mode = c->event.lock_mode;
	error = c->mode == LOCK_NONE ? unlock_refused(h) : flock_refused(h);
	if (h->kind != HANDLE_FILE)
		error = EISDIR;
	if (error)
		call_status(m, c, error);
	else
		handle_enter(m, c, flock_entered);
}

void
flock_flushed(struct mount *m, struct handle *h)
{
	struct mount_lock *l = flock_of(h);

	if (l)
		lock_stop_waiting(m, l);
}

void
flock_released(struct mount *m, struct handle *h)
{
	struct mount_lock *l = flock_of(h);

	if (l)
		lock_drop(m, l);
}
