/* Leases of sessions (Chubby, section 2.8): a session lives until nothing was heard of it for its
 * whole lease. Its end is decided here but takes effect as a command in the log, under the epoch of
 * the master that decided it; a session that is heard of before that lives on. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* Clocks of client and master may run at different rates. */
span_t
m_lease_margin(const struct master *m, span_t lease)
{
	return (span_t){lease.ns / 1000 * m->config.drift_permille};
}

void
m_lease_arm(struct master *m, struct m_session *s)
{
	mono_t at = s->doomed != 0 ? s->doomed_until : s->expiry;

	if (s->ending || s->due)
		at = MONO_NEVER;
	else if (s->held)
		at = mono_min(at, s->answer_at);
	m_timer_set(m, &s->timer, at);
}

span_t
m_lease(const struct master *m)
{
	return tree_setting_span(m->tree, SETTING_session_lease);
}

span_t
m_lease_longest(const struct master *m, enum setting which)
{
	return span_ms((int64_t)tree_setting_longest(m->tree, which));
}

/* It lives at least so long from now on. */
static void
lease_extend(struct master *m, struct m_session *s, span_t lease)
{
	mono_t end = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));

	s->expiry = mono_max(s->expiry, end);
	m_lease_arm(m, s);
}

void
m_lease_heard(struct master *m, struct m_session *s)
{
	lease_extend(m, s, m_lease(m));
}

void
m_lease_inherited(struct master *m, struct m_session *s)
{
	lease_extend(m, s, m_lease_longest(m, SETTING_session_lease));
}

void
m_lease_promise(struct master *m, struct m_session *s)
{
	must(m->lease && !s->ending);
	s->promised = mono_max(s->promised, mono_add(m->now, m_lease(m)));
	m_lease_heard(m, s);
	must(mono_before(s->promised, s->expiry) || m->config.drift_permille == 0);
}

/* A master whose own lease has lapsed may have a successor that knows better. */
static void
lease_expire(struct master *m, struct m_session *s)
{
	struct op op = {
	    .code = OP_end_session,
	    .end_session = {.session = s->id, .cause = SESSION_EXPIRED, .epoch = m->epoch},
	};

	must(m->lease && mono_reached(m->now, s->expiry) && !s->held);
	m_propose(m, 0, &op)->session = s->id;
	m_lock_session_ends(m, s->id, SESSION_EXPIRED);
	m_propose_flush(m);
	s->ending = true;
	m_lease_arm(m, s);
}

void
m_lease_timeout(struct master *m, struct m_session *s)
{
	must(!s->ending);
	if (s->doomed != 0)
		m_operate_due(m, s);
	else if (!m->lease)
		m_timer_set(m, &s->timer, mono_add(m->now, LEASE_RETRY));
	else if (m->barrier.stands && !s->held && mono_reached(m->now, s->expiry))
		m_timer_set(m, &s->timer, m->barrier.end); /* its end changes what others cache */
	else if (s->held && mono_reached(m->now, s->answer_at))
		m_keepalive_answer(m, s);
	else if (!s->held && mono_reached(m->now, s->expiry))
		lease_expire(m, s);
	else
		m_lease_arm(m, s); /* it rang for a KeepAlive that went with its connection */
}

void
m_lease_expiry_refused(struct master *m, uint64_t session)
{
	struct m_session *s = m_session_find(m, session);

	if (s == NULL || !s->ending)
		return;
	s->ending = false;
	m_lease_heard(m, s);
}

/* A process that was stopped, or a machine that slept, finds every lease run out although the
 * clients were there all the time. It is noticed by a deadline that was missed; from when on nobody
 * ran is not known, so all the time since the last step counts. */
void
m_lease_account_pause(struct master *m, mono_t last)
{
	struct m_session *s;
	span_t pause = mono_since(m->now, last);

	if (mono_is_never(m->deadline) || mono_since(m->now, m->deadline).ns <= span_s(1).ns)
		return;
	RB_FOREACH(s, m_session_tree, &m->sessions)
	{
		s->expiry = mono_add(s->expiry, pause);
		m_lease_arm(m, s);
	}
}
