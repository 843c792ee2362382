/* An await bit is raised through the log before the session gets its first leave to cache or its
 * first ticket, and lowered when the session has had neither for a while, many sessions to an
 * entry. So a lost machine that had neither delays nobody at the next fail-over. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

#define IDLE_LONG span_s(60) /* when a session has been idle for so long, bits are lowered: */
#define IDLE span_s(30)      /* of all sessions that have been idle for so long */

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
	struct op op = {.code = OP_await_session,
	                .await_session = {.session = s->id, .awaited = bit}};

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

/* The session's bit is raised: it gets the tickets and the leave that had to wait for that. */
static void
awaited(struct master *m, struct m_session *s)
{
	m_lock_reply_queued(m, s);
	m_cache_awaited(m, s);
}

void
m_await_applied(struct master *m, const struct own_command *own)
{
	struct m_session *s = m_session_find(m, own->session);

	if (s == NULL)
		return;
	must(s->await.proposed_n > 0);
	if (--s->await.proposed_n == 0 && s->await.bit)
		awaited(m, s);
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
