/* The operators' list of sessions, and their orders to end one. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum { LIST_ROWS = 1000 };

bool
master_destroy_session(struct master *m, struct master_clock clock, uint64_t session,
                       bool keep_delay, struct master_update *u)
{
	struct m_session *s = m_session_find(m, session);

	must(m->serving);
	if (s == NULL)
		return false;
	m_step_begin(m, clock, u);
	m_end_order(m, s, keep_delay ? SESSION_EXPIRED : SESSION_DESTROYED);
	m_step_end(m);
	return true;
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
	    .lasting = t->lasting,
	    .principal = t->principal,
	    .host = t->host,
	};

	if (s != NULL && s->keepalive.last.ns != INT64_MIN)
		row.heard_ms = span_to_ms(mono_since(m->now, s->keepalive.last));
	return row;
}

/* Administrators see all sessions; other principals see their own, at the cost of these only. */
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
	bool all = m_connection_administers(m, c);
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
