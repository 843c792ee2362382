/* Commands are proposed in the order in which they are received, and the log keeps that order. A
 * request that is received again while its command is in flight is not proposed twice; when the
 * command was applied before, the tree has kept its answer. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/principal.h"
#include "cell/master/master_request.h"
#include "cell/master/internal.h"

KEYED_TREE(request_tree, m_request, link, number)

static int
by_acquire(const struct m_request *a, const struct m_request *b)
{
	const struct acquire *p = &a->acquire, *q = &b->acquire;

	return keyed_order(p->node, q->node) ?: keyed_order(p->owner, q->owner)
		?: keyed_order(p->acquisition, q->acquisition) ?: request_tree_order(a, b);
}

RB_GENERATE_INTERNAL(acquire_tree, m_request, by_name, by_acquire, __attribute__((unused)) static)

/* A request as it is received. */
struct received {
	struct msg_request msg;
	struct op op;
	uint64_t node;       /* of the operation */
	enum slot_kind slot; /* likewise */
};

/* The result of a request. */
struct shown {
	struct bytes encoded;
	uint64_t node;  /* whose attributes are in it, with which a handle may be opened; 0: none */
	uint8_t rights; /* in them */
};

/* ---- the unanswered requests ---- */

static struct m_request *
request_find(struct m_session *s, uint64_t number)
{
	return request_tree_find(&s->requests.by_number, number);
}

struct m_request *
m_request_find_acquire(struct m_session *s, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct m_request like = {
	    .acquire = {.node = node, .owner = owner, .acquisition = acquisition}};
	struct m_request *r = RB_NFIND(acquire_tree, &s->requests.acquires, &like);

	return r != NULL && r->acquire.node == node && r->acquire.owner == owner &&
	               r->acquire.acquisition == acquisition
	           ? r
	           : NULL;
}

void
m_request_withdraw(struct m_session *s, uint64_t number, uint64_t node, uint64_t owner,
                   uint64_t acquisition)
{
	struct m_request *r = m_request_find_acquire(s, node, owner, acquisition);

	if (r != NULL && r->number < number)
		r->withdrawn = true;
}

void
m_request_give_ticket(struct master *m, struct m_request *r)
{
	if (r->acquire.ticket.epoch == 0)
		r->acquire.ticket = m_ticket_next(m, r->session->id, &r->acquire);
}

static void
request_free(struct master *m, struct m_session *s, struct m_request *r)
{
	RB_REMOVE(request_tree, &s->requests.by_number, r);
	if (r->code == OP_acquire)
		RB_REMOVE(acquire_tree, &s->requests.acquires, r);
	m_lock_acquire_decided(m, r);
	s->requests.slots[r->slot]--;
	s->requests.window[r->slot] -= r->op.len;
	m_usage_drop_request(s, r->bytes);
	m_order_forget(s, r);
	if (r->pass != NULL)
		gate_abandon(&m->gate, r->pass);
	if (r->parked)
		free((void *)r->op.data);
	free((void *)r->requester.user.data);
	free(r);
}

/* ---- requests that outlive a connection ---- */

/* Forgets the answers to numbers below this one. */
static void
forget_answered(struct m_session *s, uint64_t below)
{
	struct carried_answer *a, *next;

	TAILQ_FOREACH_SAFE(a, &s->requests.answered, entry, next) {
		if (a->number >= below)
			continue;
		TAILQ_REMOVE(&s->requests.answered, a, entry);
		free(a);
	}
}

static bool
was_answered(const struct m_session *s, uint64_t number)
{
	const struct carried_answer *a;

	TAILQ_FOREACH(a, &s->requests.answered, entry)
		if (a->number == number)
			return true;
	return false;
}

void
m_request_carry(struct m_session *s)
{
	struct m_request *r;

	forget_answered(s, UINT64_MAX);
	RB_FOREACH(r, request_tree, &s->requests.by_number)
		r->carried = true;
}

void
m_request_free_all(struct master *m, struct m_session *s)
{
	struct m_request *r;

	forget_answered(s, UINT64_MAX);
	m_growth_forget_all(s);
	while ((r = RB_MIN(request_tree, &s->requests.by_number)) != NULL)
		request_free(m, s, r);
}

static struct m_request *
request_new(struct master *m, struct m_session *s, const struct received *in)
{
	const struct msg_request *msg = &in->msg;
	const struct op *op = &in->op;
	struct m_request *r = memory_zero(1, sizeof *r);

	r->session = s;
	r->requester = (struct requester){s->id, bytes_copy(msg->user), msg->handle_rights};
	r->number = msg->number;
	r->below = msg->below;
	r->guard = msg->guard;
	r->code = op->code;
	r->node = in->node;
	r->slot = in->slot;
	r->read = r->slot == SLOT_READ;
	r->ordered = msg->ordered && !r->read;
	r->generation = msg->generation;
	r->op = msg->op;
	TAILQ_INIT(&r->order.behind);
	if (r->read)
		tree_read_footprint(m->tree, op, r->node, &r->footprint);
	else
		tree_footprint(m->tree, s->id, op, r->node, &r->footprint);
	r->bytes = r->op.len + m_order_bytes(r);
	if (msg->dropped.count > 0)
		m_admission_note_dropped(r, &msg->dropped);
	must(RB_INSERT(request_tree, &s->requests.by_number, r) == NULL);
	if (op->code == OP_acquire) {
		r->acquire = op->acquire.acquire;
		must(RB_INSERT(acquire_tree, &s->requests.acquires, r) == NULL);
	}
	s->requests.slots[r->slot]++;
	s->requests.window[r->slot] += r->op.len;
	return r;
}

static struct shown
show(enum rc rc, const struct result *result, struct buffer *encoded)
{
	const struct attr *attr = rc == RC_OK ? wire_result_attr(result) : NULL;

	wire_put_result(encoded, result);
	must(!encoded->failed);
	return attr == NULL ? (struct shown){.encoded = buffer_view(encoded)}
	                    : (struct shown){buffer_view(encoded), attr->node, attr->rights};
}

static void
reply_with_leave(struct master *m, struct m_session *s, struct m_request *r, enum rc rc,
                 uint64_t index, const struct shown *shown, uint64_t leave)
{
	uint8_t digits[LIMIT_CHECK];
	struct message reply =
	    MESSAGE(reply, .number = r->number, .rc = rc, .index = index, .result = shown->encoded,
	            .generation = r->generation, .leave = leave,
	            .check = m_proof_for(m, &r->requester, shown->node, shown->rights, digits));

	if (s->connection != NULL)
		m_connection_send(m, s->connection, &reply);
	if (r->carried) {
		struct carried_answer *a = memory_zero(1, sizeof *a);

		a->number = r->number;
		TAILQ_INSERT_TAIL(&s->requests.answered, a, entry);
	}
	if (!TAILQ_EMPTY(&r->order.behind))
		m_order_wake(m, r);
	request_free(m, s, r);
}

void
m_request_reply(struct master *m, struct m_session *s, struct m_request *r, enum rc rc,
                const struct result *result)
{
	struct buffer encoded = BUFFER(LIMIT_FRAME - 1024);
	struct shown shown = {0};

	if (result != NULL)
		shown = show(rc, result, &encoded);
	reply_with_leave(m, s, r, rc, m->applied, &shown, 0);
	buffer_free(&encoded);
}

/* ---- leave to cache ---- */

/* Lock state is never cached, nor a page of a listing but the first. */
static bool
read_is_cachable(const struct op *op, enum rc rc)
{
	if (op->code == OP_lookup)
		return rc == RC_OK || rc == RC_NOENT;
	if (op->code == OP_get_listing)
		return rc == RC_OK && op->get_listing.index == 0;
	return rc == RC_OK && (op->code == OP_get_attr || op->code == OP_get_contents);
}

/* The answer to a command shows its node as it is now; that to a create or a delete, what the name
 * stands for in the directory. */
static uint64_t
command_leave(struct master *m, struct m_session *s, const struct m_request *r,
              const struct tree_answer *answer)
{
	uint64_t keys[3] = {r->node, KEY_RIGHTS};
	size_t n = 2;

	if (r->generation == 0 || answer->rc != RC_OK || answer->replayed)
		return 0;
	/* An ephemeral directory goes with its last name: there is no name in it any more, not even
	 * an absent one. */
	if (answer->kind != RESULT_attr && answer->kind != RESULT_created &&
	    !(answer->op == OP_delete && tree_has_node(m->tree, r->node)))
		return 0;
	if (answer->kind == RESULT_created)
		keys[n++] = answer->shows;
	return m_cache_leave(m, s, r, keys, n);
}

/* ---- beginning ---- */

static void
begin_read(struct master *m, struct m_session *s, struct m_request *r, const struct op *op)
{
	struct buffer scratch = BUFFER(LIMIT_FRAME), encoded = BUFFER(LIMIT_FRAME - 1024);
	struct shown shown = {0};
	struct result result;
	enum rc rc = m_read_answer(m, &r->requester, &r->guard, op, &result, &scratch);

	if (rc == RC_OK || rc == RC_ACCES)
		shown = show(rc, &result, &encoded);
	reply_with_leave(m, s, r, rc, m->applied, &shown,
	                 read_is_cachable(op, rc)
	                     ? m_cache_leave(m, s, r, r->footprint.keys, r->footprint.n)
	                     : 0);
	buffer_free(&encoded);
	buffer_free(&scratch);
}

static void
begin(struct master *m, struct m_session *s, struct m_request *r, const struct op *op)
{
	if (r->read) {
		begin_read(m, s, r, op);
	} else if (m->full && m_growth_refuse(m, s, r, op)) {
		return;
	} else if (op->code == OP_acquire) {
		m_lock_acquire(m, s, r);
	} else if (op->code == OP_release) {
		m_lock_release(m, s, r, &op->release);
	} else if (op->code == OP_cancel) {
		m_lock_cancel(m, s, r, &op->cancel);
	} else if (op->code == OP_end_session) {
		m_lock_end_session(m, s, r, &op->end_session);
	} else if (op->code == OP_transaction) {
		m_lock_transaction(m, s, r, &op->transaction);
	} else {
		m_propose_request(m, s, r);
		m_propose_flush(m);
	}
}

/* The request keeps a copy of its operation. */
static void
retain(struct m_request *r)
{
	r->op = bytes_copy(r->op);
	r->parked = true;
}

void
m_request_run(struct master *m)
{
	struct request_list *list;
	struct m_request *r;
	struct op op;

	while (m_has_time(m) && (r = m_order_next(m)) != NULL) {
		m->work += REQUEST_WORK;
		m_order_leave(r);
		if (r->pass != NULL)
			gate_take(r->pass);
		must(r->parked && wire_get_op(r->op, &op) == RC_OK);
		if (r->read) {
			/* While the read was parked, the name that it looks up may have been given
			 * to another node. */
			footprint_free(&r->footprint);
			tree_read_footprint(m->tree, &op, r->node, &r->footprint);
		}
		list = m_order_wait_list(m, r->session, r, &op);
		if (list != NULL)
			m_order_wait(r, list);
		else {
			/* One that may have to begin again stays parked until it is applied. */
			struct bytes op_bytes = r->op;
			const bool may_begin_again = m_admission_revocable(r);

			if (!may_begin_again) {
				r->parked = false;
				m_order_claim(r->session, r);
				m_order_wake(m, r);
			}
			begin(m, r->session, r, &op);
			if (!may_begin_again)
				free((void *)op_bytes.data);
		}
	}
}

void
m_request_applied(struct master *m, const struct tree_answer *answer)
{
	struct m_session *s = m_session_find(m, answer->session);
	struct m_request *r = s != NULL ? request_find(s, answer->number) : NULL;
	struct shown shown;

	if (r != NULL)
		m_lock_acquire_decided(m, r);
	if (m_admission_applied(m, r, answer)) {
		m_order_wait(r, &m->order.runnable);
		return;
	}
	if (r == NULL)
		return; /* of a session that has ended, or of an earlier epoch */
	must(r->order.list == NULL && r->code == answer->op);
	if (r->code == OP_acquire && answer->rc == RC_BUSY_LOCK && r->acquire.wait) {
		m_lock_acquire_refused(m, s, r);
		return;
	}
	shown = (struct shown){answer->result, answer->shows, answer->rights};
	reply_with_leave(m, s, r, answer->rc, answer->index, &shown,
	                 command_leave(m, s, r, answer));
}

/* ---- receiving ---- */

static const char *
breach_of(const struct m_session *s, const struct msg_request *msg, struct received *to)
{
	const struct op *op = &to->op;
	const struct op_end_session *end = &op->end_session;

	to->msg = *msg;
	if (msg->number == 0 || msg->below > msg->number)
		return "a request with an impossible number";
	if (msg->number - msg->below >= LIMIT_NUMBERS)
		return "a request too far ahead of the oldest unanswered one";
	if (msg->dropped.count > LIMIT_DROPPED)
		return "a request that names too many nodes as dropped";
	if (wire_get_op(msg->op, &to->op) != RC_OK)
		return "a malformed operation";
	to->node = wire_op_node(op);
	to->slot = wire_op(op->code)->slot;
	if (to->slot == SLOT_URGENT && s->withdrawals.n >= WITHDRAWALS)
		return "too many acquires are withdrawn";
	if (msg->user.len > 0 && !principal_name_valid(msg->user))
		return "a request for an impossible user";
	if (wire_op(op->code)->class == OP_CLASS_MASTER)
		return "an operation that only a master proposes";
	/* A client may end two kinds of sessions: its own, and, as expired, one of its earlier
	 * runs, which it proves to be its own by the nonce. */
	if (op->code == OP_end_session &&
	    !(end->session == s->id && end->cause == SESSION_CLOSED) &&
	    !(end->cause == SESSION_EXPIRED && end->nonce.len == LIMIT_NONCE))
		return "the end of a session that is not its own";
	return NULL;
}

/* A cancel or release withdraws its acquire each time that it is received: the acquire may have
 * been received again, too. */
static void
note_withdrawal(struct master *m, struct m_session *s, uint64_t number, const struct op *op)
{
	if (op->code == OP_release)
		m_lock_withdraw(m, s, number, op->release.node, op->release.owner,
		                op->release.acquisition);
	else if (op->code == OP_cancel)
		m_lock_withdraw(m, s, number, op->cancel.node, op->cancel.owner,
		                op->cancel.acquisition);
}

static void
receive(struct master *m, struct m_connection *c, struct m_session *s, const struct received *in)
{
	const struct msg_request *msg = &in->msg;
	const struct op *op = &in->op;
	struct request_list *list;
	struct m_request *r;

	if (!TAILQ_EMPTY(&s->withdrawals.received))
		m_withdrawals_forget(&s->withdrawals, msg->below);
	if (!TAILQ_EMPTY(&s->requests.answered))
		forget_answered(s, msg->below);
	m_growth_forget(m, s, msg->below);
	if ((r = request_find(s, msg->number)) != NULL) {
		r->carried = false;
		note_withdrawal(m, s, msg->number, op);
		return;
	}
	if (was_answered(s, msg->number) || m_growth_refuse_again(m, s, msg->number))
		return;
	/* A client that keeps to the limits is never refused. */
	if (s->requests.slots[in->slot] >=
	    (in->slot == SLOT_URGENT ? LIMIT_URGENT : LIMIT_IN_FLIGHT)) {
		m_connection_breach(m, c, "too many requests in flight");
		return;
	}
	if (s->requests.window[in->slot] + msg->op.len > LIMIT_WINDOW) {
		m_connection_breach(m, c, "too many bytes of requests in flight");
		return;
	}
	r = request_new(m, s, in);
	if (!m_usage_take_request(s, r->bytes)) {
		request_free(m, s, r);
		m_connection_breach(m, c, "its principal has too many bytes in flight");
		return;
	}
	list = m_order_wait_list(m, s, r, op);
	if (list != NULL) {
		note_withdrawal(m, s, msg->number, op);
		M_TRACE(m, "request %" PRIu64 ".%" PRIu64 " waits for %s", s->id, r->number,
		        m_order_wait_name(m, list));
		retain(r);
		m_order_claim(s, r);
		m_order_wait(r, list);
		return;
	}
	if (m_admission_revocable(r))
		retain(r);
	m_order_claim(s, r);
	begin(m, s, r, op);
}

/* Rights that are not shown count for nothing: the request is decided by those that its subject has
 * now. The digits are forged, or the cell's key was rotated twice since. While this replica lacks a
 * key digits and ticket may be genuine: the client comes again, and the barrier waits for it,
 * because what it sent after this request says that it has presented its waits. */
static void
receive_shown(struct master *m, struct m_connection *c, struct received *in)
{
	const bool shown = m_proof_of_rights(m, c->session, &in->msg, in->node);

	if (m->config.keys.incomplete && (!shown || !m_proof_of_place(m, c->session, &in->op))) {
		M_TRACE(m, "request %" PRIu64 ".%" PRIu64 " may be signed with a key lacking here",
		        c->session->id, in->msg.number);
		m_connection_close(m, c);
		return;
	}
	if (!shown)
		in->msg.handle_rights = 0;
	receive(m, c, c->session, in);
}

void
m_request_receive(struct master *m, struct m_connection *c, const struct msg_request *msg)
{
	struct m_session *s = c->session;
	struct received in;
	const char *why;

	if (s == NULL && ((msg->session != 0 && c->ended == msg->session) || c->left))
		return;
	if (s == NULL || s->id != msg->session) {
		m_connection_breach(m, c, "a request for a session that it does not have");
		return;
	}
	why = breach_of(s, msg, &in);
	if (why != NULL)
		m_connection_breach(m, c, why);
	else if (msg->epoch != m->epoch) {
		struct message reply = MESSAGE(reply, .number = msg->number,
		                               .rc = (uint8_t)RC_OLD_EPOCH, .index = m->applied);

		m_connection_send(m, c, &reply);
	} else {
		if (msg->generation != 0)
			m_cache_want(m, s, msg->generation);
		receive_shown(m, c, &in);
	}
}
