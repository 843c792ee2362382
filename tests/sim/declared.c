/* The nodes that a command declares to change, compared with those that it would change. */
#include "tests/sim/sim.h"

static bool
is_alive(const struct item *it)
{
	return it != NULL && it->died == 0;
}

static bool
names(const struct command *c, uint64_t node)
{
	struct cursor at = cursor_of(c->keys.packed);
	struct node_key key;

	while (wire_next_node_key(&at, &key))
		if (key.node == node)
			return true;
	return !c->bounded;
}

static size_t
children_of(const struct model *m, const struct item *it)
{
	size_t n = 0;

	for (size_t i = 0; i < m->items_n; i++)
		n += m->items[i]->died == 0 && m->items[i]->parent == it->node;
	return n;
}

bool
declared_deletion(struct sim *s, const struct command *c, const struct item *it)
{
	const struct item *parent = model_item(&s->model, it->parent);

	if (!names(c, it->node) || !names(c, parent->node))
		return false;
	return !parent->ephemeral || children_of(&s->model, parent) > 1 ||
	       declared_deletion(s, c, parent);
}

static bool
declared_create(struct sim *s, const struct command *c, const struct op_create *op)
{
	return !is_alive(model_item(&s->model, op->parent)) ||
	       model_child(&s->model, op->parent, op->name) != NULL || names(c, op->parent);
}

static bool
declared_write(struct sim *s, const struct command *c, const struct op_set_contents *op)
{
	const struct item *it = model_item(&s->model, op->node);

	return !is_alive(it) ||
	       (op->guarded && op->generation != it->versions[it->versions_n - 1].generation) ||
	       names(c, op->node);
}

static bool
declared_delete(struct sim *s, const struct command *c, const struct op_delete *op)
{
	const struct item *it = model_child(&s->model, op->parent, op->name);

	return it == NULL || it->kind != op->kind || children_of(&s->model, it) > 0 ||
	       declared_deletion(s, c, it);
}

static bool
declared_rename(struct sim *s, const struct command *c, const struct op_rename *op)
{
	const struct item *source = model_child(&s->model, op->parent, op->name);
	const struct item *target = model_child(&s->model, op->new_parent, op->new_name);

	if (source == NULL || source->kind != NODE_FILE ||
	    !is_alive(model_item(&s->model, op->new_parent)))
		return true;
	if (target != NULL && (op->no_replace || target->kind != NODE_FILE || target == source))
		return true;
	return declared_deletion(s, c, source) && names(c, op->new_parent) &&
	       (target == NULL || names(c, target->node));
}

static bool
declared_close(struct sim *s, const struct command *c, uint64_t opened)
{
	const struct item *it = model_opened(&s->model, c->session, opened);

	return it == NULL || it->openers_n > 1 || (names(c, opened) && declared_deletion(s, c, it));
}

bool
declared(struct sim *s, const struct command *c, const struct op *op)
{
	switch (op->code) {
	case OP_create:
		return declared_create(s, c, &op->create);
	case OP_set_contents:
		return declared_write(s, c, &op->set_contents);
	case OP_delete:
		return declared_delete(s, c, &op->delete);
	case OP_rename:
		return declared_rename(s, c, &op->rename);
	case OP_close_ephemeral:
		return declared_close(s, c, op->close_ephemeral.node);
	case OP_append:
	case OP_set_mtime:
	case OP_set_lock_delay:
	case OP_make_ephemeral:
		return !is_alive(model_item(&s->model, wire_op_node(op))) ||
		       names(c, wire_op_node(op));
	default:
		return true;
	}
}
