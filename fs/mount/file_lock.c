/* The owners of a mount_lock: an open file description by flock, a process or a description by
 * fcntl, and a local user by the attribute. */
#include "fs/mount/internal.h"

/* ---- flock(2) ---- */

/* For a directory it is an ioctl. The owner is the open file description, which is the handle. The
 * lock owner in the kernel's request is not used: it is derived from an address, which is soon used
 * again for another file. */

static struct mount_lock *
flock_of(const struct handle *h)
{
	return lock_find(h->inode, LOCK_FLOCK, h->fh);
}

/* Perhaps a child closes its copy: what was answered is not taken back. */
void
flock_flushed(struct mount *m, struct handle *h)
{
	struct mount_lock *l = flock_of(h);

	if (l && l->is_kept)
		lock_stop_waiting(m, l);
}

void
flock_released(struct mount *m, struct handle *h)
{
	struct mount_lock *l = flock_of(h);

	if (l)
		lock_drop(m, l);
}

/* ---- fcntl and OFD locks ---- */

/* fcntl(2) locks over the whole file. The locks of a process and those of an open file description
 * can't be distinguished here. So the owner of a lock is the lock owner in the kernel's request, on
 * one node. The lock records the handles through which it was taken: it is released by any close by
 * that owner, as fcntl prescribes, and by the release of the last of those handles. */

static bool
taken_through(const struct mount_lock *l, uint64_t fh)
{
	for (size_t n = 0; n < l->handles_n; n++)
		if (l->handles[n] == fh)
			return true;
	return false;
}

static bool
asked_through(const struct mount_lock *l, uint64_t fh)
{
	return (l->ask == ASK_SENT || l->ask == ASK_QUEUED) && l->asked_fh == fh;
}

bool
record_lock_through(const struct handle *h)
{
	struct mount_lock *l;

	TAILQ_FOREACH(l, &h->inode->locks, of_inode)
		if (l->kind == LOCK_RECORD && (taken_through(l, h->fh) || asked_through(l, h->fh)))
			return true;
	return false;
}

/* The lock that a close by this owner releases; NULL if there is none. */
struct mount_lock *
record_lock_of(struct handle *h, uint64_t lock_owner)
{
	struct mount_lock *l = lock_find(h->inode, LOCK_RECORD, lock_owner);

	return l && (l->mode != LOCK_NONE || l->is_kept) ? l : NULL;
}

void
record_lock_gained(struct mount_lock *l, struct handle *h)
{
	if (taken_through(l, h->fh))
		return;
	ARRAY_ROOM(l->handles, l->handles_n, l->handles_room);
	l->handles[l->handles_n++] = h->fh;
}

/* The writes through all of its handles are committed before the next owner can get the lock. */
void
record_lock_free(struct mount *m, struct call *c, struct mount_lock *l)
{
	struct handle *h;

	for (size_t n = 0; n < l->handles_n; n++) {
		h = handle_find(m, l->handles[n]);
		if (h)
			commit_behind(m, h);
	}
	lock_refer(c, l);
	c->mode = LOCK_NONE;
	lock_unlock(m, c);
}

void
record_lock_released(struct mount *m, struct handle *h)
{
	struct mount_lock *l, *more;
	size_t kept;

	TAILQ_FOREACH_SAFE(l, &h->inode->locks, of_inode, more) {
		if (l->kind != LOCK_RECORD)
			continue;
		if (asked_through(l, h->fh))
			lock_withdraw(m, l, EBADF);
		if (!taken_through(l, h->fh))
			continue;
		kept = 0;
		for (size_t n = 0; n < l->handles_n; n++)
			if (l->handles[n] != h->fh)
				l->handles[kept++] = l->handles[n];
		l->handles_n = kept;
		if (kept == 0)
			lock_drop(m, l);
	}
}

/* The close gives back the locks that are held. */
void
file_lock_poisoned(struct mount *m, struct handle *h)
{
	struct mount_lock *l, *more;

	TAILQ_FOREACH_SAFE(l, &h->inode->locks, of_inode, more) {
		l->refs++;
		lock_empty_queue(m, l, h, ESTALE);
		if (l == flock_of(h) || (l->kind == LOCK_RECORD && asked_through(l, h->fh)))
			lock_withdraw(m, l, ESTALE);
		lock_put(m, l);
	}
}

/* ---- FLOCK, SETLK ---- */

/* The lock that the call is about; NULL if its owner has none. */
static struct mount_lock *
lock_of(const struct call *c)
{
	return c->event.kind == MOUNT_FLOCK
	           ? flock_of(c->handle)
	           : lock_find(c->handle->inode, LOCK_RECORD, c->event.lock_owner);
}

/* An unlock fails if the lock was lost: its holder must learn that it was not protected. */
static int
refused(const struct call *c)
{
	const struct handle *h = c->handle;
	const struct mount_lock *l = flock_of(h);
	bool other;

	if (h->dead || h->inode->dead)
		return ESTALE;
	other = c->event.kind == MOUNT_FLOCK ? record_lock_through(h) : l && lock_active(l);
	return other && c->mode != LOCK_NONE ? EDEADLK : 0;
}

static void
acquire_committed(struct mount *m, struct call *c)
{
	struct inode *i = c->handle->inode;

	if (c->error == 0)
		c->error = refused(c);
	if (c->error || c->answered) {
		call_status(m, c, c->error);
		return;
	}
	handle_leave(m, c);
	lock_refer(c, c->event.kind == MOUNT_FLOCK
	                  ? lock_get(m, i, LOCK_FLOCK, c->handle->fh)
	                  : lock_get(m, i, LOCK_RECORD, c->event.lock_owner));
	lock_acquire(m, c);
}

/* The lock is released even if the commit before it fails. */
static void
unlock_committed(struct mount *m, struct call *c)
{
	struct mount_lock *l = lock_of(c);

	handle_leave(m, c);
	if (l)
		record_lock_free(m, c, l);
	else
		call_status(m, c, c->error);
}

static void
lock_entered(struct mount *m, struct call *c)
{
	const struct mount_lock *l = lock_of(c);
	const bool holds = c->event.kind == MOUNT_SETLK || (l && l->mode != LOCK_NONE);

	event_watch_seen(c->handle);
	if (c->mode != LOCK_NONE)
		commit_or_owed(m, c, false, acquire_committed);
	else if (holds || c->handle->edit == EDIT_NONE)
		commit_or_owed(m, c, true, unlock_committed);
	else
		unlock_committed(m, c);
}

/* A call that is made again has committed already: what the buffer holds now was written while it
 * waited. An interrupted call for the other kind of lock is not repeated, when this one comes
 * instead. */
static void
lock_call(struct mount *m, struct call *c)
{
	const enum lock_kind other = c->event.kind == MOUNT_FLOCK ? LOCK_RECORD : LOCK_FLOCK;
	struct mount_lock *l;
	int error;

	if (c->event.again) {
		acquire_committed(m, c);
		return;
	}
	TAILQ_FOREACH(l, &c->handle->inode->locks, of_inode)
		if (l->kind == other && l->asked_fh == c->handle->fh && l->is_kept &&
		    c->mode != LOCK_NONE)
			lock_stop_waiting(m, l);
	error = refused(c);
	if (error)
		call_status(m, c, error);
	else
		handle_enter(m, c, lock_entered);
}

void
flock_call(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	c->mode = c->event.lock_mode;
	lock_call(m, c);
}

static void
setlk_unlock(struct mount *m, struct call *c)
{
	const struct mount_lock *l = lock_of(c);
	const int error = refused(c);

	if (error || l == NULL)
		call_status(m, c, error);
	else if (!c->event.whole)
		call_status(m, c, l->mode != LOCK_NONE ? ENOLCK : 0);
	else
		handle_enter(m, c, lock_entered);
}

void
record_lock_call(struct mount *m, struct call *c)
{
	if (!handle_of_call(m, c))
		return;
	c->mode = c->event.lock_mode;
	if (c->handle->kind != HANDLE_FILE) {
		call_status(m, c, EISDIR);
		return;
	}
	if (c->mode == LOCK_NONE) {
		setlk_unlock(m, c);
		return;
	}
	if (c->event.whole)
		lock_call(m, c);
	else
		call_status(m, c, ENOLCK);
}

/* ---- F_GETLK ---- */

/* Replies with the first conflicting holder, and with its pid if the holder is on this machine; or
 * with the delay that a shared lock has left. */
static void
getlk_holders(struct mount *m, struct call *c, const struct result_lock *r,
              struct mount_reply *reply)
{
	const struct mount_lock *own =
	    lock_find(c->handle->inode, LOCK_RECORD, c->event.lock_owner);
	struct cursor from = cursor_of(r->holders.packed);
	struct lock_holder holder;

	while (wire_next_lock_holder(&from, &holder)) {
		if (holder.session == m->session.id && own && holder.owner == own->owner)
			continue;
		if (c->event.lock_mode == LOCK_SHARED && holder.mode == LOCK_SHARED)
			continue;
		reply->lock_mode = holder.mode;
		reply->lock_pid = holder.session == m->session.id ? (pid_t)holder.pid : 0;
		return;
	}
	if (c->event.lock_mode == LOCK_EXCLUSIVE && r->delay_left_s > 0)
		reply->lock_mode = LOCK_SHARED;
}

static void
getlk_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_errno(m, c, a);
	struct mount_reply *reply;

	if (error) {
		call_status(m, c, error);
		return;
	}
	reply = call_reply(m, c, MOUNT_LOCK);
	if (reply && a->result.lock.state == LOCK_STATE_DELAYED)
		reply->lock_mode = LOCK_EXCLUSIVE;
	else if (reply)
		getlk_holders(m, c, &a->result.lock, reply);
	call_end(m, c);
}

void
record_lock_get(struct mount *m, struct call *c)
{
	struct op op = {.code = OP_get_lock};

	if (!handle_of_call(m, c))
		return;
	if (c->handle->dead || c->handle->inode->dead) {
		call_status(m, c, ESTALE);
	} else if (!c->event.whole) {
		call_status(m, c, ENOLCK);
	} else {
		op.get_lock.node = c->handle->inode->ino;
		call_ask(m, c, &op, getlk_heard);
	}
}

/* ---- the lock of the attribute ---- */

/* The lock that is set through the attribute user.ls.lock, for directories and scripts: neither has
 * an open file that could own a lock. Its owner is this mount's session and the local user. */

/* A lock of another owner is not freed here; one without a holder is free already. */
static void
free_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_path_errno(m, c, a);

	if (error == 0 && a->result.lock.holders.count > 0)
		error = EPERM;
	call_status(m, c, error);
}

void
attribute_lock_set(struct mount *m, struct call *c, enum lock_mode mode)
{
	struct op op = {.code = OP_get_lock};
	struct mount_lock *l;

	c->mode = mode;
	c->event.wait = false;
	c->event.fh = 0;
	if (mode != LOCK_NONE) {
		lock_refer(c, lock_get(m, c->inode, LOCK_ATTRIBUTE, c->event.uid));
		lock_acquire(m, c);
		return;
	}
	l = lock_find(c->inode, LOCK_ATTRIBUTE, c->event.uid);
	if (l == NULL) {
		op.get_lock.node = c->inode->ino;
		call_ask(m, c, &op, free_heard);
		return;
	}
	lock_refer(c, l);
	lock_unlock(m, c);
}

/* A request that is under way is refused: this acquisition came before it. */
struct mount_lock *
attribute_lock_took(struct mount *m, uint64_t node, uid_t uid, uint64_t owner, uint64_t acquisition)
{
	struct mount_lock *l = lock_get(m, inode_get(m, node), LOCK_ATTRIBUTE, uid);

	l->owner = owner;
	l->mode = LOCK_EXCLUSIVE;
	l->acquisition = acquisition;
	return l;
}
