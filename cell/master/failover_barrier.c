/* The barrier of a new master. Its predecessor may have left sessions with leave to cache, and it
 * does not know what they have; and those who waited for a lock need a moment to say so again. So
 * what could make a cached answer wrong, and every lock that was held or delayed when the epoch
 * began, waits until each session that may cache or waits for a lock has come to the new master, or
 * the longest leave to cache has run out (Chubby, section 2.9: "The master waits until each session
 * acknowledges the fail-over event or lets its session expire").
 *
 * A session has come when it says so, with `returned`, behind the answer to its first KeepAlive on
 * a connection: then it knows of the epoch, has dropped what it had cached in an earlier one, and
 * has said for which locks it waits, all of which it sends before.
 *
 * Meanwhile sessions read, release and cancel; who holds a lock may convert it. A lock that was
 * free when the epoch began is there for everybody, unless it was freed so lately that its next
 * holder may be among those who have to come back: since the last barrier that was waited for. So
 * the log says when a barrier has fallen. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* ---- up and down ---- */

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

	must(!b->stands && b->missing_n == 0);
	if (m_session_all_inherited(m))
		return;
	b->end = mono_add(m->now, cache_lease(m));
	b->stands = true;
	b->timer = (struct timer){.at = MONO_NEVER, .kind = TIMER_BARRIER};
	m_timer_set(m, &b->timer, b->end);
}

void
m_barrier_await(struct master *m, struct m_session *s)
{
	struct failover_barrier *b = &m->barrier;

	if (!b->stands)
		return;
	s->missing = b->waited = true;
	TAILQ_INSERT_TAIL(&b->missing, s, missing_entry);
	b->missing_n++;
}

static void
come(struct master *m, struct m_session *s)
{
	must(s->missing && m->barrier.missing_n > 0);
	s->missing = false;
	TAILQ_REMOVE(&m->barrier.missing, s, missing_entry);
	m->barrier.missing_n--;
	m_awaited_idle(m, s);
}

void
m_barrier_clear(struct master *m)
{
	struct failover_barrier *b = &m->barrier;
	struct m_session *s;

	if (b->stands)
		m_timer_off(m, &b->timer);
	b->stands = b->unsettled = b->waited = false;
	while ((s = TAILQ_FIRST(&b->missing)) != NULL)
		come(m, s);
}

static void
fall(struct master *m)
{
	m_barrier_clear(m);
	m->barrier.unsettled = true;
	m_queue_touch_all(m);
}

/* Behind the grants to those who came back, in the log: should the next master find the one and not
 * the other, it waits once more. */
void
m_barrier_settle(struct master *m)
{
	struct op op = {.code = OP_settle_epoch, .settle_epoch = {.epoch = m->epoch}};

	must(m->barrier.unsettled);
	m->barrier.unsettled = false;
	m_propose(m, 0, &op);
	m_propose_flush(m);
}

void
m_barrier_passed(struct master *m, struct m_session *s)
{
	if (!s->missing)
		return;
	must(m->barrier.stands);
	come(m, s);
	if (m->barrier.missing_n == 0 && m_session_all_inherited(m))
		fall(m);
}

void
m_barrier_returned(struct master *m, const struct m_connection *c, const struct msg_returned *msg)
{
	struct m_session *s = c->session;

	if (s != NULL && s->id == msg->session && msg->epoch == m->epoch)
		m_barrier_passed(m, s);
}

/* Where nobody is awaited nothing has to be told: no lock has a claim that is not known here. */
void
m_barrier_counted(struct master *m)
{
	struct failover_barrier *b = &m->barrier;
	const bool waited = b->waited;

	if (!b->stands || b->missing_n > 0)
		return;
	fall(m);
	b->unsettled = waited;
}

void
m_barrier_timeout(struct master *m)
{
	must(m->barrier.stands && mono_reached(m->now, m->barrier.end));
	NOTICE(m->config.trace, "%zu sessions that cache or wait have not come back",
	       m->barrier.missing_n);
	fall(m);
}

/* ---- who waits ---- */

bool
m_barrier_keeps(const struct master *m, uint64_t node)
{
	return m->barrier.stands &&
	       (tree_lock_claimed(m->tree, node) || tree_lock_kept(m->tree, node));
}

/* What a session may have cached is everything but the state of locks. */
static bool
changes_what_is_cached(enum op_code code)
{
	if (wire_op_class(code) != OP_CLASS_COMMAND)
		return false;
	return code != OP_acquire && code != OP_release && code != OP_cancel &&
	       code != OP_open_ephemeral;
}

/* An acquire that waits is put into the lock's queue; one that does not asks whether it gets the
 * lock, and it is not known yet whose turn it is. A holder has the lock whoever waits: but whether
 * it still is one is known only when its own commands before are applied. */
static bool
holds_acquire(struct master *m, const struct m_session *s, const struct m_request *r)
{
	enum lock_mode held = LOCK_NONE;
	enum rc rc;

	if (!m_barrier_keeps(m, r->node))
		return false;
	rc = tree_lock_probe(m->tree, s->id, &r->acquire, &held);
	if (held != LOCK_NONE && m_request_behind_command(s, r))
		return r->acquire.wait || rc != RC_BUSY_LOCK || !m->lease;
	return held == LOCK_NONE && !r->acquire.wait && !(rc == RC_BUSY_LOCK && m->lease);
}

bool
m_barrier_holds(struct master *m, const struct m_session *s, const struct m_request *r)
{
	must(m->barrier.stands);
	if (r->code == OP_acquire)
		return holds_acquire(m, s, r);
	return changes_what_is_cached(r->code);
}
