/* Those who wait for a lock: one queue per node, first come, first served. A holder that waits for
 * its conversion stands in front, for it holds part of the lock already; everybody else stands by
 * ticket, that is by arrival at the master of an epoch, over a fail-over too.
 *
 * The head gets the lock by a grant in the log, which names it. Until that is applied it keeps its
 * place, and if apply finds the lock taken it just stays there. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int
name_compare(const struct waiter *a, const struct waiter *b)
{
	int by = order(a->acquire.node, b->acquire.node);

	if (by == 0)
		by = order(a->session->id, b->session->id);
	if (by == 0)
		by = order(a->acquire.owner, b->acquire.owner);
	return by != 0 ? by : order(a->acquire.acquisition, b->acquire.acquisition);
}

static int
place_compare(const struct waiter *a, const struct waiter *b)
{
	int by = order(!a->converting, !b->converting);

	if (by == 0)
		by = order(a->acquire.ticket.epoch, b->acquire.ticket.epoch);
	if (by == 0)
		by = order(a->acquire.ticket.place, b->acquire.ticket.place);
	return by != 0 ? by : name_compare(a, b);
}

static int
queue_compare(const struct lock_queue *a, const struct lock_queue *b)
{
	return order(a->node, b->node);
}

RB_GENERATE_INTERNAL(name_tree, waiter, by_name, name_compare, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(place_tree, waiter, by_place, place_compare, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(queue_tree, lock_queue, link, queue_compare, __attribute__((unused)) static)

/* ---- the queue ---- */

struct lock_queue *
m_queue_find(struct master *m, uint64_t node)
{
	struct lock_queue like = {.node = node};

	return RB_FIND(queue_tree, &m->queues, &like);
}

static struct lock_queue *
queue_make(struct master *m, uint64_t node)
{
	struct lock_queue *q = m_queue_find(m, node);

	if (q != NULL)
		return q;
	q = memory_zero(1, sizeof *q);
	q->node = node;
	must(RB_INSERT(queue_tree, &m->queues, q) == NULL);
	return q;
}

static void
queue_free(struct master *m, struct lock_queue *q)
{
	must(q->n == 0 && q->granting_n == 0);
	if (q->dirty)
		TAILQ_REMOVE(&m->dirty, q, dirty_entry);
	RB_REMOVE(queue_tree, &m->queues, q);
	free(q);
}

void
m_queue_touch(struct master *m, uint64_t node)
{
	struct lock_queue *q = m_queue_find(m, node);

	if (q == NULL || q->dirty)
		return;
	q->dirty = true;
	TAILQ_INSERT_TAIL(&m->dirty, q, dirty_entry);
}

void
m_queue_touch_all(struct master *m)
{
	struct lock_queue *q;

	RB_FOREACH(q, queue_tree, &m->queues)
	m_queue_touch(m, q->node);
}

bool
m_queue_blocks(const struct lock_queue *q, const struct acquire *a)
{
	if (q == NULL)
		return false;
	return a->mode != LOCK_SHARED || q->granting_n < q->n || q->exclusive_n > 0;
}

bool
m_queue_converting(const struct lock_queue *q)
{
	const struct waiter *head =
	    q != NULL ? RB_MIN(place_tree, (struct place_tree *)&q->places) : NULL;

	return head != NULL && head->converting;
}

/* ---- one who waits ---- */

struct waiter *
m_waiter_find(struct master *m, uint64_t node, uint64_t session, uint64_t owner,
              uint64_t acquisition)
{
	struct m_session named = {.id = session};
	struct waiter like = {
	    .session = &named,
	    .acquire = {.node = node, .owner = owner, .acquisition = acquisition},
	};

	return RB_FIND(name_tree, &m->waiters, &like);
}

struct waiter *
m_waiter_add(struct master *m, struct m_session *s, const struct m_request *r, bool converting)
{
	const struct acquire *a = &r->acquire;
	struct lock_queue *q = queue_make(m, a->node);
	struct waiter *w;

	must(a->ticket.epoch != 0);
	if (q->n >= LIMIT_WAITERS || s->waiters_n >= LIMIT_SESSION_WAITERS)
		return NULL;
	w = memory_zero(1, sizeof *w);
	w->session = s;
	w->queue = q;
	w->number = r->number;
	w->acquire = *a;
	w->converting = converting;
	must(RB_INSERT(name_tree, &m->waiters, w) == NULL);
	must(RB_INSERT(place_tree, &q->places, w) == NULL);
	TAILQ_INSERT_TAIL(&s->waiters, w, of_session);
	s->waiters_n++;
	q->n++;
	q->exclusive_n += a->mode != LOCK_SHARED;
	return w;
}

void
m_waiter_drop(struct master *m, struct waiter *w)
{
	struct lock_queue *q = w->queue;
	struct m_session *s = w->session;

	RB_REMOVE(name_tree, &m->waiters, w);
	RB_REMOVE(place_tree, &q->places, w);
	TAILQ_REMOVE(&s->waiters, w, of_session);
	s->waiters_n--;
	q->n--;
	q->exclusive_n -= w->acquire.mode != LOCK_SHARED;
	if (w->granting)
		q->granting_n--;
	free(w);
	if (q->n == 0)
		queue_free(m, q);
	else
		m_queue_touch(m, q->node);
	m_awaited_idle(m, s);
}

/* ---- grants ---- */

static void
grant(struct master *m, struct lock_queue *q, struct waiter *w)
{
	struct op op = {.code = OP_grant};
	struct flight *f;

	must(!w->granting);
	m->work += REQUEST_WORK;
	op.grant = (struct op_grant){.session = w->session->id, .acquire = w->acquire};
	f = m_propose(m, 0, &op);
	f->session = w->session->id;
	f->node = q->node;
	f->owner = w->acquire.owner;
	f->acquisition = w->acquire.acquisition;
	w->granting = true;
	q->granting_n++;
}

/* Somebody who lost what it wanted to convert is one like the others. */
static void
step_back(struct lock_queue *q, struct waiter *w)
{
	RB_REMOVE(place_tree, &q->places, w);
	w->converting = false;
	must(RB_INSERT(place_tree, &q->places, w) == NULL);
}

static bool
grantable(struct master *m, struct lock_queue *q, struct waiter *w)
{
	enum lock_mode held = LOCK_NONE;
	bool free = tree_lock_probe(m->tree, w->session->id, &w->acquire, &held) == RC_OK;

	if (w->converting && held == LOCK_NONE) {
		step_back(q, w);
		m_queue_touch(m, q->node);
		return false;
	}
	return free;
}

/* One exclusive waiter, or all shared ones up to the first that is not. Of those who wait for a
 * lock that the barrier keeps, only who holds it may go on. */
void
m_queue_grant(struct master *m, struct lock_queue *q)
{
	bool shared = false;
	struct waiter *w, *next;

	RB_FOREACH_SAFE(w, place_tree, &q->places, next)
	{
		if (w->acquire.mode != LOCK_SHARED && shared)
			return;
		if (!w->converting && m_barrier_keeps(m, q->node))
			return;
		if (!w->granting && !grantable(m, q, w))
			return;
		if (!w->granting && m->work >= STEP_WORK) {
			m_queue_touch(m, q->node);
			return;
		}
		if (!w->granting)
			grant(m, q, w);
		if (w->acquire.mode != LOCK_SHARED)
			return;
		shared = true;
	}
}

void
m_queue_grant_behind(struct master *m, struct lock_queue *q, size_t others,
                     const struct m_session *gone)
{
	struct waiter *w;
	bool shared = others > 0;

	must(q->granting_n == 0);
	RB_FOREACH(w, place_tree, &q->places)
	{
		if (w->session == gone)
			continue;
		if (m->work >= STEP_WORK || (!w->converting && m_barrier_keeps(m, q->node)))
			return; /* the rest is granted when the lock has been freed */
		if (w->acquire.mode == LOCK_SHARED) {
			grant(m, q, w);
			shared = true;
			continue;
		}
		if (!shared ||
		    (w->converting && others == 1 && w == RB_MIN(place_tree, &q->places)))
			grant(m, q, w);
		return;
	}
}

static void
tell(struct master *m, const struct waiter *w, enum rc rc, const struct result_acquired *g)
{
	struct message granted = {
	    .code = MSG_granted,
	    .granted =
	        {
	            .rc = rc,
	            .node = w->acquire.node,
	            .owner = w->acquire.owner,
	            .acquisition = w->acquire.acquisition,
	            .lock_generation = g->lock_generation,
	            .fence = g->fence,
	        },
	};

	if (w->session->connection != NULL)
		m_connection_send(m, w->session->connection, &granted);
}

/* One that was given up meanwhile is not told: its cancel takes the lock back. */
void
m_queue_granted(struct master *m, const struct flight *f, const struct tree_answer *answer)
{
	struct waiter *w = m_waiter_find(m, f->node, f->session, f->owner, f->acquisition);
	struct result result = {.kind = RESULT_acquired};

	m_queue_touch(m, f->node);
	if (w == NULL || !w->granting)
		return;
	must(w->request == NULL); /* the bit was proposed first */
	if (answer->rc == RC_BUSY_LOCK) {
		w->granting = false;
		w->queue->granting_n--;
		return;
	}
	if (answer->rc == RC_OK)
		must(wire_get_result(RESULT_acquired, answer->result, &result) == RC_OK);
	tell(m, w, answer->rc, &result.acquired);
	m_waiter_drop(m, w);
}

void
m_queue_gone(struct master *m, uint64_t node)
{
	struct lock_queue *q = m_queue_find(m, node);

	if (q == NULL)
		return;
	q->gone = true;
	m_queue_touch(m, node);
}

/* The last one who goes takes the queue along. */
void
m_queue_tell_gone(struct master *m, struct lock_queue *q)
{
	const struct result_acquired nothing = {0};
	bool more = true;

	while (more && m->work < STEP_WORK) {
		struct waiter *w = RB_MIN(place_tree, &q->places);

		m->work += WAITER_WORK;
		more = q->n > 1;
		if (w->request != NULL)
			m_request_reply(m, w->session, w->request, RC_STALE, (struct bytes){0});
		else
			tell(m, w, RC_STALE, &nothing);
		m_waiter_drop(m, w);
	}
}
