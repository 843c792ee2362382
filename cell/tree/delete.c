/* A delete removes a file or an empty directory, and ephemeral directories that are empty then. */
#include "cell/tree/internal.h"

static void
delete_one(struct execution *x, struct node *n)
{
	struct opener *o;

	x->ended += 1 + (n->lock == NULL ? 0 : n->lock->holders_n);
	lock_end_node(x, n);
	while ((o = RB_MIN(node_openers, &n->openers)) != NULL)
		opener_remove(x->tree, o);
	if (n->creator != NULL)
		creator_clear(x->tree, n);
	apply_note_node(x, TREE_NODE_DELETED, n);
	node_remove(x->tree, n);
}

void
delete_node(struct execution *x, struct node *n)
{
	do {
		struct node *parent = n->parent;

		delete_one(x, n);
		n = parent;
	} while (n->ephemeral && n->children_n == 0);
}

/* Without /acl or administrators no principal could be given any right again. */
static bool
indelible(const struct node *n)
{
	return n->number == NODE_ACL || acl_is_admin_file(n);
}

enum rc
apply_delete(struct execution *x, const struct op_delete *o, struct result_deleted *r)
{
	struct node *n;
	enum rc rc = name_look_up(x->tree, o->parent, o->name, &n);

	if (rc != RC_OK)
		return rc;
	if (n->kind != o->kind)
		return n->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	if (indelible(n))
		return RC_BUSY;
	if (n->children_n > 0)
		return RC_NOTEMPTY;
	r->node = n->number;
	delete_node(x, n);
	return RC_OK;
}
