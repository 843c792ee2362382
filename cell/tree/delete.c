/* Delete: a file, an empty directory, and the ephemeral directories that empty with it. */
#include "cell/tree/internal.h"

static void
delete_one(struct turn *w, struct node *n)
{
	struct opener *o;

	w->ended += 1 + (n->lock == NULL ? 0 : n->lock->holders_n);
	lock_end_node(w, n);
	while ((o = RB_MIN(node_openers, &n->openers)) != NULL)
		opener_remove(w->tree, o);
	if (n->creator != NULL)
		creator_clear(w->tree, n);
	apply_note(w, TREE_NODE_DELETED, n->number)->parent = n->parent_number;
	node_remove(w->tree, n);
}

void
delete_node(struct turn *w, struct node *n)
{
	do {
		struct node *parent = n->parent;

		delete_one(w, n);
		n = parent;
	} while (n->ephemeral && n->children_n == 0);
}

/* Without /acl nobody could be given any right again. */
static bool
indelible(const struct node *n)
{
	return n->parent_number == NODE_ROOT && n->kind == NODE_DIRECTORY &&
	       bytes_equal(n->name, bytes_of("acl"));
}

enum rc
apply_delete(struct turn *w, const struct op_delete *o, struct result_deleted *r)
{
	struct node *n;
	enum rc rc = name_look_up(w->tree, o->parent, o->name, &n);

	if (rc != RC_OK)
		return rc;
	if (n->kind != o->kind)
		return n->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	if (indelible(n))
		return RC_BUSY;
	if (n->children_n > 0)
		return RC_NOTEMPTY;
	r->node = n->number;
	delete_node(w, n);
	return RC_OK;
}
