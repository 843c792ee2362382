/* The model's commands on files and directories. */
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

void
model_wrote(const struct item *it, struct outcome *want)
{
	want->node = it->node;
	want->mtime_ns = it->mtime_ns;
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
	} else {
		check_counter(s, it, model_latest(it)->contents, op->contents);
		model_add_version(&s->model, it, index, bytes_copy(op->contents));
		changed(it, index, s->model.stamp_ns);
		model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
		model_wrote(it, want);
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
	if (!model_keeps_admin(&s->model, it, buffer_view(&all))) {
		want->rc = RC_INVAL;
		buffer_free(&all);
		return;
	}
	model_add_version(&s->model, it, index, buffer_take(&all));
	changed(it, index, s->model.stamp_ns);
	model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
	model_wrote(it, want);
}

/* All that the master has counted become openers; whoever has the file open has to be one. */
static void
mark(struct sim *s, struct item *it, uint64_t session, const struct op_make_ephemeral *op)
{
	struct cursor at = cursor_of(op->openers.packed);
	struct session_key key;

	model_open(it, (struct opener){session, it->node});
	if (it->ephemeral)
		return;
	it->ephemeral = true;
	while (wire_next_session_key(&at, &key))
		if (model_alive(&s->model, key.session))
			model_open(it, (struct opener){key.session, it->node});
	users_check_openers(s, it);
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
	if (source->node == NODE_ACL_ADMIN) {
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
	if (target != source) {
		if (target == NULL) {
			target = model_add_item(&s->model, index, op->new_parent, op->new_name,
			                        NODE_FILE);
			target->ephemeral = source->ephemeral;
			target->lock_delay_s = source->lock_delay_s;
			model_inherit_acls(&s->model, target, index, source);
			target->mtime_ns = source->mtime_ns;
		} else {
			replaced(target, index, source->mtime_ns);
		}
		model_add_version(&s->model, target, index,
		                  bytes_copy(model_latest(source)->contents));
		model_child_event(&s->model, target, EVENT_CHILD_MODIFIED);
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
	else if (it->node == NODE_ACL || it->node == NODE_ACL_ADMIN)
		want->rc = RC_BUSY;
	else if (model_has_children(&s->model, it))
		want->rc = RC_NOTEMPTY;
	if (want->rc != RC_OK)
		return;
	want->node = it->node;
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
			mark(s, it, session, &op->make_ephemeral);
		else if (it->ephemeral && it->kind == NODE_FILE)
			model_open(it, (struct opener){session, it->node});
		if (op->code == OP_make_ephemeral)
			model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
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
	footprint_add(&s->model.changed, it->node);
	if (op->code == OP_set_lock_delay)
		it->lock_delay_s = op->set_lock_delay.seconds;
	if (op->code == OP_set_mtime && it->kind == NODE_FILE) {
		it->mtime_ns = op->set_mtime.now ? s->model.stamp_ns : op->set_mtime.mtime_ns;
		it->mtime_changed = s->model.applied;
	}
	if (op->code != OP_set_mtime || it->kind == NODE_FILE)
		model_child_event(&s->model, it, EVENT_CHILD_MODIFIED);
	model_wrote(it, want);
}
