/* A create makes a file or a directory, permanent or ephemeral (Chubby, section 2.3). */
#include "cell/tree/internal.h"

/* A session that opens an ephemeral file by creating it again is an opener like its creator. */
static enum rc
found(struct execution *x, const struct op_create *o, struct node *n, struct result_created *r)
{
	if (o->exclusive)
		return RC_EXIST;
	if (n->kind != o->kind)
		return n->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	if (n->kind == NODE_FILE && n->ephemeral && x->session != NULL &&
	    !opener_allowed(n, x->session))
		return RC_FULL;
	if (n->kind == NODE_FILE && n->ephemeral && x->session != NULL)
		opener_add(x->tree, n, x->session);
	node_attr(x->tree, n, &x->who, &r->attr);
	return RC_OK;
}

static void
make_ephemeral_at_birth(struct execution *x, struct node *n)
{
	n->ephemeral = true;
	if (n->kind == NODE_FILE)
		opener_add(x->tree, n, x->session);
	else
		creator_set(x->tree, n, x->session);
}

enum rc
apply_create(struct execution *x, const struct op_create *o, struct result_created *r)
{
	struct node *parent = node_find(x->tree, o->parent), *n;
	enum rc rc;

	if (o->kind != NODE_FILE && o->kind != NODE_DIRECTORY)
		return RC_INVAL;
	if (parent == NULL)
		return RC_STALE;
	if (parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	n = node_child(parent, o->name);
	if (n != NULL)
		return found(x, o, n, r);
	if ((rc = name_check(parent, o->name)) != RC_OK)
		return rc;
	if (o->ephemeral && x->session == NULL)
		return RC_NO_SESSION;
	if (parent->children_n >= LIMIT_LISTING)
		return RC_FULL;
	if (!quota_allows_node(x->tree))
		return RC_NOSPC;

	n = node_add(x->tree, parent, o->name, o->kind, x->stamp_ns);
	for (int i = 0; i < ACL_NAMES; i++)
		node_set_acl(n, i, parent->acl[i]);
	if (o->ephemeral)
		make_ephemeral_at_birth(x, n);
	apply_note_node(x, TREE_NODE_CREATED, n);
	r->fresh = 1;
	node_attr(x->tree, n, &x->who, &r->attr);
	return RC_OK;
}
