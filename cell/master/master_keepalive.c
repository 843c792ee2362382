/* KeepAlives (Chubby, section 2.8): the master holds each until its answer is worth something, so
 * that a client has one under way all the time and learns of news at once. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* The lease that is told is counted by the client from when it sent the KeepAlive. */
void
m_keepalive_answer(struct master *m, struct m_session *s)
{
	span_t held = mono_since(m->now, s->held_since);
	struct message reply = {
	    .code = MSG_keepalive_reply,
	    .keepalive_reply = {.rc = RC_OK,
	                        .epoch = m->epoch,
	                        .sequence = s->held_sequence,
	                        .lease_ms = (uint32_t)(span_to_ms(held) + span_to_ms(m_lease(m))),
	                        .held_ms = (uint32_t)span_to_ms(held)},
	};

	must(s->held && s->connection != NULL);
	m_connection_send(m, s->connection, &reply);
	s->connection->greeted = true;
	s->held = false;
	m_lease_promise(m, s);
}

/* At most a third of the lease, and sooner when less than two thirds of it are left. */
static mono_t
answer_at(const struct master *m, const struct m_session *s, const struct msg_keepalive *msg)
{
	span_t third = {m_lease(m).ns / 3};

	if (!s->connection->greeted || msg->epoch != m->epoch)
		return m->now;
	return mono_min(mono_add(m->now, third), mono_add(s->promised, (span_t){-third.ns}));
}

static void
keepalive_hold(struct master *m, struct m_session *s, const struct msg_keepalive *msg)
{
	s->held = true;
	s->held_since = s->heard = m->now;
	s->held_sequence = msg->sequence;
	s->answer_at = answer_at(m, s, msg);
	if (s->ending)
		return;
	m_lease_heard(m, s);
	if (m->lease && mono_reached(m->now, s->answer_at))
		m_keepalive_answer(m, s);
}

/* A KeepAlive on a connection whose session has just ended. */
static void
keepalive_too_late(struct master *m, struct m_connection *c, const struct msg_keepalive *msg)
{
	struct message reply = {
	    .code = MSG_keepalive_reply,
	    .keepalive_reply = {.rc = RC_NO_SESSION, .epoch = m->epoch, .sequence = msg->sequence},
	};

	m_connection_send(m, c, &reply);
}

void
m_keepalive_receive(struct master *m, struct m_connection *c, const struct msg_keepalive *msg)
{
	if (c->session == NULL && msg->session != 0 && c->ended == msg->session)
		keepalive_too_late(m, c, msg);
	else if (c->session == NULL && c->left)
		return;
	else if (c->session == NULL || c->session->id != msg->session)
		m_connection_breach(m, c, "a KeepAlive for a session that it does not have");
	else if (msg->sequence > c->sequence) {
		c->sequence = msg->sequence;
		keepalive_hold(m, c->session, msg);
	}
}
