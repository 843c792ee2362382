/* Operations and their results as text. */
#include "cell/master/sequencer.h"
#include "tests/transcripts/cell_words.h"

static void
put_path(struct buffer *to, struct sim *s, uint64_t node)
{
	const char *path = trace_path(s, node);

	buffer_printf(to, "%s", *path == '/' && path[1] != '\0' ? path + 1 : path);
}

static void
put_child(struct buffer *to, struct sim *s, uint64_t parent, struct bytes name)
{
	if (parent != NODE_ROOT) {
		put_path(to, s, parent);
		buffer_printf(to, "/");
	}
	buffer_put_bytes(to, name);
}

static void
put_text(struct buffer *to, struct bytes text)
{
	if (text.len > 40)
		buffer_printf(to, "<%zu bytes>", text.len);
	else
		buffer_printf(to, "\"%.*s\"", (int)text.len,
		              text.len > 0 ? (const char *)text.data : "");
}

static void
put_acquire(struct buffer *to, const struct acquire *a)
{
	buffer_printf(to, " by %lu %s%s acquisition %lu", (unsigned long)a->owner,
	              a->mode == LOCK_EXCLUSIVE ? "exclusive" : "shared", a->wait ? " wait" : "",
	              (unsigned long)a->acquisition);
}

/* All rights need no words. */
static void
put_rights(struct buffer *to, unsigned rights)
{
	if (rights == (RIGHT_READ | RIGHT_WRITE | RIGHT_CHANGE))
		return;
	buffer_printf(to, ", may%s%s%s%s", rights == 0 ? " nothing" : "",
	              rights & RIGHT_READ ? " read" : "", rights & RIGHT_WRITE ? " write" : "",
	              rights & RIGHT_CHANGE ? " change" : "");
}

static void
put_members(struct buffer *to, const struct wire_list *list)
{
	static const char *const roles[] =
	    {[MEMBER_VOTER] = "", [MEMBER_LEARNER] = " (learner)", [MEMBER_REMOVED] = " (removed)"};
	struct cursor at = cursor_of(list->packed);
	struct member m;

	for (int i = 0; wire_next_member(&at, &m); i++)
		buffer_printf(to, "%s%u%s", i == 0 ? "" : " ", m.id, roles[m.role]);
}

static void
put_object(struct buffer *to, struct sim *s, const struct op *op)
{
	switch (op->code) {
	case OP_create:
		put_child(to, s, op->create.parent, op->create.name);
		return;
	case OP_delete:
		put_child(to, s, op->delete.parent, op->delete.name);
		return;
	case OP_rename:
		put_child(to, s, op->rename.parent, op->rename.name);
		buffer_printf(to, " ");
		put_child(to, s, op->rename.new_parent, op->rename.new_name);
		return;
	case OP_lookup:
		put_child(to, s, op->lookup.parent, op->lookup.name);
		return;
	case OP_grant:
		put_path(to, s, op->grant.acquire.node);
		return;
	case OP_delay_over:
		put_path(to, s, op->delay_over.node);
		return;
	case OP_expire:
		put_path(to, s, op->expire.node);
		return;
	case OP_end_session:
		buffer_printf(to, "%lu%s", (unsigned long)op->end_session.session,
		              op->end_session.cause == SESSION_EXPIRED ? " as expired" : "");
		return;
	case OP_finish_session:
		buffer_printf(to, "%lu", (unsigned long)op->finish_session.session);
		return;
	case OP_await_session:
		buffer_printf(to, "%lu%s", (unsigned long)op->await_session.session,
		              op->await_session.awaited ? "" : " no more");
		return;
	case OP_set_members:
		put_members(to, &op->set_members.members);
		return;
	case OP_set_setting:
		buffer_printf(to, "%s %lu", setting_info(op->set_setting.setting)->name,
		              (unsigned long)op->set_setting.value);
		return;
	default:
		if (wire_op_node(op) != 0)
			put_path(to, s, wire_op_node(op));
		return;
	}
}

void
print_op(struct buffer *to, struct sim *s, const struct op *op)
{
	const size_t before = to->len;

	buffer_printf(to, "%s ", words_verb(op));
	put_object(to, s, op);
	if (to->data[to->len - 1] == ' ' && to->len > before)
		to->len--;
	if (op->code == OP_acquire)
		put_acquire(to, &op->acquire.acquire);
	if (op->code == OP_grant) {
		put_acquire(to, &op->grant.acquire);
		buffer_printf(to, " to session %lu", (unsigned long)op->grant.session);
	}
	if (op->code == OP_transaction)
		buffer_printf(to, " of %u steps", op->transaction.steps.count);
	if (op->code == OP_release)
		buffer_printf(to, " by %lu", (unsigned long)op->release.owner);
	if (op->code == OP_cancel)
		buffer_printf(to, " by %lu", (unsigned long)op->cancel.owner);
	if (op->code == OP_set_contents || op->code == OP_append) {
		buffer_printf(to, " ");
		put_text(to, op->code == OP_append ? op->append.data : op->set_contents.contents);
	}
}

static void
put_lock(struct buffer *to, const struct result_lock *lock)
{
	static const char *const states[] = {[LOCK_STATE_FREE] = "free",
	                                     [LOCK_STATE_SHARED] = "shared",
	                                     [LOCK_STATE_EXCLUSIVE] = "exclusive",
	                                     [LOCK_STATE_DELAYED] = "delayed"};
	struct cursor at = cursor_of(lock->holders.packed);
	struct lock_holder h;

	buffer_printf(to, "%s", states[lock->state]);
	if (lock->state == LOCK_STATE_DELAYED || lock->delay_left_s > 0)
		buffer_printf(to, ", %ld s left", (long)lock->delay_left_s);
	while (wire_next_lock_holder(&at, &h)) {
		buffer_printf(to, ", %lu of session %lu has token %lu", (unsigned long)h.owner,
		              (unsigned long)h.session, (unsigned long)h.fence);
		if (h.slot >= 0)
			buffer_printf(to, " and slot %ld", (long)h.slot);
	}
	if (lock->waiters > 0)
		buffer_printf(to, ", %lu waiting", (unsigned long)lock->waiters);
	if (lock->ttl_left_s > 0)
		buffer_printf(to, ", %u s to live", lock->ttl_left_s);
}

static void
put_names(struct buffer *to, const struct result_listing *l)
{
	struct cursor at = cursor_of(l->entries.packed);
	struct child c;

	buffer_printf(to, "ok:");
	while (wire_next_child(&at, &c))
		buffer_printf(to, " %.*s", (int)c.name.len, (const char *)c.name.data);
}

static void
put_acquired(struct buffer *to, enum rc rc, const struct result_acquired *a)
{
	if (rc == RC_QUEUED)
		buffer_printf(to, "queued%s", a->kept == LOCK_SHARED ? ", keeps shared" : "");
	else
		buffer_printf(to, "ok, lock generation %lu, token %lu",
		              (unsigned long)a->lock_generation, (unsigned long)a->fence);
}

static void
put_sequencer(struct buffer *to, struct bytes text)
{
	struct sequencer q;

	if (!sequencer_parse(text, &q)) {
		buffer_printf(to, "no sequencer");
		return;
	}
	buffer_printf(to, "%.*s, instance %lu, %s, token %lu, signed %s", (int)q.path.len,
	              (const char *)q.path.data, (unsigned long)q.instance,
	              q.mode == LOCK_EXCLUSIVE ? "exclusive" : "shared", (unsigned long)q.fence,
	              sequencer_verify(&q, signing_keys_public()) ? "by the cell" : "wrongly");
}

static void
put_transaction(struct buffer *to, const struct result_transaction *t)
{
	struct cursor at = cursor_of(t->done.packed);
	struct step_done d;

	buffer_printf(to, "ok");
	if (t->condition != 0)
		buffer_printf(to, ", condition %u does not hold", t->condition);
	if (t->part == PART_NONE)
		buffer_printf(to, ", nothing is done");
	if (t->failed != 0)
		buffer_printf(to, ": step %u: %s", t->failed, rc_name((enum rc)t->rc));
	while (wire_next_step_done(&at, &d)) {
		buffer_printf(to, ", %u: node %lu", d.step, (unsigned long)d.node);
		if (d.fence != 0)
			buffer_printf(to, " lock generation %lu, token %lu",
			              (unsigned long)d.generation, (unsigned long)d.fence);
		else if (d.generation != 0)
			buffer_printf(to, " generation %lu", (unsigned long)d.generation);
	}
}

void
print_result(struct buffer *to, const struct op *op, enum rc rc, struct bytes raw)
{
	struct result r;

	if ((rc != RC_OK && rc != RC_QUEUED) ||
	    wire_get_result(wire_op(op->code)->result, raw, &r) != RC_OK) {
		buffer_printf(to, "%s", rc_name(rc));
		return;
	}
	switch (r.kind) {
	case RESULT_attr:
		buffer_printf(to, "ok, generation %lu%s",
		              (unsigned long)r.attr.attr.content_generation,
		              r.attr.attr.ephemeral ? ", ephemeral" : "");
		put_rights(to, r.attr.attr.rights);
		return;
	case RESULT_numbered:
		buffer_printf(to, "ok, number %lu, node %lu", (unsigned long)r.numbered.number,
		              (unsigned long)r.numbered.attr.node);
		return;
	case RESULT_created:
		buffer_printf(to, "ok, node %lu%s", (unsigned long)r.created.attr.node,
		              r.created.fresh ? "" : ", which was there");
		return;
	case RESULT_contents:
		buffer_printf(to, "ok, ");
		put_text(to, r.contents.contents);
		return;
	case RESULT_listing:
		put_names(to, &r.listing);
		return;
	case RESULT_lock:
		put_lock(to, &r.lock);
		return;
	case RESULT_acquired:
		put_acquired(to, rc, &r.acquired);
		return;
	case RESULT_transaction:
		put_transaction(to, &r.transaction);
		return;
	case RESULT_sequencer:
		put_sequencer(to, r.sequencer.sequencer);
		return;
	default:
		buffer_printf(to, "ok");
		return;
	}
}
