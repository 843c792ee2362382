/* Acquire, release, cancel: who may ask the log for a lock at once and who must wait.
 *
 * apply decides who holds a lock; here it is only decided what is worth proposing. An acquire that
 * would overtake those who wait is queued without a word to the log; when a holder lets go, the
 * grant for the next one goes into the same entry. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static const struct bytes nothing;

static void
propose_alone(struct master *m, struct m_session *s, struct m_request *r)
{
	m_propose_request(m, s, r);
	m_propose_flush(m);
}

/* ---- what was given up ---- */

static int
order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int
given_up_compare(const struct given_up *a, const struct given_up *b)
{
	int by = order(a->node, b->node);

	if (by == 0)
		by = order(a->owner, b->owner);
	return by != 0 ? by : order(a->acquisition, b->acquisition);
}

RB_GENERATE_INTERNAL(given_up_tree, given_up, link, given_up_compare,
                     __attribute__((unused)) static)

static struct given_up *
given_up_find(const struct m_session *s, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct given_up like = {.node = node, .owner = owner, .acquisition = acquisition};

	return RB_FIND(given_up_tree, (struct given_up_tree *)&s->given_up, &like);
}

/* They stand in the order of arrival, which is the order of numbers but for a few. */
void
m_lock_forget_given_up(struct m_session *s, uint64_t below)
{
	struct given_up *g;

	while ((g = TAILQ_FIRST(&s->given_up_order)) != NULL && g->number < below) {
		TAILQ_REMOVE(&s->given_up_order, g, entry);
		RB_REMOVE(given_up_tree, &s->given_up, g);
		s->given_up_n--;
		free(g);
	}
}

/* Was the acquire given up by a cancel or release of a higher number? */
static bool
was_given_up(const struct m_session *s, const struct m_request *r)
{
	const struct given_up *g =
	    given_up_find(s, r->node, r->acquire.owner, r->acquire.acquisition);

	return g != NULL && g->number > r->number;
}

static void
remember_given_up(struct m_session *s, uint64_t number, uint64_t node, uint64_t owner,
                  uint64_t acquisition)
{
	struct given_up *g = given_up_find(s, node, owner, acquisition);

	if (g != NULL)
		return;
	g = memory_zero(1, sizeof *g);
	g->number = number;
	g->node = node;
	g->owner = owner;
	g->acquisition = acquisition;
	must(RB_INSERT(given_up_tree, &s->given_up, g) == NULL);
	TAILQ_INSERT_TAIL(&s->given_up_order, g, entry);
	s->given_up_n++;
}

bool
m_lock_give_up(struct master *m, struct m_session *s, uint64_t number, uint64_t node,
               uint64_t owner, uint64_t acquisition)
{
	struct waiter *w = m_waiter_find(m, node, s->id, owner, acquisition);
	struct m_request *r = m_request_find_acquire(s, node, owner, acquisition);

	remember_given_up(s, number, node, owner, acquisition);
	if (r != NULL && r->number < number)
		r->cancelled = true;
	if (w == NULL)
		return false;
	if (w->request != NULL)
		m_request_reply(m, s, w->request, RC_INTR, nothing);
	m_waiter_drop(m, w);
	return true;
}

/* ---- acquire ---- */

static void
reply_queued(struct master *m, struct m_session *s, struct m_request *r, struct ticket ticket,
             enum lock_mode kept)
{
	struct buffer encoded = BUFFER(LIMIT_FRAME);
	struct result result = {
	    .kind = RESULT_acquired,
	    .acquired = {.kept = kept, .ticket = ticket},
	};

	wire_put_result(&encoded, &result);
	must(!encoded.failed);
	m_request_reply(m, s, r, RC_QUEUED, buffer_view(&encoded));
	buffer_free(&encoded);
}

/* One that waits already has its place. */
static bool
reply_waiting(struct master *m, struct m_session *s, struct m_request *r)
{
	const struct acquire *a = &r->acquire;
	const struct waiter *w = m_waiter_find(m, a->node, s->id, a->owner, a->acquisition);

	if (w == NULL)
		return false;
	reply_queued(m, s, r, w->acquire.ticket, w->converting ? LOCK_SHARED : LOCK_NONE);
	return true;
}

/* Two holders that both wait for the other to let go would wait forever. As flock(2) has it, the
 * second one's shared lock is lost over its conversion. */
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

/* A session that waits is one for whom a new master waits: that is so before it knows its place. */
void
m_lock_tell_queued(struct master *m, struct m_session *s)
{
	struct waiter *w;

	TAILQ_FOREACH(w, &s->waiters, of_session)
	{
		struct m_request *r = w->request;

		if (r == NULL)
			continue;
		w->request = NULL;
		reply_queued(m, s, r, w->acquire.ticket, w->converting ? LOCK_SHARED : LOCK_NONE);
	}
}

static void
enqueue(struct master *m, struct m_session *s, struct m_request *r, enum lock_mode held)
{
	const struct acquire a = r->acquire;
	struct waiter *w;
	bool converting = held == LOCK_SHARED && a.mode == LOCK_EXCLUSIVE;

	if (reply_waiting(m, s, r))
		return;
	if (converting && m_queue_converting(m_queue_find(m, a.node))) {
		release_shared(m, s, &a);
		converting = false;
	}
	w = m_waiter_add(m, s, r, converting);
	if (w == NULL)
		m_request_reply(m, s, r, RC_FULL, nothing);
	else if (m_awaited_raise(m, s))
		reply_queued(m, s, r, a.ticket, converting ? held : LOCK_NONE);
	else
		w->request = r;
}

void
m_lock_acquire_refused(struct master *m, struct m_session *s, struct m_request *r)
{
	enum lock_mode held = LOCK_NONE;

	if (r->cancelled) {
		m_request_reply(m, s, r, RC_INTR, nothing);
		return;
	}
	tree_lock_probe(m->tree, s->id, &r->acquire, &held);
	m_queue_touch(m, r->node);
	enqueue(m, s, r, held);
}

/* A lock seen as busy in the applied tree is busy, unless this session's own release is under way:
 * then the log knows better. Who does not wait is told so under the master's lease. */
static void
acquire_busy(struct master *m, struct m_session *s, struct m_request *r, enum lock_mode held,
             bool others_wait)
{
	if (!others_wait && m_request_behind_command(s, r))
		propose_alone(m, s, r);
	else if (r->acquire.wait)
		enqueue(m, s, r, held);
	else
		m_request_reply(m, s, r, RC_BUSY_LOCK, nothing);
}

static void
acquire_new(struct master *m, struct m_session *s, struct m_request *r)
{
	enum lock_mode held = LOCK_NONE;
	const struct acquire *a = &r->acquire;
	const uint64_t node = a->node;
	enum rc rc = tree_lock_probe(m->tree, s->id, a, &held);
	bool others_wait = held == LOCK_NONE && m_queue_blocks(m_queue_find(m, a->node), a);

	/* Behind the barrier sessions that have not come back may wait: only a holder need not
	 * care. An acquire with a place of an earlier epoch is granted from the queue: one with a
	 * place before it may be in flight, and found busy. */
	others_wait |= held == LOCK_NONE && m_barrier_keeps(m, a->node);
	others_wait |= a->ticket.epoch != m->epoch;
	if (rc == RC_BUSY_LOCK || (rc == RC_OK && others_wait))
		acquire_busy(m, s, r, held, others_wait);
	else
		propose_alone(m, s, r);
	m_queue_touch(m, node);
}

/* Is the number of the acquisition one that its owner has used before? An acquire that comes again
 * under the number of its request is not meant, nor one that presents the ticket of its place: in
 * the epoch that gave the ticket it waits here, or has the lock. */
static bool
is_reused(struct master *m, struct m_session *s, const struct m_request *r)
{
	const struct acquire *a = &r->acquire;
	const struct waiter *w = m_waiter_find(m, a->node, s->id, a->owner, a->acquisition);
	const struct given_up *g = given_up_find(s, a->node, a->owner, a->acquisition);
	struct result_acquired had;
	enum lock_mode held;

	if (g != NULL && g->number < r->number)
		return true;
	if (m_request_find_acquire(s, a->node, a->owner, a->acquisition) != r)
		return true;
	if (w != NULL)
		return a->ticket.epoch == 0 && w->number != r->number;
	return a->ticket.epoch == m->epoch &&
	       tree_lock_probe(m->tree, s->id, a, &held) != RC_STALE &&
	       !tree_lock_held_by(m->tree, s->id, a->owner, a->acquisition, a->node, &had);
}

/* Whatever it will be found to be, it has its place: that of its arrival, or of its ticket. */
static void
acquire_in_place(struct master *m, struct m_session *s, struct m_request *r)
{
	struct acquire *a = &r->acquire;
	struct result_acquired had;

	if (a->ticket.epoch == 0)
		m_ticket_give(m, s->id, a);
	if (tree_lock_held_by(m->tree, s->id, a->owner, a->acquisition, a->node, &had))
		propose_alone(m, s, r); /* granted before: apply gives the same answer */
	else
		acquire_new(m, s, r);
}

void
m_lock_acquire(struct master *m, struct m_session *s, struct m_request *r)
{
	const struct acquire *a = &r->acquire;

	if (a->mode != LOCK_SHARED && a->mode != LOCK_EXCLUSIVE)
		m_request_reply(m, s, r, RC_INVAL, nothing);
	else if (!m_ticket_genuine(m, s->id, a))
		m_request_reply(m, s, r, RC_PERM, nothing);
	else if (r->cancelled || was_given_up(s, r))
		m_request_reply(m, s, r, RC_INTR, nothing);
	else if (is_reused(m, s, r))
		m_request_reply(m, s, r, RC_INVAL, nothing);
	else if (!reply_waiting(m, s, r))
		acquire_in_place(m, s, r);
}

/* ---- release and cancel ---- */

/* The commands that free a lock carry the grants that follow from them in the same entry. When
 * apply refuses one, because things were otherwise, the next one is an entry of its own. */
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

	m_lock_give_up(m, s, r->number, op->node, op->owner, op->acquisition);
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
	if (!m_lock_give_up(m, s, r->number, op->node, op->owner, op->acquisition))
		grant_behind(m, op->node, tree_lock_left(m->tree, s->id, op, true), NULL);
	else if ((q = m_queue_find(m, op->node)) != NULL)
		m_queue_grant(m, q);
	m_propose_flush(m);
}

void
m_lock_session_ends(struct master *m, uint64_t session, enum session_end cause)
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
	m_lock_session_ends(m, op->session, (enum session_end)op->cause);
	m_propose_flush(m);
}

void
m_lock_delay_ends(struct master *m, uint64_t node)
{
	grant_behind(m, node, tree_lock_left_by_delay(m->tree, node), NULL);
}
