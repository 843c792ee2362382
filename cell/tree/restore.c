/* Restore: a copy of a cell becomes a new cell. The old one may have gone on after the copy was
 * made, may even be running still: so whatever the new one counts begins far beyond anything that
 * the old one can have given out. */
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

	if (!fits(t->epoch, jump) || !fits(t->next_node, jump) || !fits(t->last_fence, jump))
		return false;
	RB_FOREACH(n, nodes, (struct nodes *)&t->nodes) {
		if (!fits(n->content_generation, jump) || !fits(n->lock_generation, jump) ||
		    !fits(n->acl_generation, jump))
			return false;
	}
	return true;
}

/* A lock that is free in the copy may have been held later in the old cell. */
static void
raise_node(struct tree *t, struct node *n, uint64_t jump)
{
	if (n->kind == NODE_FILE)
		n->content_generation += jump;
	n->lock_generation += jump;
	n->acl_generation += jump;
	changed_node(t, n->number);
	if (n->lock == NULL || n->lock->delay.mode == LOCK_NONE)
		return;
	n->lock->delay.generation += jump;
	changed_lock(t, n->number);
}

enum rc
apply_restore(struct turn *w, const struct op_restore *o)
{
	struct tree *t = w->tree;
	struct session *s;
	struct node *n;

	if (o->jump == 0 || !all_fit(t, o->jump))
		return RC_RANGE;
	t->epoch += o->jump;
	t->next_node += o->jump;
	t->last_fence += o->jump;
	RB_FOREACH(n, nodes, &t->nodes)
		raise_node(t, n, o->jump);
	while ((s = RB_MIN(sessions, &t->sessions)) != NULL)
		session_end(w, s, SESSION_EXPIRED);
	members_clear(t);
	return RC_OK;
}
