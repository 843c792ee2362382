/* Requests: each has a number in its session, is sent again until it is answered, and is answered
 * to the caller exactly once. The cell keeps results by number until `below` says that they have
 * arrived. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/internal.h"

/* ---- a request as its caller makes it, before the client takes it ---- */

static struct lock_key
lock_key_of(const struct op *op)
{
	switch (op->code) {
	case OP_acquire:
		return (struct lock_key){op->acquire.acquire.node, op->acquire.acquire.owner,
		                         op->acquire.acquire.acquisition};
	case OP_release:
		return (struct lock_key){op->release.node, op->release.owner,
		                         op->release.acquisition};
	case OP_cancel:
		return (struct lock_key){op->cancel.node, op->cancel.owner, op->cancel.acquisition};
	default:
		return (struct lock_key){0};
	}
}

struct client_request *
client_request_new(const struct client_call *call)
{
	const struct op *op = &call->op;
	struct buffer encoded = BUFFER(LIMIT_OPERATION);
	struct client_request *r = memory_zero(1, sizeof *r);

	r->token = call->token;
	r->given_up = call->given_up;
	if (r->given_up)
		return r;
	must(wire_op(op->code)->class != OP_CLASS_MASTER);
	wire_put_op(&encoded, op);
	r->ordered = call->ordered;
	r->outlasts = call->outlasts;
	r->guard = call->guard;
	r->user = bytes_copy(call->user);
	r->code = op->code;
	r->node = wire_op_node(op);
	if (call->opened.node == r->node)
		r->opened = call->opened;
	r->slot = wire_op(op->code)->slot;
	r->malformed = encoded.failed;
	r->op = buffer_take(&encoded);
	r->malformed = r->malformed || wire_get_op(r->op, &r->decoded) != RC_OK;
	r->key = lock_key_of(op);
	if (op->code == OP_acquire)
		r->acquire = op->acquire.acquire;
	return r;
}

void
client_request_free(struct client_request *r)
{
	free((void *)r->user.data);
	free((void *)r->op.data);
	free(r);
}

/* ---- life ---- */

static const size_t slots[SLOT_KINDS] = {LIMIT_IN_FLIGHT, LIMIT_IN_FLIGHT, LIMIT_URGENT};

void
client_request_begin(struct client *c)
{
	TAILQ_INIT(&c->requests.in_flight);
	TAILQ_INIT(&c->requests.queue);
	client_request_renumber(c);
}

void
client_request_renumber(struct client *c)
{
	c->requests.next_number = 1;
}

static size_t
sum(const size_t n[SLOT_KINDS])
{
	return n[SLOT_COMMAND] + n[SLOT_READ] + n[SLOT_URGENT];
}

struct client_answer *
client_request_answer(struct client *c, uint64_t token, enum rc rc)
{
	struct client_update *u = c->update;

	ARRAY_ROOM(u->answers, u->answers_n, u->answers_room);
	u->answers[u->answers_n] = (struct client_answer){.token = token, .rc = rc};
	return &u->answers[u->answers_n++];
}

/* ---- in flight ---- */

static void
request_send(struct client *c, const struct client_request *r)
{
	struct buffer dropped = BUFFER(CACHE_OWN * sizeof *r->own);
	struct message m = {
	    .code = MSG_request,
	    .request =
	        {
	            .session = c->session.id,
	            .epoch = c->session.epoch,
	            .number = r->number,
	            .below = TAILQ_FIRST(&c->requests.in_flight)->number,
	            .ordered = r->ordered,
	            .guard = r->guard,
	            .op = r->op,
	            .generation = client_caching_asks(c),
	            .user = r->user,
	            .handle_rights = r->opened.rights,
	        },
	};

	if (r->opened.rights != 0)
		m.request.check = (struct bytes){r->opened.check, LIMIT_CHECK};
	for (size_t i = 0; i < r->own_n; i++)
		wire_put_node_key(&dropped, &(struct node_key){r->own[i]});
	m.request.dropped.packed = buffer_view(&dropped);
	m.request.dropped.count = (uint32_t)r->own_n;
	client_send(c, &m);
	buffer_free(&dropped);
}

static void
request_launch(struct client *c, struct client_request *r)
{
	must(c->session.id != 0 && c->connection.state == CONNECTION_OPEN);
	r->number = c->requests.next_number++;
	TAILQ_INSERT_TAIL(&c->requests.in_flight, r, entry);
	c->requests.in_flight_n[r->slot]++;
	c->requests.in_flight_bytes += r->op.len;
	MESSAGE_TRACE(c->config.trace, "sends request %llu: %s of node %llu",
	              (unsigned long long)r->number, wire_op(r->code)->name,
	              (unsigned long long)r->node);
	request_send(c, r);
}

static void
request_land(struct client *c, struct client_request *r)
{
	TAILQ_REMOVE(&c->requests.in_flight, r, entry);
	c->requests.in_flight_n[r->slot]--;
	c->requests.in_flight_bytes -= r->op.len;
	c->requests.given_up_n -= r->given_up;
}

/* The cell keeps results from the oldest unanswered request on, but only a limited number of
 * them. */
static bool
slot_free(const struct client *c, enum slot_kind kind)
{
	const struct client_request *oldest = TAILQ_FIRST(&c->requests.in_flight);

	return c->requests.in_flight_n[kind] < slots[kind] &&
	       (oldest == NULL || c->requests.next_number - oldest->number < LIMIT_NUMBERS);
}

/* A session never has more in flight than a connection takes, because all of it is sent again at
 * once on a new connection. */
static bool
bytes_free(const struct client *c, size_t bytes)
{
	return c->requests.in_flight_bytes + bytes <= LIMIT_WINDOW;
}

bool
client_request_room(const struct client *c, size_t bytes)
{
	return slot_free(c, SLOT_COMMAND) && bytes_free(c, bytes);
}

size_t
client_request_in_flight(const struct client *c)
{
	return sum(c->requests.in_flight_n);
}

size_t
client_request_queued(const struct client *c)
{
	return sum(c->requests.queued_n);
}

bool
client_request_idle(const struct client *c)
{
	return TAILQ_EMPTY(&c->requests.in_flight) && TAILQ_EMPTY(&c->requests.queue);
}

/* On a connection that was just opened the unanswered requests are sent first, in the order of
 * their numbers. An acquire that was withdrawn may have been undone already by a cancel that is
 * answered, and another master knows nothing of that: sent again, it would take a lock that no
 * request ever releases. */
void
client_request_send_again(struct client *c)
{
	struct client_request *r, *next;

	client_reply_forget(c);
	TAILQ_FOREACH_SAFE(r, &c->requests.in_flight, entry, next) {
		if (!r->withdrawn)
			continue;
		CLIENT_TRACE(c, "request %llu is not sent again: the acquire was withdrawn",
		             (unsigned long long)r->number);
		request_land(c, r);
		if (r->origin == REQUEST_CALLER)
			client_request_answer(c, r->token, RC_INTR);
		client_request_free(r);
	}
	if (!TAILQ_EMPTY(&c->requests.in_flight))
		CLIENT_TRACE(c, "requests sent again: %zu", client_request_in_flight(c));
	TAILQ_FOREACH(r, &c->requests.in_flight, entry)
		request_send(c, r);
}

void
client_request_own(struct client *c, enum request_origin origin, const struct op *op,
                   struct bytes user)
{
	struct client_request *r =
	    client_request_new(&(struct client_call){.op = *op, .user = user});

	must(!r->malformed);
	r->origin = origin;
	request_launch(c, r);
}

/* ---- the queue ---- */

static bool
is_of(const struct client_request *r, struct lock_key key)
{
	return r->key.node == key.node && r->key.owner == key.owner &&
	       r->key.acquisition == key.acquisition;
}

/* The acquire's cancel or release, which is being submitted, is sent after it. */
static void
withdraw(struct client *c, struct lock_key key)
{
	const struct request_list *lists[] = {&c->requests.in_flight, &c->requests.queue};
	struct client_request *r;

	client_lock_waits_remove(c, key);
	for (size_t i = 0; i < 2; i++)
		TAILQ_FOREACH(r, lists[i], entry)
			r->withdrawn |= r->code == OP_acquire && is_of(r, key);
}

/* One that the cell has is ordered by this client, which sends no command before its answer. */
static void
give_up(struct client *c, struct client_request *told)
{
	struct client_request *r;

	TAILQ_FOREACH(r, &c->requests.queue, entry)
		r->ordered |= r->token == told->token;
	TAILQ_FOREACH(r, &c->requests.in_flight, entry) {
		c->requests.given_up_n += r->token == told->token && !r->given_up;
		r->given_up |= r->token == told->token;
	}
	client_request_free(told);
}

static enum rc
refusal(const struct client *c, const struct client_request *r)
{
	if (c->session.closing)
		return RC_STALE;
	if (r->malformed)
		return RC_INVAL;
	if (client_request_queued(c) >= LIMIT_QUEUED && r->slot != SLOT_URGENT)
		return RC_BUSY;
	return RC_OK;
}

static void
enqueue(struct client *c, struct client_request *r)
{
	if (c->caching.generation != 0)
		client_caching_submitted(c, r);
	TAILQ_INSERT_TAIL(&c->requests.queue, r, entry);
	c->requests.queued_n[r->slot]++;
}

void
client_request_submit(struct client *c, struct client_request *r)
{
	const enum rc rc = refusal(c, r);

	if (r->given_up) {
		give_up(c, r);
	} else if (rc != RC_OK) {
		CLIENT_TRACE(c, "%s of node %llu is refused: %s", wire_op(r->code)->name,
		             (unsigned long long)r->node, rc_name(rc));
		client_request_answer(c, r->token, rc);
		client_request_free(r);
	} else if (c->caching.generation != 0 && client_caching_answer(c, r)) {
		client_request_free(r);
	} else {
		if (r->code == OP_cancel || r->code == OP_release)
			withdraw(c, r->key);
		enqueue(c, r);
	}
}

static void
dequeue(struct client *c, struct client_request *r)
{
	TAILQ_REMOVE(&c->requests.queue, r, entry);
	c->requests.queued_n[r->slot]--;
}

/* The kinds of requests that stay in the queue, of those examined so far. */
struct stay {
	bool command; /* one that is not a read */
	bool ordered;
};

/* A read overtakes commands, a release or cancel those on other nodes; none an ordered request. */
static bool
slot_may_go(const struct client *c, enum slot_kind kind, const struct stay *stay)
{
	return slot_free(c, kind) && (kind == SLOT_READ || c->requests.given_up_n == 0) &&
	       !(kind == SLOT_COMMAND ? stay->command : stay->ordered);
}

static bool
may_go(struct client *c, const struct client_request *r, const struct stay *stay)
{
	const struct client_request *e = TAILQ_FIRST(&c->requests.queue);

	if (!slot_may_go(c, r->slot, stay))
		return false;
	if (r->slot == SLOT_COMMAND)
		return bytes_free(c, r->op.len);
	if (r->slot == SLOT_READ || !stay->command)
		return true;
	while (e != r && !(e->node == r->node && e->slot != SLOT_READ))
		e = TAILQ_NEXT(e, entry);
	return e == r;
}

/* True when a request further back may be sent. `seen`: how many of each kind stay in front of
 * it. */
static bool
others_may_go(const struct client *c, const struct stay *stay, const size_t seen[SLOT_KINDS])
{
	for (enum slot_kind kind = 0; kind < SLOT_KINDS; kind++)
		if (seen[kind] < c->requests.queued_n[kind] && slot_may_go(c, kind, stay))
			return true;
	return false;
}

void
client_request_pump(struct client *c)
{
	struct stay stay = {0};
	size_t seen[SLOT_KINDS] = {0};
	struct client_request *r = TAILQ_FIRST(&c->requests.queue), *next;

	for (; r != NULL && others_may_go(c, &stay, seen); r = next) {
		next = TAILQ_NEXT(r, entry);
		if (may_go(c, r, &stay)) {
			dequeue(c, r);
			request_launch(c, r);
			continue;
		}
		seen[r->slot]++;
		stay.command = stay.command || r->slot != SLOT_READ;
		stay.ordered = stay.ordered || (r->ordered && r->slot != SLOT_READ);
	}
}

void
client_request_trace_queue(struct client *c, const struct client_request *submitted)
{
	const struct client_request *r = TAILQ_LAST(&c->requests.queue, request_list);

	if (r == submitted)
		CLIENT_TRACE(c, "%s of node %llu waits: %zu in flight, %zu queued, %zu bytes",
		             wire_op(r->code)->name, (unsigned long long)r->node,
		             client_request_in_flight(c), client_request_queued(c),
		             c->requests.in_flight_bytes);
}

/* True when a release or cancel of this acquire is in flight or queued. */
static bool
is_withdrawn(const struct client *c, struct lock_key key)
{
	const struct request_list *lists[] = {&c->requests.in_flight, &c->requests.queue};
	struct client_request *r;

	for (size_t i = 0; i < 2; i++)
		TAILQ_FOREACH(r, lists[i], entry)
			if ((r->code == OP_release || r->code == OP_cancel) && is_of(r, key))
				return true;
	return false;
}

/* ---- replies ---- */

/* Decodes the result that belongs to the reply's code; false when the reply is not valid. */
static bool
reply_result(const struct client_request *r, const struct msg_reply *m, struct result *result)
{
	if (m->rc == RC_QUEUED && !(r->code == OP_acquire && r->acquire.wait))
		return false;
	return wire_get_result(wire_answer_kind(r->code, m->rc), m->result, result) == RC_OK;
}

void
client_request_note_rights(struct client_answer *a, struct bytes check)
{
	const struct attr *attr = a->rc == RC_OK ? wire_result_attr(&a->result) : NULL;

	if (attr == NULL || check.len != LIMIT_CHECK)
		return;
	a->opens =
	    (struct client_rights){.node = attr->node, .rights = wire_result_rights(&a->result)};
	memcpy(a->opens.check, check.data, LIMIT_CHECK);
}

static void
request_deliver(struct client *c, const struct client_request *r, const struct msg_reply *m,
                const struct result *result)
{
	struct client_answer *a;

	switch (r->origin) {
	case REQUEST_CLOSE:
		client_session_closed(c, m->rc == RC_OK || m->rc == RC_NO_SESSION);
		return;
	case REQUEST_WAIT:
		client_lock_waits_on_presented(c, r->key, m->rc, &result->acquired);
		return;
	case REQUEST_CALLER:
		a = client_request_answer(c, r->token, m->rc);
		a->index = m->index;
		a->result = *result;
		client_request_note_rights(a, m->check);
		if (m->rc == RC_QUEUED && !c->session.closing && !is_withdrawn(c, r->key))
			client_lock_waits_add(c, &r->acquire, r->user, result->acquired.ticket);
		return;
	}
}

/* A number that is not in flight was answered before. RC_NO_SESSION means this client's session,
 * except in the reply to a request that ends another session. */
void
client_request_on_reply(struct client *c, const struct msg_reply *m)
{
	struct client_request *r;
	struct result result;

	TAILQ_FOREACH(r, &c->requests.in_flight, entry)
		if (r->number == m->number)
			break;
	if (r == NULL) {
		CLIENT_TRACE(c, "reply %llu is ignored: answered before",
		             (unsigned long long)m->number);
		return;
	}
	if (m->rc == RC_NO_SESSION && r->code != OP_end_session) {
		client_session_lost(c, true);
		return;
	}
	if (m->rc == RC_NOT_MASTER || m->rc == RC_OLD_EPOCH || !reply_result(r, m, &result)) {
		CLIENT_TRACE(c, "reply %llu is no answer: %s", (unsigned long long)m->number,
		             rc_name(m->rc));
		client_connection_drop(c);
		return;
	}
	request_land(c, r);
	if (c->caching.generation != 0)
		client_caching_on_reply(c, r, m, &result);
	request_deliver(c, r, m, &result);
	client_request_free(r);
}

/* ---- the end of a session ---- */

static void
fail_list(struct client *c, struct request_list *list)
{
	struct client_request *r;

	while ((r = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, r, entry);
		if (r->origin == REQUEST_CALLER)
			client_request_answer(c, r->token, RC_STALE);
		client_request_free(r);
	}
}

void
client_request_fail_all(struct client *c)
{
	fail_list(c, &c->requests.in_flight);
	fail_list(c, &c->requests.queue);
	memset(c->requests.in_flight_n, 0, sizeof c->requests.in_flight_n);
	memset(c->requests.queued_n, 0, sizeof c->requests.queued_n);
	c->requests.in_flight_bytes = c->requests.given_up_n = 0;
	client_reply_forget(c);
}

/* A command that was sent may have taken effect. */
static void
take_outlasting(struct request_list *from, bool sent, struct request_list *to)
{
	struct client_request *r, *next;

	TAILQ_FOREACH_SAFE(r, from, entry, next) {
		if (!r->outlasts || (sent && r->slot != SLOT_READ))
			continue;
		TAILQ_REMOVE(from, r, entry);
		TAILQ_INSERT_TAIL(to, r, entry);
	}
}

void
client_request_carry_over(struct client *c)
{
	struct request_list carried = TAILQ_HEAD_INITIALIZER(carried);
	struct client_request *r;

	take_outlasting(&c->requests.in_flight, true, &carried);
	take_outlasting(&c->requests.queue, false, &carried);
	client_request_fail_all(c);
	while ((r = TAILQ_FIRST(&carried)) != NULL) {
		TAILQ_REMOVE(&carried, r, entry);
		enqueue(c, r);
	}
	if (client_request_queued(c) > 0)
		CLIENT_TRACE(c, "requests that wait for the next session: %zu",
		             client_request_queued(c));
}

/* Without a session requests wait for one, until the cell could not be reached for a grace period;
 * from then on they are refused. */
void
client_request_tick(struct client *c)
{
	struct client_request *r;

	if (c->session.id != 0 || !mono_reached(c->now, c->session.patience_end))
		return;
	while ((r = TAILQ_FIRST(&c->requests.queue)) != NULL) {
		CLIENT_TRACE(c, "%s of node %llu fails: no session for a grace period",
		             wire_op(r->code)->name, (unsigned long long)r->node);
		dequeue(c, r);
		client_caching_failed(c, r);
		client_request_answer(c, r->token, RC_IO);
		client_request_free(r);
	}
}

mono_t
client_request_deadline(const struct client *c)
{
	const bool waiting = c->session.id == 0 && !TAILQ_EMPTY(&c->requests.queue);

	return waiting ? c->session.patience_end : MONO_NEVER;
}

void
client_request_image(struct client *c, struct image *i)
{
	IMAGE(i, c->requests.next_number);
	if (c->requests.next_number == 0)
		image_refuse(i);
}
