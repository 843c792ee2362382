/* Questions about locks: which are held, how many holders a command would leave, and whether a lock
 * stands against the end of its node. */
#include "cell/tree/internal.h"

size_t
tree_lock_holders(const struct tree *t, uint64_t session, uint64_t owner, uint64_t node,
                  uint64_t *acquisition)
{
	const struct node *n = node_find(t, node);
	const struct lock *l = n == NULL ? NULL : n->lock;
	const struct holder *h = holder_find(l, session, owner);

	*acquisition = h == NULL ? 0 : h->acquisition;
	return l == NULL ? 0 : l->holders_n;
}

bool
tree_lock_after(const struct tree *t, uint64_t after, uint64_t *node)
{
	const struct lock *l = locks_after(&t->locks.by_node, after);

	if (l != NULL)
		*node = l->node->number;
	return l != NULL;
}

bool
tree_lock_claimed(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find(t, node);

	return n != NULL && n->freed_epoch >= t->epochs.settled && n->freed_epoch != 0 &&
	       n->freed_epoch < t->epochs.current;
}

bool
tree_lock_kept(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find(t, node);

	return n != NULL && (n->kept_epoch == t->epochs.current ||
	                     (n->lock != NULL && n->lock->epoch < t->epochs.current));
}

/* ---- what a lock keeps ---- */

/* The holders are in the order of their sessions: the first or the last one is of another session
 * if any is. */
bool
lock_keeps_node(const struct tree *t, const struct node *n, uint64_t session,
                const struct subject *who)
{
	const struct holder *first, *last;
	struct lock *l = n->lock;

	if (l == NULL)
		return false;
	first = RB_MIN(lock_holders, &l->holders);
	last = RB_MAX(lock_holders, &l->holders);
	if (l->delay.mode == LOCK_NONE && first->session->id == session &&
	    last->session->id == session)
		return false;
	return !acl_is_operator(t, who);
}

/* ---- the holders that a command would leave ---- */

size_t
tree_lock_left(const struct tree *t, uint64_t session, const struct op_cancel *o, bool cancel)
{
	const struct node *n = node_find(t, o->node);
	const struct holder *h = n == NULL ? NULL : holder_find(n->lock, session, o->owner);

	if (h == NULL || h->acquisition != o->acquisition ||
	    (cancel && h->earlier_mode == LOCK_EXCLUSIVE))
		return SIZE_MAX;
	return n->lock->holders_n - !(cancel && h->earlier_mode == LOCK_SHARED);
}

size_t
tree_lock_left_by(const struct tree *t, uint64_t session, uint64_t node, enum end_cause cause,
                  size_t *seen)
{
	const struct lock *l = node_find(t, node)->lock;
	struct session of = {.id = session};
	struct holder key = {.session = &of}, *h;
	size_t left = l->holders_n;

	h = RB_NFIND(lock_holders, (struct lock_holders *)&l->holders, &key);
	for (; h != NULL && h->session->id == session; h = RB_NEXT(lock_holders, NULL, h)) {
		++*seen;
		if (cause == SESSION_EXPIRED && h->delay_s > 0)
			return SIZE_MAX;
		left--;
	}
	return left;
}

size_t
tree_lock_left_by_delay(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find(t, node);

	return n == NULL || n->lock == NULL ? SIZE_MAX : n->lock->holders_n;
}

bool
tree_session_lock_after(const struct tree *t, uint64_t session, uint64_t after, uint64_t *node)
{
	const struct session *s = session_find(t, session);
	struct node beyond = {.number = after + 1};
	struct lock of = {.node = &beyond};
	struct holder key = {.lock = &of};
	const struct holder *h;

	if (s == NULL || after == UINT64_MAX)
		return false;
	h = RB_NFIND(session_holders, (struct session_holders *)&s->holders, &key);
	if (h != NULL)
		*node = h->lock->node->number;
	return h != NULL;
}

/* ---- guard ----
 *
 * A guard names one acquisition of a lock, as a sequencer does (Chubby, section 2.4). It is valid
 * while that acquisition is held. */

/* A session that is ending holds nothing any more: the next part of its end frees the lock. */
const char *
tree_guard_stale(const struct tree *t, const struct guard *g)
{
	const struct node *n = node_find(t, g->node);
	const struct holder *h = NULL;

	if (n == NULL)
		return "the node was deleted";
	if (n->lock != NULL)
		TAILQ_FOREACH(h, &n->lock->in_order, in_order)
			if (h->fence == g->fence)
				break;
	if (h != NULL && h->session->ending == 0)
		return h->generation == g->lock_generation && h->mode == g->mode
		           ? NULL
		           : "the lock was converted";
	if (n->lock_generation != g->lock_generation)
		return "the lock was acquired again";
	if (n->lock == NULL)
		return "the lock is free";
	return n->lock->holders_n == 0 || h != NULL ? "the session of its holder has ended"
	                                            : "the lock was released";
}
