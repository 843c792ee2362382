/* Waiters are served first come, first served. A holder that waits for its conversion stands in
 * front, for it holds the lock as shared already; every other waiter stands in the order of the
 * tickets, that is of arrival at the master of an epoch, over a fail-over too.
 *
 * The first waiter gets the lock by a grant in the log, which names it. Until the grant is applied
 * the waiter keeps its place, and when apply finds the lock taken it stays there. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

static int
name_compare(const struct waiter *a, const struct waiter *b)
{
	const struct acquire *p = &a->acquire, *q = &b->acquire;

	return keyed_order(p->node, q->node) ?: keyed_order(a->session->id, b->session->id)
		?: keyed_order(p->owner, q->owner) ?: keyed_order(p->acquisition, q->acquisition);
}

static int
place_compare(const struct waiter *a, const struct waiter *b)
{
	const struct ticket *p = &a->acquire.ticket, *q = &b->acquire.ticket;

	return keyed_order(!a->converting, !b->converting) ?: keyed_order(p->epoch, q->epoch)
		?: keyed_order(p->place, q->place) ?: name_compare(a, b);
}

RB_GENERATE_INTERNAL(waiter_names, waiter, by_name, name_compare, __attribute__((unused)) static)
RB_GENERATE_INTERNAL(waiter_places, waiter, by_place, place_compare, __attribute__((unused)) static)
KEYED_TREE(queue_tree, lock_queue, link, node)

/* ---- the queue ---- */

struct lock_queue *
m_queue_find(struct master *m, uint64_t node)
{
	return queue_tree_find(&m->queues.by_node, node);
}

struct lock_queue *
m_queue_after(struct master *m, uint64_t after)
{
	return queue_tree_after(&m->queues.by_node, after);
}

uint32_t
m_queue_list(struct master *m, const struct lock_queue *q, struct buffer *list)
{
	struct tree_session session;
	struct waiter *w;
	uint32_t n = 0;

	RB_FOREACH(w, waiter_places, (struct waiter_places *)&q->places) {
		if (!tree_session(m->tree, w->session->id, &session))
			continue;
		wire_put_lock_waiter(list, &(struct lock_waiter){.session = session.id,
		                                                 .mode = w->acquire.mode,
		                                                 .since_ns = w->since_ns,
		                                                 .pid = w->acquire.pid,
		                                                 .host = session.host,
		                                                 .principal = session.principal});
		n++;
	}
	must(!list->failed);
	return n;
}

static struct lock_queue *
queue_make(struct master *m, uint64_t node)
{
	struct lock_queue *q = m_queue_find(m, node);

	if (q != NULL)
		return q;
	q = memory_zero(1, sizeof *q);
	q->node = node;
	must(RB_INSERT(queue_tree, &m->queues.by_node, q) == NULL);
	return q;
}

void
m_queue_touch(struct master *m, uint64_t node)
{
	struct lock_queue *q = m_queue_find(m, node);

	if (q == NULL || q->touched)
		return;
	q->touched = true;
	TAILQ_INSERT_TAIL(&m->queues.touched, q, touched_entry);
}

void
m_queue_touch_all(struct master *m)
{
	struct lock_queue *q;

	RB_FOREACH(q, queue_tree, &m->queues.by_node)
		m_queue_touch(m, q->node);
}

void
m_queue_judge(struct master *m, uint64_t node)
{
	struct lock_queue *q = m_queue_find(m, node);

	m->queues.rights++;
	if (q == NULL)
		return;
	q->unjudged = true;
	m_queue_touch(m, node);
}

void
m_queue_judge_all(struct master *m)
{
	struct lock_queue *q;

	RB_FOREACH(q, queue_tree, &m->queues.by_node)
		m_queue_judge(m, q->node);
}

bool
m_queue_blocks(const struct master *m, const struct lock_queue *q, const struct acquire *a)
{
	if (q == NULL)
		return false;
	return a->mode != LOCK_SHARED || tree_lock_counts(m->tree, a->node) ||
	       q->granting_n < q->n || q->exclusive_n > 0;
}

bool
m_queue_converting(const struct lock_queue *q)
{
	const struct waiter *head =
	    q != NULL ? RB_MIN(waiter_places, (struct waiter_places *)&q->places) : NULL;

	return head != NULL && head->converting;
}

/* ---- waiters ---- */

struct waiter *
m_waiter_find(struct master *m, uint64_t node, uint64_t session, uint64_t owner,
              uint64_t acquisition)
{
	struct m_session named = {.id = session};
	struct waiter like = {
	    .session = &named,
	    .acquire = {.node = node, .owner = owner, .acquisition = acquisition},
	};

	return RB_FIND(waiter_names, &m->queues.waiters, &like);
}

bool
m_waiter_fits(struct master *m, const struct m_session *s, uint64_t node)
{
	const struct lock_queue *q = m_queue_find(m, node);

	return (q == NULL || q->n < LIMIT_WAITERS) && s->waiters.n < LIMIT_SESSION_WAITERS &&
	       m_usage_waiter_fits(s);
}

struct waiter *
m_waiter_add(struct master *m, struct m_session *s, const struct m_request *r, bool converting)
{
	const struct acquire *a = &r->acquire;
	struct lock_queue *q;
	struct waiter *w;

	must(a->ticket.epoch != 0 && m_waiter_fits(m, s, a->node));
	q = queue_make(m, a->node);
	w = memory_zero(1, sizeof *w);
	w->session = s;
	w->queue = q;
	w->number = r->number;
	w->since_ns = m->wall_ns;
	w->acquire = *a;
	w->user = bytes_copy(r->requester.user);
	w->judged = m->queues.rights;
	w->converting = converting;
	must(RB_INSERT(waiter_names, &m->queues.waiters, w) == NULL);
	must(RB_INSERT(waiter_places, &q->places, w) == NULL);
	TAILQ_INSERT_TAIL(&s->waiters.list, w, of_session);
	s->waiters.n++;
	m_usage_add_waiter(s);
	q->n++;
	q->exclusive_n += a->mode != LOCK_SHARED;
	return w;
}

void
m_waiter_owe_reply(struct waiter *w, struct m_request *r)
{
	w->request = r;
}

void
m_waiter_drop(struct master *m, struct waiter *w)
{
	struct lock_queue *q = w->queue;
	struct m_session *s = w->session;

	RB_REMOVE(waiter_names, &m->queues.waiters, w);
	RB_REMOVE(waiter_places, &q->places, w);
	TAILQ_REMOVE(&s->waiters.list, w, of_session);
	s->waiters.n--;
	m_usage_drop_waiter(s);
	q->n--;
	q->exclusive_n -= w->acquire.mode != LOCK_SHARED;
	if (w->granting)
		q->granting_n--;
	free((void *)w->user.data);
	free(w);
	if (q->n == 0) {
		must(q->granting_n == 0);
		if (q->touched)
			TAILQ_REMOVE(&m->queues.touched, q, touched_entry);
		RB_REMOVE(queue_tree, &m->queues.by_node, q);
		free(q);
	} else {
		m_queue_touch(m, q->node);
	}
	m_await_idle(m, s);
}

void
m_waiters_drop(struct master *m, struct m_session *s)
{
	while (!TAILQ_EMPTY(&s->waiters.list))
		m_waiter_drop(m, TAILQ_FIRST(&s->waiters.list));
}

/* ---- grants ---- */

static void
grant(struct master *m, struct lock_queue *q, struct waiter *w)
{
	struct op op = {.code = OP_grant};
	struct own_command *own;

	M_TRACE(m, "lock %" PRIu64 ": owner %" PRIu64 " of session %" PRIu64 " is next", q->node,
	        w->acquire.owner, w->session->id);
	m->work += REQUEST_WORK;
	op.grant = (struct op_grant){.session = w->session->id, .acquire = w->acquire};
	own = m_propose_for(m, w->user, &op);
	own->session = w->session->id;
	own->node = q->node;
	own->owner = w->acquire.owner;
	own->acquisition = w->acquire.acquisition;
	if (w->granting++ == 0)
		q->granting_n++;
}

/* `shares` are the grants before this one that are not applied yet. */
static bool
grantable(struct master *m, struct lock_queue *q, struct waiter *w, size_t shares)
{
	enum lock_mode held = LOCK_NONE;
	bool free = tree_lock_probe(m->tree, w->session->id, &w->acquire, &held) == RC_OK;

	if (w->converting && held == LOCK_NONE) {
		/* A waiter that has lost the lock that it wanted to convert stands by its ticket
		 * from now on. */
		RB_REMOVE(waiter_places, &q->places, w);
		w->converting = false;
		must(RB_INSERT(waiter_places, &q->places, w) == NULL);
		m_queue_touch(m, q->node);
		return false;
	}
	return free && (held != LOCK_NONE || shares < tree_lock_room(m->tree, q->node, SIZE_MAX));
}

/* True for a waiter that may not be granted the lock yet: the barrier keeps it, or the log has an
 * acquire that comes before this one. Neither is in the way of a holder. */
static bool
is_early(struct master *m, const struct waiter *w)
{
	const struct acquire *a = &w->acquire;

	return !w->converting &&
	       (m_barrier_keeps(m, a->node) || m_lock_in_log(m, a->node, &a->ticket));
}

/* Grants to one exclusive waiter, or to the shared ones before the first exclusive one, as many as
 * there is room for. */
void
m_queue_grant(struct master *m, struct lock_queue *q)
{
	size_t shares = 0;
	struct waiter *w, *next;

	RB_FOREACH_SAFE(w, waiter_places, &q->places, next) {
		if (shares > 0 && w->acquire.mode != LOCK_SHARED)
			return;
		if (!w->granting && (is_early(m, w) || !grantable(m, q, w, shares)))
			return;
		if (!w->granting && !m_has_time(m)) {
			m_queue_touch(m, q->node);
			return;
		}
		if (!w->granting)
			grant(m, q, w);
		if (w->acquire.mode != LOCK_SHARED)
			return;
		shares++;
	}
}

/* A grant to that waiter that is under way already may come too early. */
void
m_queue_grant_first(struct master *m, struct lock_queue *q)
{
	grant(m, q, RB_MIN(waiter_places, &q->places));
}

void
m_queue_grant_behind(struct master *m, struct lock_queue *q, size_t others,
                     const struct m_session *gone)
{
	struct waiter *w;
	size_t room = tree_lock_room(m->tree, q->node, others);
	bool shared = others > 0;

	must(q->granting_n == 0);
	RB_FOREACH(w, waiter_places, &q->places) {
		if (w->session == gone)
			return; /* nobody passes it before it has gone */
		if (!m_has_time(m) || is_early(m, w))
			return; /* the rest is granted when the lock has been freed */
		if (w->acquire.mode == LOCK_SHARED) {
			if (room-- == 0)
				return;
			grant(m, q, w);
			shared = true;
			continue;
		}
		if (!shared ||
		    (w->converting && others == 1 && w == RB_MIN(waiter_places, &q->places)))
			grant(m, q, w);
		return;
	}
}

static void
send_granted(struct master *m, const struct waiter *w, enum rc rc, const struct result_acquired *g)
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

/* The client of a waiter that was withdrawn is not told: its cancel takes the lock back. */
void
m_queue_granted(struct master *m, const struct own_command *own, const struct tree_answer *answer)
{
	struct waiter *w = m_waiter_find(m, own->node, own->session, own->owner, own->acquisition);
	struct result result = {.kind = RESULT_acquired};

	m_queue_touch(m, own->node);
	if (w == NULL || !w->granting)
		return;
	must(w->request == NULL); /* the await bit was proposed first */
	if (answer->rc == RC_BUSY_LOCK) {
		if (--w->granting == 0)
			w->queue->granting_n--;
		return;
	}
	if (answer->rc == RC_OK)
		must(wire_get_result(RESULT_acquired, answer->result, &result) == RC_OK);
	send_granted(m, w, answer->rc, &result.acquired);
	m_waiter_drop(m, w);
}

/* A session that is not connected, or has not heard it when its connection ends, looks at its locks
 * when it is connected again. */
void
m_queue_lost(struct master *m, const struct tree_note *lost)
{
	const struct m_session *s = m_session_find(m, lost->session);
	const struct message message =
	    MESSAGE(granted, .rc = RC_INTR, .node = lost->node, .owner = lost->owner,
	            .acquisition = lost->acquisition);

	if (s != NULL && s->connection != NULL)
		m_connection_send(m, s->connection, &message);
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

/* The queue is freed with its last waiter: false then. */
static bool
refuse_waiter(struct master *m, struct waiter *w, enum rc rc, const struct result *result)
{
	const struct result_acquired nothing = {0};
	const bool more = w->queue->n > 1;

	if (w->request != NULL)
		m_request_reply(m, w->session, w->request, rc, result);
	else
		send_granted(m, w, rc, &nothing);
	m_waiter_drop(m, w);
	return more;
}

static struct result_refused
missing(struct master *m, const struct waiter *w)
{
	const struct requester who = {.session = w->session->id, .user = w->user};
	const struct op op = {.code = OP_acquire, .acquire.acquire = w->acquire};

	return tree_missing(m->tree, &who, &op);
}

/* Refuses the waiters that have lost the right to the lock; apply decides about one whose grant is
 * proposed. False when none is left. */
static bool
judge_waiters(struct master *m, struct lock_queue *q)
{
	struct result refused = {.kind = RESULT_refused};
	struct waiter *w, *next;
	bool more = true;

	q->unjudged = false;
	RB_FOREACH_SAFE(w, waiter_places, &q->places, next) {
		if (w->judged == m->queues.rights || w->granting)
			continue;
		if (!m_has_time(m)) {
			q->unjudged = true;
			m_queue_touch(m, q->node);
			return true;
		}
		m->work += WAITER_WORK;
		w->judged = m->queues.rights;
		refused.refused = missing(m, w);
		if (refused.refused.node == 0)
			continue;
		M_TRACE(m,
		        "lock %" PRIu64 ": owner %" PRIu64 " of session %" PRIu64
		        " has lost the right to it",
		        w->acquire.node, w->acquire.owner, w->session->id);
		more = refuse_waiter(m, w, RC_ACCES, &refused);
	}
	return more;
}

void
m_queue_run(struct master *m)
{
	struct lock_queue *q;

	while (m_has_time(m) && (q = TAILQ_FIRST(&m->queues.touched)) != NULL) {
		TAILQ_REMOVE(&m->queues.touched, q, touched_entry);
		q->touched = false;
		m->work += WAITER_WORK;
		if (q->gone) {
			bool more = true;

			/* With each one that goes the queue is touched again: at least one does. */
			do {
				m->work += WAITER_WORK;
				more = refuse_waiter(m, RB_MIN(waiter_places, &q->places), RC_STALE,
				                     NULL);
			} while (more && m_has_time(m));
		} else if (!q->unjudged || judge_waiters(m, q)) {
			m_queue_grant(m, q);
		}
		m_propose_flush(m);
	}
}
