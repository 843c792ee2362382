/* Locks that an operator has released. The mount is told of that at once; where it was not
 * connected it asks, since the message may have been sent on the last connection, and not received.
 */
#include "cell/wire/codec.h"
#include "fs/mount/internal.h"

/* Calls through a handle that relied on it fail from now on. */
static void
lock_lost(struct mount *m, struct mount_lock *l)
{
	struct handle *h;

	if (l->mode == LOCK_NONE)
		return;
	MOUNT_TRACE(m, "the lock of node %llu is lost: acquisition %llu was ended by an operator",
	            (unsigned long long)l->inode->ino, (unsigned long long)l->acquisition);
	l->mode = LOCK_NONE;
	if (l->kind == LOCK_FLOCK && (h = handle_find(m, l->key)) != NULL)
		handle_poisoned(m, h);
	for (size_t n = 0; n < l->handles_n; n++)
		if ((h = handle_find(m, l->handles[n])) != NULL)
			handle_poisoned(m, h);
	l->handles_n = 0;
}

void
lock_taken_away(struct mount *m, struct mount_lock *l, uint64_t acquisition)
{
	const bool is_kept = l->granted && l->asked_acquisition == acquisition;

	if (!is_kept && l->acquisition != acquisition)
		return;
	l->refs++;
	if (is_kept) {
		MOUNT_TRACE(m, "acquisition %llu was ended by an operator before a call took it",
		            (unsigned long long)acquisition);
		lock_unkeep(m, l);
		l->granted = false;
		l->ask = ASK_NONE;
	}
	lock_lost(m, l);
	if (is_kept)
		lock_next(m, l);
	lock_put(m, l);
}

/* A call that waits for a conversion goes on without what its owner had: whether the cell has
 * released that over the conversion, or an operator has. */
static void
look_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_lock *r = &a->result.lock;
	struct cursor from = cursor_of(r->holders.packed);
	struct mount_lock *l = c->lock;
	struct lock_holder h;
	bool held = a->rc != RC_OK;

	while (!held && wire_next_lock_holder(&from, &h))
		held = h.session == c->session && h.owner == l->owner;
	if (!held && l->caller != NULL && l->wait && l->acquisition == c->acquisition)
		lock_given_up(m, l);
	else if (!held)
		lock_taken_away(m, l, c->acquisition);
	call_end(m, c);
}

void
lock_look(struct mount *m, struct mount_lock *l)
{
	const struct op op = {.code = OP_get_lock, .get_lock.node = l->inode->ino};
	struct call *c = call_behind(m, l->inode, NULL);

	lock_refer(c, l);
	c->ordered = false;
	c->acquisition = l->granted ? l->asked_acquisition : l->acquisition;
	call_ask(m, c, &op, look_heard);
}

void
lock_ask_again(struct mount *m)
{
	struct mount_lock *l;
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		TAILQ_FOREACH(l, &i->locks, of_inode)
			if (l->mode != LOCK_NONE || l->granted)
				lock_look(m, l);
}
