/* The three ACL names of a node (Chubby, section 2.2): names of files in /acl, inherited from the
 * parent at creation. */
#include "cell/tree/internal.h"

/* A name without a file would lock everybody out, for good if it is the name for `change`. */
static bool
acl_file_exists(const struct tree *t, struct bytes name)
{
	const struct node *root = node_find(t, NODE_ROOT), *acl, *file;

	if (root == NULL || (acl = node_child(root, bytes_of("acl"))) == NULL)
		return false;
	file = node_child(acl, name);
	return file != NULL && file->kind == NODE_FILE;
}

enum rc
apply_set_acl(struct turn *w, const struct op_set_acl *o, struct result_attr *r)
{
	struct node *n = node_find(w->tree, o->node);

	if (n == NULL)
		return RC_STALE;
	if (o->which >= ACL_NAMES || !name_valid(o->name))
		return RC_INVAL;
	if (!acl_file_exists(w->tree, o->name))
		return RC_NOENT;
	node_set_acl(n, o->which, o->name);
	n->acl_generation++;
	changed_node(w->tree, n->number);
	note(w, TREE_NODE_CHANGED, n->number);
	node_attr(n, &r->attr);
	return RC_OK;
}
