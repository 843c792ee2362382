/* News of locks that the cell sends by itself: that a request is granted or refused after all, that
 * a lock is lost over a conversion, or that an operator has released it. The mount is told of that
 * at once; where it was not connected it asks, since the message may have been sent on the last
 * connection, and not received. */
#include "cell/wire/codec.h"
#include "fs/mount/internal.h"

/* Calls through a handle that relied on it fail from now on. */
static void
lock_lost(struct mount *m, struct mount_lock *l, const char *why)
{
	struct handle *h;

	if (l->mode == LOCK_NONE)
		return;
	MOUNT_TRACE(m, "the lock of node %llu is lost: acquisition %llu was ended by %s",
	            (unsigned long long)l->inode->ino, (unsigned long long)l->acquisition, why);
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
	lock_lost(m, l, "an operator");
	if (is_kept)
		lock_next(m, l);
	lock_put(m, l);
}

/* The cell has released it; but a master that fails now may not have. For flock(2) that is the
 * rule. For fcntl(2) it is a deadlock: what was read under the shared lock may be changed now, so
 * neither may a waiting call succeed, nor that of a caller that was interrupted be repeated. */
void
lock_given_up(struct mount *m, struct mount_lock *l)
{
	struct handle *h = handle_find(m, l->asked_fh);

	if (l->mode == LOCK_NONE || l->acquisition == l->asked_acquisition)
		return;
	MOUNT_TRACE(m, "acquisition %llu of node %llu is given up: its conversion waits",
	            (unsigned long long)l->acquisition, (unsigned long long)l->inode->ino);
	if (l->kind == LOCK_RECORD && l->caller == NULL) {
		if (h != NULL)
			record_lock_gained(l, h);
		lock_lost(m, l, "its conversion");
	}
	lock_release_behind(m, l);
	if (l->kind != LOCK_RECORD)
		return;
	lock_empty_queue(m, l, NULL, EDEADLK);
	lock_withdraw(m, l, EDEADLK);
}

/* An operator has ended what the request had been granted, before that was known: with it went what
 * its owner held before, on which a caller relies again that was interrupted. One that still waits
 * asks anew. */
static void
lock_not_had(struct mount *m, struct mount_lock *l)
{
	struct call *c;

	if (l->caller != NULL)
		lock_given_up(m, l);
	else
		lock_lost(m, l, "an operator");
	if (l->ask != ASK_QUEUED)
		return;
	c = l->caller;
	l->caller = NULL;
	lock_refused(m, l, 0);
	if (c != NULL)
		lock_acquire(m, c);
}

void
lock_grant(struct mount *m, const struct client_grant *g)
{
	struct inode *i = inode_find(m, g->node);
	struct mount_lock *l;

	if (i == NULL)
		return;
	TAILQ_FOREACH(l, &i->locks, of_inode)
		if (l->owner == g->owner)
			break;
	if (l == NULL)
		return;
	l->refs++;
	if (g->rc == RC_INTR)
		lock_taken_away(m, l, g->acquisition);
	/* Of a request that was granted, and whose answer is lost with its connection, another
	 * answer comes: the lock is looked for then, or the request is in the queue again. */
	if (l->asked_acquisition != g->acquisition || l->granted ||
	    (l->ask != ASK_SENT && l->ask != ASK_QUEUED) ||
	    (g->rc == RC_INTR && l->ask == ASK_SENT)) {
		lock_put(m, l);
		return;
	}
	if (g->rc == RC_OK)
		lock_came(m, l);
	else if (g->rc == RC_QUEUED)
		lock_given_up(m, l);
	else if (g->rc == RC_INTR)
		lock_not_had(m, l);
	else if (g->rc == RC_STALE && !i->dead)
		inode_die(m, i, false);
	else {
		if (g->rc == RC_ACCES && l->caller)
			refusal_note(l->caller, &(struct result_refused){.node = i->ino,
			                                                 .right = RIGHT_WRITE});
		lock_refused(m, l, call_plain_errno(g->rc));
	}
	lock_next(m, l);
	lock_put(m, l);
}

/* A lock of the inode that this question is about, and that the answer does not name. */
static struct mount_lock *
unnamed(struct inode *i, uint64_t question)
{
	struct mount_lock *l;

	TAILQ_FOREACH(l, &i->locks, of_inode)
		if (l->question == question)
			return l;
	return NULL;
}

/* A call that waits for a conversion goes on without what its owner had: whether the cell has
 * released that over the conversion, or an operator has. */
static void
look_heard(struct mount *m, struct call *c, const struct client_answer *a)
{
	const struct result_lock *r = &a->result.lock;
	struct cursor from = cursor_of(r->holders.packed);
	struct inode *i = c->inode;
	struct mount_lock *l;
	struct lock_holder h;

	while (a->rc == RC_OK && wire_next_lock_holder(&from, &h))
		TAILQ_FOREACH(l, &i->locks, of_inode)
			if (l->question == a->token && h.session == c->session &&
			    h.owner == l->owner)
				l->question = 0;
	while (a->rc == RC_OK && (l = unnamed(i, a->token)) != NULL) {
		l->question = 0;
		if (l->caller != NULL && l->wait && l->acquisition == l->in_question)
			lock_given_up(m, l);
		else
			lock_taken_away(m, l, l->in_question);
	}
	call_end(m, c);
}

/* Asks who holds the lock of the node; returns the number of the question. */
static uint64_t
ask(struct mount *m, struct inode *i)
{
	const struct op op = {.code = OP_get_lock, .get_lock.node = i->ino};
	struct call *c = call_behind(m, i, NULL);

	c->ordered = false;
	call_ask(m, c, &op, look_heard);
	return c->token;
}

static void
put_in_question(struct mount_lock *l, uint64_t question)
{
	l->question = question;
	l->in_question = l->granted ? l->asked_acquisition : l->acquisition;
}

void
lock_look(struct mount *m, struct mount_lock *l)
{
	put_in_question(l, ask(m, l->inode));
}

/* The answer names all holders, who may be many: one question for all owners of a node. */
void
lock_ask_again(struct mount *m)
{
	struct mount_lock *l;
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes) {
		uint64_t question = 0;

		TAILQ_FOREACH(l, &i->locks, of_inode) {
			if (l->mode == LOCK_NONE && !l->granted)
				continue;
			question = question != 0 ? question : ask(m, i);
			put_in_question(l, question);
		}
	}
}
