/* The expiry of a session is decided here but takes effect as a command in the log, under the epoch
 * of the master that decided it; a session that is heard from before that lives on. */
#include "cell/master/session_lease.h"

#include "cell/base/must.h"
#include "cell/master/internal.h"

/* ---- lease load ---- */

void
lease_load_begin(struct lease_load *l, unsigned bearable)
{
	*l = (struct lease_load){.bearable = bearable, .factor = 1};
}

static void
window_begins(struct lease_load *l, mono_t at, span_t lease)
{
	l->answered = 0;
	l->window = (span_t){lease.ns / 3 * l->factor};
	l->end = mono_add(at, l->window);
}

void
lease_load_pass(struct lease_load *l, mono_t now, span_t lease)
{
	while (mono_reached(now, l->end) && (l->answered > 0 || l->factor > 1)) {
		/* In a window that is a third of the lease each session that does not cache is
		 * answered about once, however its KeepAlives lie. With leases as they are set
		 * there would be `factor` times as many. A lower factor has to be enough for a load
		 * a third higher than this one, so that it is not raised again at once. */
		const uint64_t bearable = l->bearable * (uint64_t)span_to_ms(l->window) / 1000 + 1;
		const uint64_t all = l->answered * l->factor;
		const uint64_t needed = (all + bearable - 1) / bearable;

		if (needed > l->factor)
			l->factor = needed < LEASE_LOAD_MOST ? (unsigned)needed : LEASE_LOAD_MOST;
		else if (l->factor > 1 && all * 4 <= bearable * (l->factor - 1) * 3)
			l->factor--;
		window_begins(l, l->end, lease);
	}
	if (mono_reached(now, l->end))
		window_begins(l, now, lease);
}

void
lease_load_answered(struct lease_load *l, mono_t now, span_t lease)
{
	lease_load_pass(l, now, lease);
	l->answered++;
}

/* ---- lengthened lease ---- */

void
m_lengthened_begin(struct master *m)
{
	m->lengthened = (struct lengthened_leases){.until = m->now};
	lease_load_begin(&m->lengthened.load, m->config.keepalives);
}

static span_t
set_lease(const struct master *m)
{
	return tree_setting_span(m->tree, SETTING_session_lease);
}

static uint64_t
wanted_ms(const struct master *m)
{
	const uint64_t ms =
	    tree_setting(m->tree, SETTING_session_lease) * m->lengthened.load.factor;
	const uint64_t highest = setting_info(SETTING_session_lease)->highest;

	return ms < highest ? ms : highest;
}

span_t
m_lease(const struct master *m)
{
	const uint64_t longest = tree_setting_longest(m->tree, SETTING_session_lease);
	const uint64_t wanted = wanted_ms(m);

	if (m->lengthened.settling)
		return set_lease(m);
	return span_ms((int64_t)(wanted < longest ? wanted : longest));
}

void
m_lengthened_propose(struct master *m)
{
	const struct op op =
	    OPERATION(lengthen_promise, .setting = SETTING_session_lease, .longest = wanted_ms(m));

	m->lengthened.due = false;
	m->lengthened.proposed = wanted_ms(m);
	m_propose(m, 0, &op);
	m_propose_flush(m);
}

void
m_lengthened_applied(struct master *m)
{
	if (tree_setting_longest(m->tree, SETTING_session_lease) >= m->lengthened.proposed)
		m->lengthened.proposed = 0;
}

void
m_lengthened_settled(struct master *m)
{
	m->lengthened.settling = false;
}

/* ---- lowered lease ----
 *
 * The earlier length of a lowered promise counts until one such length after the lowering, or after
 * the beginning of this epoch. Then an entry records that it does not count any more. */

void
m_lowered_note(struct master *m, const struct tree_note *note)
{
	struct timer *a = &m->lowered.timers[note->setting];
	span_t longest = m_lease_longest(m, (enum setting)note->setting);

	if (note->index == 0) {
		m_timer_off(m, a);
		return;
	}
	m->lowered.since[note->setting] = note->index;
	m_timer_set(m, a, mono_add(mono_add(m->now, longest), m_lease_margin(m, longest)));
}

void
m_lowered_init(struct master *m)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		m->lowered.timers[code] = m_timer(TIMER_SETTING, code);
}

void
m_lowered_begin(struct master *m)
{
	struct tree_note lowered = {.setting = 0};

	while (tree_setting_lowered_after(m->tree, lowered.setting, &lowered))
		m_lowered_note(m, &lowered);
}

void
m_lowered_end(struct master *m)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		m_timer_off(m, &m->lowered.timers[code]);
}

void
m_lowered_timeout(struct master *m, uint8_t code)
{
	struct op op = OPERATION(settle_setting, .setting = code, .since = m->lowered.since[code]);

	m_timer_off(m, &m->lowered.timers[code]);
	if (code == SETTING_session_lease) {
		/* No longer lease is promised until the settling is applied; but that waits until
		 * longer promises have ended. Without KeepAlives nothing else notices that the load
		 * is gone. */
		lease_load_pass(&m->lengthened.load, m->now, set_lease(m));
		m->lengthened.settling = mono_reached(m->now, m->lengthened.until);
		if (!m->lengthened.settling) {
			m_timer_set(m, &m->lowered.timers[code], m->lengthened.until);
			return;
		}
	}
	m_propose(m, 0, &op)->setting = code;
	m_propose_flush(m);
}

/* ---- the lease of a session ---- */

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
m_lease_longest(const struct master *m, enum setting which)
{
	return span_ms((int64_t)tree_setting_longest(m->tree, which));
}

/* The session lives at least this long from now. */
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
	const unsigned factor = m->lengthened.load.factor;
	uint64_t wanted;

	if (!mono_reached(m->now, mono_add(s->lease.counted, pause)))
		return;
	s->lease.counted = m->now;
	lease_load_answered(&m->lengthened.load, m->now, set_lease(m));
	wanted = wanted_ms(m);
	if (m->lengthened.load.factor != factor)
		M_TRACE(m, "session leases are to be %" PRIu64 " ms long", wanted);

	/* Longer leases are needed than the log allows, or will. */
	m->lengthened.due = wanted > tree_setting_longest(m->tree, SETTING_session_lease) &&
	                    wanted > m->lengthened.proposed && !m->lengthened.settling;
}

void
m_lease_promise(struct master *m, struct m_session *s)
{
	const span_t lease = m_lease(m);
	const mono_t end = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));

	must(m->has_lease && !s->ending.proposed);
	must(span_to_ms(lease) <= (int64_t)tree_setting_longest(m->tree, SETTING_session_lease));
	s->lease.promised = mono_max(s->lease.promised, mono_add(m->now, lease));
	m_lease_extend(m, s);
	must(mono_before(s->lease.promised, s->lease.expiry) || m->config.drift_permille == 0);
	if (lease.ns > set_lease(m).ns)
		m->lengthened.until = mono_max(m->lengthened.until, end);
	count_answer(m, s);
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
	else if (!s->keepalive.held && mono_reached(m->now, s->lease.expiry)) {
		/* A master whose own lease is over may have a successor that has received
		 * something. */
		must(m->has_lease);
		M_TRACE(m, "session %" PRIu64 " has not been heard for its lease", s->id);
		m_end_propose(m, s, SESSION_EXPIRED);
	} else
		m_lease_arm(m, s); /* the KeepAlive that it was for went with its connection */
}

/* A process that was stopped, or a machine that slept, finds every lease over although the clients
 * were there all the time. A deadline that was missed shows the pause; its beginning is not known,
 * so all the time since the last step counts. A rest that the step had no time for is no pause. */
void
m_lease_account_pause(struct master *m, mono_t last)
{
	struct m_session *s;
	span_t pause = mono_since(m->now, last);

	if (mono_is_never(m->deadline) ||
	    mono_since(m->now, mono_max(m->deadline, last)).ns <= span_s(1).ns)
		return;
	M_TRACE(m, "session leases are longer by %" PRId64 " ms, in which nothing ran",
	        span_to_ms(pause));
	RB_FOREACH(s, m_session_tree, &m->sessions.by_id) {
		s->lease.expiry = mono_add(s->lease.expiry, pause);
		m_lease_arm(m, s);
		gate_account_pause(&s->cache.copies, pause);
	}
	m_ttl_account_pause(m, pause);
}
