/* There is no clock here: a file with a time to live stays until an `expire` names the command that
 * renewed it last, as a lock-delay stands until a delay_over does. */
#include "cell/tree/internal.h"

KEYED_GENERATE(mortal_nodes, node, in_mortal, number)

void
ttl_link(struct tree *t, struct node *n)
{
	if (n->ttl_s > 0)
		RB_INSERT(mortal_nodes, &t->mortal.by_number, n);
}

void
ttl_unlink(struct tree *t, struct node *n)
{
	if (n->ttl_s > 0)
		RB_REMOVE(mortal_nodes, &t->mortal.by_number, n);
}

static void
put_ttl(const struct node *n, struct tree_note *note)
{
	note->generation = n->content_generation;
	note->index = n->ttl_began;
	note->seconds = n->ttl_s;
}

void
ttl_set(struct execution *x, struct node *n, uint32_t seconds)
{
	ttl_unlink(x->tree, n);
	n->ttl_s = seconds;
	n->ttl_began = seconds > 0 ? x->index : 0;
	ttl_link(x->tree, n);
	dirty_node(x->tree, n);
	put_ttl(n, apply_note(x, TREE_TTL_BEGAN, n->number));
}

void
ttl_renew(struct execution *x, struct node *n)
{
	if (n->ttl_s > 0)
		ttl_set(x, n, n->ttl_s);
}

bool
ttl_is_over(const struct tree *t, const struct op_expire *o)
{
	const struct node *n = node_find(t, o->node);

	return n != NULL && n->ttl_s > 0 && n->ttl_began == o->began &&
	       n->content_generation == o->generation;
}

/* An ACL file gets no time to live: all rights that it grants would end with it. */
enum rc
apply_set_ttl(struct execution *x, struct node *n, const struct op_set_ttl *o)
{
	if (acl_is_file(n))
		return RC_BUSY;
	if (o->seconds > LIMIT_TTL_S)
		return RC_RANGE;
	ttl_set(x, n, o->seconds);
	return apply_attr_changed(x, n);
}

enum rc
apply_expire(struct execution *x, const struct op_expire *o)
{
	if (ttl_is_over(x->tree, o))
		delete_node(x, node_find(x->tree, o->node));
	return RC_OK;
}

bool
tree_ttl_after(const struct tree *t, uint64_t after, struct tree_note *ttl)
{
	const struct node *n = mortal_nodes_after(&t->mortal.by_number, after);

	if (n == NULL)
		return false;
	*ttl = (struct tree_note){.kind = TREE_TTL_BEGAN, .node = n->number};
	put_ttl(n, ttl);
	return true;
}
