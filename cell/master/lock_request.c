/* apply decides which acquire holds a lock; here it is only decided what is worth proposing. An
 * acquire that would overtake the waiters is put into the queue, and the log does not see it; when
 * a holder releases the lock, the grant to the next one goes into the same entry. */
#include <stdlib.h>

#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"
#include "cell/master/lock_queue.h"

/* ---- withdrawal ---- */

static int
withdrawal_compare(const struct withdrawal *a, const struct withdrawal *b)
{
	return keyed_order(a->node, b->node) ?: keyed_order(a->owner, b->owner)
		?: keyed_order(a->acquisition, b->acquisition);
}

RB_GENERATE_INTERNAL(withdrawal_tree, withdrawal, link, withdrawal_compare,
                     __attribute__((unused)) static)

/* The number of the first cancel or release that withdrew the acquire; 0 if none has. */
static uint64_t
withdrawals_find(const struct withdrawals *w, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct withdrawal like = {.node = node, .owner = owner, .acquisition = acquisition};
	const struct withdrawal *found =
	    RB_FIND(withdrawal_tree, (struct withdrawal_tree *)&w->by_name, &like);

	return found != NULL ? found->number : 0;
}

/* They arrive in the order of their numbers, but for a few, which are forgotten later. */
void
m_withdrawals_forget(struct withdrawals *w, uint64_t below)
{
	struct withdrawal *first;

	while ((first = TAILQ_FIRST(&w->received)) != NULL && first->number < below) {
		TAILQ_REMOVE(&w->received, first, entry);
		RB_REMOVE(withdrawal_tree, &w->by_name, first);
		w->n--;
		free(first);
	}
}

/* ---- acquires in the log ---- */

static int
in_log_compare(const struct m_request *a, const struct m_request *b)
{
	return keyed_order(a->node, b->node) ?: keyed_order(a->session->id, b->session->id)
		?: keyed_order(a->number, b->number);
}

RB_GENERATE_INTERNAL(acquires_in_log, m_request, by_lock, in_log_compare,
                     __attribute__((unused)) static)

bool
m_lock_in_log(const struct master *m, uint64_t node, const struct ticket *before)
{
	struct acquires_in_log *all = (struct acquires_in_log *)&m->acquires_in_log;
	struct m_session first = {0};
	struct m_request like = {.session = &first, .node = node};
	struct m_request *r = RB_NFIND(acquires_in_log, all, &like);

	for (; r != NULL && r->node == node; r = RB_NEXT(acquires_in_log, all, r)) {
		const struct ticket *t = &r->acquire.ticket;

		if (t->epoch == before->epoch && t->place < before->place)
			return true;
	}
	return false;
}

void
m_lock_acquire_decided(struct master *m, struct m_request *r)
{
	if (!r->in_log)
		return;
	RB_REMOVE(acquires_in_log, &m->acquires_in_log, r);
	r->in_log = false;
	m_queue_touch(m, r->node);
}

/* ---- requests ---- */

static void
propose_alone(struct master *m, struct m_session *s, struct m_request *r)
{
	m_propose_request(m, s, r);
	m_propose_flush(m);
}

bool
m_lock_withdraw(struct master *m, struct m_session *s, uint64_t number, uint64_t node,
                uint64_t owner, uint64_t acquisition)
{
	struct waiter *w = m_waiter_find(m, node, s->id, owner, acquisition);
	struct withdrawals *all = &s->withdrawals;

	must(number != 0);
	if (withdrawals_find(all, node, owner, acquisition) == 0) {
		struct withdrawal *added = memory_zero(1, sizeof *added);

		added->number = number;
		added->node = node;
		added->owner = owner;
		added->acquisition = acquisition;
		must(RB_INSERT(withdrawal_tree, &all->by_name, added) == NULL);
		TAILQ_INSERT_TAIL(&all->received, added, entry);
		all->n++;
	}
	m_request_withdraw(s, number, node, owner, acquisition);
	if (w == NULL)
		return false;
	if (w->request != NULL)
		m_request_reply(m, s, w->request, RC_INTR, NULL);
	m_waiter_drop(m, w);
	return true;
}

/* ---- acquire ---- */

static void
reply_queued(struct master *m, struct m_session *s, struct m_request *r, struct ticket ticket,
             enum lock_mode kept)
{
	const struct result result = {
	    .kind = RESULT_acquired,
	    .acquired = {.kept = kept, .ticket = ticket},
	};

	m_request_reply(m, s, r, RC_QUEUED, &result);
}

/* An acquire that stands in the queue already keeps its place. */
static bool
reply_if_queued(struct master *m, struct m_session *s, struct m_request *r)
{
	const struct acquire *a = &r->acquire;
	const struct waiter *w = m_waiter_find(m, a->node, s->id, a->owner, a->acquisition);

	if (w == NULL)
		return false;
	reply_queued(m, s, r, w->acquire.ticket, w->converting ? LOCK_SHARED : LOCK_NONE);
	return true;
}

/* Two holders that both wait for their conversion would wait for each other. As with flock(2), the
 * second one loses its shared lock over its conversion. */
static void
release_shared(struct master *m, struct m_session *s, const struct acquire *a)
{
	struct op op = {.code = OP_release};
	struct lock_queue *q = m_queue_find(m, a->node);
	uint64_t acquisition;
	size_t holders = tree_lock_holders(m->tree, s->id, a->owner, a->node, &acquisition);

	if (acquisition == 0)
		return;
	op.release =
	    (struct op_release){.node = a->node, .owner = a->owner, .acquisition = acquisition};
	m_propose(m, s->id, &op);
	if (q->granting_n == 0)
		m_queue_grant_behind(m, q, holders - 1, NULL);
	m_propose_flush(m);
}

/* A session knows of its place in a queue only when a new master would wait for it. */
void
m_lock_reply_queued(struct master *m, struct m_session *s)
{
	struct waiter *w;

	TAILQ_FOREACH(w, &s->waiters.list, of_session) {
		struct m_request *r = w->request;

		if (r == NULL)
			continue;
		m_waiter_owe_reply(w, NULL);
		reply_queued(m, s, r, w->acquire.ticket, w->converting ? LOCK_SHARED : LOCK_NONE);
	}
}

static void
enqueue(struct master *m, struct m_session *s, struct m_request *r, enum lock_mode held)
{
	const struct acquire a = r->acquire;
	struct waiter *w;
	bool converting = held == LOCK_SHARED && a.mode == LOCK_EXCLUSIVE;

	if (reply_if_queued(m, s, r))
		return;
	if (!m_waiter_fits(m, s, a.node)) {
		m_request_reply(m, s, r, RC_FULL, NULL);
		return;
	}
	if (converting && m_queue_converting(m_queue_find(m, a.node))) {
		M_TRACE(m,
		        "lock %" PRIu64 ": owner %" PRIu64 " of session %" PRIu64 " gives up "
		        "its share: another conversion waits for that",
		        a.node, a.owner, s->id);
		release_shared(m, s, &a);
		converting = false;
	}
	M_TRACE(m,
	        "lock %" PRIu64 ": owner %" PRIu64 " of session %" PRIu64
	        " waits by ticket %" PRIu64 ".%" PRIu64 "%s",
	        a.node, a.owner, s->id, r->acquire.ticket.epoch, r->acquire.ticket.place,
	        converting ? ", before all others" : "");
	w = m_waiter_add(m, s, r, converting);
	m_event_conflict(m, a.node);
	if (m_await_raise(m, s))
		reply_queued(m, s, r, a.ticket, converting ? held : LOCK_NONE);
	else
		m_waiter_owe_reply(w, r);
}

void
m_lock_acquire_refused(struct master *m, struct m_session *s, struct m_request *r)
{
	enum lock_mode held = LOCK_NONE;

	if (r->withdrawn) {
		m_request_reply(m, s, r, RC_INTR, NULL);
		return;
	}
	tree_lock_probe(m->tree, s->id, &r->acquire, &held);
	m_queue_touch(m, r->node);
	enqueue(m, s, r, held);
}

static void
leave_to_apply(struct master *m, struct m_session *s, struct m_request *r)
{
	must(!r->in_log && RB_INSERT(acquires_in_log, &m->acquires_in_log, r) == NULL);
	r->in_log = true;
	propose_alone(m, s, r);
}

/* The acquire gets its place before anything is decided: that of its ticket, or of its arrival. */
static void
acquire_in_place(struct master *m, struct m_session *s, struct m_request *r)
{
	enum lock_mode held = LOCK_NONE;
	const struct acquire *a = &r->acquire;
	const uint64_t node = a->node;
	struct result_acquired had;
	bool others_wait;
	enum rc rc;

	m_request_give_ticket(m, r);
	if (tree_lock_held_by(m->tree, s->id, a->owner, a->acquisition, node, &had)) {
		propose_alone(m, s, r); /* granted before: apply gives the same answer */
		return;
	}
	rc = tree_lock_probe(m->tree, s->id, a, &held);
	others_wait = held == LOCK_NONE && m_queue_blocks(m, m_queue_find(m, node), a);
	/* While the barrier stands an outstanding session may wait for the lock; a holder does not
	 * stand behind it. An acquire with a ticket of an earlier epoch is granted from the queue:
	 * one with an earlier ticket may be in flight, and be refused as busy. */
	others_wait |= held == LOCK_NONE && m_barrier_keeps(m, a->node);
	others_wait |= a->ticket.epoch != m->epoch;
	if (rc == RC_BUSY_LOCK || (rc == RC_OK && others_wait)) {
		/* A lock that is busy in the applied tree is busy, unless a release of this session
		 * is proposed: then apply decides, but for an acquire that can wait behind one that
		 * is in the log before that release. One that may not wait is refused under the
		 * master's lease. */
		if (!others_wait && m_request_behind_command(s, r) &&
		    !(a->wait && m_lock_in_log(m, node, &a->ticket)))
			leave_to_apply(m, s, r);
		else if (r->acquire.wait)
			enqueue(m, s, r, held);
		else
			m_request_reply(m, s, r, RC_BUSY_LOCK, NULL);
	} else {
		leave_to_apply(m, s, r);
	}
	m_queue_touch(m, node);
}

/* Is the number of the acquisition one that its owner has used before? That is not so when an
 * acquire is received again under the number of its request, nor when it presents its ticket. */
static bool
is_reused(struct master *m, struct m_session *s, const struct m_request *r)
{
	const struct acquire *a = &r->acquire;
	const struct waiter *w = m_waiter_find(m, a->node, s->id, a->owner, a->acquisition);
	const uint64_t withdrawn =
	    withdrawals_find(&s->withdrawals, a->node, a->owner, a->acquisition);

	if (withdrawn != 0 && withdrawn < r->number)
		return true;
	if (m_request_find_acquire(s, a->node, a->owner, a->acquisition) != r)
		return true;
	return w != NULL && a->ticket.epoch == 0 && w->number != r->number;
}

/* In the epoch that gave it the ticket an acquire stands in the queue, or has the lock, unless an
 * operator has taken that from it. */
static bool
is_over(struct master *m, struct m_session *s, const struct m_request *r)
{
	const struct acquire *a = &r->acquire;
	struct result_acquired had;
	enum lock_mode held;

	return a->ticket.epoch == m->epoch &&
	       m_waiter_find(m, a->node, s->id, a->owner, a->acquisition) == NULL &&
	       tree_lock_probe(m->tree, s->id, a, &held) != RC_STALE &&
	       !tree_lock_held_by(m->tree, s->id, a->owner, a->acquisition, a->node, &had);
}

static void
refuse(struct master *m, struct m_session *s, struct m_request *r, enum rc rc, const char *why)
{
	const struct op op = {.code = OP_acquire, .acquire.acquire = r->acquire};
	struct result missing = {.kind = RESULT_refused};

	M_TRACE(m,
	        "lock %" PRIu64 ": acquisition %" PRIu64 " of owner %" PRIu64 " of session %" PRIu64
	        " is refused: %s",
	        r->node, r->acquire.acquisition, r->acquire.owner, s->id, why);
	if (rc == RC_ACCES)
		missing.refused = tree_missing(m->tree, &r->requester, &op);
	m_request_reply(m, s, r, rc, rc == RC_ACCES ? &missing : NULL);
}

bool
m_lock_genuine(struct master *m, const struct m_session *s, const struct acquire *a)
{
	const struct waiter *w = m_waiter_find(m, a->node, s->id, a->owner, a->acquisition);
	struct result_acquired had;

	return m_ticket_genuine(m, s->id, a) ||
	       (w != NULL && w->acquire.ticket.epoch == a->ticket.epoch &&
	        w->acquire.ticket.place == a->ticket.place &&
	        w->acquire.ticket.code == a->ticket.code) ||
	       tree_lock_held_by(m->tree, s->id, a->owner, a->acquisition, a->node, &had);
}

void
m_lock_acquire(struct master *m, struct m_session *s, struct m_request *r)
{
	const struct op op = {.code = OP_acquire, .acquire.acquire = r->acquire};
	const struct acquire *a = &r->acquire;

	if (a->mode != LOCK_SHARED && a->mode != LOCK_EXCLUSIVE)
		refuse(m, s, r, RC_INVAL, "there is no such mode");
	else if (!m_lock_genuine(m, s, a))
		refuse(m, s, r, RC_PERM, "no master gave it this ticket");
	else if (r->withdrawn ||
	         withdrawals_find(&s->withdrawals, r->node, a->owner, a->acquisition) > r->number)
		refuse(m, s, r, RC_INTR, "it was given up");
	/* apply decides. An acquire without the right should not wait in the queue before. */
	else if (!m_request_behind_command(s, r) && !tree_permits(m->tree, &r->requester, &op))
		refuse(m, s, r, RC_ACCES, "its subject has not the right to write");
	else if (is_reused(m, s, r))
		refuse(m, s, r, RC_INVAL, "its number was used before");
	else if (is_over(m, s, r))
		refuse(m, s, r, RC_INTR, "it had the lock, and an operator has ended that");
	else if (!reply_if_queued(m, s, r))
		acquire_in_place(m, s, r);
}

/* ---- transactions ---- */

void
m_lock_transaction(struct master *m, struct m_session *s, struct m_request *r,
                   const struct op_transaction *o)
{
	struct footprint locks = {0};
	struct lock_queue *q;

	must(m->proposals.commands_n == 0); /* so that all is in one entry */
	tree_transaction_locks(m->tree, o, &locks);
	for (size_t i = 0; i < locks.n; i++)
		if ((q = m_queue_find(m, locks.keys[i])) != NULL)
			m_queue_grant_first(m, q);
	footprint_free(&locks);
	propose_alone(m, s, r);
}

/* ---- release and cancel ---- */

/* A command that frees a lock stands in one entry with the grants that follow from it. When apply
 * refuses a grant, because the state had changed, the next grant is an entry of its own. */
static void
grant_behind(struct master *m, uint64_t node, size_t left, const struct m_session *gone)
{
	struct lock_queue *q = m_queue_find(m, node);

	if (q != NULL && q->granting_n == 0 && left != SIZE_MAX)
		m_queue_grant_behind(m, q, left, gone);
}

void
m_lock_release(struct master *m, struct m_session *s, struct m_request *r,
               const struct op_release *op)
{
	const struct op_cancel named = {op->node, op->owner, op->acquisition};

	m_lock_withdraw(m, s, r->number, op->node, op->owner, op->acquisition);
	m_propose_request(m, s, r);
	grant_behind(m, op->node, tree_lock_left(m->tree, s->id, &named, false), NULL);
	m_propose_flush(m);
}

void
m_lock_cancel(struct master *m, struct m_session *s, struct m_request *r,
              const struct op_cancel *op)
{
	struct lock_queue *q;

	m_propose_request(m, s, r);
	if (!m_lock_withdraw(m, s, r->number, op->node, op->owner, op->acquisition))
		grant_behind(m, op->node, tree_lock_left(m->tree, s->id, op, true), NULL);
	else if ((q = m_queue_find(m, op->node)) != NULL)
		m_queue_grant(m, q);
	m_propose_flush(m);
}

void
m_lock_session_ends(struct master *m, uint64_t session, enum end_cause cause)
{
	const struct m_session *gone = m_session_find(m, session);
	uint64_t node = 0;

	for (size_t n = 0; n < LIMIT_ENDING;) {
		size_t left;

		if (!tree_session_lock_after(m->tree, session, node, &node))
			return;
		left = tree_lock_left_by(m->tree, session, node, cause, &n);
		grant_behind(m, node, left, gone);
	}
}

void
m_lock_end_session(struct master *m, struct m_session *s, struct m_request *r,
                   const struct op_end_session *op)
{
	m_propose_request(m, s, r);
	m_lock_session_ends(m, op->session, (enum end_cause)op->cause);
	m_propose_flush(m);
}

void
m_lock_delay_ends(struct master *m, uint64_t node)
{
	grant_behind(m, node, tree_lock_left_by_delay(m->tree, node), NULL);
}
