/* The model's commands on files and directories. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

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

/* Times grow with what they are of, whatever the clocks do, unless somebody has set one that is yet
 * to come. */
static int64_t
later(int64_t before, int64_t at)
{
	bool set_ahead = at < before && (uint64_t)before - (uint64_t)at > 86400ull * 1000000000;

	return at > before || set_ahead ? at : before + 1;
}

static void
attributes_changed(const struct model *m, struct item *it)
{
	it->ctime_ns = later(it->ctime_ns, m->stamp_ns);
	it->ctime_changed = m->applied;
}

static void
changed(const struct model *m, struct item *it, uint64_t index)
{
	it->mtime_ns = later(it->mtime_ns, m->stamp_ns);
	it->mtime_changed = index;
	attributes_changed(m, it);
}

/* Each commit renews a file that has a time to live, and so does each time that is set. */
static void
renewed(const struct sim *s, struct item *it)
{
	it->ttl_began = s->model.applied;
	it->ttl_from = s->now;
}

static void
replaced(struct item *it, uint64_t index, int64_t by)
{
	if (it->mtime_ns == by)
		by = by < INT64_MAX ? by + 1 : INT64_MAX - 1;
	it->mtime_ns = by;
	it->mtime_changed = index;
}

void
model_wrote(const struct item *it, struct outcome *want)
{
	want->node = it->node;
	want->mtime_ns = it->mtime_ns;
	want->ctime_ns = it->ctime_ns;
	want->generation = it->versions_n > 0 ? model_latest(it)->generation : 0;
	want->size = it->versions_n > 0 ? model_latest(it)->contents.len : 0;
}

void
model_set_contents(struct sim *s, uint64_t index, const struct op_set_contents *op,
                   struct outcome *want)
{
	struct item *it = model_item(&s->model, op->node);

	if (it == NULL || it->died != 0) {
		want->rc = RC_STALE;
	} else if (op->guarded && op->generation != model_latest(it)->generation) {
		want->rc = RC_CANCELED;
	} else if (!model_keeps_admin(&s->model, it, op->contents)) {
		want->rc = RC_INVAL;
	} else if (!model_budgets_allow_length(&s->model, it, NULL, op->contents.len)) {
		want->rc = RC_DQUOT;
	} else {
		check_counter(s, it, model_latest(it)->contents, op->contents);
		model_add_version(&s->model, it, index, bytes_copy(op->contents));
		changed(&s->model, it, index);
		renewed(s, it);
		model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
		model_past(&s->model, CHANGE_CONTENTS, it->node, model_latest(it)->generation);
		model_wrote(it, want);
	}
}

/* The lines that name neither the principal nor users of it. */
static struct bytes
purged(struct bytes text, struct bytes principal)
{
	struct buffer rest = BUFFER(LIMIT_ACL);
	size_t end;

	for (size_t at = 0; at < text.len; at = end) {
		const uint8_t *line = text.data + at;
		const uint8_t *newline = memchr(line, '\n', text.len - at);
		const size_t len = newline == NULL ? text.len - at : (size_t)(newline - line);
		const bool named = len >= principal.len &&
		                   memcmp(line, principal.data, principal.len) == 0 &&
		                   (len == principal.len || line[principal.len] == '/');

		end = at + len + (newline != NULL);
		if (!named)
			buffer_put(&rest, line, end - at);
	}
	must(!rest.failed);
	return buffer_take(&rest);
}

bool
model_loses_name(const struct item *it, struct bytes principal)
{
	struct bytes rest;

	if (it->died != 0 || it->kind != NODE_FILE || it->versions_n == 0)
		return false;
	rest = purged(model_latest((struct item *)it)->contents, principal);
	free((void *)rest.data);
	return rest.len < model_latest((struct item *)it)->contents.len;
}

void
model_purge_name(struct sim *s, uint64_t index, struct bytes principal)
{
	for (size_t i = 0; i < s->model.acl_files_n; i++) {
		struct item *it = s->model.acl_files[i];

		if (!model_loses_name(it, principal))
			continue;
		model_add_version(&s->model, it, index,
		                  purged(model_latest(it)->contents, principal));
		changed(&s->model, it, index);
		model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
		model_past(&s->model, CHANGE_CONTENTS, it->node, model_latest(it)->generation);
	}
}

void
model_append(struct sim *s, uint64_t index, const struct op_append *op, struct outcome *want)
{
	struct item *it = model_item(&s->model, op->node);
	struct buffer all = BUFFER(LIMIT_CONTENTS);

	if (it == NULL || it->died != 0) {
		want->rc = RC_STALE;
		return;
	}
	buffer_put_bytes(&all, model_latest(it)->contents);
	buffer_put_bytes(&all, op->data);
	must(!all.failed);
	if (!model_budgets_allow_length(&s->model, it, NULL, all.len))
		want->rc = RC_DQUOT;
	else if (!model_keeps_admin(&s->model, it, buffer_view(&all)))
		want->rc = RC_INVAL;
	if (want->rc != RC_OK) {
		buffer_free(&all);
		return;
	}
	model_add_version(&s->model, it, index, buffer_take(&all));
	changed(&s->model, it, index);
	renewed(s, it);
	model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
	model_past(&s->model, CHANGE_CONTENTS, it->node, model_latest(it)->generation);
	model_wrote(it, want);
}

/* Processes that have the file open on other mounts are no openers. */
static void
mark(struct sim *s, struct item *it, uint64_t session)
{
	model_open(it, (struct opener){session, it->node});
	if (it->ephemeral)
		return;
	it->ephemeral = true;
	attributes_changed(&s->model, it);
	it->marked = s->now;
	footprint_add(&s->model.changed, it->node);
}

void
model_create(struct sim *s, uint64_t index, uint64_t session, const struct op_create *op,
             struct outcome *want)
{
	struct item *it = model_child(&s->model, op->parent, op->name);

	if (!model_item_alive(model_item(&s->model, op->parent))) {
		want->rc = RC_STALE;
		return;
	}
	if (it != NULL && (op->exclusive || it->kind != op->kind)) {
		want->rc = op->exclusive                ? RC_EXIST
		           : it->kind == NODE_DIRECTORY ? RC_ISDIR
		                                        : RC_NOTDIR;
		return;
	}
	if (it == NULL &&
	    !model_budgets_allow(&s->model, model_item(&s->model, op->parent), NULL, 1, 0)) {
		want->rc = RC_DQUOT;
		return;
	}
	want->fresh = it == NULL;
	if (it == NULL) {
		it = model_add_item(&s->model, index, op->parent, op->name,
		                    (enum node_kind)op->kind);
		it->ephemeral = op->ephemeral;
		if (op->ephemeral && op->kind == NODE_DIRECTORY)
			it->creator = session;
	}
	if (it->ephemeral && it->kind == NODE_FILE)
		model_open(it, (struct opener){session, it->node});
	model_wrote(it, want);
}

void
model_number(struct sim *s, uint64_t index, uint64_t session, const struct op_number *op,
             struct outcome *want)
{
	struct item *directory = model_item(&s->model, op->parent);
	struct op_create create = {.parent = op->parent, .kind = NODE_FILE, .exclusive = 1};
	char name[NAME_ROOM];

	if (!model_item_alive(directory)) {
		want->rc = RC_STALE;
		return;
	}
	want->number = directory->next_number;
	do {
		snprintf(name, sizeof name, "%.*s%010lu", (int)op->prefix.len,
		         (const char *)op->prefix.data, (unsigned long)want->number++);
		create.name = bytes_of(name);
	} while (model_child(&s->model, op->parent, create.name) != NULL);
	create.ephemeral = op->ephemeral;
	model_create(s, index, session, &create, want);
	want->fresh = false;
	if (want->rc == RC_OK)
		directory->next_number = want->number;
	want->number--;
}

/* Does the item's lock forbid that the command takes it away? */
static bool
is_kept(struct sim *s, const struct item *it)
{
	const struct record *by = s->model.by;

	return locks_keep(s, it, by->session, by->user);
}

void
model_rename(struct sim *s, uint64_t index, const struct op_rename *op, struct outcome *want)
{
	struct item *source = model_child(&s->model, op->parent, op->name);
	struct item *target = model_child(&s->model, op->new_parent, op->new_name);

	if (!model_item_alive(model_item(&s->model, op->parent)) ||
	    (source != NULL && !model_item_alive(model_item(&s->model, op->new_parent)))) {
		want->rc = RC_STALE;
		return;
	}
	if (source == NULL) {
		want->rc = RC_NOENT;
		return;
	}
	if (model_needs(&s->model, source)) {
		want->rc = RC_BUSY;
		return;
	}
	if (target != NULL && op->no_replace) {
		want->rc = RC_EXIST;
		return;
	}
	if (target != NULL &&
	    !model_keeps_admin(&s->model, target, model_latest(source)->contents)) {
		want->rc = RC_INVAL;
		return;
	}
	if (target == NULL && op->new_parent == NODE_ACL && source->ttl_s > 0) {
		want->rc = RC_BUSY;
		return;
	}
	if (target != source && is_kept(s, source)) {
		want->rc = RC_BUSY;
		return;
	}
	if (target == NULL ? !model_budgets_allow(&s->model, model_item(&s->model, op->new_parent),
	                                          source, 1, model_latest(source)->contents.len)
	                   : !model_budgets_allow_length(&s->model, target, source,
	                                                 model_latest(source)->contents.len)) {
		want->rc = RC_DQUOT;
		return;
	}
	if (target != source) {
		if (target == NULL) {
			target = model_add_item(&s->model, index, op->new_parent, op->new_name,
			                        NODE_FILE);
			target->ephemeral = source->ephemeral;
			target->marked = source->marked;
			target->lock_delay_s = source->lock_delay_s;
			target->slots = source->slots;
			target->ttl_s = source->ttl_s;
			model_inherit_acls(&s->model, target, index, source);
			target->mtime_ns = source->mtime_ns;
			target->ctime_ns = source->ctime_ns;
		} else {
			replaced(target, index, source->mtime_ns);
		}
		attributes_changed(&s->model, target);
		renewed(s, target);
		model_add_version(&s->model, target, index,
		                  bytes_copy(model_latest(source)->contents));
		model_child_event(&s->model, target, EVENT_CHILD_MODIFIED);
		model_past(&s->model, CHANGE_CONTENTS, target->node,
		           model_latest(target)->generation);
		for (size_t i = 0; target->ephemeral && i < source->openers_n; i++)
			model_open(target, source->openers[i]);
		source->became = source->ephemeral && target->ephemeral ? target->node : 0;
		want->source = source->node;
		model_delete(s, source, index);
	}
	model_wrote(target, want);
}

void
model_delete_file(struct sim *s, uint64_t index, const struct op_delete *op, struct outcome *want)
{
	struct item *it = model_child(&s->model, op->parent, op->name);

	if (!model_item_alive(model_item(&s->model, op->parent)))
		want->rc = RC_STALE;
	else if (it == NULL)
		want->rc = RC_NOENT;
	else if (it->kind != op->kind)
		want->rc = it->kind == NODE_DIRECTORY ? RC_ISDIR : RC_NOTDIR;
	else if (model_needs(&s->model, it))
		want->rc = RC_BUSY;
	else if (model_has_children(&s->model, it))
		want->rc = RC_NOTEMPTY;
	else if (is_kept(s, it))
		want->rc = RC_BUSY;
	if (want->rc != RC_OK)
		return;
	want->node = it->node;
	model_delete(s, it, index);
}

bool
model_is_over(struct model *m, const struct op_expire *op)
{
	const struct item *it = model_item(m, op->node);

	return model_item_alive(it) && it->ttl_s > 0 && op->began == it->ttl_began &&
	       op->generation == model_latest(it)->generation;
}

/* The master's clock may run a hundredth faster than ours. */
void
model_expire(struct sim *s, uint64_t index, const struct op_expire *op)
{
	struct item *it = model_item(&s->model, op->node);

	if (!model_is_over(&s->model, op))
		return;
	if (sim_leases_hold(s) && s->now - it->ttl_from < it->ttl_s * SECOND / 100 * 99)
		sim_fail(s, "%s expires too early", trace_path(s, it->node));
	model_delete(s, it, index);
}

void
model_open_or_close(struct sim *s, uint64_t index, uint64_t session, const struct op *op,
                    struct outcome *want)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (op->code == OP_close_ephemeral) {
		model_close(s, index, session, wire_op_node(op));
	} else if (!model_item_alive(it)) {
		want->rc = RC_STALE;
	} else if (op->code == OP_make_ephemeral && it->parent == NODE_ACL) {
		want->rc = RC_BUSY;
	} else {
		if (op->code == OP_make_ephemeral)
			mark(s, it, session);
		else if (it->ephemeral && it->kind == NODE_FILE)
			model_open(it, (struct opener){session, it->node});
		if (op->code == OP_make_ephemeral) {
			model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
			model_past(&s->model, CHANGE_ATTRIBUTES, it->node, 0);
		}
		model_wrote(it, want);
	}
}

/* What the model knows of a node's other attributes: that they can be set. */
void
model_set_attribute(struct sim *s, const struct op *op, struct outcome *want)
{
	struct item *it = model_item(&s->model, wire_op_node(op));

	if (!model_item_alive(it)) {
		want->rc = RC_STALE;
		return;
	}
	if (op->code == OP_set_acl && (want->rc = model_set_acl(s, it, &op->set_acl)) != RC_OK)
		return;
	if (op->code == OP_set_ttl && it->kind != NODE_FILE) {
		want->rc = RC_ISDIR;
		return;
	}
	if (op->code == OP_set_ttl && it->parent == NODE_ACL) {
		want->rc = RC_BUSY;
		return;
	}
	if (op->code == OP_set_quota && it->kind != NODE_DIRECTORY) {
		want->rc = RC_NOTDIR;
		return;
	}
	footprint_add(&s->model.changed, it->node);
	if (op->code == OP_set_quota)
		it->budget[op->set_quota.which] = op->set_quota.most;
	if (op->code == OP_set_lock_delay)
		it->lock_delay_s = op->set_lock_delay.seconds;
	if (op->code == OP_set_lock_slots) {
		it->slots = op->set_lock_slots.slots;
		it->lock_changed = s->model.applied;
	}
	if (op->code == OP_set_mtime && it->kind == NODE_FILE) {
		it->mtime_ns = op->set_mtime.now ? s->model.stamp_ns : op->set_mtime.mtime_ns;
		it->mtime_changed = s->model.applied;
	}
	if (op->code == OP_set_ttl)
		it->ttl_s = op->set_ttl.seconds;
	if (op->code == OP_set_ttl || op->code == OP_set_mtime)
		renewed(s, it);
	if (op->code != OP_set_mtime || it->kind == NODE_FILE) {
		attributes_changed(&s->model, it);
		model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
		model_past(&s->model, CHANGE_ATTRIBUTES, it->node, 0);
	}
	model_wrote(it, want);
}
