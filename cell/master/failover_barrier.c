/* A new master does not know what sessions have cached under its predecessor; and sessions whose
 * acquires waited for a lock need a moment to send these again. So every command that could make a
 * cached answer wrong, and every acquire of a lock that was held or delayed when the epoch began,
 * waits until each session that may cache or waits for a lock has returned, or the longest leave to
 * cache is over (Chubby, section 2.9: "The master waits until each session acknowledges the
 * fail-over event or lets its session expire").
 *
 * A session has returned when its client says so, with `returned`, after the answer to its first
 * KeepAlive on a connection: then the client knows of the epoch, has dropped all that it had cached
 * in an earlier one, and has sent its waiting acquires again.
 *
 * Meanwhile sessions read, release and cancel; a holder may convert its lock. A lock that was free
 * when the epoch began is there for everybody, unless it was freed so lately that its next holder
 * may be an outstanding session: since the last barrier that was needed. So the log records when a
 * barrier has fallen. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* ---- await bit ----
 *
 * An await bit is raised through the log before the session gets its first leave to cache or its
 * first ticket, and lowered when the session has had neither for a while, many sessions to an
 * entry. So a lost machine that had neither delays nobody at the next fail-over. */

#define IDLE_LONG span_s(10) /* when a session has been idle for this span, bits are lowered: */
#define IDLE span_s(5)       /* of all sessions that have been idle for this one */

void
m_await_init(struct master *m)
{
	TAILQ_INIT(&m->await.idle);
	m->await.timer = m_timer(TIMER_IDLE, 0);
}

void
m_await_begin(struct m_session *s, bool bit)
{
	s->await.bit = bit;
}

void
m_await_set_caching(struct m_session *s, bool caching)
{
	s->await.caching = caching;
}

static void
propose(struct master *m, struct m_session *s, bool bit)
{
	struct op op = OPERATION(await_session, .session = s->id, .awaited = bit);

	m_propose(m, 0, &op)->session = s->id;
	s->await.bit = bit;
	s->await.proposed_n++;
}

static void
set_busy(struct master *m, struct m_session *s)
{
	if (!s->await.idle)
		return;
	s->await.idle = false;
	TAILQ_REMOVE(&m->await.idle, s, await.entry);
}

bool
m_await_raise(struct master *m, struct m_session *s)
{
	set_busy(m, s);
	if (!s->await.bit) {
		propose(m, s, true);
		m_propose_flush(m);
	}
	return s->await.proposed_n == 0;
}

void
m_await_applied(struct master *m, const struct own_command *own)
{
	struct m_session *s = m_session_find(m, own->session);

	if (s == NULL)
		return;
	must(s->await.proposed_n > 0);
	if (--s->await.proposed_n == 0 && s->await.bit) {
		/* The session's bit is raised: it gets the tickets and the leave that had to wait
		 * for that. */
		m_lock_reply_queued(m, s);
		m_cache_awaited(m, s);
	}
}

static void
arm(struct master *m)
{
	const struct m_session *first = TAILQ_FIRST(&m->await.idle);

	if (first == NULL)
		m_timer_off(m, &m->await.timer);
	else
		m_timer_set(m, &m->await.timer, mono_add(first->await.idle_since, IDLE_LONG));
}

void
m_await_idle(struct master *m, struct m_session *s)
{
	struct session_await *a = &s->await;

	if (!a->bit || a->caching || s->barrier.outstanding || a->idle || s->waiters.n > 0)
		return;
	a->idle = true;
	a->idle_since = m->now;
	TAILQ_INSERT_TAIL(&m->await.idle, s, await.entry);
	if (mono_is_never(m->await.timer.at))
		arm(m);
}

void
m_await_timeout(struct master *m)
{
	struct m_session *s;

	while (m_has_time(m) && (s = TAILQ_FIRST(&m->await.idle)) != NULL &&
	       mono_reached(m->now, mono_add(s->await.idle_since, IDLE))) {
		m->work += REQUEST_WORK;
		set_busy(m, s);
		propose(m, s, false);
	}
	m_propose_flush(m);
	arm(m);
}

void
m_await_forget(struct master *m, struct m_session *s)
{
	set_busy(m, s);
	if (TAILQ_EMPTY(&m->await.idle))
		m_timer_off(m, &m->await.timer);
}

/* ---- raising and falling ---- */

/* The longest leave to cache that an earlier master may have given. */
static span_t
cache_lease(const struct master *m)
{
	span_t lease = m_lease_longest(m, SETTING_cache_lease);

	return (span_t){lease.ns + m_lease_margin(m, lease).ns};
}

void
m_barrier_raise(struct master *m)
{
	struct failover_barrier *b = &m->barrier;

	must(!b->stands && b->outstanding_n == 0);
	if (m_session_all_inherited(m))
		return;
	b->end = mono_add(m->now, cache_lease(m));
	b->stands = true;
	b->timer = m_timer(TIMER_BARRIER, 0);
	m_timer_set(m, &b->timer, b->end);
	M_TRACE(m, "barrier stands for at most %" PRId64 " ms",
	        span_to_ms(mono_since(b->end, m->now)));
}

void
m_barrier_await(struct master *m, struct m_session *s)
{
	struct failover_barrier *b = &m->barrier;

	if (!b->stands)
		return;
	s->barrier.outstanding = b->needed = true;
	TAILQ_INSERT_TAIL(&b->outstanding, s, barrier.entry);
	b->outstanding_n++;
	M_TRACE(m, "barrier waits for session %" PRIu64, s->id);
}

static void
session_returned(struct master *m, struct m_session *s)
{
	must(s->barrier.outstanding && m->barrier.outstanding_n > 0);
	s->barrier.outstanding = false;
	TAILQ_REMOVE(&m->barrier.outstanding, s, barrier.entry);
	m->barrier.outstanding_n--;
	m_await_idle(m, s);
}

void
m_barrier_clear(struct master *m)
{
	struct failover_barrier *b = &m->barrier;
	struct m_session *s;

	if (b->stands)
		m_timer_off(m, &b->timer);
	b->stands = b->unsettled = b->needed = false;
	while ((s = TAILQ_FIRST(&b->outstanding)) != NULL)
		session_returned(m, s);
}

static void
fall(struct master *m)
{
	M_TRACE(m, "barrier falls");
	m_barrier_clear(m);
	m->barrier.unsettled = true;
	m_queue_touch_all(m);
}

/* The record stands in the log after the grants to the sessions that have returned: a next master
 * that finds these and not the record waits again. */
void
m_barrier_settle(struct master *m)
{
	struct op op = OPERATION(settle_epoch, .epoch = m->epoch);

	must(m->barrier.unsettled);
	m->barrier.unsettled = false;
	m_propose(m, 0, &op);
	m_propose_flush(m);
}

void
m_barrier_passed(struct master *m, struct m_session *s)
{
	if (!s->barrier.outstanding)
		return;
	must(m->barrier.stands);
	session_returned(m, s);
	M_TRACE(m, "barrier waits for session %" PRIu64 " no more: %zu are left", s->id,
	        m->barrier.outstanding_n);
	if (m->barrier.outstanding_n == 0 && m_session_all_inherited(m))
		fall(m);
}

void
m_barrier_returned(struct master *m, const struct m_connection *c, const struct msg_returned *msg)
{
	struct m_session *s = c->session;

	if (s != NULL && s->id == msg->session && msg->epoch == m->epoch)
		m_barrier_passed(m, s);
}

/* When no session was outstanding nothing has to be recorded: this master knows all waiters. */
void
m_barrier_counted(struct master *m)
{
	struct failover_barrier *b = &m->barrier;
	const bool needed = b->needed;

	if (!b->stands || b->outstanding_n > 0)
		return;
	fall(m);
	b->unsettled = needed;
}

void
m_barrier_timeout(struct master *m)
{
	must(m->barrier.stands && mono_reached(m->now, m->barrier.end));
	NOTICE(m->config.trace, "%zu sessions that cache or wait have not come back",
	       m->barrier.outstanding_n);
	fall(m);
}

/* ---- the requests that wait ---- */

bool
m_barrier_keeps(const struct master *m, uint64_t node)
{
	return m->barrier.stands &&
	       (tree_lock_claimed(m->tree, node) || tree_lock_kept(m->tree, node));
}

bool
m_barrier_holds(struct master *m, const struct m_session *s, const struct m_request *r)
{
	must(m->barrier.stands);
	if (r->code == OP_acquire) {
		/* An acquire that may wait is put into the lock's queue; one that may not asks
		 * whether it gets the lock, and it is not known yet which session is next. A holder
		 * has the lock whatever waits for it: but whether it still is one is known only
		 * when its own earlier commands are applied. */
		enum lock_mode held = LOCK_NONE;
		enum rc rc;

		if (!m_barrier_keeps(m, r->node))
			return false;
		rc = tree_lock_probe(m->tree, s->id, &r->acquire, &held);
		if (held != LOCK_NONE && m_request_behind_command(s, r))
			return r->acquire.wait || rc != RC_BUSY_LOCK || !m->has_lease;
		return held == LOCK_NONE && !r->acquire.wait &&
		       !(rc == RC_BUSY_LOCK && m->has_lease);
	}
	return m_admission_bounded(r);
}
