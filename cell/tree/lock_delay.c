/* There is no clock here: a delay stands until a delay_over names it. The delay of an exclusive
 * holder stands against all acquisitions, that of a shared holder against exclusive ones only. When
 * several shared holders expire one after the other the delay begins again each time, with the
 * largest length of all. */
#include "cell/tree/internal.h"

bool
lock_delay_blocks(const struct lock *l, enum lock_mode mode)
{
	return l->delay.mode == LOCK_EXCLUSIVE ||
	       (l->delay.mode == LOCK_SHARED && mode == LOCK_EXCLUSIVE);
}

static void
put_delay(const struct lock *l, struct tree_note *n)
{
	n->lock_generation = l->delay.generation;
	n->index = l->delay.began;
	n->seconds = l->delay.seconds;
}

void
lock_delay_set(struct tree *t, struct lock *l, struct lock_delay delay)
{
	if (l->delay.mode != LOCK_NONE)
		RB_REMOVE(delayed_locks, &t->delays.by_node, l);
	l->delay = delay;
	if (l->delay.mode != LOCK_NONE)
		RB_INSERT(delayed_locks, &t->delays.by_node, l);
}

void
lock_delay_begin(struct execution *x, const struct holder *h)
{
	struct lock *l = h->lock;
	int64_t standing = l->delay.mode != LOCK_NONE ? l->delay.seconds : 0;
	const uint64_t slot = h->slot >= 0 ? UINT64_C(1) << h->slot : 0;
	int64_t seconds = LIMIT_LOCK_DELAY_S;

	/* The delay of a shared lock is the largest that any of its holders asked for. */
	while (seconds > standing && l->delays[seconds] == 0)
		seconds--;
	if (seconds == 0)
		return;
	lock_delay_set(x->tree, l,
	               (struct lock_delay){.mode = h->mode,
	                                   .began = x->index,
	                                   .generation = l->node->lock_generation,
	                                   .seconds = seconds,
	                                   .slots = l->delay.slots | slot});
	DIRTY_ROW(x->tree, locks, .key = {l->node->number});
	put_delay(l, apply_note(x, TREE_DELAY_BEGAN, l->node->number));
}

enum rc
apply_delay_over(struct execution *x, const struct op_delay_over *o)
{
	const struct node *n = node_find(x->tree, o->node);
	struct lock *l = n == NULL ? NULL : n->lock;

	if (l == NULL || l->delay.mode == LOCK_NONE || l->delay.began != o->began ||
	    l->delay.generation != o->lock_generation)
		return RC_OK;
	lock_delay_set(x->tree, l, (struct lock_delay){0});
	apply_note(x, TREE_LOCK_CHANGED, o->node);
	lock_settle(x->tree, l);
	return RC_OK;
}

enum rc
apply_set_lock_delay(struct execution *x, struct node *n, const struct op_set_lock_delay *o)
{
	if (o->seconds < -1 || o->seconds > LIMIT_LOCK_DELAY_S)
		return RC_RANGE;
	n->lock_delay_s = o->seconds;
	return apply_attr_changed(x, n);
}

bool
tree_delay_after(const struct tree *t, uint64_t after, struct tree_note *delay)
{
	const struct lock *l = delayed_locks_after(&t->delays.by_node, after);

	if (l == NULL)
		return false;
	*delay = (struct tree_note){.kind = TREE_DELAY_BEGAN, .node = l->node->number};
	put_delay(l, delay);
	return true;
}
