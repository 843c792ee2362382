/* Create: a file or a directory, permanent or ephemeral (Chubby, section 2.3). */
#include "cell/tree/internal.h"

/* Who opens an ephemeral file by creating it over has it open as much as its first creator. */
static enum rc
found(struct turn *w, const struct op_create *o, struct node *n, struct result_created *r)
{
	if (o->exclusive)
		return RC_EXIST;
	if (n->kind != o->kind)
		return n->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	if (n->kind == NODE_FILE && n->ephemeral && w->session != NULL &&
	    !opener_allowed(n, w->session))
		return RC_FULL;
	node_found(w, n);
	if (n->kind == NODE_FILE && n->ephemeral && w->session != NULL)
		opener_add(w->tree, n, w->session);
	node_attr(n, &r->attr);
	return RC_OK;
}

static void
make_ephemeral_at_birth(struct turn *w, struct node *n)
{
	n->ephemeral = true;
	if (n->kind == NODE_FILE)
		opener_add(w->tree, n, w->session);
	else
		creator_set(w->tree, n, w->session);
}

enum rc
apply_create(struct turn *w, const struct op_create *o, struct result_created *r)
{
	struct node *parent = node_find(w->tree, o->parent), *n;
	enum rc rc;

	if (o->kind != NODE_FILE && o->kind != NODE_DIRECTORY)
		return RC_INVAL;
	if (parent == NULL)
		return RC_STALE;
	if (parent->kind != NODE_DIRECTORY)
		return RC_NOTDIR;
	n = node_child(parent, o->name);
	if (n != NULL)
		return found(w, o, n, r);
	if ((rc = name_check(parent, o->name)) != RC_OK)
		return rc;
	if (o->ephemeral && w->session == NULL)
		return RC_NO_SESSION;
	if (parent->children_n >= LIMIT_LISTING)
		return RC_FULL;
	if (!quota_allows_node(w->tree))
		return RC_NOSPC;

	n = node_add(w->tree, parent, o->name, o->kind, w->stamp_ns);
	for (int i = 0; i < ACL_NAMES; i++)
		node_set_acl(n, i, parent->acl[i]);
	if (o->ephemeral)
		make_ephemeral_at_birth(w, n);
	node_made(w, n);
	r->fresh = 1;
	node_attr(n, &r->attr);
	return RC_OK;
}
