/* What reads show, compared with the moment of the model that they claim to show; and the tree at
 * the end, item by item. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* ---- what was when ---- */

/* Which node had this name at `index`; 0: none. */
static uint64_t
name_at(const struct model *m, uint64_t index, uint64_t parent, struct bytes name)
{
	for (size_t i = m->names_n; i-- > 0;) {
		const struct name_change *n = &m->names[i];

		if (n->index <= index && n->parent == parent && model_named(n->name, name))
			return n->node;
	}
	return 0;
}

/* ---- reads ---- */

/* Whoever is told that nothing is new has it already. The contents themselves: judgement.c. */
static void
check_contents(struct sim *s, const struct record *r, const struct item *it)
{
	if (r->got.same &&
	    (r->op.get_contents.generation != r->got.generation || r->contents.len > 0))
		sim_fail(s, "read %lu.%lu of node %lu shows generation %lu as known",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)it->node, (unsigned long)r->got.generation);
	if (it->mtime_changed <= r->index && it->mtime_ns != r->got.mtime_ns)
		sim_fail(s, "read %lu.%lu of node %lu shows time %ld, not %ld",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)it->node, (long)r->got.mtime_ns, (long)it->mtime_ns);
	if (it->ctime_changed <= r->index && it->ctime_ns != r->got.ctime_ns)
		sim_fail(s, "read %lu.%lu of node %lu shows change time %ld, not %ld",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)it->node, (long)r->got.ctime_ns, (long)it->ctime_ns);
}

static void
check_listing(struct sim *s, const struct record *r, const struct result_listing *result)
{
	struct cursor at = cursor_of(result->entries.packed);
	struct child child = {0};
	size_t seen = 0, want = 0;

	if (result->index != r->index && !r->cached)
		sim_fail(s, "listing %lu.%lu at %lu shows the names of %lu",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)r->index, (unsigned long)result->index);
	while (wire_next_child(&at, &child)) {
		seen++;
		if (name_at(&s->model, r->index, r->op.get_listing.node, child.name) != child.node)
			sim_fail(s, "listing %lu.%lu shows %.*s as node %lu",
			         (unsigned long)r->session, (unsigned long)r->number,
			         (int)child.name.len, (const char *)child.name.data,
			         (unsigned long)child.node);
	}
	for (size_t i = 0; i < s->model.items_n; i++) {
		const struct item *it = s->model.items[i];

		want += it->parent == r->op.get_listing.node && it->born <= r->index &&
		        (it->died == 0 || it->died > r->index) &&
		        (!result->more || bytes_compare(bytes_of(it->name), child.name) <= 0);
	}
	if (seen != want)
		sim_fail(s, "listing %lu.%lu at %lu has %zu children and should have %zu",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)r->index, seen, want);
}

static bool
has_its_slot(const struct item *it, const struct lock_holder *h)
{
	for (size_t i = 0; i < it->holders_n; i++)
		if (it->holders[i].session == h->session && it->holders[i].owner == h->owner)
			return h->slot == (it->slots > 0 ? it->holders[i].slot : -1);
	return false;
}

static bool
is_lock(const struct item *it, const struct result_lock *result)
{
	enum lock_state state = it->delay_mode != LOCK_NONE ? LOCK_STATE_DELAYED : LOCK_STATE_FREE;

	struct cursor rest = cursor_of(result->holders.packed);
	struct lock_holder h;

	if (it->holders_n > 0)
		state = it->holders[0].now.mode == LOCK_EXCLUSIVE ? LOCK_STATE_EXCLUSIVE
		                                                  : LOCK_STATE_SHARED;
	while (wire_next_lock_holder(&rest, &h))
		if (!has_its_slot(it, &h))
			return false;
	return result->state == state && result->holders.count == it->holders_n &&
	       result->lock_generation == it->lock_generation;
}

/* Of locks only the newest state is known. */
static void
check_lock(struct sim *s, const struct record *r, const struct item *it,
           const struct result_lock *result)
{
	if (it->lock_changed > r->index || it->died != 0)
		return;
	if (!is_lock(it, result) || result->delay_left_s > it->delay_s)
		sim_fail(s, "read %lu.%lu shows the lock of %s in state %u with %u holders",
		         (unsigned long)r->session, (unsigned long)r->number,
		         trace_path(s, it->node), result->state, result->holders.count);
}

static void
check_sequencer(struct sim *s, const struct record *r, const struct item *it,
                const struct result_sequencer *result)
{
	uint64_t fence =
	    0; /* the newest of the session's; of those of the process, if it has one */
	bool own = false;

	if (it->lock_changed > r->index || it->died != 0)
		return;
	for (size_t i = 0; i < it->holders_n; i++) {
		const struct holder *h = &it->holders[i];
		const bool its = h->pid == r->op.get_sequencer.pid;

		if (h->session != r->session || own > its || (own == its && h->now.fence <= fence))
			continue;
		fence = h->now.fence;
		own = its;
	}
	if (r->rc != (fence != 0 ? RC_OK : RC_NODATA) || (fence != 0 && result->fence != fence))
		sim_fail(s, "sequencer %lu.%lu of %s: %s", (unsigned long)r->session,
		         (unsigned long)r->number, trace_path(s, it->node), rc_name(r->rc));
}

/* A sequencer is the cell's as long as one of the keys is that signed it. */
static void
check_checked(struct sim *s, const struct record *r, const struct result_checked *result)
{
	if (r->rc != RC_OK)
		sim_fail(s, "the check of a sequencer is answered %s", rc_name(r->rc));
	if (result->guard.node == 0 && s->model.keys.rotations == 0)
		sim_fail(s, "a sequencer is refused: %.*s", (int)result->why.len,
		         (const char *)result->why.data);
	if (result->guard.node != 0 && r->index == s->model.applied &&
	    (result->why.len > 0) != locks_guard_stale(s, &result->guard))
		sim_fail(s, "a sequencer of %s is said to be %s", trace_path(s, result->guard.node),
		         result->why.len > 0 ? "stale" : "valid");
}

/* The node that it finds: judgement.c. */
static void
check_lookup(struct sim *s, const struct record *r)
{
	const struct item *parent = model_item(&s->model, r->op.lookup.parent);
	const bool dead = parent == NULL || (parent->died != 0 && parent->died <= r->index);

	if (dead != (r->rc == RC_STALE) || (!dead && r->rc != RC_OK && r->rc != RC_NOENT))
		sim_fail(s, "a lookup in a %s directory is answered %s", dead ? "dead" : "living",
		         rc_name(r->rc));
}

void
model_check_read(struct sim *s, const struct record *r, const struct result *result)
{
	const struct item *it;

	if (r->index > s->model.applied)
		sim_fail(s, "read %lu.%lu shows index %lu of the future", (unsigned long)r->session,
		         (unsigned long)r->number, (unsigned long)r->index);
	if (r->op.code == OP_lookup) {
		check_lookup(s, r);
		return;
	}
	if (r->op.code == OP_check_sequencer) {
		check_checked(s, r, &result->checked);
		return;
	}
	it = model_item(&s->model, wire_op_node(&r->op));
	if (it == NULL || it->born > r->index || (it->died != 0 && it->died <= r->index)) {
		if (r->rc != RC_STALE)
			sim_fail(s, "read %lu.%lu of a dead node is answered %s",
			         (unsigned long)r->session, (unsigned long)r->number,
			         rc_name(r->rc));
		return;
	}
	model_check_rights(s, r, it, result);
	if (r->rc == RC_ACCES)
		return;
	if (r->rc != RC_OK && r->op.code != OP_get_sequencer)
		sim_fail(s, "read %lu.%lu of a living node is answered %s",
		         (unsigned long)r->session, (unsigned long)r->number, rc_name(r->rc));
	if (r->op.code == OP_get_lock)
		check_lock(s, r, it, &result->lock);
	else if (r->op.code == OP_get_sequencer)
		check_sequencer(s, r, it, &result->sequencer);
	else if (r->op.code == OP_get_listing)
		check_listing(s, r, &result->listing);
	else if (it->kind == NODE_FILE &&
	         (r->op.code == OP_get_contents || r->op.code == OP_get_attr))
		check_contents(s, r, it);
}

static void
check_lock_now(struct sim *s, const struct tree *t, uint64_t session, const struct item *it)
{
	struct op op = {.code = OP_get_lock, .get_lock = {.node = it->node}};
	struct buffer holders = BUFFER(LIMIT_FRAME);
	struct result result;

	if (tree_read(t, &(struct requester){.session = session}, 0, &op, &result, &holders) !=
	    RC_OK)
		sim_fail(s, "the lock of %s can't be read", trace_path(s, it->node));
	if (!is_lock(it, &result.lock))
		sim_fail(s, "the lock of %s is in state %u with %u holders, generation %lu",
		         trace_path(s, it->node), result.lock.state, result.lock.holders.count,
		         (unsigned long)result.lock.lock_generation);
	buffer_free(&holders);
}

void
model_check_locks(struct sim *s, const struct tree *t)
{
	struct tree_session session;

	if (tree_applied(t) != s->model.applied || !tree_session_after(t, 0, &session))
		return;
	for (size_t i = 0; i < s->model.items_n; i++) {
		const struct item *it = s->model.items[i];

		if (it->died == 0 && it->lock_generation > 0)
			check_lock_now(s, t, session.id, it);
	}
}

/* ---- the end ---- */

static void
check_item(struct sim *s, const struct tree *t, uint64_t session, const struct item *it)
{
	struct op op = {.code = OP_get_contents, .get_contents = {.node = it->node}};
	struct buffer scratch = BUFFER(LIMIT_FRAME); /* contents need none */
	struct result r;
	enum rc rc = tree_read(t, &(struct requester){.session = session}, 0, &op, &r, &scratch);

	if (rc == RC_ACCES && it->died == 0 &&
	    !model_has_right(s, it, s->model.applied, session, (struct bytes){0}, RIGHT_READ))
		return;
	if ((rc == RC_OK) != (it->died == 0))
		sim_fail(s, "at the end node %lu (%s) reads %s", (unsigned long)it->node, it->name,
		         rc_name(rc));
	if (rc == RC_OK &&
	    !bytes_equal(r.contents.contents, it->versions[it->versions_n - 1].contents))
		sim_fail(s, "at the end %s holds something else", it->name);
}

void
model_check_tree(struct sim *s, const struct tree *t)
{
	struct tree_session session;

	if (tree_applied(t) != s->model.applied || !tree_session_after(t, 0, &session))
		sim_fail(s, "at the end the tree stands at %lu", (unsigned long)tree_applied(t));
	for (size_t i = 0; i < s->model.items_n; i++) {
		if (s->model.items[i]->kind == NODE_FILE)
			check_item(s, t, session.id, s->model.items[i]);
	}
	model_check_usage(s, t, session.id);
}
