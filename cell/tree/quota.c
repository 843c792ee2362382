/* The quota bounds the nodes and bytes of a cell, and a budget those below one directory. A command
 * that gives some back is never refused, so what is full can always be emptied. */
#include "cell/tree/internal.h"

/* While more than these are left, a client collects a file's contents without asking: others do not
 * use up so much meanwhile. */
enum { SCARCE_BYTES = 64 * LIMIT_CONTENTS, SCARCE_PART = 16, SCARCE_BUDGET_PART = 4 };

bool
tree_is_scarce(const struct tree *t)
{
	const uint64_t quota = tree_setting(t, SETTING_quota_bytes);

	return t->counts.scarce_n > 0 ||
	       t->counts.bytes + quota / SCARCE_PART + SCARCE_BYTES > quota;
}

/* ---- counting ---- */

/* A small budget is always scarce: contents of the greatest length may be too much for it. */
bool
quota_is_scarce(const struct node *directory)
{
	const uint64_t budget = directory->budget[QUOTA_BYTES];
	const uint64_t part = budget / SCARCE_BUDGET_PART;
	const uint64_t margin = part > LIMIT_CONTENTS ? part : LIMIT_CONTENTS;

	return budget > 0 && directory->below[QUOTA_BYTES] + margin > budget;
}

/* A node that goes is added as its two's complement. */
static void
count_above(struct tree *t, struct node *n, uint64_t nodes, uint64_t bytes)
{
	for (n = n->parent; n != NULL; n = n->parent) {
		t->counts.scarce_n -= quota_is_scarce(n);
		n->below[QUOTA_NODES] += nodes;
		n->below[QUOTA_BYTES] += bytes;
		t->counts.scarce_n += quota_is_scarce(n);
		n->changed = t->position.applied;
	}
}

static uint64_t
bytes_of_node(const struct node *n)
{
	return QUOTA_NODE_BYTES + n->contents.len;
}

void
quota_add(struct tree *t, struct node *n)
{
	t->counts.nodes++;
	t->counts.bytes += bytes_of_node(n);
	t->counts.scarce_n += quota_is_scarce(n);
	n->changed = t->position.applied;
	count_above(t, n, 1, bytes_of_node(n));
}

void
quota_remove(struct tree *t, struct node *n)
{
	t->counts.nodes--;
	t->counts.bytes -= bytes_of_node(n);
	t->counts.scarce_n -= quota_is_scarce(n);
	count_above(t, n, -UINT64_C(1), -bytes_of_node(n));
}

void
quota_resize(struct tree *t, struct node *n, size_t len)
{
	const uint64_t more = len - n->contents.len;

	t->counts.bytes += more;
	count_above(t, n, 0, more);
}

/* The nodes were added while they had no parents yet. */
bool
quota_count_all(struct tree *t)
{
	struct node *n;

	RB_FOREACH(n, nodes, &t->nodes.by_number) {
		if (name_path_length(n) > LIMIT_PATH)
			return false;
		count_above(t, n, 1, bytes_of_node(n));
		n->changed = t->position.applied;
	}
	return true;
}

/* ---- budgets ---- */

void
quota_set_budget(struct tree *t, struct node *n, enum quota_kind which, uint64_t most)
{
	t->counts.scarce_n -= quota_is_scarce(n);
	n->budget[which] = most;
	t->counts.scarce_n += quota_is_scarce(n);
}

static bool
has_room(const struct node *directory, enum quota_kind which, uint64_t more)
{
	const uint64_t budget = directory->budget[which];

	return budget == 0 || more == 0 || directory->below[which] + more <= budget;
}

static bool
is_below(const struct node *n, const struct node *directory)
{
	while (n != NULL && n != directory)
		n = n->parent;
	return n != NULL;
}

/* True if the budgets from the directory up to the root have room for so much more. A rename of
 * `from` adds nothing to a directory which that is below already; NULL: all of it is new. */
static bool
budgets_allow(const struct node *directory, const struct node *from, uint64_t nodes, uint64_t bytes)
{
	for (; directory != NULL; directory = directory->parent)
		if ((!has_room(directory, QUOTA_NODES, nodes) ||
		     !has_room(directory, QUOTA_BYTES, bytes)) &&
		    (from == NULL || !is_below(from, directory)))
			return false;
	return true;
}

bool
budget_allows_rename(const struct node *source, const struct node *parent,
                     const struct node *target)
{
	const size_t len = source->contents.len, former = target != NULL ? target->contents.len : 0;

	if (target == NULL)
		return budgets_allow(parent, source, 1, QUOTA_NODE_BYTES + len);
	return budgets_allow(parent, source, 0, len > former ? len - former : 0);
}

enum rc
quota_check(const struct tree *t, const struct node *directory, uint64_t nodes, uint64_t contents)
{
	const uint64_t bytes = nodes * QUOTA_NODE_BYTES + contents;

	if (nodes > 0 && t->counts.nodes + nodes > tree_setting(t, SETTING_quota_nodes))
		return RC_NOSPC;
	if (bytes > 0 && t->counts.bytes + bytes > tree_setting(t, SETTING_quota_bytes))
		return RC_NOSPC;
	return budgets_allow(directory, NULL, nodes, bytes) ? RC_OK : RC_DQUOT;
}

uint64_t
quota_highest(enum quota_kind which)
{
	return setting_info(which == QUOTA_NODES ? SETTING_quota_nodes : SETTING_quota_bytes)
	    ->highest;
}

/* A budget may be less than what is there: then it can only shrink. */
enum rc
apply_set_quota(struct execution *x, struct node *n, const struct op_set_quota *o)
{
	if (o->which >= QUOTA_KINDS)
		return RC_INVAL;
	if (o->most > quota_highest((enum quota_kind)o->which))
		return RC_RANGE;
	quota_set_budget(x->tree, n, (enum quota_kind)o->which, o->most);
	return apply_attr_changed(x, n);
}

/* ---- usage ---- */

struct result_usage
tree_usage(const struct tree *t)
{
	return (struct result_usage){
	    .nodes = t->counts.nodes,
	    .quota_nodes = tree_setting(t, SETTING_quota_nodes),
	    .bytes = t->counts.bytes,
	    .quota_bytes = tree_setting(t, SETTING_quota_bytes),
	    .sessions = t->sessions.n,
	    .locks_held = t->locks.held_n,
	    .applied = t->position.applied,
	};
}

static uint64_t
left(uint64_t used, uint64_t most)
{
	return used < most ? most - used : 0;
}

/* Takes the directory's budget for the quota, if less of it is left. */
static void
narrow(const struct node *directory, enum quota_kind which, uint64_t *used, uint64_t *most,
       uint8_t *budgets)
{
	const uint64_t below = directory->below[which], budget = directory->budget[which];

	if (budget == 0 || left(below, budget) >= left(*used, *most))
		return;
	*used = below;
	*most = budget;
	*budgets |= (uint8_t)(1u << which);
}

enum rc
quota_usage(const struct tree *t, uint64_t node, struct result_usage *u)
{
	const struct node *n = node_find(t, node);

	*u = tree_usage(t);
	if (n == NULL)
		return node == 0 ? RC_OK : RC_STALE;
	if (n->kind == NODE_DIRECTORY) {
		u->directory = 1;
		u->below_nodes = n->below[QUOTA_NODES];
		u->below_bytes = n->below[QUOTA_BYTES];
		u->budget_nodes = n->budget[QUOTA_NODES];
		u->budget_bytes = n->budget[QUOTA_BYTES];
		u->index = n->changed;
	}
	for (; n != NULL; n = n->parent) {
		narrow(n, QUOTA_NODES, &u->nodes, &u->quota_nodes, &u->budgets);
		narrow(n, QUOTA_BYTES, &u->bytes, &u->quota_bytes, &u->budgets);
	}
	return RC_OK;
}
