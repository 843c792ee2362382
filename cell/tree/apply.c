#include <string.h>
#include "cell/base/checksum.h"
#include "cell/tree/internal.h"

enum rc
apply_kind_check(enum op_code code, enum node_kind kind)
{
	switch (code) {
	case OP_set_contents:
	case OP_append:
	case OP_set_ttl:
	case OP_make_ephemeral:
		return kind == NODE_FILE ? RC_OK : RC_ISDIR;
	case OP_set_quota:
		return kind == NODE_DIRECTORY ? RC_OK : RC_NOTDIR;
	default:
		return RC_OK;
	}
}

static enum rc
apply_to_node(struct execution *x, const struct op *op, struct node *n)
{
	const enum rc rc = n == NULL ? RC_STALE : apply_kind_check(op->code, n->kind);

	if (rc != RC_OK)
		return rc;
	switch (op->code) {
	case OP_set_contents:
		return apply_set_contents(x, n, &op->set_contents);
	case OP_append:
		return apply_append(x, n, &op->append);
	case OP_set_acl:
		return apply_set_acl(x, n, &op->set_acl);
	case OP_set_mtime:
		return apply_set_mtime(x, n, &op->set_mtime);
	case OP_set_lock_slots:
		return apply_set_lock_slots(x, n, &op->set_lock_slots);
	case OP_set_lock_delay:
		return apply_set_lock_delay(x, n, &op->set_lock_delay);
	case OP_set_ttl:
		return apply_set_ttl(x, n, &op->set_ttl);
	case OP_set_quota:
		return apply_set_quota(x, n, &op->set_quota);
	case OP_make_ephemeral:
		return apply_make_ephemeral(x, n);
	default:
		must(op->code == OP_open_ephemeral);
		return apply_open_ephemeral(x, n);
	}
}

/* Locks and opens are a session's. */
static bool
needs_session(enum op_code code)
{
	return code == OP_make_ephemeral || code == OP_open_ephemeral ||
	       code == OP_close_ephemeral || code == OP_acquire || code == OP_release ||
	       code == OP_cancel || code == OP_transaction;
}

enum rc
apply_operation(struct execution *x, const struct op *op, struct result *r)
{
	struct node *n;
	enum rc rc;

	if (x->session == NULL && needs_session(op->code))
		return RC_NO_SESSION;
	switch (op->code) {
	case OP_create:
		return apply_create(x, &op->create, &r->created);
	case OP_number:
		return apply_number(x, &op->number, &r->numbered);
	case OP_rename:
		return apply_rename(x, &op->rename, &r->renamed);
	case OP_delete:
		return apply_delete(x, &op->delete, &r->deleted);
	case OP_close_ephemeral:
		return apply_close_ephemeral(x, &op->close_ephemeral);
	case OP_acquire:
		return apply_acquire(x, &op->acquire.acquire, &r->acquired);
	case OP_release:
		return apply_release(x, &op->release);
	case OP_cancel:
		return apply_cancel(x, &op->cancel);
	case OP_transaction:
		return apply_transaction(x, &op->transaction, &r->transaction);
	case OP_end_session:
		return apply_end_session(x, &op->end_session);
	default:
		if (wire_op(op->code)->class != OP_CLASS_COMMAND)
			return RC_INVAL; /* a read has no place in the log */
		n = node_find(x->tree, wire_op_node(op));
		rc = apply_to_node(x, op, n);
		if (rc == RC_OK)
			node_attr(x->tree, n, &x->who, &r->attr.attr);
		return rc;
	}
}

static enum rc
decide_for_master(struct execution *x, const struct op *op, struct result *r)
{
	switch (op->code) {
	case OP_begin_epoch:
		return apply_begin_epoch(x, &op->begin_epoch);
	case OP_settle_epoch:
		return apply_settle_epoch(x, &op->settle_epoch);
	case OP_await_session:
		return apply_await_session(x, &op->await_session);
	case OP_create_session:
		return apply_create_session(x, &op->create_session, &r->session);
	case OP_finish_session:
		return apply_finish_session(x, &op->finish_session);
	case OP_grant:
		return apply_grant(x, &op->grant, &r->acquired);
	case OP_unlock:
		return apply_unlock(x, &op->unlock);
	case OP_delay_over:
		return apply_delay_over(x, &op->delay_over);
	case OP_expire:
		return apply_expire(x, &op->expire);
	case OP_set_members:
		return apply_set_members(x, &op->set_members);
	case OP_add_principal:
		return apply_add_principal(x, &op->add_principal);
	case OP_remove_principal:
		return apply_remove_principal(x, &op->remove_principal);
	case OP_purge_name:
		return apply_purge_name(x, &op->purge_name);
	case OP_rekey_principal:
		return apply_rekey_principal(x, &op->rekey_principal);
	case OP_rotate_key:
		return apply_rotate_key(x, &op->rotate_key);
	case OP_check_digest:
		return apply_check_digest(x, &op->check_digest);
	case OP_restore:
		return apply_restore(x, &op->restore);
	case OP_set_setting:
		return apply_set_setting(x, &op->set_setting);
	case OP_lengthen_promise:
		return apply_lengthen_promise(x, &op->lengthen_promise);
	case OP_settle_setting:
		return apply_settle_setting(x, &op->settle_setting);
	default:
		return RC_INVAL;
	}
}

/* An operation of the master's own is refused to a session. Before the first epoch there is no
 * cell, and every other command is refused. */
static enum rc
decide(struct execution *x, const struct tree_command *c, struct result *r)
{
	struct result_refused missing;

	if (x->tree->epochs.current == 0 && c->op.code != OP_begin_epoch)
		return RC_OLD_EPOCH;
	if (c->command.refused != RC_OK)
		return (enum rc)c->command.refused;
	missing = permission_missing(x->tree, &x->requester, &x->who, &c->op);
	if (missing.node != 0) {
		*r = (struct result){.kind = RESULT_refused, .refused = missing};
		return RC_ACCES;
	}
	if (!changes_are_declared(x))
		return RC_AGAIN;
	if (c->class != OP_CLASS_MASTER)
		return apply_operation(x, &c->op, r);
	return x->session == NULL ? decide_for_master(x, &c->op, r) : RC_PERM;
}

/* Notes the attributes in a result: with them a handle may be opened. */
static void
note_shown(struct tree_answer *a, const struct result *result)
{
	const struct attr *attr = wire_result_attr(result);

	a->shows = attr != NULL ? attr->node : 0;
	a->rights = wire_result_rights(result);
}

/* Views into the outcome's results are set when all of them are there: the buffer moves as it
 * grows. */
static void
answer(struct execution *x, const struct command *c, const struct op *op, enum rc rc,
       const struct result *result)
{
	struct tree_outcome *out = x->out;
	struct session *s = x->session; /* NULL, too, if the command has ended it */
	size_t start = out->results.len;
	struct tree_answer *a = &out->answers[out->answers_n - 1];

	if (rc == RC_OK)
		note_shown(a, result);
	if (rc == RC_OK || result->kind == RESULT_refused)
		wire_put_result(&out->results, result);
	must(!out->results.failed);
	a->rc = rc;
	a->result.len = out->results.len - start;
	a->kept = s != NULL && c->number != 0 && rc != RC_AGAIN &&
	          !(rc == RC_BUSY_LOCK && op->code == OP_acquire && op->acquire.acquire.wait);
	if (a->kept) {
		struct cached_reply k = {.number = c->number,
		                         .op = op->code,
		                         .rc = rc,
		                         .index = a->index};

		if (a->result.len > 0)
			k.result = (struct bytes){out->results.data + start, a->result.len};
		reply_cache_keep(x->tree, s, &k);
	}
}

static void
answer_again(struct execution *x, const struct cached_reply *cached)
{
	struct tree_answer *a = &x->out->answers[x->out->answers_n - 1];
	struct result result;

	if (cached->rc == RC_OK && wire_get_result(a->kind, cached->result, &result) == RC_OK)
		note_shown(a, &result);
	a->rc = cached->rc;
	a->replayed = a->kept = true;
	a->index = cached->index;
	a->result.len = cached->result.len;
	buffer_put_bytes(&x->out->results, cached->result);
	must(!x->out->results.failed);
}

static void
apply_command(struct execution *x, const struct tree_command *decoded)
{
	const struct command *c = &decoded->command;
	const struct op *op = &decoded->op;
	struct tree_outcome *out = x->out;
	struct result result;
	const struct cached_reply *cached = NULL;
	enum rc rc = RC_OK;

	ARRAY_ROOM(out->answers, out->answers_n, out->answers_room);
	out->answers[out->answers_n++] = (struct tree_answer){.session = c->session,
	                                                      .number = c->number,
	                                                      .op = op->code,
	                                                      .index = x->index,
	                                                      .kind = decoded->result};
	x->command = decoded;
	x->stamp_ns = c->stamp_ns;
	x->session = c->session == 0 ? NULL : session_live(x->tree, c->session);
	x->requester = (struct requester){c->session, c->user, c->handle_rights};
	x->who = session_subject(x->tree, x->session, c->user);
	if (x->session != NULL)
		rc = reply_cache_look(x->tree, x->session, c, op->code, &cached);
	else if (c->session != 0)
		rc = RC_NO_SESSION;
	if (rc != RC_OK) {
		out->answers[out->answers_n - 1].rc = rc;
		return;
	}
	if (cached != NULL) {
		answer_again(x, cached);
		return;
	}
	memset(&result, 0, sizeof result);
	result.kind = decoded->result;
	/* The acquisition that the requester relies on is not held any more. */
	rc = RC_GUARD;
	if (c->guard.node == 0 || tree_guard_stale(x->tree, &c->guard) == NULL)
		rc = decide(x, decoded, &result);
	answer(x, c, op, rc, &result);
}

/* Decodes the entry whole, with its operations' columns; false when any of it is malformed. */
static bool
decode(struct tree_commands *to, struct bytes payload)
{
	struct tree_command *c;
	struct cursor from;
	struct entry e;

	to->n = 0;
	if (wire_get_entry(payload, &e) != RC_OK || e.commands.count > LIMIT_ENTRY_COMMANDS)
		return false;
	from = cursor_of(e.commands.packed);
	while (to->n < e.commands.count) {
		ARRAY_ROOM(to->list, to->n, to->room);
		c = &to->list[to->n++];
		if (!wire_next_command(&from, &c->command) ||
		    wire_get_op(c->command.op, &c->op) != RC_OK)
			return false;
		c->node = wire_op_node(&c->op);
		c->class = wire_op(c->op.code)->class;
		c->result = wire_op(c->op.code)->result;
	}
	return true;
}

/* The chain covers commands and answers: replicas that differ in either are found. */
static void
extend_digest(struct tree *t, struct bytes payload, const struct tree_outcome *out)
{
	struct buffer head = BUFFER(LIMIT_FRAME);

	buffer_put_u64(&head, t->position.applied);
	buffer_put_u64(&head, payload.len);
	for (size_t i = 0; i < out->answers_n; i++) {
		buffer_put_u8(&head, out->answers[i].rc);
		buffer_put_u8(&head, out->answers[i].replayed);
		buffer_put_u64(&head, out->answers[i].index);
		buffer_put_u32(&head, out->answers[i].result.len);
	}
	must(!head.failed);
	t->position.digest = checksum_chain(t->position.digest, buffer_view(&head));
	t->position.digest = checksum_chain(t->position.digest, payload);
	t->position.digest = checksum_chain(t->position.digest, buffer_view(&out->results));
	buffer_free(&head);
}

enum rc
tree_apply(struct tree *t, uint64_t index, struct ballot origin, struct bytes payload,
           struct tree_outcome *out)
{
	struct execution x = {.tree = t, .out = out, .index = index};
	const size_t dirty = t->dirty.n;
	const bool sound = payload.len == 0 || decode(&t->commands, payload);
	const uint8_t *at;

	must(index == t->position.applied + 1);
	outcome_clear(out);
	t->position.applied = index;
	t->position.origin = origin;
	if (payload.len > 0 && sound) {
		x.alone = t->commands.n == 1;
		for (size_t i = 0; i < t->commands.n; i++)
			apply_command(&x, &t->commands.list[i]);
		at = out->results.data;
		for (size_t i = 0; i < out->answers_n; i++) {
			out->answers[i].result.data = at;
			if (at != NULL)
				at += out->answers[i].result.len;
		}
		change_history_note(&x);
	}
	extend_digest(t, payload, out);
	out->rows = t->dirty.n - dirty;
	return sound ? RC_OK : RC_BAD_MESSAGE;
}
