/* Counting locks: a node may say how many holders at most share its lock. Each holder has a slot,
 * the lowest number that is free, and keeps it through its conversions. The slot of a holder whose
 * session expired stays taken while its lock-delay stands: that holder may still be at work. */
#include "cell/tree/internal.h"

static_assert(LIMIT_SLOTS == 64, "a slot is a bit of `slots`");

/* How many may share the node's lock beside its holders. */
static size_t
room_beside(const struct node *n, size_t holders)
{
	const size_t most = n->lock_slots > 0 ? n->lock_slots : LIMIT_HOLDERS;
	uint64_t delayed = n->lock != NULL ? n->lock->delay.slots : 0;

	for (; delayed != 0; delayed &= delayed - 1)
		holders++;
	return holders < most ? most - holders : 0;
}

size_t
lock_slots_room(const struct node *n)
{
	return room_beside(n, n->lock != NULL ? n->lock->holders_n : 0);
}

int
lock_slots_lowest(const struct lock *l)
{
	const uint64_t taken = l->slots | l->delay.slots;

	return taken == UINT64_MAX ? -1 : __builtin_ctzll(~taken);
}

enum rc
apply_set_lock_slots(struct execution *x, struct node *n, const struct op_set_lock_slots *o)
{
	if (o->slots > LIMIT_SLOTS)
		return RC_RANGE;
	n->lock_slots = o->slots;
	apply_attr_changed(x, n);
	apply_note(x, TREE_LOCK_CHANGED, n->number);
	return RC_OK;
}

bool
tree_lock_counts(const struct tree *t, uint64_t node)
{
	const struct node *n = node_find(t, node);

	return n != NULL && n->lock_slots > 0;
}

size_t
tree_lock_room(const struct tree *t, uint64_t node, size_t holders)
{
	const struct node *n = node_find(t, node);

	if (n == NULL)
		return 0;
	return holders == SIZE_MAX ? lock_slots_room(n) : room_beside(n, holders);
}
