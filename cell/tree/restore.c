/* Restore: a copy of a cell becomes a new cell. The old one may have gone on after the copy was
 * made, and may be running still: so every counter of the new one begins far beyond all numbers
 * that the old one can have given out. */
#include <stdlib.h>

#include "cell/tree/internal.h"

static bool
fits(uint64_t counter, uint64_t jump)
{
	return counter <= UINT64_MAX - jump;
}

static bool
all_fit(const struct tree *t, uint64_t jump)
{
	struct node *n;

	if (!fits(t->epochs.current, jump) || !fits(t->nodes.next_number, jump) ||
	    !fits(t->locks.last_fence, jump))
		return false;
	RB_FOREACH(n, nodes, (struct nodes *)&t->nodes.by_number) {
		if (!fits(n->content_generation, jump) || !fits(n->lock_generation, jump) ||
		    !fits(n->acl_generation, jump))
			return false;
	}
	return true;
}

/* A lock that is free in the copy may have been held later in the old cell, and a directory that
 * has given no number to a name may have begun. */
static void
raise_node(struct tree *t, struct node *n, uint64_t jump, int64_t stamp_ns)
{
	n->content_generation += jump;
	n->lock_generation += jump;
	n->acl_generation += jump;
	node_changed(t, n, stamp_ns);
	if (n->lock == NULL || n->lock->delay.mode == LOCK_NONE)
		return;
	n->lock->delay.generation += jump;
	DIRTY_ROW(t, locks, .key = {n->number});
}

enum rc
apply_restore(struct execution *x, const struct op_restore *o)
{
	struct tree *t = x->tree;
	struct session *s;
	struct node *n;

	if (o->jump == 0 || !all_fit(t, o->jump))
		return RC_RANGE;
	tree_skip_epochs(t, o->jump);
	node_skip_numbers(t, o->jump);
	lock_skip_fences(t, o->jump);
	RB_FOREACH(n, nodes, &t->nodes.by_number)
		raise_node(t, n, o->jump, x->stamp_ns);
	while ((s = RB_MIN(sessions, &t->sessions.by_id)) != NULL)
		if (s->ending == 0)
			session_end(x, s, SESSION_EXPIRED);
		else
			session_finish(x, s);
	change_history_clear(t);
	member_table_clear(t);
	signing_clear(t);
	return RC_OK;
}

/* At a million numbers a second an old cell needs twelve days to catch up with a copy. The same
 * backup may be restored once more: each cell that is made later begins further on, by a quarter of
 * a million for each second, and so beyond all numbers that the earlier one gives out meanwhile.
 * There is room for forty thousand copies of copies. The entry is of no ballot, so that all
 * proposals of the new cell are newer. */
enum rc
tree_restore(struct tree *t, int64_t wall_ns)
{
	const uint64_t later = wall_ns > 0 ? (uint64_t)wall_ns >> 12 : 0;
	const struct op op = OPERATION(restore, .jump = (1ull << 40) + later);
	const struct bytes payload = wire_entry_of(&op, wall_ns);
	struct tree_outcome out = {0};
	enum rc rc;

	must(tree_apply(t, tree_applied(t) + 1, (struct ballot){0, 0}, payload, &out) == RC_OK);
	rc = out.answers[0].rc;
	tree_outcome_free(&out);
	free((void *)payload.data);
	return rc;
}
