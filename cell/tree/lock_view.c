/* Questions of the master about locks: which are held, and how many holders a command would leave.
 */
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
	struct node beyond = {.number = after + 1};
	struct lock key = {.node = &beyond};
	const struct lock *l;

	if (after == UINT64_MAX)
		return false;
	l = RB_NFIND(locks, (struct locks *)&t->locks.by_node, &key);
	if (l == NULL)
		return false;
	*node = l->node->number;
	return true;
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
tree_lock_left_by(const struct tree *t, uint64_t session, uint64_t node, enum session_end cause,
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
