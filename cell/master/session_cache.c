/* A leave that has ended is never renewed: the client has dropped everything, or is about to. A new
 * one begins with a higher generation of the client's cache, which shows that nothing of the
 * earlier generation is left. A session is told of each change before that is proposed; a session
 * that acknowledges late, or not at all, delays others once, and gets no new leave for a while. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

#define LATE span_ms(500)           /* an acknowledgement that takes longer is late */
#define PENALTY_FIRST span_s(10)    /* no leave is given during this span, */
#define PENALTY_LONGEST span_s(600) /* doubled each time, */
#define PENALTY_HALVED span_s(600)  /* and halved after each such span without another */

static const mono_t never_had = {INT64_MIN};

void
m_cache_begin(struct m_session *s)
{
	gate_session_init(&s->cache.copies, s->id);
	s->cache.leave_end = s->cache.late_at = s->cache.renew_from = never_had;
	s->cache.timer = m_timer(TIMER_CACHE, s->id);
}

void
m_cache_forget(struct master *m, struct m_session *s)
{
	gate_forget(&m->gate, &s->cache.copies);
	m_timer_off(m, &s->cache.timer);
}

bool
m_cache_has_leave(const struct master *m, const struct m_session *s)
{
	return !s->cache.lapsed && mono_before(m->now, s->cache.leave_end);
}

static mono_t
late_at(const struct gate_notice *n)
{
	return n->sent ? mono_add(n->late_from, LATE) : MONO_NEVER;
}

/* The session has not acknowledged in time: each time its penalty doubles. */
static void
penalize(struct master *m, struct m_session *s)
{
	struct session_cache *c = &s->cache;
	span_t penalty = {c->penalty.ns * 2};

	for (mono_t t = c->late_at; c->penalty.ns > 0 && penalty.ns > PENALTY_FIRST.ns;
	     penalty.ns /= 2) {
		t = mono_add(t, PENALTY_HALVED);
		if (!mono_reached(m->now, t))
			break;
	}
	if (penalty.ns < PENALTY_FIRST.ns)
		penalty = PENALTY_FIRST;
	if (penalty.ns > PENALTY_LONGEST.ns)
		penalty = PENALTY_LONGEST;
	c->penalty = penalty;
	c->late_at = m->now;
	c->renew_from = mono_add(m->now, penalty);
	M_TRACE(m, "session %" PRIu64 " acknowledges late: no leave to cache for %" PRId64 " ms",
	        s->id, span_to_ms(penalty));
}

static void
lapse(struct master *m, struct m_session *s)
{
	const struct gate_notice *oldest = gate_oldest(&s->cache.copies);

	if (oldest != NULL && mono_reached(m->now, late_at(oldest)))
		penalize(m, s);
	M_TRACE(m, "session %" PRIu64 " has no leave to cache any more", s->id);
	s->cache.lapsed = true;
	m_cache_forget(m, s);
}

/* The end of the leave matters while the session owes an acknowledgement. */
static void
arm(struct master *m, struct m_session *s)
{
	const struct gate_notice *oldest = gate_oldest(&s->cache.copies);
	mono_t at = oldest != NULL ? s->cache.leave_end : MONO_NEVER;

	if (oldest != NULL && oldest->number > s->cache.late)
		at = mono_min(at, late_at(oldest));
	m_timer_set(m, &s->cache.timer, at);
}

/* Timers come after all input, so an acknowledgement that this process was too slow to read is not
 * late. */
void
m_cache_timeout(struct master *m, struct m_session *s)
{
	const struct gate_notice *oldest = gate_oldest(&s->cache.copies);

	must(oldest != NULL);
	if (mono_reached(m->now, s->cache.leave_end)) {
		lapse(m, s);
		return;
	}
	if (mono_reached(m->now, late_at(oldest)))
		s->cache.late = oldest->number;
	arm(m, s);
}

/* ---- leave ---- */

static void
answer_held(struct master *m, struct m_session *s)
{
	if (s->keepalive.held && m->has_lease && !s->ending.proposed && s->ending.cause == 0)
		m_keepalive_answer(m, s);
}

/* A message of the session carries this generation of the client's cache: all earlier ones are
 * dropped. */
static void
show(struct master *m, struct m_session *s, uint64_t generation)
{
	struct session_cache *c = &s->cache;

	if (generation <= c->generation)
		return;
	m_cache_forget(m, s);
	c->generation = generation;
	c->lapsed = false;
	c->leave_end = never_had;
}

void
m_cache_want(struct master *m, struct m_session *s, uint64_t generation)
{
	const bool more = generation > s->cache.generation || !s->cache.wanted;

	show(m, s, generation);
	s->cache.wanted = true;
	m_await_set_caching(s, true);
	if (m_await_raise(m, s) && more)
		answer_held(m, s);
}

void
m_cache_want_no_more(struct m_session *s)
{
	s->cache.wanted = false;
}

void
m_cache_awaited(struct master *m, struct m_session *s)
{
	if (s->cache.wanted && s->cache.generation != 0)
		answer_held(m, s);
}

static bool
may_have_leave(const struct m_session *s)
{
	const struct session_cache *c = &s->cache;

	return c->wanted && c->generation != 0 && !c->lapsed && s->ending.cause == 0;
}

static bool
renewable(struct master *m, struct m_session *s)
{
	struct session_cache *c = &s->cache;

	if (!may_have_leave(s))
		return false;
	if (c->leave_end.ns != never_had.ns && !m_cache_has_leave(m, s)) {
		lapse(m, s);
		return false;
	}
	m_await_set_caching(s, true);
	return m_await_raise(m, s) && mono_reached(m->now, c->renew_from);
}

/* A session that has not asked for more leave may ask with its next KeepAlive: so that KeepAlive
 * has to arrive in time, too. Leave that an answer would not make longer is no reason to answer
 * soon; the first leave of a generation is. */
mono_t
m_cache_renew_at(const struct master *m, const struct m_session *s)
{
	const struct session_cache *c = &s->cache;
	const span_t third = {tree_setting_span(m->tree, SETTING_cache_lease).ns / 3};
	mono_t at = mono_add(m->now, third);

	if (!m_cache_has_leave(m, s))
		return may_have_leave(s) && c->leave_end.ns == never_had.ns && s->await.bit &&
		               s->await.proposed_n == 0
		           ? mono_max(m->now, c->renew_from)
		           : MONO_NEVER;
	if (may_have_leave(s) && s->await.bit && mono_reached(m->now, c->renew_from) &&
	    gate_oldest(&c->copies) == NULL)
		at = mono_min(at, mono_add(c->leave_end, (span_t){-third.ns}));
	return at;
}

/* The leave ends at the latest one cache lease after the sending of the oldest notice that is not
 * acknowledged. */
uint32_t
m_cache_renew(struct master *m, struct m_session *s, span_t held)
{
	const span_t lease = tree_setting_span(m->tree, SETTING_cache_lease);
	const struct gate_notice *oldest = gate_oldest(&s->cache.copies);
	mono_t end = mono_add(m->now, lease);

	if (!renewable(m, s)) {
		/* A new master need not wait for a session that asks for no leave any more, and has
		 * none. */
		if (s->cache.generation != 0 && !s->cache.wanted && !m_cache_has_leave(m, s)) {
			m_await_set_caching(s, false);
			m_await_idle(m, s);
		}
		return 0;
	}
	if (oldest != NULL && oldest->sent)
		end = mono_min(end, mono_add(oldest->sent_at, lease));
	if (mono_reached(m->now, end))
		return 0;
	s->cache.leave_end = mono_max(s->cache.leave_end, mono_add(end, m_lease_margin(m, lease)));
	arm(m, s);
	return (uint32_t)(span_to_ms(held) + span_to_ms(mono_since(end, m->now)));
}

uint64_t
m_cache_leave(struct master *m, struct m_session *s, const struct m_request *r,
              const uint64_t *keys, size_t n)
{
	struct gate_session *copies = &s->cache.copies;

	if (r->generation == 0 || r->generation != s->cache.generation || !m_cache_has_leave(m, s))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (!gate_may_copy(&m->gate, copies, keys[i]))
			return 0;
	if (copies->copies_n + n > LIMIT_COPIES)
		return 0;
	copies->leaves++;
	for (size_t i = 0; i < n; i++)
		gate_copy(&m->gate, copies, keys[i], copies->leaves);
	return copies->leaves;
}

/* ---- notices ---- */

static void
send_notice(struct master *m, struct m_session *s, const struct gate_notice *n)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message msg = MESSAGE(invalidation, .generation = s->cache.generation,
	                             .notice = n->number, .everything = n->everything);
	const struct gate_copy *c;

	TAILQ_FOREACH(c, &n->copies, in_notice) {
		if (n->everything)
			break;
		wire_put_node_key(&packed, &(struct node_key){c->key->key});
		msg.invalidation.nodes.count++;
	}
	must(!packed.failed);
	msg.invalidation.nodes.packed = buffer_view(&packed);
	M_TRACE(m, "session %" PRIu64 " is told to drop %" PRIu32 " nodes%s by notice %" PRIu64,
	        s->id, msg.invalidation.nodes.count, n->everything ? " and all others" : "",
	        n->number);
	if (s->connection != NULL)
		m_connection_send(m, s->connection, &msg);
	buffer_free(&packed);
}

void
m_cache_tell(struct master *m)
{
	struct gate_session *untold;
	struct m_session *s;

	while ((untold = gate_untold(&m->gate)) != NULL) {
		s = m_session_find(m, untold->id);
		must(s != NULL && &s->cache.copies == untold);
		if (!m_cache_has_leave(m, s)) {
			lapse(m, s);
			continue;
		}
		send_notice(m, s, gate_told(&m->gate, untold, m->now));
		arm(m, s);
	}
}

bool
master_awaits(struct master *m, uint64_t conn, const struct msg_dropped *msg)
{
	const struct m_connection *c = m_connection_find(m, conn);
	const struct m_session *s = c != NULL ? c->session : NULL;
	const struct gate_notice *oldest = s != NULL ? gate_oldest(&s->cache.copies) : NULL;

	if (oldest == NULL || !oldest->sent || msg->session != s->id || msg->epoch != m->epoch)
		return false;
	return msg->generation > s->cache.generation ||
	       (msg->generation == s->cache.generation && msg->upto >= oldest->number);
}

/* An acknowledgement of an earlier generation says nothing new: all of that generation is
 * dropped. */
void
m_cache_receive(struct master *m, struct m_connection *c, const struct msg_dropped *msg)
{
	struct m_session *s = c->session;
	const struct gate_notice *oldest;
	struct cursor at;
	struct node_key node;

	if (s == NULL || s->id != msg->session || msg->epoch != m->epoch)
		return;
	if (s->cache.wanted)
		m_cache_want(m, s, msg->generation);
	else
		show(m, s, msg->generation);
	if (msg->generation != s->cache.generation)
		return;
	oldest = gate_oldest(&s->cache.copies);
	if (oldest != NULL && oldest->number <= msg->upto && oldest->number <= s->cache.late)
		penalize(m, s);
	if (!gate_acknowledge(&m->gate, &s->cache.copies, msg->upto)) {
		m_connection_breach(m, c, "an acknowledgement of a notice that was not sent");
		return;
	}
	at = cursor_of(msg->nodes.packed);
	while (wire_next_node_key(&at, &node))
		gate_give_back(&m->gate, &s->cache.copies, node.node, msg->leave);
	arm(m, s);
}
