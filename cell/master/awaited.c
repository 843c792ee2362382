/* For whom a new master waits: each session that may cache, or that waits for a lock, has a bit in
 * the tree. It is raised through the log before the session is told of its first leave or ticket,
 * and lowered when the session has had neither for a while, many sessions to an entry. So a machine
 * that is lost and had neither costs nobody anything at the next fail-over. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

#define IDLE_LONG span_s(60) /* then bits are lowered, */
#define IDLE span_s(30)      /* those of all that have been idle for so long */

static void
propose(struct master *m, struct m_session *s, bool awaited)
{
	struct op op = {.code = OP_await_session,
	                .await_session = {.session = s->id, .awaited = awaited}};

	m_propose(m, 0, &op)->session = s->id;
	s->awaited = awaited;
	s->awaiting_n++;
}

static void
busy(struct master *m, struct m_session *s)
{
	if (!s->idle)
		return;
	s->idle = false;
	TAILQ_REMOVE(&m->idle, s, idle_entry);
}

bool
m_awaited_raise(struct master *m, struct m_session *s)
{
	busy(m, s);
	if (!s->awaited) {
		propose(m, s, true);
		m_propose_flush(m);
	}
	return s->awaiting_n == 0;
}

void
m_awaited_landed(struct master *m, const struct flight *f)
{
	struct m_session *s = m_session_find(m, f->session);

	if (s == NULL)
		return;
	must(s->awaiting_n > 0);
	if (--s->awaiting_n == 0 && s->awaited)
		m_lock_tell_queued(m, s);
}

static void
arm(struct master *m)
{
	const struct m_session *first = TAILQ_FIRST(&m->idle);

	if (first == NULL)
		m_timer_off(m, &m->idle_alarm);
	else
		m_timer_set(m, &m->idle_alarm, mono_add(first->idle_since, IDLE_LONG));
}

void
m_awaited_idle(struct master *m, struct m_session *s)
{
	if (!s->awaited || s->caching || s->missing || s->idle || !TAILQ_EMPTY(&s->waiters))
		return;
	s->idle = true;
	s->idle_since = m->now;
	TAILQ_INSERT_TAIL(&m->idle, s, idle_entry);
	if (mono_is_never(m->idle_alarm.at))
		arm(m);
}

void
m_awaited_ring(struct master *m)
{
	struct m_session *s;

	while (m->work < STEP_WORK && (s = TAILQ_FIRST(&m->idle)) != NULL &&
	       mono_reached(m->now, mono_add(s->idle_since, IDLE))) {
		m->work += REQUEST_WORK;
		busy(m, s);
		propose(m, s, false);
	}
	m_propose_flush(m);
	arm(m);
}

void
m_awaited_forget(struct master *m, struct m_session *s)
{
	busy(m, s);
	if (TAILQ_EMPTY(&m->idle))
		m_timer_off(m, &m->idle_alarm);
}
