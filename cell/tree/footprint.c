/* The footprint of an operation: the keys, which are node numbers, that a command would touch if it
 * were executed now, and on which the answer to a read depends. N stands for N's attributes,
 * contents and rights and, of a directory, for its names, absences and listing. KEY_RIGHTS stands
 * for what all rights have in common: /acl and the files in it. */
#include <stdlib.h>
#include "cell/tree/internal.h"

void
footprint_add(struct footprint *f, uint64_t key)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->keys[i] == key)
			return;
	ARRAY_ROOM(f->keys, f->n, f->room);
	f->keys[f->n++] = key;
}

void
footprint_free(struct footprint *f)
{
	free(f->keys);
	*f = (struct footprint){0};
}

/* The node is deleted, and the ephemeral directories that are empty then. */
void
footprint_add_deletion(struct footprint *f, const struct node *n)
{
	footprint_add(f, n->number);
	for (n = n->parent; n != NULL; n = n->parent) {
		footprint_add(f, n->number);
		if (!n->ephemeral || n->children_n > 1)
			return;
	}
}

/* Adds the parent, and the child of this name when there is one. */
static struct node *
add_child(struct footprint *f, const struct tree *t, uint64_t parent, struct bytes name)
{
	struct node *n;

	footprint_add(f, parent);
	if (name_look_up(t, parent, name, &n) != RC_OK)
		return NULL;
	footprint_add(f, n->number);
	return n;
}

static void
add_child_deletion(struct footprint *f, const struct tree *t, uint64_t parent, struct bytes name)
{
	const struct node *n = add_child(f, t, parent, name);

	if (n != NULL)
		footprint_add_deletion(f, n);
}

static void
add_close(struct footprint *f, const struct tree *t, uint64_t session, uint64_t node)
{
	const struct session *s = session_find(t, session);
	const struct opener *o = s == NULL ? NULL : opener_find(s, node);
	struct opener *first;

	footprint_add(f, node);
	if (o == NULL)
		return;
	footprint_add(f, o->node->number);
	first = RB_MIN(node_openers, &o->node->openers);
	if (RB_NEXT(node_openers, &o->node->openers, first) == NULL)
		footprint_add_deletion(f, o->node);
}

void
footprint_add_rights(struct footprint *f, const struct tree *t)
{
	for (size_t i = 0; i < f->n; i++) {
		const struct node *n = node_find(t, f->keys[i]);

		if (f->keys[i] == NODE_ACL || (n != NULL && n->parent_number == NODE_ACL)) {
			footprint_add(f, KEY_RIGHTS);
			return;
		}
	}
}

static void
add_nodes(struct footprint *f, const struct tree *t, uint64_t session, const struct op *op,
          uint64_t node)
{
	switch (op->code) {
	case OP_create:
		add_child(f, t, op->create.parent, op->create.name);
		return;
	case OP_delete:
		add_child_deletion(f, t, op->delete.parent, op->delete.name);
		return;
	case OP_rename:
		add_child_deletion(f, t, op->rename.parent, op->rename.name);
		add_child(f, t, op->rename.new_parent, op->rename.new_name);
		return;
	case OP_close_ephemeral:
		add_close(f, t, session, op->close_ephemeral.node);
		return;
	case OP_end_session:
		f->everything = true;
		return;
	default:
		footprint_add(f, node);
	}
}

void
tree_footprint(const struct tree *t, uint64_t session, const struct op *op, uint64_t node,
               struct footprint *f)
{
	add_nodes(f, t, session, op, node);
	footprint_add_rights(f, t);
}

/* An answer shows the rights of the subject that asks. */
void
tree_read_footprint(const struct tree *t, const struct op *op, uint64_t node, struct footprint *f)
{
	if (op->code == OP_get_usage)
		return; /* sums, of no node */
	if (op->code == OP_lookup)
		add_child(f, t, op->lookup.parent, op->lookup.name);
	else
		footprint_add(f, node);
	footprint_add(f, KEY_RIGHTS);
}
