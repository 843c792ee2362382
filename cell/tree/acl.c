/* The three ACL names of a node (Chubby, section 2.2) are names of files in /acl, inherited from
 * the parent at creation. */
#include "cell/tree/internal.h"

/* The file of this name in /acl; NULL when there is none. */
static const struct node *
acl_file(const struct tree *t, struct bytes name)
{
	const struct node *root = node_find(t, NODE_ROOT), *acl, *file;

	if (root == NULL || (acl = node_child(root, bytes_of("acl"))) == NULL)
		return NULL;
	file = node_child(acl, name);
	return file != NULL && file->kind == NODE_FILE ? file : NULL;
}

enum rc
apply_set_acl(struct execution *x, const struct op_set_acl *o, struct result_attr *r)
{
	struct node *n = node_find(x->tree, o->node);

	if (n == NULL)
		return RC_STALE;
	if (o->which >= ACL_NAMES || !name_valid(o->name))
		return RC_INVAL;
	/* No session would have the right, for ever if it is the one to change. */
	if (acl_file(x->tree, o->name) == NULL)
		return RC_NOENT;
	node_set_acl(n, o->which, o->name);
	n->acl_generation++;
	dirty_node(x->tree, n->number);
	apply_note_node(x, TREE_NODE_CHANGED, n);
	node_attr(n, &r->attr);
	return RC_OK;
}

/* ---- administrators ---- */

static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A line without its comment and the blanks around it. */
static struct bytes
trimmed(struct bytes line)
{
	size_t from = 0, to = 0;

	while (to < line.len && line.data[to] != '#')
		to++;
	while (from < to && is_blank(line.data[from]))
		from++;
	while (to > from && is_blank(line.data[to - 1]))
		to--;
	return (struct bytes){line.data + from, to - from};
}

/* Each line holds a principal; `*` is every principal that is authenticated. */
static bool
lists(struct bytes text, struct bytes principal)
{
	for (size_t at = 0; at < text.len; at++) {
		size_t start = at;
		struct bytes line;

		while (at < text.len && text.data[at] != '\n')
			at++;
		line = trimmed((struct bytes){text.data + start, at - start});
		if (bytes_equal(line, principal) || bytes_equal(line, bytes_of("*")))
			return true;
	}
	return false;
}

bool
tree_is_admin(const struct tree *t, struct bytes principal)
{
	const struct node *file = acl_file(t, bytes_of("admin"));

	return principal_named(t, principal) != NULL && file != NULL &&
	       lists(file->contents, principal);
}

bool
acl_has_administrator(const struct tree *t, const struct principal *without)
{
	struct tree_principal p = {0};

	while (tree_principal_after(t, p.name, &p))
		if ((without == NULL || p.generation != without->generation) &&
		    tree_is_admin(t, p.name))
			return true;
	return false;
}
