/* The expiry of a session is decided here but takes effect as a command in the log, under the epoch
 * of the master that decided it; a session from which something is received before lives on. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* No client needs more answers in a cache lease, which is never longer than the other. */
enum { LEASE_ANSWERS = 24 };

span_t
m_lease_margin(const struct master *m, span_t lease)
{
	return (span_t){lease.ns / 1000 * m->config.drift_permille};
}

void
m_lease_arm(struct master *m, struct m_session *s)
{
	mono_t at = s->ending.cause != 0 ? s->ending.latest : s->lease.expiry;

	if (s->ending.proposed || s->ending.due)
		at = MONO_NEVER;
	else if (s->keepalive.held)
		at = mono_min(at, s->keepalive.answer_at);
	m_timer_set(m, &s->lease.timer, at);
}

span_t
m_lease(const struct master *m)
{
	return m_lengthened(m);
}

span_t
m_lease_longest(const struct master *m, enum setting which)
{
	return span_ms((int64_t)tree_setting_longest(m->tree, which));
}

/* The session lives at least so long from now. */
static void
extend_by(struct master *m, struct m_session *s, span_t lease)
{
	mono_t end = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));

	s->lease.expiry = mono_max(s->lease.expiry, end);
	m_lease_arm(m, s);
}

void
m_lease_begin(struct master *m, struct m_session *s, bool lasting)
{
	s->lease.promised = m->now;
	s->lease.expiry = lasting ? MONO_NEVER : m->now;
	s->lease.counted = (mono_t){INT64_MIN};
	s->lease.timer = m_timer(TIMER_SESSION, s->id);
	m_lease_extend(m, s);
}

bool
m_lease_lasts(const struct m_session *s)
{
	return mono_is_never(s->lease.expiry);
}

void
m_lease_forget(struct master *m, struct m_session *s)
{
	m_timer_off(m, &s->lease.timer);
}

void
m_lease_extend(struct master *m, struct m_session *s)
{
	extend_by(m, s, m_lease(m));
}

void
m_lease_inherited(struct master *m, struct m_session *s)
{
	extend_by(m, s, m_lease_longest(m, SETTING_session_lease));
}

/* More answers than a client needs are no load that longer leases would lower: one principal alone
 * must not lengthen those of all. */
static void
count_answer(struct master *m, struct m_session *s)
{
	const span_t lease = tree_setting_span(m->tree, SETTING_cache_lease);
	const span_t pause = {lease.ns / LEASE_ANSWERS};

	if (!mono_reached(m->now, mono_add(s->lease.counted, pause)))
		return;
	s->lease.counted = m->now;
	m_lengthened_count(m);
}

void
m_lease_promise(struct master *m, struct m_session *s)
{
	const span_t lease = m_lease(m);

	must(m->has_lease && !s->ending.proposed);
	s->lease.promised = mono_max(s->lease.promised, mono_add(m->now, lease));
	m_lease_extend(m, s);
	must(mono_before(s->lease.promised, s->lease.expiry) || m->config.drift_permille == 0);
	m_lengthened_promised(m, lease);
	count_answer(m, s);
}

/* A master whose own lease is over may have a successor that has received something. */
static void
lease_expire(struct master *m, struct m_session *s)
{
	must(m->has_lease && mono_reached(m->now, s->lease.expiry) && !s->keepalive.held);
	M_TRACE(m, "session %" PRIu64 " has not been heard for its lease", s->id);
	m_end_propose(m, s, SESSION_EXPIRED);
}

void
m_lease_timeout(struct master *m, struct m_session *s)
{
	must(!s->ending.proposed);
	if (s->ending.cause != 0)
		m_end_due(m, s);
	else if (!m->has_lease)
		m_timer_set(m, &s->lease.timer, mono_add(m->now, LEASE_RETRY));
	else if (m->barrier.stands && !s->keepalive.held && mono_reached(m->now, s->lease.expiry))
		m_timer_set(m, &s->lease.timer, m->barrier.end); /* others may cache its files */
	else if (s->keepalive.held && mono_reached(m->now, s->keepalive.answer_at))
		m_keepalive_answer(m, s);
	else if (!s->keepalive.held && mono_reached(m->now, s->lease.expiry))
		lease_expire(m, s);
	else
		m_lease_arm(m, s); /* the KeepAlive that it was for went with its connection */
}

/* A process that was stopped, or a machine that slept, finds every lease over although the clients
 * were there all the time. A deadline that was missed shows the pause; its beginning is not known,
 * so all the time since the last step counts. */
void
m_lease_account_pause(struct master *m, mono_t last)
{
	struct m_session *s;
	span_t pause = mono_since(m->now, last);

	if (mono_is_never(m->deadline) || mono_since(m->now, m->deadline).ns <= span_s(1).ns)
		return;
	M_TRACE(m, "session leases are longer by %" PRId64 " ms, in which nothing ran",
	        span_to_ms(pause));
	RB_FOREACH(s, m_session_tree, &m->sessions.by_id) {
		s->lease.expiry = mono_add(s->lease.expiry, pause);
		m_lease_arm(m, s);
	}
}
