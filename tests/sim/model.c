/* What a cell should do, once more and as simply as possible. It is fed with the entries of the log
 * in their order, decides each command, and knows every state that there ever was, so that a read
 * can be compared with the moment that it claims to show. */
#include <stdio.h>
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

struct item *
model_child(struct model *m, uint64_t parent, struct bytes name)
{
	for (size_t i = 0; i < m->items_n; i++) {
		struct item *it = m->items[i];

		if (it->died == 0 && it->parent == parent && model_named(it->name, name))
			return it;
	}
	return NULL;
}

static void
add_happening(struct happenings *to, const struct happening *h)
{
	ARRAY_ROOM(to->all, to->n, to->room);
	to->all[to->n++] = *h;
}

void
model_happened(struct model *m, struct item *it, const struct happening *h)
{
	struct happening in_tree = *h;

	add_happening(&it->happened, h);
	if (h->name[0] == '\0') {
		in_tree.parent = it->parent;
		memcpy(in_tree.name, it->name, sizeof it->name);
	}
	add_happening(&m->tree, &in_tree);
}

/* When an entry is done its events are seen from above: not those in a directory that is gone. */
static void
settle_tree(struct model *m)
{
	const size_t n = m->tree.n;

	m->tree.n = m->tree_settled;
	for (size_t i = m->tree_settled; i < n; i++) {
		struct happening h = m->tree.all[i];
		const struct item *up = model_item(m, h.parent);

		for (; up != NULL && up->parent != 0 && up->died == 0;
		     up = model_item(m, up->parent)) {
			char path[sizeof h.name];

			must((size_t)snprintf(path, sizeof path, "%s/%s", up->name, h.name) <
			     sizeof path);
			memcpy(h.name, path, sizeof path);
		}
		if (up == NULL || up->died == 0)
			add_happening(&m->tree, &h);
	}
	m->tree_settled = m->tree.n;
}

void
model_child_event(struct model *m, const struct item *it, enum watch_event_kind kind)
{
	struct item *parent = model_item(m, it->parent);
	struct happening h = {.kind = kind, .parent = it->parent};

	if (parent == NULL)
		return; /* of the root */
	memcpy(h.name, it->name, sizeof it->name);
	model_happened(m, parent, &h);
}

void
model_name_changed(struct model *m, uint64_t index, const struct item *it, uint64_t node)
{
	struct name_change *n;

	model_child_event(m, it, node != 0 ? EVENT_CHILD_ADDED : EVENT_CHILD_REMOVED);
	model_past(m, node != 0 ? CHANGE_CREATED : CHANGE_DELETED, it->node, 0);
	footprint_add(&m->changed, it->parent);
	footprint_add(&m->changed, it->node);
	ARRAY_ROOM(m->names, m->names_n, m->names_room);
	n = &m->names[m->names_n++];
	*n = (struct name_change){.index = index, .parent = it->parent, .node = node, .by = m->by};
	memcpy(n->name, it->name, sizeof n->name);
}

void
model_add_version(struct model *m, struct item *it, uint64_t index, struct bytes owned)
{
	uint64_t generation = it->versions_n == 0 ? 0 : it->versions[it->versions_n - 1].generation;

	footprint_add(&m->changed, it->node);
	ARRAY_ROOM(it->versions, it->versions_n, it->versions_room);
	it->versions[it->versions_n++] = (struct version){.index = index,
	                                                  .generation = generation + 1,
	                                                  .by = m->by,
	                                                  .contents = owned};
}

const struct version *
model_latest(const struct item *it)
{
	must(it->versions_n > 0);
	return &it->versions[it->versions_n - 1];
}

struct item *
model_add_item(struct model *m, uint64_t index, uint64_t parent, struct bytes name,
               enum node_kind kind)
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
	it->mtime_ns = it->ctime_ns = m->stamp_ns;
	it->mtime_changed = it->ctime_changed = index;
	memcpy(it->name, name.data, name.len);
	if (kind == NODE_FILE)
		model_add_version(m, it, index, (struct bytes){0});
	model_name_changed(m, index, it, it->node);
	if ((parent_item = model_item(m, parent)) != NULL)
		parent_item->creator = 0;
	model_inherit_acls(m, it, index, parent_item);
	return it;
}

bool
model_has_children(const struct model *m, const struct item *it)
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
	it->died_by = s->model.by;
	it->holders_n = it->openers_n = 0;
	it->delay_mode = LOCK_NONE;
	model_name_changed(&s->model, index, it, 0);
	if (parent->ephemeral && !model_has_children(&s->model, parent))
		model_delete(s, parent, index);
}

bool
model_item_alive(const struct item *it)
{
	return it != NULL && it->died == 0;
}

/* ---- commands ---- */

/* Why the command takes no effect, whatever it is; RC_OK: it may. */
static enum rc
refusal(struct sim *s, const struct command *c, const struct op *op)
{
	if (c->refused != RC_OK)
		return (enum rc)c->refused;
	if (c->guard.node != 0 && locks_guard_stale(s, &c->guard))
		return RC_GUARD;
	if (c->session != 0 && !model_permits(s, c, op))
		return RC_ACCES;
	return declared(s, c, op) ? RC_OK : RC_AGAIN;
}

/* Commands of which no client sees anything. */
static void
decide_unseen(struct sim *s, const struct op *op)
{
	switch (op->code) {
	case OP_begin_epoch:
		model_begin_epoch(s, &op->begin_epoch);
		return;
	case OP_await_session:
	case OP_settle_epoch:
		outstanding_decide(s, op);
		return;
	case OP_check_digest:
		agreed_told(s, op->check_digest.index);
		return;
	case OP_settle_setting:
		return;
	case OP_set_setting:
	case OP_lengthen_promise:
		setting_changes_decide(s, op);
		return;
	case OP_rotate_key:
		signing_keys_decide(s, &op->rotate_key);
		return;
	case OP_delay_over:
		locks_delay_over(s, &op->delay_over);
		return;
	case OP_unlock:
		unlocks_apply(s, s->model.applied, &op->unlock);
		return;
	case OP_add_principal:
		model_add_principal(&s->model, s->model.applied, op->add_principal.name);
		return;
	case OP_remove_principal:
		guest_removed(s);
		model_remove_principal(&s->model, op->remove_principal.name);
		return;
	case OP_rekey_principal:
		model_end_rights(&s->model, op->rekey_principal.name);
		return;
	default:
		sim_fail(s, "the model does not know %s", wire_op(op->code)->name);
	}
}

void
model_decide(struct sim *s, uint64_t index, const struct command *c, const struct op *op,
             struct outcome *want)
{
	switch (op->code) {
	case OP_create:
		model_create(s, index, c->session, &op->create, want);
		return;
	case OP_number:
		model_number(s, index, c->session, &op->number, want);
		return;
	case OP_set_contents:
		model_set_contents(s, index, &op->set_contents, want);
		return;
	case OP_append:
		model_append(s, index, &op->append, want);
		return;
	case OP_rename:
		model_rename(s, index, &op->rename, want);
		return;
	case OP_delete:
		model_delete_file(s, index, &op->delete, want);
		return;
	case OP_set_acl:
	case OP_set_mtime:
	case OP_set_lock_delay:
	case OP_set_lock_slots:
	case OP_set_ttl:
	case OP_set_quota:
		model_set_attribute(s, op, want);
		return;
	case OP_make_ephemeral:
	case OP_open_ephemeral:
	case OP_close_ephemeral:
		model_open_or_close(s, index, c->session, op, want);
		return;
	case OP_acquire:
		locks_acquire(s, index, c->session, &op->acquire.acquire, want);
		return;
	case OP_release:
	case OP_cancel:
		locks_give_back(s, index, c->session, op, want);
		return;
	case OP_transaction:
		model_transaction(s, index, c, &op->transaction, want);
		return;
	case OP_end_session:
		want->rc = model_end_session(s, index, c, &op->end_session);
		return;
	case OP_finish_session:
		model_finish_session(s, index, c, op->finish_session.session);
		return;
	case OP_purge_name:
		model_purge_name(s, index, op->purge_name.name);
		return;
	case OP_create_session:
		model_create_session(s, &op->create_session);
		return;
	case OP_grant:
		locks_granted(s, index, c, &op->grant);
		return;
	case OP_expire:
		model_expire(s, index, &op->expire);
		return;
	case OP_set_members:
		members_replace(s, index, &op->set_members);
		return;
	default:
		decide_unseen(s, op);
	}
}

/* The same request may stand in the log more than once; it takes effect the first time. Only an
 * acquire that has to wait, and a command that would change more than it declares, come to nothing
 * and count again; so does an acquire whose lock was granted while it waited, and taken by an
 * operator. */
static bool
counts(struct sim *s, const struct record *r)
{
	const struct acquire *a = &r->op.acquire.acquire;

	return r->executed == 0 || (r->op.code == OP_acquire && r->by_another &&
	                            unlocks_has(s, a->node, r->session, a->acquisition));
}

static void
command(struct sim *s, uint64_t index, const struct command *c)
{
	struct record *r = c->number == 0 ? NULL : history_find(s, c->session, c->number);
	struct outcome want;
	struct op op;

	must(wire_get_op(c->op, &op) == RC_OK);
	model_past_stamped(&s->model, c->stamp_ns);
	if (c->number != 0 && r == NULL)
		sim_fail(s, "index %lu holds a request that nobody made", (unsigned long)index);
	if (r != NULL && (!counts(s, r) || !model_alive(&s->model, c->session))) {
		trace_command(s, index, &op, r, NULL);
		return;
	}
	if (r != NULL && c->refused != RC_OK && c->refused != RC_NOSPC)
		sim_fail(s, "request %lu.%lu is in the log as refused, and the disks are not full",
		         (unsigned long)c->session, (unsigned long)c->number);
	if (r != NULL && c->refused == RC_OK && !bytes_equal(r->user, c->user))
		sim_fail(s, "request %lu.%lu is in the log for another user",
		         (unsigned long)c->session, (unsigned long)c->number);
	if (r != NULL && c->refused == RC_OK && !bytes_equal(r->encoded, c->op))
		sim_fail(s, "request %lu.%lu is in the log, and is another one than was made",
		         (unsigned long)c->session, (unsigned long)c->number);
	if (r != NULL && c->refused == RC_OK && !digits_allow(s, r, c->handle_rights))
		sim_fail(s, "request %lu.%lu is in the log with rights %u that were not shown",
		         (unsigned long)c->session, (unsigned long)c->number, c->handle_rights);
	s->model.stamp_ns = c->stamp_ns;
	s->model.by = r;
	outstanding_check(s, &op);
	want = (struct outcome){.rc = refusal(s, c, &op)};
	if (want.rc == RC_OK)
		model_decide(s, index, c, &op, &want);
	trace_command(s, index, &op, r, &want);
	model_rights_changed(s, &op);
	cached_check(s, &op);
	if (op.code == OP_acquire && want.rc == RC_OK)
		locks_took(s, index, c->session, &op.acquire.acquire, &want);
	if (r == NULL || want.rc == RC_AGAIN ||
	    (op.code == OP_acquire && want.rc == RC_BUSY_LOCK && op.acquire.acquire.wait))
		return;
	r->executed = index;
	r->refused = c->refused != RC_OK;
	r->by_another = false;
	r->want = want;
	history_executed(s, r);
}

/* A new master counts the time of a file anew. */
static bool
outlives(const struct sim *s, const struct item *it)
{
	const int64_t least = (it->ttl_s + 60) * SECOND;

	return model_item_alive(it) && it->ttl_s > 0 && s->now - it->ttl_from > least &&
	       s->now - s->model.epoch_from > least;
}

void
model_check_end(struct sim *s)
{
	agreed_check_end(s);
	for (size_t i = 0; i < s->model.items_n; i++)
		if (outlives(s, s->model.items[i]))
			sim_fail(s, "%s outlives its time to live", s->model.items[i]->name);
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
	agreed_applied(s, index);
	if (payload.len == 0)
		return;
	must(wire_get_entry(payload, &entry) == RC_OK);
	at = cursor_of(entry.commands.packed);
	while (wire_next_command(&at, &c))
		command(s, index, &c);
	settle_tree(&s->model);
}

/* ---- life ---- */

void
model_init(struct sim *s)
{
	struct model *m = &s->model;

	setting_changes_begin(s);
	m->next = NODE_ROOT;
	m->past.least_s = settings_value(&s->settings.now, SETTING_history_seconds);
	m->past.least_bytes = settings_value(&s->settings.now, SETTING_history_bytes);
	model_add_item(m, 0, 0, bytes_of(""), NODE_DIRECTORY);
	model_add_item(m, 0, NODE_ROOT, bytes_of("acl"), NODE_DIRECTORY);
	model_first_acls(m);
}

void
model_free_item(struct item *it)
{
	for (size_t v = 0; v < it->versions_n; v++)
		free((void *)it->versions[v].contents.data);
	free(it->versions);
	free(it->acls);
	free(it->openers);
	free(it->holders);
	free(it->happened.all);
	free(it->unlocked);
	free(it);
}

void
model_free(struct model *m)
{
	for (size_t i = 0; i < m->items_n; i++)
		model_free_item(m->items[i]);
	free(m->items);
	footprint_free(&m->changed);
	free(m->names);
	free(m->past.all);
	free(m->acl_files);
	free(m->tree.all);
	free(m->principals);
	free(m->sessions);
	free(m->digests);
	free(m->slices);
	free(m->sums);
}
