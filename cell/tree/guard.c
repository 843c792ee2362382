/* A guard names one acquisition of a lock, as a sequencer does (Chubby, section 2.4). It is valid
 * while that acquisition is held. */
#include "cell/tree/internal.h"

static const struct holder *
holder_of(const struct lock *l, uint64_t fence)
{
	const struct holder *h;

	if (l == NULL)
		return NULL;
	TAILQ_FOREACH(h, &l->in_order, in_order)
		if (h->fence == fence)
			return h;
	return NULL;
}

/* A session that is ending holds nothing any more: the next part of its end frees the lock. */
static bool
holds(const struct holder *h, const struct guard *g)
{
	return h->generation == g->lock_generation && h->mode == g->mode && h->session->ending == 0;
}

const char *
tree_guard_stale(const struct tree *t, const struct guard *g)
{
	const struct node *n = node_find(t, g->node);
	const struct holder *h;

	if (n == NULL)
		return "the node was deleted";
	h = holder_of(n->lock, g->fence);
	if (h != NULL && holds(h, g))
		return NULL;
	if (h != NULL && h->session->ending == 0)
		return "the lock was converted";
	if (n->lock_generation != g->lock_generation)
		return "the lock was acquired again";
	if (n->lock == NULL)
		return "the lock is free";
	return n->lock->holders_n == 0 || h != NULL ? "the session of its holder has ended"
	                                            : "the lock was released";
}
