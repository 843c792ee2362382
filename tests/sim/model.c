/* What a cell should do, once more and as simply as possible. It is fed with the entries of the log
 * in their order, decides each command, and knows every state that there ever was, so that a read
 * can be compared with the moment that it claims to show. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* ---- items and names ---- */

struct item *
model_item(struct model *m, uint64_t node)
{
	size_t low = 0, high = m->items_n;

	while (low < high) { /* numbers grow */
		size_t middle = (low + high) / 2;

		if (m->items[middle]->node < node)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->items_n && m->items[low]->node == node ? m->items[low] : NULL;
}

static bool
is_named(const char *name, struct bytes as)
{
	return bytes_equal(bytes_of(name), as);
}

struct item *
model_child(struct model *m, uint64_t parent, struct bytes name)
{
	for (size_t i = 0; i < m->items_n; i++) {
		struct item *it = m->items[i];

		if (it->died == 0 && it->parent == parent && is_named(it->name, name))
			return it;
	}
	return NULL;
}

/* Which node had this name at `index`; 0: none. */
static uint64_t
name_at(const struct model *m, uint64_t index, uint64_t parent, struct bytes name)
{
	for (size_t i = m->names_n; i-- > 0;) {
		const struct name_change *n = &m->names[i];

		if (n->index <= index && n->parent == parent && is_named(n->name, name))
			return n->node;
	}
	return 0;
}

static void
name_changed(struct model *m, uint64_t index, const struct item *it, uint64_t node)
{
	struct name_change *n;

	ARRAY_ROOM(m->names, m->names_n, m->names_room);
	n = &m->names[m->names_n++];
	*n = (struct name_change){.index = index, .parent = it->parent, .node = node};
	memcpy(n->name, it->name, sizeof n->name);
}

static void
add_version(struct item *it, uint64_t index, struct bytes owned)
{
	uint64_t generation = it->versions_n == 0 ? 0 : it->versions[it->versions_n - 1].generation;

	ARRAY_ROOM(it->versions, it->versions_n, it->versions_room);
	it->versions[it->versions_n++] =
	    (struct version){.index = index, .generation = generation + 1, .contents = owned};
}

static const struct version *
latest(const struct item *it)
{
	must(it->versions_n > 0);
	return &it->versions[it->versions_n - 1];
}

static const struct version *
version_at(const struct item *it, uint64_t index)
{
	for (size_t i = it->versions_n; i-- > 0;) {
		if (it->versions[i].index <= index)
			return &it->versions[i];
	}
	return NULL;
}

static struct item *
add_item(struct model *m, uint64_t index, uint64_t parent, struct bytes name, enum node_kind kind)
{
	struct item *it = memory_zero(1, sizeof *it);

	ARRAY_ROOM(m->items, m->items_n, m->items_room);
	m->items[m->items_n++] = it;
	must(name.len < sizeof it->name);
	it->node = m->next++;
	it->parent = parent;
	it->kind = kind;
	it->born = index;
	memcpy(it->name, name.data, name.len);
	if (kind == NODE_FILE)
		add_version(it, index, (struct bytes){0});
	name_changed(m, index, it, it->node);
	return it;
}

void
model_delete(struct sim *s, struct item *it, uint64_t index)
{
	it->died = index;
	it->holders_n = it->openers_n = 0;
	it->delay_mode = LOCK_NONE;
	name_changed(&s->model, index, it, 0);
}

/* ---- sessions ---- */

static struct model_session *
session_of(struct model *m, uint64_t id)
{
	for (size_t i = 0; i < m->sessions_n; i++) {
		if (m->sessions[i].id == id)
			return &m->sessions[i];
	}
	return NULL;
}

bool
model_alive(const struct model *m, uint64_t session)
{
	const struct model_session *s = session_of((struct model *)m, session);

	return s != NULL && s->alive;
}

bool
model_caching(const struct model *m, uint64_t session)
{
	const struct model_session *s = session_of((struct model *)m, session);

	return s != NULL && s->caching;
}

static void
begin_epoch(struct sim *s)
{
	struct model *m = &s->model;

	m->epoch++;
	m->epoch_from = s->now;
	for (size_t i = 0; i < m->items_n; i++)
		m->items[i]->kept =
		    m->items[i]->holders_n > 0 || m->items[i]->delay_mode != LOCK_NONE;
}

static void
create_session(struct model *m, const struct op_create_session *op)
{
	struct model_session *s;

	for (size_t i = 0; i < m->sessions_n; i++) {
		if (m->sessions[i].alive &&
		    memcmp(m->sessions[i].nonce, op->nonce.data, LIMIT_NONCE) == 0)
			return;
	}
	ARRAY_ROOM(m->sessions, m->sessions_n, m->sessions_room);
	s = &m->sessions[m->sessions_n++];
	s->id = m->next++;
	s->alive = true;
	s->caching = op->caching;
	memcpy(s->nonce, op->nonce.data, LIMIT_NONCE);
}

static void
opener_add(struct item *it, uint64_t session)
{
	for (size_t i = 0; i < it->openers_n; i++) {
		if (it->openers[i] == session)
			return;
	}
	ARRAY_ROOM(it->openers, it->openers_n, it->openers_room);
	it->openers[it->openers_n++] = session;
}

static void
opener_gone(struct sim *s, struct item *it, uint64_t index, uint64_t session)
{
	for (size_t i = 0; i < it->openers_n; i++) {
		if (it->openers[i] != session)
			continue;
		it->openers[i] = it->openers[--it->openers_n];
		if (it->openers_n == 0)
			model_delete(s, it, index);
		return;
	}
}

/* A lease is a promise: nobody's session may end as expired while its client believes in it, unless
 * the client itself, or the one that took its place, says so. */
static void
check_expiry(struct sim *s, uint64_t session, bool by_master)
{
	for (int i = 0; by_master && i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		if (m->session == session && machine_leased(s, m))
			sim_fail(s, "session %lu is expired, and its client's lease holds",
			         (unsigned long)session);
	}
	/* Nobody knows what the master before had promised: each session has a lease anew. */
	if (by_master && s->now - s->model.epoch_from < s->swarm.session_lease_ms * MS / 100 * 98)
		sim_fail(s, "session %lu is expired, and its master is new",
		         (unsigned long)session);
}

static enum rc
end_session(struct sim *s, uint64_t index, const struct command *c, const struct op_end_session *op)
{
	struct model *m = &s->model;
	struct model_session *session = session_of(m, op->session);
	bool expired = op->cause == SESSION_EXPIRED;

	if (session == NULL || !session->alive)
		return RC_NO_SESSION;
	if (c->session == 0 && expired && op->nonce.len == 0 && op->epoch != m->epoch)
		return RC_OLD_EPOCH;
	check_expiry(s, op->session, c->session == 0 && expired && op->nonce.len == 0);
	session->alive = false;
	for (size_t i = 0; i < m->items_n; i++) {
		struct item *it = m->items[i];

		if (it->died != 0)
			continue;
		locks_session_ended(s, it, index, op->session, expired);
		opener_gone(s, it, index, op->session);
	}
	history_session_over(s, op->session);
	return RC_OK;
}

/* ---- files ---- */

/* Those who write a counter hold its lock and have read it: no value is ever lost or doubled. */
static void
check_counter(struct sim *s, const struct item *it, struct bytes before, struct bytes after)
{
	char old[24] = "", new[24] = "";

	if (strncmp(it->name, "counter", 7) != 0)
		return;
	must(before.len < sizeof old && after.len < sizeof new);
	if (before.len > 0)
		memcpy(old, before.data, before.len);
	memcpy(new, after.data, after.len);
	if (strtoul(new, NULL, 10) != strtoul(old, NULL, 10) + 1)
		sim_fail(s, "%s goes from %s to %s", it->name, old, new);
}

static void
wrote(const struct item *it, struct outcome *want)
{
	want->node = it->node;
	want->generation = it->versions_n > 0 ? latest(it)->generation : 0;
	want->size = it->versions_n > 0 ? latest(it)->contents.len : 0;
}

static void
set_contents(struct sim *s, uint64_t index, const struct op_set_contents *op, struct outcome *want)
{
	struct item *it = model_item(&s->model, op->node);

	if (it == NULL || it->died != 0) {
		want->rc = RC_STALE;
	} else if (op->guarded && op->generation != latest(it)->generation) {
		want->rc = RC_CANCELED;
	} else {
		check_counter(s, it, latest(it)->contents, op->contents);
		add_version(it, index, bytes_copy(op->contents));
		wrote(it, want);
	}
}

static void
append(struct sim *s, uint64_t index, const struct op_append *op, struct outcome *want)
{
	struct item *it = model_item(&s->model, op->node);
	struct buffer all = BUFFER(LIMIT_CONTENTS);

	if (it == NULL || it->died != 0) {
		want->rc = RC_STALE;
		return;
	}
	buffer_put_bytes(&all, latest(it)->contents);
	buffer_put_bytes(&all, op->data);
	must(!all.failed);
	add_version(it, index, buffer_take(&all));
	wrote(it, want);
}

static void
create(struct sim *s, uint64_t index, uint64_t session, const struct op_create *op,
       struct outcome *want)
{
	struct item *it = model_child(&s->model, op->parent, op->name);

	if (it != NULL && op->exclusive) {
		want->rc = RC_EXIST;
		return;
	}
	want->fresh = it == NULL;
	if (it == NULL) {
		it = add_item(&s->model, index, op->parent, op->name, (enum node_kind)op->kind);
		it->ephemeral = op->ephemeral;
	}
	if (it->ephemeral)
		opener_add(it, session);
	wrote(it, want);
}

static void
rename_file(struct sim *s, uint64_t index, const struct op_rename *op, struct outcome *want)
{
	struct item *source = model_child(&s->model, op->parent, op->name);
	struct item *target = model_child(&s->model, op->new_parent, op->new_name);

	if (source == NULL) {
		want->rc = RC_NOENT;
		return;
	}
	if (target != NULL && op->no_replace) {
		want->rc = RC_EXIST;
		return;
	}
	if (target != source) {
		if (target == NULL) {
			target =
			    add_item(&s->model, index, op->new_parent, op->new_name, NODE_FILE);
			target->ephemeral = source->ephemeral;
		}
		add_version(target, index, bytes_copy(latest(source)->contents));
		for (size_t i = 0; target->ephemeral && i < source->openers_n; i++)
			opener_add(target, source->openers[i]);
		want->source = source->node;
		model_delete(s, source, index);
	}
	wrote(target, want);
}

static void
delete_file(struct sim *s, uint64_t index, const struct op_delete *op, struct outcome *want)
{
	struct item *it = model_child(&s->model, op->parent, op->name);

	if (it == NULL) {
		want->rc = RC_NOENT;
		return;
	}
	want->node = it->node;
	model_delete(s, it, index);
}

static void
open_or_close(struct sim *s, uint64_t index, uint64_t session, const struct op *op,
              struct outcome *want)
{
	struct item *it = model_item(&s->model, wire_op_node(op));
	bool alive = it != NULL && it->died == 0;

	if (op->code == OP_close_ephemeral) {
		if (alive)
			opener_gone(s, it, index, session);
	} else if (!alive) {
		want->rc = RC_STALE;
	} else {
		if (op->code == OP_make_ephemeral)
			it->ephemeral = true;
		if (it->ephemeral)
			opener_add(it, session);
		wrote(it, want);
	}
}

static void
release_or_cancel(struct sim *s, uint64_t session, const struct op *op)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (it == NULL || it->died != 0)
		return;
	if (op->code == OP_release)
		locks_release(it, session, &op->release);
	else
		locks_cancel(it, session, &op->cancel);
}

/* ---- commands ---- */

static void
decide(struct sim *s, uint64_t index, const struct command *c, const struct op *op,
       struct outcome *want)
{
	*want = (struct outcome){.rc = RC_OK};
	switch (op->code) {
	case OP_create:
		create(s, index, c->session, &op->create, want);
		return;
	case OP_set_contents:
		set_contents(s, index, &op->set_contents, want);
		return;
	case OP_append:
		append(s, index, &op->append, want);
		return;
	case OP_rename:
		rename_file(s, index, &op->rename, want);
		return;
	case OP_delete:
		delete_file(s, index, &op->delete, want);
		return;
	case OP_make_ephemeral:
	case OP_open_ephemeral:
	case OP_close_ephemeral:
		open_or_close(s, index, c->session, op, want);
		return;
	case OP_acquire:
		locks_acquire(s, index, c->session, &op->acquire.acquire, want);
		return;
	case OP_release:
	case OP_cancel:
		release_or_cancel(s, c->session, op);
		return;
	case OP_end_session:
		want->rc = end_session(s, index, c, &op->end_session);
		return;
	case OP_begin_epoch:
		begin_epoch(s);
		return;
	case OP_create_session:
		create_session(&s->model, &op->create_session);
		return;
	case OP_grant:
		locks_granted(s, index, &op->grant);
		return;
	case OP_delay_over:
		locks_delay_over(s, &op->delay_over);
		return;
	default:
		sim_fail(s, "the model does not know %s", wire_op_name(op->code));
	}
}

/* The same request may stand in the log more than once; it takes effect the first time. Only an
 * acquire that has to wait comes to nothing and counts again. */
static void
command(struct sim *s, uint64_t index, const struct command *c)
{
	struct record *r = c->number == 0 ? NULL : history_find(s, c->session, c->number);
	struct outcome want;
	struct op op;

	must(wire_get_op(c->op, &op) == RC_OK);
	sim_trace(s, "log %lu: %lu.%lu %s", (unsigned long)index, (unsigned long)c->session,
	          (unsigned long)c->number, wire_op_name(op.code));
	if (c->number != 0 && r == NULL)
		sim_fail(s, "index %lu holds a request that nobody made", (unsigned long)index);
	if (r != NULL && (r->executed != 0 || !model_alive(&s->model, c->session)))
		return;
	decide(s, index, c, &op, &want);
	if (op.code == OP_acquire && want.rc == RC_OK)
		locks_took(s, index, c->session, &op.acquire.acquire, &want);
	if (r == NULL ||
	    (op.code == OP_acquire && want.rc == RC_BUSY_LOCK && op.acquire.acquire.wait))
		return;
	r->executed = index;
	r->want = want;
}

void
model_apply(struct sim *s, uint64_t index, struct bytes payload)
{
	struct entry entry;
	struct command c;
	struct cursor at;

	must(index == s->model.applied + 1);
	s->model.applied = index;
	if (payload.len == 0)
		return;
	must(wire_get_entry(payload, &entry) == RC_OK);
	at = cursor_of(entry.commands.packed);
	while (wire_next_command(&at, &c))
		command(s, index, &c);
}

/* ---- reads ---- */

static void
check_contents(struct sim *s, const struct record *r, const struct item *it)
{
	const struct version *v = version_at(it, r->index);

	if (v == NULL || v->generation != r->got.generation ||
	    (r->op.code == OP_get_contents && !bytes_equal(v->contents, r->contents)))
		sim_fail(s, "read %lu.%lu of node %lu at %lu shows generation %lu: %.*s",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)it->node, (unsigned long)r->index,
		         (unsigned long)r->got.generation, (int)r->contents.len,
		         (const char *)r->contents.data);
}

static void
check_listing(struct sim *s, const struct record *r, const struct result_listing *result)
{
	struct cursor at = cursor_of(result->entries.packed);
	struct child child;
	size_t seen = 0, want = 0;

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
		        (it->died == 0 || it->died > r->index);
	}
	if (seen != want)
		sim_fail(s, "listing %lu.%lu at %lu has %zu children and should have %zu",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (unsigned long)r->index, seen, want);
}

static void
check_lookup(struct sim *s, const struct record *r)
{
	uint64_t node = name_at(&s->model, r->index, r->op.lookup.parent, r->op.lookup.name);

	if (r->rc != (node == 0 ? RC_NOENT : RC_OK) || (node != 0 && r->got.node != node))
		sim_fail(s, "lookup %lu.%lu of %.*s at %lu finds %lu and should find %lu",
		         (unsigned long)r->session, (unsigned long)r->number,
		         (int)r->op.lookup.name.len, (const char *)r->op.lookup.name.data,
		         (unsigned long)r->index, (unsigned long)r->got.node, (unsigned long)node);
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
	it = model_item(&s->model, wire_op_node(&r->op));
	if (it == NULL || it->born > r->index || (it->died != 0 && it->died <= r->index)) {
		if (r->rc != RC_STALE)
			sim_fail(s, "read %lu.%lu of a dead node is answered %s",
			         (unsigned long)r->session, (unsigned long)r->number,
			         rc_name(r->rc));
		return;
	}
	if (r->rc != RC_OK && r->op.code != OP_get_sequencer)
		sim_fail(s, "read %lu.%lu of a living node is answered %s",
		         (unsigned long)r->session, (unsigned long)r->number, rc_name(r->rc));
	if (r->op.code == OP_get_listing)
		check_listing(s, r, &result->listing);
	else if (it->kind == NODE_FILE &&
	         (r->op.code == OP_get_contents || r->op.code == OP_get_attr))
		check_contents(s, r, it);
}

/* ---- the end ---- */

static void
check_item(struct sim *s, const struct tree *t, uint64_t session, const struct item *it)
{
	struct op op = {.code = OP_get_contents, .get_contents = {.node = it->node}};
	struct buffer encoded = BUFFER(LIMIT_FRAME);
	struct result result;
	enum rc rc = tree_read(t, session, 0, &op, &encoded);

	if ((rc == RC_OK) != (it->died == 0))
		sim_fail(s, "at the end node %lu (%s) reads %s", (unsigned long)it->node, it->name,
		         rc_name(rc));
	if (rc == RC_OK) {
		must(wire_get_result(RESULT_contents, buffer_view(&encoded), &result) == RC_OK);
		if (!bytes_equal(result.contents.contents, latest(it)->contents))
			sim_fail(s, "at the end %s holds something else", it->name);
	}
	buffer_free(&encoded);
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
}

void
model_init(struct sim *s)
{
	struct model *m = &s->model;

	m->next = NODE_ROOT;
	add_item(m, 0, 0, bytes_of(""), NODE_DIRECTORY);
	add_item(m, 0, NODE_ROOT, bytes_of("acl"), NODE_DIRECTORY);
	m->next += 2; /* the two files in it, which nobody touches here */
}

void
model_free(struct model *m)
{
	for (size_t i = 0; i < m->items_n; i++) {
		struct item *it = m->items[i];

		for (size_t v = 0; v < it->versions_n; v++)
			free((void *)it->versions[v].contents.data);
		free(it->versions);
		free(it->openers);
		free(it->holders);
		free(it);
	}
	free(m->items);
	free(m->names);
	free(m->sessions);
	free(m->digests);
	free(m->sums);
}
