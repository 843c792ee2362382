/* Sessions number their acquisitions, so that a late duplicate of a release or cancel finds an
 * acquisition that it does not name, and has no effect. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/tree/internal.h"

KEYED_GENERATE(locks, lock, in_tree, node->number)
KEYED_GENERATE(delayed_locks, lock, in_delayed, node->number)

static int
compare_session(const struct holder *a, const struct holder *b)
{
	return keyed_order(a->session->id, b->session->id) ?: keyed_order(a->owner, b->owner);
}

static int
compare_node(const struct holder *a, const struct holder *b)
{
	return locks_order(a->lock, b->lock) ?: keyed_order(a->owner, b->owner);
}

RB_GENERATE(lock_holders, holder, in_lock, compare_session)
RB_GENERATE(session_holders, holder, in_session, compare_node)

/* ---- records ---- */

struct lock *
lock_of(struct tree *t, struct node *n)
{
	struct lock *l = n->lock;

	if (l != NULL)
		return l;
	l = memory_zero(1, sizeof *l);
	l->node = n;
	l->epoch = t->epochs.current;
	TAILQ_INIT(&l->in_order);
	n->lock = l;
	must(RB_INSERT(locks, &t->locks.by_node, l) == NULL);
	DIRTY_ROW(t, locks, .key = {n->number});
	return l;
}

void
lock_settle(struct tree *t, struct lock *l)
{
	DIRTY_ROW(t, locks, .key = {l->node->number});
	if (l->holders_n > 0 || l->delay.mode != LOCK_NONE)
		return;
	RB_REMOVE(locks, &t->locks.by_node, l);
	l->node->lock = NULL;
	l->node->freed_epoch = t->epochs.current;
	if (l->epoch < t->epochs.current)
		l->node->kept_epoch = t->epochs.current;
	dirty_node(t, l->node);
	free(l);
}

enum lock_mode
lock_mode_of(const struct lock *l)
{
	return l == NULL || l->holders_n == 0 ? LOCK_NONE : TAILQ_FIRST(&l->in_order)->mode;
}

struct holder *
holder_find(const struct lock *l, uint64_t session, uint64_t owner)
{
	struct session of = {.id = session};
	struct holder key = {.session = &of, .owner = owner};

	if (l == NULL)
		return NULL;
	return RB_FIND(lock_holders, (struct lock_holders *)&l->holders, &key);
}

struct holder *
holder_add(struct tree *t, struct lock *l, struct session *s, uint64_t owner, uint64_t place)
{
	struct holder *h = memory_zero(1, sizeof *h), *before;

	h->lock = l;
	h->session = s;
	h->owner = owner;
	h->place = place;
	h->slot = -1;
	l->delays[0]++;
	must(RB_INSERT(lock_holders, &l->holders, h) == NULL);
	must(RB_INSERT(session_holders, &s->holders, h) == NULL);
	s->holders_n++;
	/* Places mostly grow, so the search from the end is short. */
	TAILQ_FOREACH_REVERSE(before, &l->in_order, holders_in_order, in_order)
		if (before->place < h->place)
			break;
	if (before != NULL)
		TAILQ_INSERT_AFTER(&l->in_order, before, h, in_order);
	else
		TAILQ_INSERT_HEAD(&l->in_order, h, in_order);
	if (l->holders_n++ == 0)
		t->locks.held_n++;
	return h;
}

void
holder_set_slot(struct holder *h, int slot)
{
	must(h->slot == -1);
	h->slot = slot;
	if (slot >= 0)
		h->lock->slots |= UINT64_C(1) << slot;
}

void
holder_set_delay(struct holder *h, int64_t seconds)
{
	h->lock->delays[h->delay_s]--;
	h->lock->delays[seconds]++;
	h->delay_s = seconds;
}

void
holder_remove(struct tree *t, struct holder *h)
{
	struct lock *l = h->lock;

	DIRTY_ROW(t, holders, .key = {l->node->number, h->session->id, h->owner});
	RB_REMOVE(lock_holders, &l->holders, h);
	RB_REMOVE(session_holders, &h->session->holders, h);
	h->session->holders_n--;
	TAILQ_REMOVE(&l->in_order, h, in_order);
	l->delays[h->delay_s]--;
	if (h->slot >= 0)
		l->slots &= ~(UINT64_C(1) << h->slot);
	free(h);
	if (--l->holders_n == 0)
		t->locks.held_n--;
	lock_settle(t, l);
}

/* ---- acquire ---- */

/* Is another holder, or a delay, in the way of `own` (NULL: of a new holder)? */
static bool
in_the_way(const struct node *n, const struct holder *own, enum lock_mode mode)
{
	const struct lock *l = n->lock;

	if (l == NULL)
		return false;
	if (lock_delay_blocks(l, mode))
		return true;
	if (mode == LOCK_EXCLUSIVE)
		return l->holders_n > (own != NULL);
	if (own != NULL)
		return false;
	return lock_mode_of(l) == LOCK_EXCLUSIVE || lock_slots_room(n) == 0;
}

static int64_t
delay_of(const struct acquire *a, const struct node *n)
{
	if (a->delay_s >= 0)
		return a->delay_s;
	return n->lock_delay_s >= 0 ? n->lock_delay_s : a->default_delay_s;
}

/* Each fence is greater than all before it. Several commands may share one log index, so the index
 * alone would not do. */
static void
give_fence(struct execution *x, struct holder *h)
{
	struct tree *t = x->tree;

	t->locks.last_fence = x->index > t->locks.last_fence ? x->index : t->locks.last_fence + 1;
	h->fence = h->lock->fence = t->locks.last_fence;
	h->generation = h->lock->node->lock_generation;
	DIRTY_ROW(t, locks, .key = {h->lock->node->number});
}

/* The lock goes from free to held, or from shared to exclusive. */
static void
open_generation(struct execution *x, struct node *n)
{
	n->lock_generation++;
	dirty_node(x->tree, n);
}

static struct holder *
join(struct execution *x, struct session *s, const struct acquire *a, struct node *n)
{
	struct lock *l = lock_of(x->tree, n);
	const struct holder *last = TAILQ_LAST(&l->in_order, holders_in_order);
	struct holder *h;

	if (l->holders_n == 0)
		open_generation(x, n);
	h = holder_add(x->tree, l, s, a->owner, last == NULL ? 1 : last->place + 1);
	holder_set_slot(h, lock_slots_lowest(l));
	give_fence(x, h);
	h->since_ns = x->stamp_ns;
	holder_set_delay(h, delay_of(a, n));
	return h;
}

/* A conversion to exclusive is an acquisition of its own. A conversion never shortens the delay: a
 * cancel may have to bring the earlier mode back. */
static void
convert(struct execution *x, struct holder *h, const struct acquire *a)
{
	int64_t delay_s = delay_of(a, h->lock->node);

	h->earlier_mode = h->mode;
	h->earlier_acquisition = h->acquisition;
	h->earlier_generation = h->generation;
	h->earlier_fence = h->fence;
	if (delay_s > h->delay_s)
		holder_set_delay(h, delay_s);
	if (h->mode == LOCK_EXCLUSIVE && a->mode == LOCK_SHARED)
		apply_note(x, TREE_LOCK_CHANGED, h->lock->node->number);
	if (h->mode == LOCK_EXCLUSIVE || a->mode == LOCK_SHARED)
		return;
	open_generation(x, h->lock->node);
	give_fence(x, h);
}

static void
put_acquired(const struct holder *h, struct result_acquired *r)
{
	*r = (struct result_acquired){.lock_generation = h->generation, .fence = h->fence};
}

/* `fresh` becomes true when the owner gets the lock now, false when it got it by this acquisition
 * before. */
static enum rc
take(struct execution *x, struct session *s, const struct acquire *a, bool *fresh,
     struct result_acquired *r)
{
	const uint64_t last_fence = x->tree->locks.last_fence;
	struct node *n = node_find(x->tree, a->node);
	struct tree_note *taken;
	struct holder *h;

	if (a->mode != LOCK_SHARED && a->mode != LOCK_EXCLUSIVE)
		return RC_INVAL;
	if (a->delay_s < -1 || a->delay_s > LIMIT_LOCK_DELAY_S || a->default_delay_s < 0 ||
	    a->default_delay_s > LIMIT_LOCK_DELAY_S)
		return RC_RANGE;
	if (n == NULL)
		return RC_STALE;
	h = holder_find(n->lock, s->id, a->owner);
	*fresh = h == NULL || h->acquisition != a->acquisition;
	if (*fresh) {
		if (in_the_way(n, h, a->mode))
			return RC_BUSY_LOCK;
		if (h == NULL && s->holders_n >= LIMIT_SESSION_LOCKS)
			return RC_FULL;
		if (h == NULL)
			h = join(x, s, a, n);
		else
			convert(x, h, a);
		h->acquisition = a->acquisition;
		h->mode = a->mode;
		h->pid = a->pid;
		/* A conversion to shared is no acquisition: it takes no fence. */
		if (x->tree->locks.last_fence != last_fence) {
			taken = apply_note(x, TREE_LOCK_TAKEN, n->number);
			taken->session = s->id;
			taken->lock_generation = h->generation;
		}
		DIRTY_ROW(x->tree, holders, .key = {n->number, s->id, a->owner});
	}
	put_acquired(h, r);
	return RC_OK;
}

enum rc
apply_acquire(struct execution *x, const struct acquire *a, struct result_acquired *r)
{
	bool fresh;

	return take(x, x->session, a, &fresh, r);
}

enum rc
apply_grant(struct execution *x, const struct op_grant *o, struct result_acquired *r)
{
	const struct requester waiter = {.session = o->session, .user = x->requester.user};
	const struct op acquire = {.code = OP_acquire, .acquire.acquire = o->acquire};
	struct session *s = session_live(x->tree, o->session);
	struct node *n = node_find(x->tree, o->acquire.node);
	struct tree_note *granted;
	bool fresh;
	enum rc rc;

	if (s == NULL)
		rc = RC_NO_SESSION;
	else if (!tree_permits(x->tree, &waiter, &acquire))
		rc = RC_ACCES;
	else
		rc = take(x, s, &o->acquire, &fresh, r);
	/* A grant that has no effect shows that there is a queue: its next waiter may be known to
	 * the master alone. */
	if (rc != RC_OK && n != NULL && n->lock == NULL) {
		n->freed_epoch = x->tree->epochs.current;
		dirty_node(x->tree, n);
	}
	if (rc != RC_OK || !fresh)
		return rc;
	granted = apply_note(x, TREE_GRANTED, o->acquire.node);
	granted->session = s->id;
	granted->owner = o->acquire.owner;
	granted->acquisition = o->acquire.acquisition;
	granted->lock_generation = r->lock_generation;
	granted->fence = r->fence;
	return RC_OK;
}

/* ---- release and cancel ---- */

static struct holder *
holder_by(const struct execution *x, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	const struct node *n = node_find(x->tree, node);
	struct holder *h = NULL;

	if (n != NULL)
		h = holder_find(n->lock, x->session->id, owner);
	return h != NULL && h->acquisition == acquisition ? h : NULL;
}

static void
release(struct execution *x, struct holder *h)
{
	apply_note(x, TREE_LOCK_CHANGED, h->lock->node->number);
	holder_remove(x->tree, h);
}

enum rc
apply_release(struct execution *x, const struct op_release *o)
{
	struct holder *h;

	if (node_find(x->tree, o->node) == NULL)
		return RC_STALE;
	if ((h = holder_by(x, o->node, o->owner, o->acquisition)) != NULL)
		release(x, h);
	return RC_OK;
}

/* Restores the holder as it was before the conversion, generation and fence included. If it was
 * exclusive and other holders have joined since, or have left a delay, it stays shared: no holder
 * loses its lock. If they have joined and released again it becomes exclusive, with a generation
 * and a fence greater than theirs. */
static void
revert(struct execution *x, struct holder *h)
{
	if (!in_the_way(h->lock->node, h, h->earlier_mode))
		h->mode = h->earlier_mode;
	h->acquisition = h->earlier_acquisition;
	h->generation = h->earlier_generation;
	h->fence = h->earlier_fence;
	if (h->mode == LOCK_EXCLUSIVE && h->fence != h->lock->fence) {
		open_generation(x, h->lock->node);
		give_fence(x, h);
	}
	h->earlier_acquisition = h->earlier_generation = h->earlier_fence = 0;
	h->earlier_mode = LOCK_NONE;
	DIRTY_ROW(x->tree, holders, .key = {h->lock->node->number, h->session->id, h->owner});
	apply_note(x, TREE_LOCK_CHANGED, h->lock->node->number);
}

enum rc
apply_cancel(struct execution *x, const struct op_cancel *o)
{
	struct holder *h = holder_by(x, o->node, o->owner, o->acquisition);

	if (h != NULL && h->earlier_mode != LOCK_NONE)
		revert(x, h);
	else if (h != NULL)
		release(x, h);
	return RC_OK;
}

/* ---- ends ---- */

/* True for a holder of the session (0: any) that an operator has seen, who knows the newest
 * `fence`. The lock's generation says less: it stays while a lock is shared. */
static bool
is_named(const struct holder *h, uint64_t session, uint64_t fence)
{
	return (session == 0 || h->session->id == session) && h->fence <= fence;
}

/* The sequencers of those who lose the lock are stale from now on. */
enum rc
apply_unlock(struct execution *x, const struct op_unlock *o)
{
	const struct node *n = node_find(x->tree, o->node);
	struct holder *h = n == NULL || n->lock == NULL ? NULL : TAILQ_FIRST(&n->lock->in_order);

	while (h != NULL) {
		struct holder *next = TAILQ_NEXT(h, in_order);
		struct tree_note *lost;

		if (is_named(h, o->session, o->fence)) {
			if (o->keep_delay)
				lock_delay_begin(x, h);
			lost = apply_note(x, TREE_LOCK_LOST, o->node);
			lost->session = h->session->id;
			lost->owner = h->owner;
			lost->acquisition = h->acquisition;
			release(x, h);
		}
		h = next;
	}
	return RC_OK;
}

void
lock_table_free(struct tree *t)
{
	struct lock *l;
	struct holder *h;

	while ((l = RB_MIN(locks, &t->locks.by_node)) != NULL) {
		RB_REMOVE(locks, &t->locks.by_node, l);
		while ((h = TAILQ_FIRST(&l->in_order)) != NULL) {
			TAILQ_REMOVE(&l->in_order, h, in_order);
			free(h);
		}
		free(l);
	}
}

void
lock_skip_fences(struct tree *t, uint64_t fences)
{
	t->locks.last_fence += fences;
}

void
lock_end_node(struct tree *t, struct node *n)
{
	if (n->lock != NULL)
		lock_delay_set(t, n->lock, (struct lock_delay){0});
	while (n->lock != NULL && n->lock->holders_n > 0)
		holder_remove(t, TAILQ_FIRST(&n->lock->in_order));
	if (n->lock != NULL)
		lock_settle(t, n->lock);
}

void
lock_end_session(struct execution *x, struct session *s, size_t most)
{
	struct holder *h;

	for (; x->ended < most && (h = RB_MIN(session_holders, &s->holders)) != NULL; x->ended++) {
		if (s->ending == SESSION_EXPIRED)
			lock_delay_begin(x, h);
		release(x, h);
	}
}

/* ---- reads for the master ---- */

enum rc
tree_lock_probe(const struct tree *t, uint64_t session, const struct acquire *a,
                enum lock_mode *held)
{
	const struct node *n = node_find(t, a->node);
	const struct holder *h;

	*held = LOCK_NONE;
	if (n == NULL)
		return RC_STALE;
	h = holder_find(n->lock, session, a->owner);
	if (h != NULL)
		*held = h->mode;
	if (h != NULL && h->acquisition == a->acquisition)
		return RC_OK;
	return in_the_way(n, h, a->mode) ? RC_BUSY_LOCK : RC_OK;
}

bool
tree_lock_holder(const struct tree *t, uint64_t node, uint64_t session, uint64_t fence)
{
	const struct node *n = node_find(t, node);
	const struct holder *h;

	if (n == NULL || n->lock == NULL)
		return false;
	TAILQ_FOREACH(h, &n->lock->in_order, in_order)
		if (is_named(h, session, fence))
			return true;
	return false;
}

bool
tree_lock_held_by(const struct tree *t, uint64_t session, uint64_t owner, uint64_t acquisition,
                  uint64_t node, struct result_acquired *g)
{
	const struct node *n = node_find(t, node);
	const struct holder *h = n == NULL ? NULL : holder_find(n->lock, session, owner);

	if (h == NULL || h->acquisition != acquisition)
		return false;
	put_acquired(h, g);
	return true;
}
