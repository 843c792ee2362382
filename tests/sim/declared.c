/* The nodes that a command declares to change, compared with those that it would change. */
#include "tests/sim/sim.h"

static bool
is_alive(const struct item *it)
{
	return it != NULL && it->died == 0;
}

bool
declared_key(const struct command *c, uint64_t key_wanted)
{
	struct cursor at = cursor_of(c->keys.packed);
	struct node_key key;

	while (wire_next_node_key(&at, &key))
		if (key.node == key_wanted)
			return true;
	return !c->bounded;
}

/* A change of /acl, or of a file in it, is one of all rights. */
static bool
names(struct sim *s, const struct command *c, uint64_t node)
{
	const struct item *it = model_item(&s->model, node);

	if (node == NODE_ACL || (it != NULL && it->parent == NODE_ACL))
		return declared_key(c, node) && declared_key(c, KEY_RIGHTS);
	return declared_key(c, node);
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

	if (!names(s, c, it->node) || !names(s, c, parent->node))
		return false;
	return !parent->ephemeral || children_of(&s->model, parent) > 1 ||
	       declared_deletion(s, c, parent);
}

/* An ACL file stays permanent. */
static bool
declared_mark(struct sim *s, const struct command *c, uint64_t node)
{
	const struct item *it = model_item(&s->model, node);

	return !is_alive(it) || it->parent == NODE_ACL || names(s, c, node);
}

static bool
declared_create(struct sim *s, const struct command *c, const struct op_create *op)
{
	return !is_alive(model_item(&s->model, op->parent)) ||
	       model_child(&s->model, op->parent, op->name) != NULL || names(s, c, op->parent);
}

static bool
declared_write(struct sim *s, const struct command *c, const struct op_set_contents *op)
{
	const struct item *it = model_item(&s->model, op->node);

	return !is_alive(it) ||
	       (op->guarded && op->generation != it->versions[it->versions_n - 1].generation) ||
	       names(s, c, op->node);
}

static bool
declared_delete(struct sim *s, const struct command *c, const struct op_delete *op)
{
	const struct item *it = model_child(&s->model, op->parent, op->name);

	return it == NULL || it->kind != op->kind || children_of(&s->model, it) > 0 ||
	       locks_keep(s, it, c->session, c->user) || declared_deletion(s, c, it);
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
	if (locks_keep(s, source, c->session, c->user))
		return true;
	return declared_deletion(s, c, source) && names(s, c, op->new_parent) &&
	       (target == NULL || names(s, c, target->node));
}

static bool
declared_close(struct sim *s, const struct command *c, uint64_t opened)
{
	const struct item *it = model_opened(&s->model, c->session, opened);

	return it == NULL || it->openers_n > 1 ||
	       (names(s, c, opened) && declared_deletion(s, c, it));
}

static bool
declared_purge(struct sim *s, const struct command *c, struct bytes principal)
{
	for (size_t i = 0; i < s->model.acl_files_n; i++) {
		const struct item *it = s->model.acl_files[i];

		if (model_loses_name(it, principal) && !names(s, c, it->node))
			return false;
	}
	return true;
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
	case OP_make_ephemeral:
		return declared_mark(s, c, op->make_ephemeral.node);
	case OP_purge_name:
		return declared_purge(s, c, op->purge_name.name);
	case OP_expire:
		return !model_is_over(&s->model, &op->expire) ||
		       declared_deletion(s, c, model_item(&s->model, op->expire.node));
	case OP_set_ttl:
		return !is_alive(model_item(&s->model, op->set_ttl.node)) ||
		       model_item(&s->model, op->set_ttl.node)->kind != NODE_FILE ||
		       names(s, c, op->set_ttl.node);
	case OP_set_quota:
		return !is_alive(model_item(&s->model, op->set_quota.node)) ||
		       model_item(&s->model, op->set_quota.node)->kind != NODE_DIRECTORY ||
		       names(s, c, op->set_quota.node);
	case OP_transaction:
		return model_transaction_declared(s, c, &op->transaction);
	case OP_number:
	case OP_append:
	case OP_set_mtime:
	case OP_set_acl:
	case OP_set_lock_delay:
	case OP_set_lock_slots:
		return !is_alive(model_item(&s->model, wire_op_node(op))) ||
		       names(s, c, wire_op_node(op));
	default:
		return true;
	}
}
