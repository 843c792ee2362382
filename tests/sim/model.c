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

static struct item *
add_item(struct model *m, uint64_t index, uint64_t parent, struct bytes name, enum node_kind kind)
{
	struct item *it = memory_zero(1, sizeof *it), *parent_item;

	ARRAY_ROOM(m->items, m->items_n, m->items_room);
	m->items[m->items_n++] = it;
	must(name.len < sizeof it->name);
	it->node = m->next++;
	it->parent = parent;
	it->kind = kind;
	it->born = index;
	it->lock_delay_s = -1;
	it->mtime_ns = m->stamp_ns;
	it->mtime_changed = index;
	memcpy(it->name, name.data, name.len);
	if (kind == NODE_FILE)
		add_version(it, index, (struct bytes){0});
	name_changed(m, index, it, it->node);
	if ((parent_item = model_item(m, parent)) != NULL)
		parent_item->creator = 0;
	return it;
}

static bool
has_children(const struct model *m, const struct item *it)
{
	for (size_t i = 0; i < m->items_n; i++)
		if (m->items[i]->died == 0 && m->items[i]->parent == it->node)
			return true;
	return false;
}

/* An ephemeral directory goes with its last child. */
void
model_delete(struct sim *s, struct item *it, uint64_t index)
{
	struct item *parent = model_item(&s->model, it->parent);

	s->model.ended += 1 + it->holders_n;
	it->died = index;
	it->holders_n = it->openers_n = 0;
	it->delay_mode = LOCK_NONE;
	name_changed(&s->model, index, it, 0);
	if (parent->ephemeral && !has_children(&s->model, parent))
		model_delete(s, parent, index);
}

static bool
is_alive(const struct item *it)
{
	return it != NULL && it->died == 0;
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

static void
begin_epoch(struct sim *s, const struct op_begin_epoch *op)
{
	struct model *m = &s->model;

	m->epoch++;
	m->epoch_node = m->next;
	m->epoch_from = s->now;
	setting_changes_epoch(s);
	members_first(s, op->members);
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
	memcpy(s->nonce, op->nonce.data, LIMIT_NONCE);
}

static struct item *
find_opener(struct model *m, uint64_t session, uint64_t opened, struct opener **o)
{
	for (size_t i = 0; i < m->items_n; i++) {
		struct item *it = m->items[i];

		for (size_t j = 0; it->died == 0 && j < it->openers_n; j++) {
			*o = &it->openers[j];
			if ((*o)->session == session && (*o)->opened == opened)
				return it;
		}
	}
	return NULL;
}

static void
opener_add(struct item *it, struct opener o)
{
	for (size_t i = 0; i < it->openers_n; i++) {
		if (it->openers[i].session == o.session && it->openers[i].opened == o.opened)
			return;
	}
	ARRAY_ROOM(it->openers, it->openers_n, it->openers_room);
	it->openers[it->openers_n++] = o;
}

/* Wherever renames have brought it; false when the session has not opened it. */
static bool
close_ephemeral(struct sim *s, uint64_t index, uint64_t session, uint64_t opened)
{
	struct opener *o;
	struct item *it = find_opener(&s->model, session, opened, &o);

	if (it == NULL)
		return false;
	*o = it->openers[--it->openers_n];
	if (it->openers_n > 0)
		return true;
	users_check_unopened(s, it, 0);
	model_delete(s, it, index);
	return true;
}

/* The smallest number by which the session has opened something; 0: it has nothing open. */
static uint64_t
first_opened(const struct model *m, uint64_t session)
{
	uint64_t first = 0;

	for (size_t i = 0; i < m->items_n; i++) {
		const struct item *it = m->items[i];

		for (size_t j = 0; it->died == 0 && j < it->openers_n; j++)
			if (it->openers[j].session == session &&
			    (first == 0 || it->openers[j].opened < first))
				first = it->openers[j].opened;
	}
	return first;
}

/* A lease is a promise: nobody's session may end as expired while its client believes in it, unless
 * the client itself, or the one that took its place, says so. */
static void
check_expiry(struct sim *s, uint64_t session, bool by_master)
{
	if (!sim_leases_hold(s) || s->script != NULL) /* an operator may say so, too */
		return;
	for (int i = 0; by_master && i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		if (m->session == session && machine_leased(s, m))
			sim_fail(s, "session %lu is expired, and its client's lease holds",
			         (unsigned long)session);
	}
	/* Nobody knows what the master before had promised: each session has a lease anew. */
	if (by_master && s->now - s->model.epoch_from <
	                     setting_changes_least(s, SETTING_session_lease) / 100 * 98)
		sim_fail(s, "session %lu is expired, and its master is new",
		         (unsigned long)session);
}

/* What it has goes piece by piece: locks, opens, directories that never had a child. */
static void
go_on_ending(struct sim *s, uint64_t index, const struct model_session *session)
{
	struct model *m = &s->model;
	const size_t most = s->swarm.ending;
	struct item **it, **const end = m->items + m->items_n;
	uint64_t opened;

	m->ended = 0;
	for (it = m->items; it < end; it++)
		while (m->ended < most && (*it)->died == 0 &&
		       locks_session_ends(s, *it, index, session->id, session->expired))
			m->ended++;
	while (m->ended < most && (opened = first_opened(m, session->id)) != 0)
		if (close_ephemeral(s, index, session->id, opened))
			m->ended++;
	for (it = m->items; it < end && m->ended < most; it++)
		if ((*it)->died == 0 && (*it)->creator == session->id)
			model_delete(s, *it, index);
}

/* A master goes on with it however often; at the end of a run nothing may be left. */
static void
finish_session(struct sim *s, uint64_t index, uint64_t id)
{
	const struct model_session *session = session_of(&s->model, id);

	if (session == NULL || session->alive)
		sim_fail(s, "the end of session %lu goes on, and it lives", (unsigned long)id);
	go_on_ending(s, index, session);
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
	if (c->session != op->session && op->nonce.len > 0)
		machine_session_destroyed(s, op->session);
	session->alive = false;
	session->expired = expired;
	go_on_ending(s, index, session);
	history_waits_over(s, op->session);
	return RC_OK;
}

/* ---- files ---- */

/* Those who write a counter hold its lock and have read it: no value is ever lost or doubled. */
static void
check_counter(struct sim *s, const struct item *it, struct bytes before, struct bytes after)
{
	char old[24] = "", new[24] = "";

	if (strncmp(it->name, "counter", 7) != 0 || !sim_leases_hold(s))
		return;
	must(before.len < sizeof old && after.len < sizeof new);
	if (before.len > 0)
		memcpy(old, before.data, before.len);
	memcpy(new, after.data, after.len);
	if (strtoul(new, NULL, 10) != strtoul(old, NULL, 10) + 1)
		sim_fail(s, "%s goes from %s to %s", it->name, old, new);
}

/* Times of files grow with their versions, whatever the clocks do, unless somebody has set one that
 * is yet to come. */
static void
changed(struct item *it, uint64_t index, int64_t at)
{
	bool set_ahead =
	    at < it->mtime_ns && (uint64_t)it->mtime_ns - (uint64_t)at > 86400ull * 1000000000;

	it->mtime_ns = at > it->mtime_ns || set_ahead ? at : it->mtime_ns + 1;
	it->mtime_changed = index;
}

static void
replaced(struct item *it, uint64_t index, int64_t by)
{
	if (it->mtime_ns == by)
		by = by < INT64_MAX ? by + 1 : INT64_MAX - 1;
	it->mtime_ns = by;
	it->mtime_changed = index;
}

static void
wrote(const struct item *it, struct outcome *want)
{
	want->node = it->node;
	want->mtime_ns = it->mtime_ns;
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
		changed(it, index, s->model.stamp_ns);
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
	changed(it, index, s->model.stamp_ns);
	wrote(it, want);
}

static void
made(struct item *it, uint64_t session)
{
	it->maker = it->kind == NODE_FILE && !it->ephemeral ? session : 0;
}

static void
found(struct item *it, uint64_t session)
{
	it->maker = it->maker == session ? session : 0;
}

static bool
is_only_session(const struct model *m, uint64_t session)
{
	for (size_t i = 0; i < m->sessions_n; i++)
		if (m->sessions[i].alive && m->sessions[i].id != session)
			return false;
	return true;
}

/* A file that others may have open is not made ephemeral; if the rule is right nobody has it. */
static bool
mark(struct sim *s, struct item *it, uint64_t session)
{
	const struct model *m = &s->model;

	if (!it->ephemeral && (it->maker != session || it->node < m->epoch_node) &&
	    !is_only_session(m, session))
		return false;
	if (!it->ephemeral)
		users_check_unopened(s, it, session);
	it->ephemeral = true;
	return true;
}

static void
create(struct sim *s, uint64_t index, uint64_t session, const struct op_create *op,
       struct outcome *want)
{
	struct item *it = model_child(&s->model, op->parent, op->name);

	if (!is_alive(model_item(&s->model, op->parent))) {
		want->rc = RC_STALE;
		return;
	}
	if (it != NULL && (op->exclusive || it->kind != op->kind)) {
		want->rc = op->exclusive                ? RC_EXIST
		           : it->kind == NODE_DIRECTORY ? RC_ISDIR
		                                        : RC_NOTDIR;
		return;
	}
	want->fresh = it == NULL;
	if (it != NULL)
		found(it, session);
	if (it == NULL) {
		it = add_item(&s->model, index, op->parent, op->name, (enum node_kind)op->kind);
		it->ephemeral = op->ephemeral;
		if (op->ephemeral && op->kind == NODE_DIRECTORY)
			it->creator = session;
		made(it, session);
	}
	if (it->ephemeral && it->kind == NODE_FILE)
		opener_add(it, (struct opener){session, it->node});
	wrote(it, want);
}

static void
rename_file(struct sim *s, uint64_t index, uint64_t session, const struct op_rename *op,
            struct outcome *want)
{
	struct item *source = model_child(&s->model, op->parent, op->name);
	struct item *target = model_child(&s->model, op->new_parent, op->new_name);

	if (!is_alive(model_item(&s->model, op->parent)) ||
	    (source != NULL && !is_alive(model_item(&s->model, op->new_parent)))) {
		want->rc = RC_STALE;
		return;
	}
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
			target->lock_delay_s = source->lock_delay_s;
			target->mtime_ns = source->mtime_ns;
			made(target, session);
		} else {
			found(target, session);
			replaced(target, index, source->mtime_ns);
		}
		add_version(target, index, bytes_copy(latest(source)->contents));
		for (size_t i = 0; target->ephemeral && i < source->openers_n; i++)
			opener_add(target, source->openers[i]);
		source->became = source->ephemeral && target->ephemeral ? target->node : 0;
		want->source = source->node;
		model_delete(s, source, index);
	}
	wrote(target, want);
}

static void
delete_file(struct sim *s, uint64_t index, const struct op_delete *op, struct outcome *want)
{
	struct item *it = model_child(&s->model, op->parent, op->name);

	if (!is_alive(model_item(&s->model, op->parent)))
		want->rc = RC_STALE;
	else if (it == NULL)
		want->rc = RC_NOENT;
	else if (it->kind != op->kind)
		want->rc = it->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	else if (has_children(&s->model, it))
		want->rc = RC_NOTEMPTY;
	if (want->rc != RC_OK)
		return;
	want->node = it->node;
	model_delete(s, it, index);
}

static void
open_or_close(struct sim *s, uint64_t index, uint64_t session, const struct op *op,
              struct outcome *want)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (op->code == OP_close_ephemeral) {
		close_ephemeral(s, index, session, wire_op_node(op));
	} else if (!is_alive(it)) {
		want->rc = RC_STALE;
	} else if (op->code == OP_make_ephemeral && !mark(s, it, session)) {
		want->rc = RC_BUSY;
	} else {
		if (it->ephemeral && it->kind == NODE_FILE)
			opener_add(it, (struct opener){session, it->node});
		wrote(it, want);
	}
}

/* What the model knows of a node's other attributes: that they can be set. */
static void
set_attribute(struct sim *s, const struct op *op, struct outcome *want)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (!is_alive(it)) {
		want->rc = RC_STALE;
		return;
	}
	if (op->code == OP_set_lock_delay)
		it->lock_delay_s = op->set_lock_delay.seconds;
	if (op->code == OP_set_mtime && it->kind == NODE_FILE) {
		it->mtime_ns = op->set_mtime.now ? s->model.stamp_ns : op->set_mtime.mtime_ns;
		it->mtime_changed = s->model.applied;
	}
	wrote(it, want);
}

static void
release_or_cancel(struct sim *s, uint64_t index, uint64_t session, const struct op *op)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (!is_alive(it))
		return;
	it->lock_changed = index;
	if (op->code == OP_release)
		locks_release(it, session, &op->release);
	else
		locks_cancel(s, index, it, session, &op->cancel);
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
		rename_file(s, index, c->session, &op->rename, want);
		return;
	case OP_delete:
		delete_file(s, index, &op->delete, want);
		return;
	case OP_set_mtime:
	case OP_set_lock_delay:
		set_attribute(s, op, want);
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
		release_or_cancel(s, index, c->session, op);
		return;
	case OP_end_session:
		want->rc = end_session(s, index, c, &op->end_session);
		return;
	case OP_finish_session:
		finish_session(s, index, op->finish_session.session);
		return;
	case OP_begin_epoch:
		begin_epoch(s, &op->begin_epoch);
		return;
	case OP_await_session:
	case OP_settle_epoch:
		return; /* nothing that a client sees, but for whom a new master waits */
	case OP_create_session:
		create_session(&s->model, &op->create_session);
		return;
	case OP_grant:
		locks_granted(s, index, &op->grant);
		return;
	case OP_delay_over:
		locks_delay_over(s, &op->delay_over);
		return;
	case OP_set_members:
		members_replace(s, index, &op->set_members);
		return;
	case OP_set_setting:
		setting_changes_apply(s, &op->set_setting);
		return;
	case OP_check_digest:
	case OP_settle_setting:
		return; /* nothing that a client sees */
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
	if (c->number != 0 && r == NULL)
		sim_fail(s, "index %lu holds a request that nobody made", (unsigned long)index);
	if (r != NULL && (r->executed != 0 || !model_alive(&s->model, c->session))) {
		trace_command(s, index, &op, r, NULL);
		return;
	}
	s->model.stamp_ns = c->stamp_ns;
	decide(s, index, c, &op, &want);
	trace_command(s, index, &op, r, &want);
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
	s->model.applied_at = s->now;
	if (payload.len == 0)
		return;
	must(wire_get_entry(payload, &entry) == RC_OK);
	at = cursor_of(entry.commands.packed);
	while (wire_next_command(&at, &c))
		command(s, index, &c);
}

/* ---- life ---- */

void
model_init(struct sim *s)
{
	struct model *m = &s->model;

	setting_changes_begin(s);
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
	free(m->slices);
	free(m->sums);
}
