/* What operators ask about sessions: which there are, and that one ends. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum { LIST_ROWS = 1000 };

/* ---- ending one ---- */

/* Its client is told first, so that nobody gets a lock while another still believes to have it. The
 * client shows that it knows by the session that it opens next; one that cannot be reached has time
 * until its leave to cache is over. Then the end waits for the barrier, like every end of a session
 * that its client did not ask for: ephemeral files go with it, which others may have cached. */
static void
doom(struct master *m, struct m_session *s)
{
	span_t lease = m_lease_longest(m, SETTING_cache_lease);

	s->doomed_until = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));
	if (s->connection != NULL)
		m_session_farewell(m, s);
	m_session_forget_requests(m, s);
}

bool
master_destroy_session(struct master *m, struct master_clock clock, uint64_t session,
                       bool keep_delay, struct master_update *u)
{
	struct m_session *s = m_session_find(m, session);

	must(m->serving);
	if (s == NULL)
		return false;
	m_step_begin(m, clock, u);
	if (s->doomed == 0)
		doom(m, s);
	s->doomed = keep_delay ? SESSION_EXPIRED : SESSION_DESTROYED;
	m_lease_arm(m, s);
	m_step_end(m);
	return true;
}

static void
end_now(struct master *m, struct m_session *s, enum session_end cause)
{
	struct op op = {
	    .code = OP_end_session,
	    .end_session = {.session = s->id, .cause = (uint8_t)cause, .epoch = m->epoch},
	};

	m_propose(m, 0, &op)->session = s->id;
	m_lock_session_ends(m, s->id, cause);
	m_propose_flush(m);
	s->ending = true;
	m_lease_arm(m, s);
}

void
m_operate_due(struct master *m, struct m_session *s)
{
	must(s->doomed != 0);
	m_barrier_passed(m, s);
	if (s->due || s->ending)
		return;
	s->due = true;
	TAILQ_INSERT_TAIL(&m->due, s, due_entry);
	m_lease_arm(m, s);
}

void
m_admin_end_sessions(struct master *m)
{
	struct m_session *s;

	while (m->work < STEP_WORK && (s = TAILQ_FIRST(&m->due)) != NULL) {
		m->work += REQUEST_WORK;
		TAILQ_REMOVE(&m->due, s, due_entry);
		s->due = false;
		end_now(m, s, s->doomed);
	}
}

/* ---- the list ---- */

static struct session_row
row_of(struct master *m, const struct tree_session *t)
{
	const struct m_session *s = m_session_find(m, t->id);
	struct session_row row = {
	    .session = t->id,
	    .lease_ms = (uint32_t)span_to_ms(m_lease(m)),
	    .locks = tree_session_locks(m->tree, t->id),
	    .heard_ms = -1,
	    .principal = t->principal,
	    .host = t->host,
	};

	if (s != NULL && s->heard.ns != INT64_MIN)
		row.heard_ms = span_to_ms(mono_since(m->now, s->heard));
	return row;
}

/* Administrators see all sessions, other principals their own, at the cost of these. */
static bool
next_row(const struct master *m, const struct m_connection *c, bool all, struct tree_session *t)
{
	return all ? tree_session_after(m->tree, t->id, t)
	           : tree_session_of_after(m->tree, c->principal, t->id, t);
}

void
m_admin_list_sessions(struct master *m, const struct m_connection *c,
                      const struct msg_sessions_request *msg)
{
	bool all = tree_is_admin(m->tree, c->principal);
	struct buffer rows = BUFFER(LIMIT_FRAME);
	struct message reply = {.code = MSG_sessions};
	struct wire_list *list = &reply.sessions.sessions;
	struct tree_session t = {.id = msg->after};

	while (!reply.sessions.more && next_row(m, c, all, &t)) {
		struct session_row row = row_of(m, &t);

		reply.sessions.more = list->count == LIST_ROWS;
		if (reply.sessions.more)
			break;
		wire_put_session_row(&rows, &row);
		list->count++;
	}
	list->packed = buffer_view(&rows);
	m_connection_send(m, c, &reply);
	buffer_free(&rows);
}
