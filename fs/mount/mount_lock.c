/* The lock of one owner on one node: the mode that it holds, its request, and its cancel.
 *
 *   NONE --acquire--> SENT --queued--> QUEUED
 *    ^                 | answer          | grant
 *    |<----------------+-----------------'
 *    |<--- GIVING_BACK <-- the caller was interrupted and has not repeated its call in time
 *
 * An owner has one request under way; its further calls wait in order. When a caller gives up after
 * a signal, its request is kept for a moment: if the signal's handler has SA_RESTART, the same call
 * is repeated at once, and takes the request over. Otherwise the request is withdrawn by a cancel,
 * which the cell processes in order: a queued request is removed from the queue, and a grant that
 * was made before the cancel is replaced by the mode that was held before it. */
#include <sys/xattr.h>
#include "fs/mount/internal.h"

enum { KEEP_MS = 100 };

/* ---- life ---- */

struct mount_lock *
lock_find(struct inode *i, enum lock_kind kind, uint64_t key)
{
	struct mount_lock *l;

	TAILQ_FOREACH(l, &i->locks, of_inode)
		if (l->kind == kind && l->key == key)
			return l;
	return NULL;
}

struct mount_lock *
lock_get(struct mount *m, struct inode *i, enum lock_kind kind, uint64_t key)
{
	struct mount_lock *l = lock_find(i, kind, key);

	if (l)
		return l;
	l = memory_zero(1, sizeof *l);
	l->kind = kind;
	l->key = key;
	l->owner = ++m->locks.next_owner;
	l->inode = i;
	i->refs++;
	TAILQ_INIT(&l->queue);
	TAILQ_INSERT_TAIL(&i->locks, l, of_inode);
	return l;
}

void
lock_number(struct mount *m, struct acquire *a)
{
	a->owner = ++m->locks.next_owner;
	a->acquisition = ++m->locks.next_acquisition;
}

bool
lock_active(const struct mount_lock *l)
{
	return l->mode != LOCK_NONE || l->ask == ASK_SENT || l->ask == ASK_QUEUED;
}

void
lock_refer(struct call *c, struct mount_lock *l)
{
	must(c->lock == NULL);
	c->lock = l;
	l->refs++;
}

void
lock_put(struct mount *m, struct mount_lock *l)
{
	must(l->refs > 0);
	if (--l->refs > 0 || l->mode != LOCK_NONE || l->ask != ASK_NONE)
		return;
	must(l->caller == NULL && TAILQ_EMPTY(&l->queue) && !l->is_kept && l->releasing == 0);
	TAILQ_REMOVE(&l->inode->locks, l, of_inode);
	inode_put(m, l->inode);
	free(l->handles);
	free(l);
}

void
lock_keep_until(struct mount *m, struct mount_lock *l, mono_t until)
{
	struct mount_lock *before = TAILQ_LAST(&m->locks.kept, lock_list);

	must(!l->is_kept);
	l->is_kept = true;
	l->kept_until = until;
	while (before != NULL && mono_before(until, before->kept_until))
		before = TAILQ_PREV(before, lock_list, kept);
	if (before != NULL)
		TAILQ_INSERT_AFTER(&m->locks.kept, before, l, kept);
	else
		TAILQ_INSERT_HEAD(&m->locks.kept, l, kept);
}

void
lock_unkeep(struct mount *m, struct mount_lock *l)
{
	if (l->is_kept)
		TAILQ_REMOVE(&m->locks.kept, l, kept);
	l->is_kept = false;
}

/* ---- asking ---- */

/* A lock is held through the handle now; NULL: by a path. */
static void
note_held(struct mount_lock *l, struct handle *h)
{
	if (h != NULL)
		h->renew = true;
	if (l->kind == LOCK_RECORD)
		record_lock_gained(l, h);
}

/* The lock was granted to the caller: it replaces what the owner held before. */
static void
lock_gained(struct mount *m, struct mount_lock *l)
{
	struct call *c = l->caller;

	MESSAGE_TRACE(m->config.trace, "acquisition %llu: node %llu is locked %s",
	              (unsigned long long)l->asked_acquisition, (unsigned long long)l->inode->ino,
	              l->asked == LOCK_SHARED ? "shared" : "exclusive");
	l->mode = l->asked;
	l->acquisition = l->asked_acquisition;
	l->ask = ASK_NONE;
	l->granted = false;
	l->caller = NULL;
	note_held(l, c->handle);
	call_status(m, c, 0);
}

/* The lock of an attribute is set by a path. */
void
lock_refused(struct mount *m, struct mount_lock *l, int error)
{
	struct call *c = l->caller;

	lock_unkeep(m, l);
	l->ask = ASK_NONE;
	l->granted = false;
	l->caller = NULL;
	if (c && error == ESTALE && l->kind == LOCK_ATTRIBUTE)
		error = stale_path(m, c);
	if (c)
		call_status(m, c, error);
}

/* True if the request is a conversion to shared whose call was answered before the cell had. */
static bool
is_lowering(const struct mount_lock *l)
{
	return (l->ask == ASK_SENT || l->ask == ASK_QUEUED) && l->caller == NULL && !l->is_kept;
}

void
lock_came(struct mount *m, struct mount_lock *l)
{
	if (l->caller) {
		lock_gained(m, l);
		lock_next(m, l);
	} else if (is_lowering(l)) {
		l->mode = l->asked;
		l->acquisition = l->asked_acquisition;
		l->ask = ASK_NONE;
		lock_next(m, l);
	} else {
		MOUNT_TRACE(m, "acquisition %llu is granted, and no call waits for it",
		            (unsigned long long)l->asked_acquisition);
		l->granted = true;
		l->ask = ASK_QUEUED;
	}
}

/* The cell has queued the request. Calls of the same owner that must not wait do not wait behind
 * this one either; and a call that was interrupted before it was known whether it would wait is
 * given up now. */
static void
lock_queued(struct mount *m, struct mount_lock *l)
{
	struct call *c, *more;

	MESSAGE_TRACE(m->config.trace, "acquisition %llu is queued",
	              (unsigned long long)l->asked_acquisition);
	l->ask = ASK_QUEUED;
	TAILQ_FOREACH_SAFE(c, &l->queue, waiting, more)
		if (c->mode != LOCK_NONE && !c->event.wait)
			call_status(m, c, EAGAIN);
		else if (c->interrupted)
			call_give_up(m, c);
	if (l->caller && l->caller->interrupted)
		call_give_up(m, l->caller);
}

static void
ask_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct mount_lock *l = c->lock;

	if (a->rc == RC_QUEUED && a->result.acquired.kept == LOCK_NONE &&
	    c->acquisition == l->asked_acquisition)
		lock_given_up(m, l);
	if (l->ask != ASK_SENT || c->acquisition != l->asked_acquisition) {
		call_end(m, c);
		return;
	}
	l->refs++;
	if (a->rc == RC_OK) {
		lock_came(m, l);
		if (call_was_repeated(m, c))
			lock_look(m, l);
	} else if (a->rc == RC_QUEUED && l->wait) {
		lock_queued(m, l);
	} else {
		if (a->rc == RC_ACCES && l->caller)
			refusal_note(l->caller, &c->missing);
		lock_refused(m, l, call_errno(m, c, a));
		lock_next(m, l);
	}
	lock_put(m, l);
	call_end(m, c);
}

static void
lock_send(struct mount *m, struct mount_lock *l, struct call *c)
{
	struct op op = {.code = OP_acquire};
	struct call *ask = call_behind(m, l->inode, NULL);

	must(l->ask == ASK_NONE && l->caller == NULL);
	l->ask = ASK_SENT;
	l->caller = c;
	l->asked = c->mode;
	l->wait = c->event.wait;
	l->asked_fh = c->event.fh;
	l->asked_acquisition = ++m->locks.next_acquisition;
	l->granted = false;
	op.acquire.acquire = (struct acquire){.node = l->inode->ino,
	                                      .owner = l->owner,
	                                      .acquisition = l->asked_acquisition,
	                                      .mode = l->asked,
	                                      .wait = l->wait,
	                                      .delay_s = -1,
	                                      .default_delay_s = m->config.lock_delay_s,
	                                      .pid = (uint32_t)c->event.pid};
	call_act_for(ask, c);
	ask->ordered = false;
	ask->acquisition = l->asked_acquisition;
	lock_refer(ask, l);
	call_ask(m, ask, &op, ask_heard);
}

/* True if the call repeats an interrupted call from the same descriptor: then it takes over the
 * request that was kept. */
static bool
lock_adopts(const struct mount_lock *l, const struct call *c)
{
	return l->is_kept && l->asked == c->mode && l->asked_fh == c->event.fh &&
	       l->wait == c->event.wait;
}

/* True if the call wants to be the first holder of an attribute lock, which it says with
 * XATTR_CREATE, and the lock is held: an attribute lock belongs to all processes of a user. */
static bool
lock_is_had(const struct mount_lock *l, const struct call *c)
{
	return l->kind == LOCK_ATTRIBUTE && l->mode != LOCK_NONE && (c->event.flags & XATTR_CREATE);
}

static void
lock_wait_turn(struct mount *m, struct mount_lock *l, struct call *c)
{
	MOUNT_TRACE(m, "call %llu waits behind acquisition %llu of the same owner",
	            (unsigned long long)c->event.call, (unsigned long long)l->asked_acquisition);
	c->queue = &l->queue;
	TAILQ_INSERT_TAIL(&l->queue, c, waiting);
}

static void
lock_taken_over(struct mount *m, struct mount_lock *l, struct call *c)
{
	MOUNT_TRACE(m, "call %llu takes over acquisition %llu", (unsigned long long)c->event.call,
	            (unsigned long long)l->asked_acquisition);
	l->caller = c;
	l->asked_fh = c->event.fh;
}

static void
lock_start(struct mount *m, struct call *c)
{
	struct mount_lock *l = c->lock;

	if (lock_is_had(l, c)) {
		call_status(m, c, EEXIST);
		return;
	}
	if (lock_adopts(l, c)) {
		lock_unkeep(m, l);
		lock_taken_over(m, l, c);
		if (l->granted) {
			lock_gained(m, l);
			lock_next(m, l);
		}
		return;
	}
	if (!c->event.again) /* else the request is kept for a call that comes after this one */
		lock_stop_waiting(m, l);
	if (l->ask == ASK_NONE && l->releasing == 0) {
		lock_send(m, l, c);
	} else if (l->ask == ASK_QUEUED && !c->event.wait) {
		call_status(m, c, EAGAIN);
	} else {
		lock_wait_turn(m, l, c);
	}
}

void
lock_acquire(struct mount *m, struct call *c)
{
	must(c->lock && c->mode != LOCK_NONE && !c->answered);
	lock_start(m, c);
}

/* An unlock was asked for when its owner held nothing or something else: it must not release what
 * a call before it in the queue will have been granted. */
static struct call *
first_waiting(const struct mount_lock *l)
{
	struct call *c;

	TAILQ_FOREACH(c, &l->queue, waiting)
		if (c->mode == LOCK_NONE)
			return c;
	return TAILQ_FIRST(&l->queue);
}

void
lock_next(struct mount *m, struct mount_lock *l)
{
	struct call *c;

	l->refs++;
	while (l->ask == ASK_NONE && l->releasing == 0 && (c = first_waiting(l))) {
		TAILQ_REMOVE(&l->queue, c, waiting);
		c->queue = NULL;
		if (c->mode == LOCK_NONE)
			lock_unlock(m, c);
		else
			lock_start(m, c);
	}
	lock_put(m, l);
}

/* ---- giving back ---- */

static void
cancel_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct mount_lock *l = c->lock;

	(void)a; /* on every answer the cell has no such request any more */
	if (l->ask == ASK_GIVING_BACK && c->acquisition == l->asked_acquisition) {
		l->ask = ASK_NONE;
		lock_next(m, l);
	}
	call_end(m, c);
}

static void
lock_give_back(struct mount *m, struct mount_lock *l)
{
	struct op op = {.code = OP_cancel};
	struct call *c = call_behind(m, l->inode, NULL);

	must((l->ask == ASK_SENT || l->ask == ASK_QUEUED) && l->caller == NULL);
	lock_unkeep(m, l);
	l->ask = ASK_GIVING_BACK;
	l->granted = false;
	op.cancel.node = l->inode->ino;
	op.cancel.owner = l->owner;
	op.cancel.acquisition = l->asked_acquisition;
	c->acquisition = l->asked_acquisition;
	lock_refer(c, l);
	call_ask(m, c, &op, cancel_heard);
}

void
lock_stop_waiting(struct mount *m, struct mount_lock *l)
{
	if (l->is_kept || is_lowering(l))
		lock_give_back(m, l);
}

/* Another call of the same owner that waits for the same takes the request over. */
static bool
lock_handed_on(struct mount *m, struct mount_lock *l)
{
	struct call *c = TAILQ_FIRST(&l->queue);

	while (c != NULL && (c->mode != l->asked || c->event.wait != l->wait || lock_is_had(l, c)))
		c = TAILQ_NEXT(c, waiting);
	if (c == NULL)
		return false;
	TAILQ_REMOVE(&l->queue, c, waiting);
	c->queue = NULL;
	lock_taken_over(m, l, c);
	return true;
}

int
lock_interrupted(struct mount *m, struct mount_lock *l)
{
	const struct call *c = l->caller;

	l->caller = NULL;
	if (l->mode == LOCK_EXCLUSIVE && l->asked == LOCK_SHARED) {
		MOUNT_TRACE(m, "node %llu is locked shared before the cell has said so",
		            (unsigned long long)l->inode->ino);
		l->mode = LOCK_SHARED;
		note_held(l, c->handle);
		return 0;
	}
	if (lock_handed_on(m, l))
		return EINTR;
	MOUNT_TRACE(m, "acquisition %llu of node %llu is kept for %d ms",
	            (unsigned long long)l->asked_acquisition, (unsigned long long)l->inode->ino,
	            KEEP_MS);
	lock_keep_until(m, l, mono_add(m->now, span_ms(KEEP_MS)));
	return EINTR;
}

void
lock_timeout(struct mount *m)
{
	struct mount_lock *l;

	while ((l = TAILQ_FIRST(&m->locks.kept)) && mono_reached(m->now, l->kept_until))
		lock_give_back(m, l);
}

/* ---- freeing ---- */

/* Unlocks of the same owner that came meanwhile have the result of this release; but what a cancel
 * leaves to the owner is theirs to release. */
static void
release_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct mount_lock *l = c->lock;
	int error = call_errno(m, c, a);
	struct call *other, *more;

	must(l->releasing > 0);
	l->releasing--;
	TAILQ_FOREACH_SAFE(other, &l->queue, waiting, more) {
		if (other->mode != LOCK_NONE)
			continue;
		other->error = error ? error : other->error;
		if (l->releasing == 0 && l->ask != ASK_GIVING_BACK)
			call_status(m, other, other->error);
	}
	lock_next(m, l);
	call_status(m, c, error ? error : c->error);
}

static void
lock_release(struct mount *m, struct mount_lock *l, struct call *c)
{
	struct op op = {.code = OP_release};

	op.release.node = l->inode->ino;
	op.release.owner = l->owner;
	op.release.acquisition = l->acquisition;
	l->mode = LOCK_NONE;
	l->handles_n = 0;
	l->releasing++;
	call_ask(m, c, &op, release_heard);
}

void
lock_release_behind(struct mount *m, struct mount_lock *l)
{
	struct call *c = call_behind(m, l->inode, NULL);

	lock_refer(c, l);
	lock_release(m, l, c);
}

/* Releases what the owner holds. A cancel that is under way must finish first, and a release that
 * another call has asked for; requests of other calls that still wait are left alone. */
void
lock_unlock(struct mount *m, struct call *c)
{
	struct mount_lock *l = c->lock;

	lock_stop_waiting(m, l);
	if (l->ask == ASK_GIVING_BACK || (l->mode == LOCK_NONE && l->releasing > 0)) {
		c->mode = LOCK_NONE;
		lock_wait_turn(m, l, c);
	} else if (l->mode == LOCK_NONE) {
		call_status(m, c, c->error);
	} else {
		lock_release(m, l, c);
	}
}

void
lock_empty_queue(struct mount *m, struct mount_lock *l, const struct handle *through, int error)
{
	struct call *c, *more;

	TAILQ_FOREACH_SAFE(c, &l->queue, waiting, more) {
		if (through != NULL && c->handle != through)
			continue;
		TAILQ_REMOVE(&l->queue, c, waiting);
		c->queue = NULL;
		call_status(m, c, error);
	}
}

void
lock_withdraw(struct mount *m, struct mount_lock *l, int error)
{
	struct call *c = l->caller;

	l->refs++;
	if (l->kind == LOCK_FLOCK)
		lock_empty_queue(m, l, NULL, error);
	l->caller = NULL;
	if (c)
		call_status(m, c, error);
	if (l->ask == ASK_SENT || l->ask == ASK_QUEUED)
		lock_give_back(m, l);
	lock_put(m, l);
}

void
lock_drop(struct mount *m, struct mount_lock *l)
{
	l->refs++;
	lock_withdraw(m, l, EBADF);
	if (l->mode != LOCK_NONE)
		lock_release_behind(m, l);
	lock_put(m, l);
}

void
lock_die(struct mount *m, struct mount_lock *l)
{
	if (lock_active(l))
		MOUNT_TRACE(m, "a lock on node %llu is lost: acquisition %llu",
		            (unsigned long long)l->inode->ino, (unsigned long long)l->acquisition);
	l->refs++;
	l->mode = LOCK_NONE;
	l->handles_n = 0;
	l->asked_acquisition = 0; /* answers that are under way are ignored */
	lock_refused(m, l, ESTALE);
	lock_empty_queue(m, l, NULL, ESTALE);
	lock_put(m, l);
}
