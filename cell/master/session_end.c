#include "cell/base/must.h"
#include "cell/master/internal.h"

void
m_end_init(struct master *m)
{
	TAILQ_INIT(&m->ending.due);
}

void
m_end_begin(struct master *m)
{
	m->ending.unfinished = true;
}

void
m_end_clear(struct master *m)
{
	m->ending.finishing = false;
	if (m->ending.pass != NULL)
		gate_leave(&m->gate, m->ending.pass);
	m->ending.pass = NULL;
}

void
m_end_forget(struct master *m, struct m_session *s)
{
	if (s->ending.due)
		TAILQ_REMOVE(&m->ending.due, s, ending.entry);
}

/* ---- as operators order it ---- */

/* The client is told first, so that no other session gets a lock that this client still believes to
 * have. The client shows that it knows of the end by opening another session; a client that cannot
 * be reached has time until its leave to cache is over. Then the end waits for the barrier, like
 * every end of a session that its client did not ask for: ephemeral files go with it, which other
 * sessions may have cached. */
static void
announce(struct master *m, struct m_session *s)
{
	span_t lease = m_lease_longest(m, SETTING_cache_lease);

	s->ending.latest = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));
	if (s->connection != NULL)
		m_end_farewell(m, s);
	m_session_forget_requests(m, s);
}

void
m_end_order(struct master *m, struct m_session *s, enum session_end cause)
{
	M_TRACE(m, "session %" PRIu64 " is to end, as an operator orders", s->id);
	if (s->ending.cause == 0)
		announce(m, s);
	s->ending.cause = cause;
	m_lease_arm(m, s);
}

void
m_end_due(struct master *m, struct m_session *s)
{
	must(s->ending.cause != 0);
	m_barrier_passed(m, s);
	if (s->ending.due || s->ending.proposed)
		return;
	s->ending.due = true;
	TAILQ_INSERT_TAIL(&m->ending.due, s, ending.entry);
	m_lease_arm(m, s);
}

void
m_end_run(struct master *m)
{
	struct m_session *s;

	while (m_has_time(m) && (s = TAILQ_FIRST(&m->ending.due)) != NULL) {
		m->work += REQUEST_WORK;
		TAILQ_REMOVE(&m->ending.due, s, ending.entry);
		s->ending.due = false;
		m_end_propose(m, s, s->ending.cause);
	}
}

/* ---- in the log ---- */

void
m_end_propose(struct master *m, struct m_session *s, enum session_end cause)
{
	struct op op = {
	    .code = OP_end_session,
	    .end_session = {.session = s->id, .cause = (uint8_t)cause, .epoch = m->epoch},
	};

	m_propose_bounded(m, 0, &op, m_admission_end(m, NULL, &op))->session = s->id;
	m_lock_session_ends(m, s->id, cause);
	m_propose_flush(m);
	s->ending.proposed = true;
	m_lease_arm(m, s);
}

void
m_end_refused(struct master *m, uint64_t session)
{
	struct m_session *s = m_session_find(m, session);

	if (s == NULL || !s->ending.proposed)
		return;
	s->ending.proposed = false;
	m_lease_extend(m, s);
}

void
m_end_applied(struct master *m, uint64_t id, enum session_end cause)
{
	struct m_session *s = m_session_find(m, id);

	must(cause != 0);
	m->ending.unfinished = true;
	if (s == NULL)
		return;
	if (s->connection != NULL)
		m_end_farewell(m, s);
	m_barrier_passed(m, s);
	m_session_free(m, s);
}

/* The connection stays, for the session that the client opens next; frames for the earlier one that
 * are still in flight are ignored. */
void
m_end_farewell(struct master *m, struct m_session *s)
{
	struct m_connection *c = s->connection;
	struct message last = {
	    .code = MSG_keepalive_reply,
	    .keepalive_reply = {.rc = RC_NO_SESSION,
	                        .epoch = m->epoch,
	                        .sequence = c->keepalive.sequence},
	};

	m_connection_send(m, c, &last);
	m_connection_detach(m, c);
	m_connection_ended(c, s->id);
}

/* Sessions that may have cached what the part changes are told before. */
static bool
admit_part(struct master *m, const struct op *op)
{
	struct footprint changes = {0};

	if (m->ending.pass == NULL)
		m->ending.pass = gate_pass_new(NULL, 0, 0);
	tree_changes(m->tree, &(struct requester){0}, op, 0, &changes);
	return gate_enter(&m->gate, m->ending.pass, &changes);
}

bool
m_end_has_more(const struct master *m)
{
	const struct endings *e = &m->ending;

	return e->unfinished && !e->finishing &&
	       (e->pass == NULL || e->pass->list != &m->gate.blocked);
}

/* Ended sessions are finished one after the other, those of earlier epochs included. Other sessions
 * may have cached the nodes that go with them. */
void
m_end_finish(struct master *m)
{
	struct op op = {.code = OP_finish_session};
	enum session_end cause;
	uint64_t session;

	must(!m->barrier.stands && !m->ending.finishing);
	m->ending.unfinished = tree_ending(m->tree, &session, &cause);
	if (!m->ending.unfinished)
		return;
	op.finish_session.session = session;
	if (!admit_part(m, &op))
		return;
	m_propose_bounded(m, 0, &op, m->ending.pass);
	m->ending.pass = NULL;
	m_lock_session_ends(m, session, cause);
	m_propose_flush(m);
	m->ending.finishing = true;
}

void
m_end_finished(struct master *m)
{
	m->ending.finishing = false;
}
