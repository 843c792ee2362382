#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/master/internal.h"

#define SPREAD span_ms(1) /* by which the answers to sessions are apart, in the mean */

enum {
	BURST = 64,    /* this number of answers at once is no burden */
	NEXT_PART = 8, /* of a later hold at most an eighth is left to chance */
};

void
m_keepalive_begin(struct m_session *s)
{
	s->keepalive.last = (mono_t){INT64_MIN};
}

void
m_keepalive_detach(struct m_connection *c)
{
	c->keepalive.greeted = c->keepalive.spread = false;
	c->keepalive.sequence = 0;
	if (c->session != NULL)
		c->session->keepalive.held = false;
}

/* The client counts the lease in the reply from the instant at which it sent the KeepAlive. */
void
m_keepalive_answer(struct master *m, struct m_session *s)
{
	span_t held = mono_since(m->now, s->keepalive.since);
	struct message reply =
	    MESSAGE(keepalive_reply, .rc = RC_OK, .epoch = m->epoch,
	            .sequence = s->keepalive.sequence,
	            .lease_ms = (uint32_t)(span_to_ms(held) + span_to_ms(m_lease(m))),
	            .held_ms = (uint32_t)span_to_ms(held), .generation = s->cache.generation,
	            .grace_ms = (uint32_t)tree_setting(m->tree, SETTING_grace),
	            .scarce = tree_is_scarce(m->tree));

	must(s->keepalive.held && s->connection != NULL);
	reply.keepalive_reply.cache_ms = m_cache_renew(m, s, held);
	m_connection_send(m, s->connection, &reply);
	s->connection->keepalive.greeted = true;
	s->keepalive.held = false;
	m_lease_promise(m, s);
	m_event_show_index(m, s);
}

/* A KeepAlive is held for at most a third of the lease, and for less when less than two thirds of
 * it are left; and so for the leave to cache, which is shorter. */
static mono_t
latest_answer(const struct master *m, const struct m_session *s)
{
	span_t third = {m_lease(m).ns / 3};
	mono_t at = mono_min(mono_add(m->now, third), m_cache_renew_at(m, s));

	return mono_min(at, mono_add(s->lease.promised, (span_t){-third.ns}));
}

/* After a fail-over the KeepAlives of all sessions arrive at once, would all be answered a third of
 * the lease later, and so on for ever. So the first one on a connection is held for a random time,
 * which grows with the number of sessions, and the later ones vary a little, because each pause of
 * the master or of the network brings them together again. */
static span_t
spread(const struct master *m, const struct m_session *s, uint64_t sequence, span_t hold)
{
	struct rng chance = rng_seeded(s->id ^ sequence << 32 ^ m->epoch << 48);
	const int64_t needed = SPREAD.ns * (int64_t)tree_sessions(m->tree);
	const int64_t part = hold.ns / (s->connection->keepalive.spread ? NEXT_PART : 1);

	if (tree_sessions(m->tree) > BURST)
		hold.ns -= (int64_t)rng_below(&chance, (uint64_t)(part < needed ? part : needed));
	return hold;
}

static mono_t
answer_at(const struct master *m, const struct m_session *s, const struct msg_keepalive *msg)
{
	span_t hold = mono_since(latest_answer(m, s), m->now);

	if (!s->connection->keepalive.greeted || msg->epoch != m->epoch || hold.ns <= 0)
		return m->now;
	return mono_add(m->now, spread(m, s, msg->sequence, hold));
}

void
m_keepalive_receive(struct master *m, struct m_connection *c, const struct msg_keepalive *msg)
{
	struct m_session *s = c->session;

	if (s == NULL && msg->session != 0 && c->ended == msg->session) {
		/* The session of the connection has just ended. */
		struct message reply = MESSAGE(keepalive_reply, .rc = RC_NO_SESSION,
		                               .epoch = m->epoch, .sequence = msg->sequence);

		m_connection_send(m, c, &reply);
	} else if (s == NULL && c->left)
		return;
	else if (s == NULL || s->id != msg->session)
		m_connection_breach(m, c, "a KeepAlive for a session that it does not have");
	else if (msg->sequence > c->keepalive.sequence &&
	         (msg->epoch != m->epoch || m_event_heard(m, s, msg->heard))) {
		c->keepalive.sequence = msg->sequence;
		if (msg->generation != 0)
			m_cache_want(m, s, msg->generation);
		else
			m_cache_want_no_more(s);
		s->keepalive.held = true;
		s->keepalive.since = s->keepalive.last = m->now;
		s->keepalive.sequence = msg->sequence;
		s->keepalive.answer_at = answer_at(m, s, msg);
		c->keepalive.spread = c->keepalive.greeted;
		if (s->ending.proposed)
			return;
		m_lease_extend(m, s);
		if (m->has_lease && mono_reached(m->now, s->keepalive.answer_at))
			m_keepalive_answer(m, s);
	}
}

/* A datagram renews nothing but the lease of a session that is open on this connection: neither
 * what was heard nor leave to cache, and it tells of no end. A client that may not count on an
 * answer gets none. */
void
m_keepalive_datagram(struct master *m, const struct m_connection *c,
                     const struct msg_keepalive *msg)
{
	struct m_session *s = c->session;
	const struct message reply =
	    MESSAGE(keepalive_reply, .rc = RC_OK, .epoch = m->epoch, .sequence = msg->sequence,
	            .lease_ms = (uint32_t)span_to_ms(m_lease(m)));

	if (s == NULL || s->id != msg->session || msg->epoch != m->epoch || !c->keepalive.greeted ||
	    !m->has_lease || s->ending.cause != 0 || s->ending.proposed)
		return;
	s->keepalive.last = m->now;
	m_lease_promise(m, s);
	m_connection_send_datagram(m, c, &reply);
}
