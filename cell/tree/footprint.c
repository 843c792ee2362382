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

/* Adds the keys that the deletion of the node changes: those of the ephemeral directories above it
 * that are empty then, and of the directory that is left. */
static void
add_deletion(struct footprint *f, const struct node *n)
{
	footprint_add(f, n->number);
	for (n = n->parent; n != NULL; n = n->parent) {
		footprint_add(f, n->number);
		if (!n->ephemeral || n->children_n > 1)
			return;
	}
}

/* Ephemeral directories above the node go with their last child: which one is the last is not
 * known while several are about to be deleted. */
void
footprint_add_with_directories(struct footprint *f, const struct node *n)
{
	footprint_add(f, n->number);
	for (n = n->parent; n != NULL; n = n->parent) {
		footprint_add(f, n->number);
		if (!n->ephemeral)
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
		add_deletion(f, n);
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
		add_deletion(f, o->node);
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
	const struct node *n;

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
	case OP_expire:
		if (ttl_is_over(t, &op->expire))
			add_deletion(f, node_find(t, node));
		return;
	case OP_set_quota:
		/* The right to it is the parent's to give. */
		footprint_add(f, node);
		if ((n = node_find(t, node)) != NULL && n->parent != NULL)
			footprint_add(f, n->parent->number);
		return;
	case OP_transaction:
		transaction_footprint(t, session, &op->transaction, f);
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
	if (op->code == OP_get_usage || op->code == OP_get_changes)
		return; /* sums, and past changes: they are not cached */
	if (op->code == OP_lookup)
		add_child(f, t, op->lookup.parent, op->lookup.name);
	else
		footprint_add(f, node);
	footprint_add(f, KEY_RIGHTS);
}

/* ---- changes ----
 *
 * The changes of a command: the keys of the nodes whose attributes, contents, rights or names would
 * be others if it were executed now. A command that would be refused, or find all as it wants it,
 * changes none. The master computes the changes before it proposes a command, so that sessions
 * which may have cached them can be told; the command carries them, and apply computes them once
 * more. */

/* The session and the subject of a command. */
struct asker {
	uint64_t session;
	const struct subject *who;
};

static bool
create_passes(const struct tree *t, const struct op_create *o)
{
	const struct node *parent = node_find(t, o->parent);

	return parent != NULL && parent->kind == NODE_DIRECTORY &&
	       node_child(parent, o->name) == NULL;
}

static bool
delete_passes(const struct tree *t, const struct asker *a, const struct op_delete *o)
{
	struct node *n;

	return name_look_up(t, o->parent, o->name, &n) == RC_OK && n->kind == o->kind &&
	       n->children_n == 0 && !lock_keeps_node(t, n, a->session, a->who);
}

static bool
rename_passes(const struct tree *t, const struct asker *a, const struct op_rename *o)
{
	const struct node *parent = node_find(t, o->new_parent), *target;
	struct node *source;

	if (name_look_up(t, o->parent, o->name, &source) != RC_OK || source->kind != NODE_FILE)
		return false;
	if (parent == NULL || parent->kind != NODE_DIRECTORY)
		return false;
	if (lock_keeps_node(t, source, a->session, a->who))
		return false;
	target = node_child(parent, o->new_name);
	return target == NULL || (!o->no_replace && target->kind == NODE_FILE && target != source);
}

/* Only the last close of a file changes what is shown of it: the file is deleted. */
static bool
close_passes(const struct tree *t, uint64_t session, uint64_t node)
{
	const struct session *s = session_live(t, session);
	const struct opener *o = s == NULL ? NULL : opener_find(s, node);

	return o != NULL && o->node->openers_n == 1;
}

/* For commands that change names. Others change only what no session may cache. */
static bool
names_pass(const struct tree *t, const struct asker *a, const struct op *op, uint64_t node)
{
	switch (op->code) {
	case OP_create:
		return create_passes(t, &op->create);
	case OP_delete:
		return delete_passes(t, a, &op->delete);
	case OP_rename:
		return rename_passes(t, a, &op->rename);
	case OP_close_ephemeral:
		return close_passes(t, a->session, node);
	case OP_expire:
		return ttl_is_over(t, &op->expire);
	case OP_number:
		return node_find(t, node) != NULL && node_find(t, node)->kind == NODE_DIRECTORY;
	default:
		return false;
	}
}

/* For commands that change one node, which exists. */
static bool
node_passes(const struct node *n, const struct op *op)
{
	if (apply_kind_check(op->code, n->kind) != RC_OK)
		return false;
	if (op->code == OP_set_contents)
		return !op->set_contents.guarded ||
		       op->set_contents.generation == n->content_generation;
	/* An ACL file stays permanent. */
	return op->code != OP_make_ephemeral || n->ephemeral || !acl_is_file(n);
}

static bool
is_of_rights(const struct node *n)
{
	return n->number == NODE_ACL || n->parent_number == NODE_ACL;
}

/* ---- the end of a session ---- */

static void
add_part(struct footprint *f, const struct tree *t, const struct session *s)
{
	struct opener *o = RB_MIN(session_openers, (struct session_openers *)&s->openers);
	struct node *directory =
	    RB_MIN(session_directories, (struct session_directories *)&s->directories);
	size_t n = 0;

	for (; o != NULL && n < t->sessions.ended_most && f->n < LIMIT_KEYS / 2; n++) {
		/* The openers are in the order of their sessions. */
		if (RB_MIN(node_openers, &o->node->openers)->session == s &&
		    RB_MAX(node_openers, &o->node->openers)->session == s)
			footprint_add_with_directories(f, o->node);
		o = RB_NEXT(session_openers, NULL, o);
	}
	for (; directory != NULL && n < t->sessions.ended_most && f->n < LIMIT_KEYS / 2; n++) {
		footprint_add_with_directories(f, directory);
		directory = RB_NEXT(session_directories, NULL, directory);
	}
	footprint_add_rights(f, t);
}

static uint64_t
ended_by(const struct op *op)
{
	if (op->code == OP_end_session)
		return op->end_session.session;
	return op->code == OP_finish_session ? op->finish_session.session : 0;
}

/* ---- all commands ---- */

static int
compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The changes of a command that is permitted. */
static void
add_changes(const struct tree *t, const struct asker *a, const struct op *op, uint64_t node,
            struct footprint *f)
{
	const uint64_t id = ended_by(op);
	const struct session *ended = id == 0 ? NULL : session_find(t, id);
	const struct node *n = wire_op_changes_node(op->code) ? node_find(t, node) : NULL;

	must(f->n == 0);
	if (ended != NULL)
		add_part(f, t, ended);
	else if (op->code == OP_purge_name)
		acl_purge_changes(t, op->purge_name.name, f);
	else if (op->code == OP_transaction)
		transaction_changes(t, a->session, a->who, &op->transaction, f);
	else if (n != NULL && node_passes(n, op)) {
		footprint_add(f, n->number);
		if (is_of_rights(n))
			footprint_add(f, KEY_RIGHTS);
	} else if (n == NULL && names_pass(t, a, op, node)) {
		tree_footprint(t, a->session, op, node, f);
	}
	if (f->n > 1)
		qsort(f->keys, f->n, sizeof *f->keys, compare);
}

void
tree_changes(const struct tree *t, const struct requester *requester, const struct op *op,
             uint64_t node, struct footprint *f)
{
	const struct subject who = session_subject_of(t, requester);
	const struct asker asker = {requester->session, &who};

	if (permission_missing(t, requester, &who, op).node == 0)
		add_changes(t, &asker, op, node, f);
}

/* ---- what a command carries ---- */

static bool
is_listed(const struct wire_list *keys, uint64_t key)
{
	size_t low = 0, high = keys->count;

	while (low < high) {
		const size_t middle = (low + high) / 2, at = middle * sizeof key;
		struct cursor c = cursor_of((struct bytes){keys->packed.data + at, sizeof key});
		const uint64_t there = cursor_u64(&c);

		if (there == key)
			return true;
		if (there < key)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static bool
all_listed(const struct wire_list *keys, const struct footprint *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (!is_listed(keys, f->keys[i]))
			return false;
	return true;
}

static bool
node_is_declared(const struct tree *t, const struct tree_command *c)
{
	const struct wire_list *keys = &c->command.keys;
	const struct node *n = node_find(t, c->node);

	if (n == NULL || !node_passes(n, &c->op))
		return true;
	return is_listed(keys, n->number) && (!is_of_rights(n) || is_listed(keys, KEY_RIGHTS));
}

bool
changes_are_declared(const struct execution *x)
{
	const struct asker asker = {x->requester.session, &x->who};
	const struct tree_command *c = x->command;
	const struct tree *t = x->tree;
	struct footprint f = {0};
	bool declared;

	if (!c->command.bounded || ended_by(&c->op) != 0)
		return true;
	if (wire_op_changes_node(c->op.code))
		return node_is_declared(t, c);
	add_changes(t, &asker, &c->op, c->node, &f);
	declared = all_listed(&c->command.keys, &f);
	footprint_free(&f);
	return declared;
}

bool
changes_allow_deletion(const struct execution *x, const struct node *n)
{
	const struct tree_command *c = x->command;
	struct footprint f = {0};
	bool allowed;

	if (!c->command.bounded || ended_by(&c->op) == 0)
		return true;
	add_deletion(&f, n);
	footprint_add_rights(&f, x->tree);
	allowed = all_listed(&c->command.keys, &f);
	footprint_free(&f);
	return allowed;
}
