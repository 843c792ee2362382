/* A transaction: conditions, and operations of which all are done at one index, or none. Each
 * operation is decided and executed by the function that does so for a command of its own, on the
 * tree as the operations before it have left it. When one is refused the journal undoes these: it
 * has a copy of every node of each operation's footprint, and what was deleted is freed only when
 * all is done. Numbers and fences that were taken stay used up. */
#include <stdlib.h>

#include "cell/tree/internal.h"

/* ---- the journal ---- */

enum undo_kind { UNDO_CHANGE, UNDO_CREATE, UNDO_DELETE, UNDO_ACQUIRE };

struct undo {
	enum undo_kind kind;
	struct node *node;
	struct node former;    /* UNDO_CHANGE: it owns its texts; its links mean nothing */
	struct holder *holder; /* UNDO_ACQUIRE */
};

struct journal {
	struct undo *list; /* in the order in which it happened */
	size_t n, room;
	uint64_t first; /* the first number of nodes that the transaction creates */
};

static struct undo *
note(struct journal *j, enum undo_kind kind, struct node *n)
{
	ARRAY_ROOM(j->list, j->n, j->room);
	j->list[j->n] = (struct undo){.kind = kind, .node = n};
	return &j->list[j->n++];
}

void
journal_created(struct journal *j, struct node *n)
{
	note(j, UNDO_CREATE, n);
}

void
journal_deleted(struct journal *j, struct node *n)
{
	note(j, UNDO_DELETE, n);
}

static bool
is_kept(const struct journal *j, const struct node *n)
{
	for (size_t i = 0; i < j->n; i++)
		if (j->list[i].kind == UNDO_CHANGE && j->list[i].node == n)
			return true;
	return false;
}

/* Keeps what the operation is about to change of the nodes that were there before: once, unless it
 * gives them other names, which others may have had before. */
static void
keep(struct journal *j, const struct execution *x, const struct op *op)
{
	struct footprint f = {0};

	tree_footprint(x->tree, x->requester.session, op, wire_op_node(op), &f);
	for (size_t i = 0; i < f.n; i++) {
		struct node *n = node_find(x->tree, f.keys[i]), *former;

		if (n == NULL || n->number >= j->first || (op->code != OP_rename && is_kept(j, n)))
			continue;
		former = &note(j, UNDO_CHANGE, n)->former;
		*former = *n;
		former->contents = bytes_copy(n->contents);
		for (int a = 0; a < ACL_NAMES; a++)
			former->acl[a] = bytes_copy(n->acl[a]);
	}
	footprint_free(&f);
}

static void
undo(struct tree *t, struct undo *u)
{
	switch (u->kind) {
	case UNDO_CHANGE:
		node_put_back(t, u->node, &u->former);
		break;
	case UNDO_CREATE:
		node_detach(t, u->node);
		DIRTY_ROW(t, nodes, .key = {u->node->number}, .gone = true);
		removed_forget_directory(u->node);
		node_free(u->node);
		break;
	case UNDO_DELETE:
		node_attach(t, u->node);
		break;
	case UNDO_ACQUIRE:
		holder_remove(t, u->holder);
		break;
	}
}

/* Nothing is undone any more. */
static void
journal_close(struct tree *t, struct journal *j)
{
	for (size_t i = 0; i < j->n; i++) {
		struct undo *u = &j->list[i];

		if (u->kind == UNDO_DELETE)
			end_deleted(t, u->node);
		if (u->kind != UNDO_CHANGE)
			continue;
		free((void *)u->former.contents.data);
		for (int a = 0; a < ACL_NAMES; a++)
			free((void *)u->former.acl[a].data);
	}
	free(j->list);
}

/* ---- paths ---- */

/* Where a path leads. */
struct place {
	struct node *node;    /* NULL: there is nothing */
	struct node *parent;  /* NULL: it is the root, or there is no such directory either */
	struct node *deepest; /* that is there on the way */
	struct bytes name;    /* in the parent */
};

static bool
path_valid(struct bytes path)
{
	if (path.len == 0 || path.data[0] != '/')
		return false;
	for (size_t i = 1; i < path.len; i++)
		if (path.data[i] == '/' && path.data[i - 1] == '/')
			return false;
	return path.len == 1 || path.data[path.len - 1] != '/';
}

static enum rc
path_walk(const struct tree *t, struct bytes path, struct place *p)
{
	size_t at = path.len > 1 ? 0 : path.len;

	*p = (struct place){.node = node_find(t, NODE_ROOT)};
	p->deepest = p->node;
	while (at < path.len) {
		const size_t from = at + 1;

		for (at = from; at < path.len && path.data[at] != '/'; at++)
			;
		p->parent = p->node;
		p->node = NULL;
		p->name = (struct bytes){path.data + from, at - from};
		if (p->parent == NULL)
			return RC_NOENT;
		if (p->parent->kind != NODE_DIRECTORY)
			return RC_NOTDIR;
		if ((p->node = node_child(p->parent, p->name)) != NULL)
			p->deepest = p->node;
	}
	return RC_OK;
}

/* ---- steps ---- */

/* A walk through the steps of one part; `else` is none of them. */
struct steps {
	struct cursor from;
	uint32_t n; /* of the step at hand, from 1 on */
	enum transaction_part part;
	struct step at;
};

static struct steps
steps_of(const struct op_transaction *o)
{
	return (struct steps){.from = cursor_of(o->steps.packed), .part = PART_FIRST};
}

static bool
next(struct steps *s)
{
	while (wire_next_step(&s->from, &s->at)) {
		s->n++;
		if (s->at.kind != STEP_ELSE)
			return true;
		s->part = PART_ELSE;
	}
	return false;
}

/* The next operation of the part. */
static bool
next_of(struct steps *s, enum transaction_part part)
{
	while (next(s))
		if (s->part == part && s->at.kind == STEP_DO)
			return true;
	return false;
}

/* Nothing but a free lock is taken: there is no wait in a transaction, and no conversion. */
static bool
is_operation(const struct step *s, size_t *bytes)
{
	struct op op;

	if (wire_get_op(s->op, &op) != RC_OK)
		return false;
	switch (op.code) {
	case OP_create:
		return !op.create.ephemeral;
	case OP_set_contents:
		*bytes += op.set_contents.contents.len;
		return true;
	case OP_append:
		*bytes += op.append.data.len;
		return true;
	case OP_acquire:
		return op.acquire.acquire.mode == LOCK_EXCLUSIVE && !op.acquire.acquire.wait;
	case OP_rename:
		return path_valid(s->new_path);
	case OP_delete:
		return true;
	default:
		return wire_op_changes_node(op.code) && op.code != OP_make_ephemeral;
	}
}

/* The form of the transaction: conditions before all operations, at most one `else`, and within the
 * limits. */
static enum rc
check(const struct op_transaction *o)
{
	struct cursor from = cursor_of(o->steps.packed);
	size_t conditions = 0, operations = 0, others = 0, bytes = 0;
	struct step s;

	while (wire_next_step(&from, &s)) {
		if (s.kind == STEP_ELSE && others++ == 0)
			continue;
		if (s.kind < STEP_GENERATION || s.kind > STEP_DO || !path_valid(s.path))
			return RC_INVAL;
		if (s.kind == STEP_DO ? !is_operation(&s, &bytes) : operations + others > 0)
			return RC_INVAL;
		*(s.kind == STEP_DO ? &operations : &conditions) += 1;
	}
	if (conditions > LIMIT_TRANSACTION || operations > LIMIT_TRANSACTION)
		return RC_FULL;
	return bytes > LIMIT_CONTENTS ? RC_FBIG : RC_OK;
}

static bool
holds(const struct tree *t, const struct step *s)
{
	struct place p;
	const bool there = path_walk(t, s->path, &p) == RC_OK && p.node != NULL;

	switch (s->kind) {
	case STEP_GENERATION:
		return there && p.node->kind == NODE_FILE &&
		       p.node->content_generation == s->generation;
	case STEP_HELD:
		return there && p.node->number == s->guard.node &&
		       tree_guard_stale(t, &s->guard) == NULL;
	default:
		return !there;
	}
}

/* The part that is done; *condition becomes the step of the first condition that does not hold; 0:
 * all do. */
static enum transaction_part
choose(const struct tree *t, const struct op_transaction *o, uint32_t *condition)
{
	struct steps s = steps_of(o);

	*condition = 0;
	while (next(&s))
		if (s.at.kind != STEP_DO && *condition == 0 && !holds(t, &s.at))
			*condition = s.n;
	if (*condition == 0)
		return PART_FIRST;
	return s.part == PART_ELSE ? PART_ELSE : PART_NONE;
}

/* ---- operations ---- */

/* The rename of an ephemeral file would move its openers, and the mounts that have it open would
 * have to know: such a rename is refused. */
static enum rc
rename_at(const struct tree *t, const struct step *s, const struct place *from, struct op *op)
{
	struct place to;
	enum rc rc = path_walk(t, s->new_path, &to);

	if (rc != RC_OK)
		return rc;
	if (from->parent == NULL)
		return RC_XDEV;
	if (to.parent == NULL)
		return RC_ISDIR;
	if (from->node == NULL)
		return RC_NOENT;
	if (from->node->ephemeral || (to.node != NULL && to.node->ephemeral))
		return RC_BUSY;
	op->rename = (struct op_rename){from->parent->number, from->name, to.parent->number,
	                                to.name, op->rename.no_replace};
	return RC_OK;
}

/* The operation, with the nodes to which its paths lead now. */
static enum rc
op_at(const struct tree *t, const struct step *s, struct op *op)
{
	struct place p;
	enum rc rc = path_walk(t, s->path, &p);

	must(wire_get_op(s->op, op) == RC_OK);
	if (rc != RC_OK)
		return rc;
	switch (op->code) {
	case OP_create:
		if (p.parent == NULL)
			return RC_EXIST;
		op->create.parent = p.parent->number;
		op->create.name = p.name;
		op->create.exclusive = 1;
		return RC_OK;
	case OP_delete:
		if (p.parent == NULL)
			return RC_BUSY;
		if (p.node == NULL)
			return RC_NOENT;
		op->delete = (struct op_delete){p.parent->number, p.name, p.node->kind};
		return RC_OK;
	case OP_rename:
		return rename_at(t, s, &p, op);
	default:
		if (p.node == NULL)
			return RC_NOENT;
		if (op->code == OP_acquire && p.node->lock != NULL)
			return RC_BUSY_LOCK;
		wire_op_set_node(op, p.node->number);
		return RC_OK;
	}
}

void
tree_transaction_locks(const struct tree *t, const struct op_transaction *o, struct footprint *f)
{
	struct steps s = steps_of(o);
	struct place p;
	struct op op;

	if (check(o) != RC_OK)
		return;
	while (next(&s))
		if (s.at.kind == STEP_DO && wire_get_op(s.at.op, &op) == RC_OK &&
		    op.code == OP_acquire && path_walk(t, s.at.path, &p) == RC_OK && p.node != NULL)
			footprint_add(f, p.node->number);
}

/* ---- footprints ---- */

static void
add_deepest(struct footprint *f, const struct tree *t, struct bytes path)
{
	struct place p;

	path_walk(t, path, &p);
	if (p.deepest != NULL)
		footprint_add(f, p.deepest->number);
}

/* Adds all that the operation may touch if others of the transaction come before it: these can make
 * it possible, and what it names. */
static void
add_touched(struct footprint *f, const struct tree *t, uint64_t session, const struct step *s)
{
	struct op op;
	struct place p;

	add_deepest(f, t, s->path);
	if (s->new_path.len > 0)
		add_deepest(f, t, s->new_path);
	if (s->kind != STEP_DO)
		return;
	if (op_at(t, s, &op) == RC_OK)
		tree_footprint(t, session, &op, wire_op_node(&op), f);
	if (op.code == OP_delete || op.code == OP_rename) {
		path_walk(t, s->path, &p);
		if (p.node != NULL || (p.deepest != NULL && p.deepest->ephemeral))
			footprint_add_with_directories(f, p.deepest);
	}
	footprint_add_rights(f, t);
}

void
transaction_footprint(const struct tree *t, uint64_t session, const struct op_transaction *o,
                      struct footprint *f)
{
	struct steps s = steps_of(o);

	if (check(o) != RC_OK)
		return;
	while (!f->everything && next(&s)) {
		add_touched(f, t, session, &s.at);
		f->everything = f->n > LIMIT_TOUCHED;
	}
}

static bool
has(const struct footprint *f, uint64_t key)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->keys[i] == key)
			return true;
	return false;
}

static void
add_all(struct footprint *f, const struct footprint *of)
{
	for (size_t i = 0; i < of->n; i++)
		footprint_add(f, of->keys[i]);
}

/* Adds what the operations of the part may change. An operation that touches nothing which one
 * before it has touched is decided by the tree as it is: when it is refused, nothing is changed,
 * and nobody is told. False: it touches more nodes than a transaction may. */
static bool
add_part(const struct tree *t, uint64_t session, const struct subject *who,
         const struct op_transaction *o, enum transaction_part part, struct footprint *f)
{
	const struct requester requester = {.session = session};
	struct footprint touched = {0}, one = {0};
	struct steps s = steps_of(o);
	bool refused = false, apart, narrow;
	struct op op;

	while (!refused && touched.n <= LIMIT_TOUCHED && next_of(&s, part)) {
		one.n = 0;
		add_touched(&one, t, session, &s.at);
		apart = !has(&touched, KEY_RIGHTS);
		for (size_t i = 0; i < one.n && apart; i++)
			apart = !has(&touched, one.keys[i]);
		if (apart)
			refused = op_at(t, &s.at, &op) != RC_OK ||
			          permission_missing(t, &requester, who, &op).node != 0;
		add_all(&touched, &one);
		/* Nobody caches the state of a lock. */
		if (wire_get_op(s.at.op, &op) == RC_OK && op.code != OP_acquire)
			add_all(f, &one);
	}
	narrow = touched.n <= LIMIT_TOUCHED;
	if (refused || !narrow)
		f->n = 0;
	footprint_free(&one);
	footprint_free(&touched);
	return narrow;
}

void
transaction_changes(const struct tree *t, uint64_t session, const struct subject *who,
                    const struct op_transaction *o, struct footprint *f)
{
	uint32_t condition;

	if (check(o) == RC_OK)
		add_part(t, session, who, o, choose(t, o, &condition), f);
}

/* ---- apply ---- */

static void
put_done(struct buffer *to, uint32_t step, const struct op *op, const struct result *result)
{
	const struct attr *attr = wire_result_attr(result);
	struct step_done d = {.step = step, .node = wire_op_node(op)};

	if (attr != NULL) {
		d.node = attr->node;
		d.generation = attr->content_generation;
	} else if (op->code == OP_delete) {
		d.node = result->deleted.node;
	} else if (op->code == OP_acquire) {
		d.generation = result->acquired.lock_generation;
		d.fence = result->acquired.fence;
	}
	wire_put_step_done(to, &d);
}

/* A grant of the lock before the transaction in its entry is to the first waiter. When it was
 * refused the next one may be known to the master alone. */
static bool
waited_for(const struct execution *x, uint64_t lock)
{
	for (const struct tree_command *c = x->tree->commands.list; c < x->command; c++)
		if (c->op.code == OP_grant && c->op.grant.acquire.node == lock)
			return true;
	return false;
}

/* Does one operation, or says in `r` why it is refused. */
static bool
do_step(struct execution *x, const struct steps *s, struct result_transaction *r)
{
	struct buffer *done = &x->tree->done;
	struct result_refused missing = {0};
	struct result result = {0};
	struct op op;
	enum rc rc = op_at(x->tree, &s->at, &op);

	if (rc == RC_OK && op.code == OP_acquire && waited_for(x, op.acquire.acquire.node))
		rc = RC_BUSY_LOCK;
	if (rc == RC_OK) {
		missing = permission_missing(x->tree, &x->requester, &x->who, &op);
		if (missing.node != 0)
			rc = RC_ACCES;
	}
	if (rc == RC_OK) {
		result.kind = wire_op(op.code)->result;
		keep(x->journal, x, &op);
		rc = apply_operation(x, &op, &result);
	}
	if (rc == RC_OK && op.code == OP_acquire) {
		struct node *n = node_find(x->tree, wire_op_node(&op));

		note(x->journal, UNDO_ACQUIRE, n)->holder =
		    holder_find(n->lock, x->session->id, op.acquire.acquire.owner);
	}
	if (rc == RC_OK) {
		put_done(done, s->n, &op, &result);
		r->done.count++;
		return true;
	}
	r->failed = s->n;
	r->rc = (uint8_t)rc;
	r->node = missing.node;
	r->right = missing.right;
	buffer_reset(done);
	buffer_put_bytes(done, missing.acl); /* the node's own name is about to be undone */
	return false;
}

enum rc
apply_transaction(struct execution *x, const struct op_transaction *o, struct result_transaction *r)
{
	struct journal j = {.first = x->tree->nodes.next_number};
	const size_t notes = x->out->notes_n;
	struct footprint changes = {0};
	struct steps s = steps_of(o);
	bool narrow, refused = false;
	enum rc rc = check(o);

	if (rc != RC_OK)
		return rc;
	r->part = (uint8_t)choose(x->tree, o, &r->condition);
	narrow = add_part(x->tree, x->session->id, &x->who, o, r->part, &changes);
	footprint_free(&changes);
	if (!narrow)
		return RC_FULL;

	x->tree->done.limit = LIMIT_FRAME;
	buffer_reset(&x->tree->done);
	x->journal = &j;
	x->requester.handle_rights = 0;
	while (!refused && next_of(&s, r->part))
		refused = !do_step(x, &s, r);
	x->journal = NULL;
	must(!x->tree->done.failed);
	if (refused) {
		while (j.n > 0)
			undo(x->tree, &j.list[--j.n]);
		outcome_cut_notes(x->out, notes);
		r->part = PART_NONE;
		r->acl = buffer_view(&x->tree->done);
		r->done.count = 0;
	} else {
		r->done.packed = buffer_view(&x->tree->done);
	}
	journal_close(x->tree, &j);
	return RC_OK;
}
