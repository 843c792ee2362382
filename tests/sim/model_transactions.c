/* The model's transactions. One is done operation by operation; when one of these is refused all
 * items are put back as they were. */
#include <stdlib.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* ---- paths: all are of names in the root ---- */

static struct bytes
name_of(struct bytes path)
{
	must(path.len > 1 && path.data[0] == '/');
	return (struct bytes){path.data + 1, path.len - 1};
}

static struct item *
item_at(struct model *m, struct bytes path)
{
	return model_child(m, NODE_ROOT, name_of(path));
}

/* ---- steps ---- */

static bool
holds(struct sim *s, const struct step *at)
{
	const struct item *it = item_at(&s->model, at->path);

	if (at->kind == STEP_GENERATION)
		return it != NULL && it->kind == NODE_FILE &&
		       model_latest(it)->generation == at->generation;
	if (at->kind == STEP_HELD)
		return it != NULL && it->node == at->guard.node &&
		       !locks_guard_stale(s, &at->guard);
	return it == NULL;
}

static enum transaction_part
choose(struct sim *s, const struct op_transaction *o, unsigned *condition)
{
	struct cursor from = cursor_of(o->steps.packed);
	enum transaction_part part = PART_NONE;
	struct step at;

	*condition = 0;
	for (unsigned n = 1; wire_next_step(&from, &at); n++) {
		if (at.kind == STEP_ELSE)
			part = PART_ELSE;
		else if (at.kind != STEP_DO && *condition == 0 && !holds(s, &at))
			*condition = n;
	}
	return *condition == 0 ? PART_FIRST : part;
}

/* The next operation of the part; 0: there is none. */
static unsigned
next(struct cursor *from, unsigned n, enum transaction_part part, enum transaction_part *now,
     struct step *at)
{
	while (wire_next_step(from, at)) {
		n++;
		if (at->kind == STEP_ELSE)
			*now = PART_ELSE;
		if (at->kind == STEP_DO && *now == part)
			return n;
	}
	return 0;
}

/* The operation, on what its path leads to now. */
static enum rc
resolve(struct model *m, const struct step *at, struct op *op)
{
	const struct item *it = item_at(m, at->path), *target;

	must(wire_get_op(at->op, op) == RC_OK);
	if (op->code == OP_create) {
		op->create.parent = NODE_ROOT;
		op->create.name = name_of(at->path);
		op->create.exclusive = 1;
		return RC_OK;
	}
	if (it == NULL)
		return RC_NOENT;
	if (op->code == OP_delete) {
		op->delete = (struct op_delete){NODE_ROOT, name_of(at->path), it->kind};
		return RC_OK;
	}
	if (op->code == OP_rename) {
		target = item_at(m, at->new_path);
		op->rename = (struct op_rename){NODE_ROOT, name_of(at->path), NODE_ROOT,
		                                name_of(at->new_path), op->rename.no_replace};
		return it->ephemeral || (target != NULL && target->ephemeral) ? RC_BUSY : RC_OK;
	}
	if (op->code == OP_acquire && (it->holders_n > 0 || it->delay_mode != LOCK_NONE))
		return RC_BUSY_LOCK;
	wire_op_set_node(op, it->node);
	return RC_OK;
}

/* ---- what it declares ---- */

static void
touch(struct model *m, struct bytes path, struct footprint *f)
{
	const struct item *it = item_at(m, path);

	footprint_add(f, it != NULL ? it->node : NODE_ROOT);
}

static bool
has(const struct footprint *f, uint64_t node)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->keys[i] == node)
			return true;
	return false;
}

bool
model_transaction_declared(struct sim *s, const struct command *c, const struct op_transaction *o)
{
	struct cursor from = cursor_of(o->steps.packed);
	struct footprint touched = {0}, changed = {0}, one = {0};
	enum transaction_part part, now = PART_FIRST;
	bool refused = false, all = true;
	unsigned condition, n = 0;
	struct step at;
	struct op op;

	part = choose(s, o, &condition);
	while (!refused && (n = next(&from, n, part, &now, &at)) != 0) {
		const bool found = resolve(&s->model, &at, &op) == RC_OK;
		bool apart = true;

		one.n = 0;
		touch(&s->model, at.path, &one);
		if (at.new_path.len > 0)
			touch(&s->model, at.new_path, &one);
		if (op.code == OP_create || op.code == OP_delete || op.code == OP_rename)
			footprint_add(&one, NODE_ROOT);
		for (size_t i = 0; i < one.n; i++)
			apart &= !has(&touched, one.keys[i]);
		refused = apart && (!found || !model_permits(s, c, &op));
		for (size_t i = 0; i < one.n; i++) {
			footprint_add(&touched, one.keys[i]);
			if (op.code != OP_acquire)
				footprint_add(&changed, one.keys[i]);
		}
	}
	for (size_t i = 0; i < changed.n && !refused; i++)
		all &= declared_key(c, changed.keys[i]);
	footprint_free(&touched);
	footprint_free(&changed);
	footprint_free(&one);
	return all;
}

/* ---- all, or nothing ---- */

struct moment {
	struct item *items; /* copies, which own nothing */
	size_t items_n, names_n, changed_n, tree_n, past_n;
};

static struct moment
keep(const struct model *m)
{
	struct moment k = {memory_zero(m->items_n, sizeof *k.items),
	                   m->items_n,
	                   m->names_n,
	                   m->changed.n,
	                   m->tree.n,
	                   m->past.n};

	for (size_t i = 0; i < m->items_n; i++)
		k.items[i] = *m->items[i];
	return k;
}

/* What was added to its lists is cut off. */
static void
put_back_item(struct item *it, const struct item *former)
{
	const struct item now = *it;

	while (it->versions_n > former->versions_n)
		free((void *)it->versions[--it->versions_n].contents.data);
	*it = *former;
	it->acls = now.acls;
	it->acls_room = now.acls_room;
	it->versions = now.versions;
	it->versions_room = now.versions_room;
	it->openers = now.openers;
	it->openers_room = now.openers_room;
	it->holders = now.holders;
	it->holders_room = now.holders_room;
	it->happened.all = now.happened.all;
	it->happened.room = now.happened.room;
}

/* Numbers and fences that were taken stay used up. */
static void
put_back(struct model *m, const struct moment *k)
{
	while (m->items_n > k->items_n)
		model_free_item(m->items[--m->items_n]);
	for (size_t i = 0; i < k->items_n; i++)
		put_back_item(m->items[i], &k->items[i]);
	m->names_n = k->names_n;
	m->changed.n = k->changed_n;
	m->tree.n = k->tree_n;
	m->past.n = k->past_n;
}

static void
note_done(struct buffer *done, unsigned n, const struct op *op, struct outcome *did,
          struct outcome *want)
{
	struct step_done d = {.step = n, .node = did->node, .generation = did->generation};

	if (op->code == OP_acquire) {
		d.node = want->node = op->acquire.acquire.node;
		d.generation = want->lock_generation = did->lock_generation;
		d.fence = want->fence = did->fence;
	}
	wire_put_step_done(done, &d);
}

void
model_transaction(struct sim *s, uint64_t index, const struct command *c,
                  const struct op_transaction *o, struct outcome *want)
{
	struct command by = *c;
	struct cursor from = cursor_of(o->steps.packed);
	struct transaction_outcome *t = &want->transaction;
	struct moment before = keep(&s->model);
	struct buffer done = BUFFER(LIMIT_FRAME);
	enum transaction_part now = PART_FIRST;
	struct step at;
	unsigned n = 0;

	by.handle_rights = 0;
	t->part = choose(s, o, &t->condition);
	while (t->failed == 0 && (n = next(&from, n, t->part, &now, &at)) != 0) {
		struct outcome did = {0};
		struct op op;

		did.rc = resolve(&s->model, &at, &op);
		/* A grant in its entry, taken or not, shows that somebody waits. */
		if (did.rc == RC_OK && op.code == OP_acquire &&
		    model_item(&s->model, op.acquire.acquire.node)->named == index)
			did.rc = RC_BUSY_LOCK;
		if (did.rc == RC_OK && !model_permits(s, &by, &op))
			did.rc = RC_ACCES;
		if (did.rc == RC_OK)
			model_decide(s, index, &by, &op, &did);
		if (did.rc == RC_OK) {
			note_done(&done, n, &op, &did, want);
			continue;
		}
		t->failed = n;
		t->rc = did.rc;
	}
	must(!done.failed);
	if (t->failed != 0) {
		put_back(&s->model, &before);
		*want = (struct outcome){.transaction = *t};
		want->transaction.part = PART_NONE;
		buffer_reset(&done);
	}
	t->done = done.len > 0 ? checksum(buffer_view(&done)) : 0;
	free(before.items);
	buffer_free(&done);
}

/* ---- the answer ---- */

/* A transaction of the simulator takes one lock at most. */
void
model_transaction_told(struct outcome *got, const struct result *result)
{
	const struct result_transaction *t = &result->transaction;
	struct step_done d;
	struct cursor at;

	if (result->kind != RESULT_transaction)
		return;
	got->transaction = (struct transaction_outcome){
	    .part = (enum transaction_part)t->part,
	    .condition = t->condition,
	    .failed = t->failed,
	    .rc = (enum rc)t->rc,
	    .done = t->done.count > 0 ? checksum(t->done.packed) : 0,
	};
	at = cursor_of(t->done.packed);
	while (wire_next_step_done(&at, &d)) {
		if (d.fence == 0)
			continue;
		got->node = d.node;
		got->lock_generation = d.generation;
		got->fence = d.fence;
	}
}

void
model_check_transaction(struct sim *s, const struct record *r)
{
	const struct transaction_outcome *want = &r->want.transaction, *got = &r->got.transaction;

	if (want->part != got->part || want->condition != got->condition ||
	    want->failed != got->failed || want->rc != got->rc || want->done != got->done)
		sim_fail(s,
		         "transaction %lu.%lu is told: part %d, condition %u, step %u %s, and "
		         "should be: part %d, condition %u, step %u %s%s",
		         (unsigned long)r->session, (unsigned long)r->number, got->part,
		         got->condition, got->failed, rc_name(got->rc), want->part, want->condition,
		         want->failed, rc_name(want->rc),
		         want->done != got->done ? ", with other nodes" : "");
}
