/* Every request from its making to its answer. A request is recognised on the wire by its session
 * and number, and in the log by the same: so it is known where it took effect, whether or not its
 * client ever learned of it. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static int
record_compare(const struct record *a, const struct record *b)
{
	if (a->session != b->session)
		return a->session < b->session ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

RB_GENERATE_INTERNAL(record_tree, record, by_number, record_compare, __attribute__((unused)) static)

void
history_init(struct history *h)
{
	h->calls = CALLS;
	h->calls.second = SECOND * MOMENTS;
	h->calls.end_of_line = ';';
}

int64_t
history_moment(struct sim *s)
{
	int64_t *moment = &s->history.moment;

	*moment = s->now * MOMENTS > *moment ? s->now * MOMENTS : *moment + 1;
	return *moment;
}

static struct record *
record_new(struct sim *s, int machine, struct bytes encoded)
{
	struct history *h = &s->history;
	struct record *r = memory_zero(1, sizeof *r);

	ARRAY_ROOM(h->records, h->n, h->room);
	h->records[h->n++] = r;
	r->token = h->n;
	r->machine = machine;
	r->life = s->machines[machine].life;
	r->process = PROCESS_MOUNT;
	r->encoded = encoded;
	must(wire_get_op(encoded, &r->op) == RC_OK);
	r->made = s->now;
	r->rotations = s->model.keys.rotations;
	r->begun = history_moment(s);
	if (r->op.code == OP_acquire) {
		ARRAY_ROOM(h->acquires, h->acquires_n, h->acquires_room);
		h->acquires[h->acquires_n++] = r;
	}
	return r;
}

struct record *
history_begin(struct sim *s, int machine, int process, const struct op *op, bool ordered)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct record *r;

	wire_put_op(&encoded, op);
	must(!encoded.failed);
	r = record_new(s, machine, buffer_take(&encoded));
	r->process = process;
	r->ordered = ordered;
	return r;
}

void
history_ending(struct sim *s, const struct client_answer *a)
{
	s->history.records[a->token - 1]->ending = true;
}

static bool
is_same(const struct record *r, const struct msg_request *m)
{
	const struct bytes digits = {r->through.check, r->through.rights != 0 ? LIMIT_CHECK : 0};

	return bytes_equal(r->encoded, m->op) && bytes_equal(r->user, m->user) &&
	       r->guard.node == m->guard.node && r->guard.fence == m->guard.fence &&
	       r->through.rights == m->handle_rights && bytes_equal(digits, m->check);
}

/* Requests that differ in nothing go out in the order in which they were made; one that is given up
 * in the same step most likely did not. */
static struct record *
unsent(struct sim *s, int machine, const struct msg_request *m)
{
	struct history *h = &s->history;
	uint64_t life = s->machines[machine].life;
	struct record *ending = NULL;
	bool all_sent = true;

	for (size_t i = h->sent[machine]; i < h->n; i++) {
		struct record *r = h->records[i];
		bool open =
		    r->machine == machine && r->life == life && r->number == 0 && !r->answered;

		if (open && is_same(r, m)) {
			if (!r->ending)
				return r;
			ending = ending == NULL ? r : ending;
		}
		all_sent = all_sent && !open;
		if (all_sent)
			h->sent[machine] = i + 1;
	}
	return ending;
}

void
history_sent(struct sim *s, int machine, const struct msg_request *m)
{
	struct record *r = history_find(s, m->session, m->number);

	if (r != NULL) {
		r->again = true;
		if (!is_same(r, m))
			sim_fail(s, "session %lu sends another request %lu than before",
			         (unsigned long)m->session, (unsigned long)m->number);
		return;
	}
	r = unsent(s, machine, m);
	if (r == NULL) {
		r = record_new(s, machine, bytes_copy(m->op));
		r->own = true;
		r->guard = m->guard;
		r->user = bytes_copy(m->user);
	}
	r->session = m->session;
	r->number = m->number;
	must(RB_INSERT(record_tree, &s->history.by_number, r) == NULL);
}

struct record *
history_find(struct sim *s, uint64_t session, uint64_t number)
{
	struct record like = {.session = session, .number = number};

	return RB_FIND(record_tree, &s->history.by_number, &like);
}

/* ---- answers ---- */

static void
note_result(struct record *r, const struct result *result)
{
	const struct attr *attr = wire_result_attr(result);
	struct outcome *got = &r->got;

	if (attr != NULL) {
		got->node = attr->node;
		got->generation = attr->content_generation;
		got->mtime_ns = attr->mtime_ns;
		got->ctime_ns = attr->ctime_ns;
	}
	switch (result->kind) {
	case RESULT_attr:
		got->size = attr->size;
		return;
	case RESULT_created:
		got->fresh = result->created.fresh;
		return;
	case RESULT_numbered:
		got->number = result->numbered.number;
		return;
	case RESULT_contents:
		got->same = result->contents.same;
		r->contents = bytes_copy(result->contents.contents);
		return;
	case RESULT_renamed:
		got->source = result->renamed.source;
		return;
	case RESULT_deleted:
		got->node = result->deleted.node;
		return;
	case RESULT_acquired:
		got->fence = result->acquired.fence;
		got->lock_generation = result->acquired.lock_generation;
		r->ticket = result->acquired.ticket;
		return;
	default:
		model_transaction_told(got, result);
	}
}

static void
check_field(struct sim *s, const struct record *r, const char *what, uint64_t want, uint64_t got)
{
	if (want != got)
		sim_fail(s, "request %lu.%lu (%s): %s is %lu and should be %lu",
		         (unsigned long)r->session, (unsigned long)r->number,
		         wire_op(r->op.code)->name, what, (unsigned long)got, (unsigned long)want);
}

static void
check_command(struct sim *s, struct record *r)
{
	const struct outcome *want = &r->want, *got = &r->got;
	const struct acquire *a = &r->op.acquire.acquire;
	const bool unlocked = r->op.code == OP_acquire && /* an operator took the lock from it */
	                      unlocks_has(s, a->node, r->session, a->acquisition);

	if (r->op.code == OP_acquire && (r->rc == RC_BUSY_LOCK || r->rc == RC_QUEUED))
		return; /* the master may refuse it and propose nothing */
	if (r->op.code == OP_acquire && r->rc == RC_INTR && (r->given_up || unlocked))
		return;
	if (r->op.code == OP_acquire && r->rc == RC_ACCES && r->executed == 0) {
		model_check_refused(s, r);
		return;
	}
	if (r->op.code == OP_acquire && r->rc == RC_STALE) {
		model_check_gone(s, r); /* as it waited, or held the lock and had not heard so */
		return;
	}
	if (r->rc == RC_NOSPC && r->executed == 0)
		return; /* most disks are full */
	if (r->executed == 0)
		sim_fail(s, "request %lu.%lu (%s) was answered %s and never took effect",
		         (unsigned long)r->session, (unsigned long)r->number,
		         wire_op(r->op.code)->name, rc_name(r->rc));
	check_field(s, r, "the result", want->rc, r->rc);
	if (r->op.code != OP_acquire && !r->refused) /* told before it is logged */
		check_field(s, r, "the index", r->executed, r->index);
	if (r->rc != RC_OK || unlocked)
		return; /* an unlocked one came to it again: the answer that is kept is the first */
	check_field(s, r, "the node", want->node, got->node);
	check_field(s, r, "the source", want->source, got->source);
	check_field(s, r, "the generation", want->generation, got->generation);
	check_field(s, r, "fresh", want->fresh, got->fresh);
	check_field(s, r, "number", want->number, got->number);
	check_field(s, r, "the time", (uint64_t)want->mtime_ns, (uint64_t)got->mtime_ns);
	check_field(s, r, "the change time", (uint64_t)want->ctime_ns, (uint64_t)got->ctime_ns);
	check_field(s, r, "the fence", want->fence, got->fence);
	check_field(s, r, "the lock generation", want->lock_generation, got->lock_generation);
	model_check_transaction(s, r);
}

static bool
is_of_session(const struct sim *s, const struct record *r)
{
	return r->session != 0 &&
	       client_status(s->machines[r->machine].client).session == r->session;
}

/* A client answers from its cache what the log says at this instant: no command that changes it has
 * taken effect anywhere, as far as clocks keep to what is allowed and its session was not
 * destroyed, of which it may not have been told yet. */
void
history_answered(struct sim *s, const struct client_answer *a)
{
	struct record *r;
	bool timely;

	must(a->token > 0 && a->token <= s->history.n);
	r = s->history.records[a->token - 1];
	timely = sim_leases_hold(s) && !machine_is_destroyed(&s->machines[r->machine]);
	if (r->answered || r->lost)
		sim_fail(s, "request %lu.%lu was answered twice", (unsigned long)r->session,
		         (unsigned long)r->number);
	r->answered = true;
	r->ended = s->now;
	r->rc = a->rc;
	r->cached = a->cached;
	r->index = a->cached && timely ? s->model.applied : a->index;
	r->opens = a->opens;
	if (a->opens.node != 0 && !a->cached)
		digits_shown(s, r->session, r->user, &a->opens);
	if (a->rc == RC_OK || a->rc == RC_QUEUED)
		note_result(r, &a->result);
	r->waiting = a->rc == RC_QUEUED && !r->given_up && !s->machines[r->machine].closing;
	r->queued_epoch = r->ticket.epoch;
	r->queued_at = s->now;
	if (a->cached ? !timely : !is_of_session(s, r))
		return; /* the leave, or the session, is over: the outcome is open */
	if (a->cached && r->guard.node != 0)
		sim_fail(s, "a client answers a guarded read from its cache");
	if (wire_op(r->op.code)->class != OP_CLASS_READ)
		check_command(s, r);
	else if (r->rc != RC_GUARD)
		model_check_read(s, r, &a->result);
	if (r->op.code == OP_acquire && a->rc == RC_OK)
		judgement_locked(s, r, r->got.lock_generation, r->got.fence);
	r->settled = history_moment(s);
}

/* ---- what a script says by itself ---- */

void
history_scripted(struct sim *s, const struct msg_request *m, struct client_rights through)
{
	struct record *r = history_find(s, m->session, m->number);
	struct op op;

	if (r != NULL || wire_get_op(m->op, &op) != RC_OK)
		return;
	r = record_new(s, 0, bytes_copy(m->op));
	r->process = PROCESS_SCRIPT;
	r->own = true;
	r->user = bytes_copy(m->user);
	r->through = through;
	r->session = m->session;
	r->number = m->number;
	must(RB_INSERT(record_tree, &s->history.by_number, r) == NULL);
}

/* The first answer is checked; repetitions are compared with it. */
void
history_scripted_answer(struct sim *s, uint64_t session, const struct msg_reply *m)
{
	struct record *r = history_find(s, session, m->number);
	struct result result = {0};

	if (r == NULL || m->rc != RC_OK)
		return;
	if (wire_get_result(wire_op(r->op.code)->result, m->result, &result) != RC_OK)
		sim_fail(s, "the answer to request %lu.%lu is none", (unsigned long)session,
		         (unsigned long)m->number);
	r->rc = RC_OK;
	r->index = m->index;
	digits_note(s, r, m->check, &result);
	if (!r->answered)
		note_result(r, &result);
	r->answered = true;
	if (wire_op(r->op.code)->class == OP_CLASS_READ)
		model_check_read(s, r, &result);
	else if (r->executed != 0)
		check_command(s, r);
	r->settled = history_moment(s);
}

void
history_executed(struct sim *s, struct record *r)
{
	if (r->process == PROCESS_SCRIPT && r->answered)
		check_command(s, r);
}

void
history_queued(struct sim *s, uint64_t session, const struct msg_reply *m, uint64_t epoch)
{
	const struct record *again = history_find(s, session, m->number);
	const struct acquire *a;

	if (m->rc != RC_QUEUED || again == NULL || !again->own || again->op.code != OP_acquire)
		return;
	a = &again->op.acquire.acquire;
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		struct record *r = s->history.acquires[i];
		const struct acquire *w = &r->op.acquire.acquire;

		if (r->session != session || !r->waiting || w->node != a->node ||
		    w->owner != a->owner || w->acquisition != a->acquisition ||
		    outstanding_lapsed(s, r))
			continue;
		r->queued_epoch = epoch;
		r->queued_at = s->now;
	}
}

void
history_machine_died(struct sim *s, int machine)
{
	for (size_t i = 0; i < s->history.n; i++) {
		struct record *r = s->history.records[i];

		if (r->machine == machine && !r->answered)
			r->lost = true;
		if (r->machine == machine)
			r->waiting = false;
	}
}

void
history_waits_over(struct sim *s, uint64_t session)
{
	for (size_t i = 0; i < s->history.n; i++) {
		if (s->history.records[i]->session == session)
			s->history.records[i]->waiting = false;
	}
}

/* ---- at the end ---- */

struct order {
	uint64_t session, node, command, ordered;
};

static struct order *
order_of(struct order *orders, size_t *n, uint64_t session, uint64_t node)
{
	for (size_t i = 0; i < *n; i++) {
		if (orders[i].session == session && orders[i].node == node)
			return &orders[i];
	}
	orders[*n] = (struct order){.session = session, .node = node};
	return &orders[(*n)++];
}

/* Commands of a session on one node take effect in the order in which they were made; all that come
 * after an ordered one, or after it was given up, behind it; a read on a node sees the ordered ones
 * on it that were made before. An acquire that waited is in nobody's way. One that found the lock
 * busy, and is no entry in the log, may be decided later than what came after it, when it is made
 * again after a reconnect. Transactions are in order where they touch the same nodes: the model
 * would see it. */
static void
check_order(struct sim *s, const struct record *r, struct order *node, struct order *all)
{
	bool read = wire_op(r->op.code)->class == OP_CLASS_READ;
	uint64_t at = read ? r->index : r->executed;

	if (read ? at < node->ordered
	         : at <= node->command || at < all->ordered ||
	               (r->after && r->after->session == r->session && at < r->after->executed))
		sim_fail(s, "request %lu.%lu (%s, at %lu) overtook an earlier one of its session",
		         (unsigned long)r->session, (unsigned long)r->number,
		         wire_op(r->op.code)->name, (unsigned long)at);
	if (read || (r->again && r->op.code == OP_acquire))
		return;
	node->command = at;
	if (r->ordered)
		node->ordered = all->ordered = at;
}

void
history_finish(struct sim *s)
{
	struct history *h = &s->history;
	struct order *orders = memory_zero(2 * h->n + 1, sizeof *orders);
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++) {
		struct record *r = h->records[i];
		bool read = wire_op(r->op.code)->class == OP_CLASS_READ;

		if (!r->answered && !r->lost && !r->own)
			sim_fail(s, "request %lu.%lu (%s) was never answered", r->session,
			         r->number, wire_op(r->op.code)->name);
		if (r->own || r->session == 0 || r->op.code == OP_transaction || r->refused ||
		    (r->op.code == OP_acquire && r->op.acquire.acquire.wait) ||
		    (read ? r->index : r->executed) == 0)
			continue;
		check_order(s, r, order_of(orders, &n, r->session, wire_op_node(&r->op)),
		            order_of(orders, &n, r->session, UINT64_MAX));
	}
	free(orders);
}

void
history_free(struct history *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free((void *)h->records[i]->encoded.data);
		free((void *)h->records[i]->user.data);
		free((void *)h->records[i]->contents.data);
		free(h->records[i]);
	}
	free(h->records);
	free(h->acquires);
	free(h->owners);
	digits_free(h);
	calls_free(&h->calls);
}
