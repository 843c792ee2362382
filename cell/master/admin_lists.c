/* The operators' lists of sessions, locks and principals, and their orders to end a session. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

enum { LIST_ROWS = 1000 }; /* of sessions or principals, in a message */

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

bool
master_destroy_sessions(struct master *m, struct master_clock clock, struct bytes principal,
                        uint64_t last, bool keep_delay, struct master_update *u)
{
	struct tree_session t = {0};
	struct m_session *s;
	bool any = false;

	must(m->serving);
	m_step_begin(m, clock, u);
	while (tree_session_of_after(m->tree, principal, t.id, &t) && t.id <= last) {
		any = true;
		if ((s = m_session_find(m, t.id)) != NULL)
			m_end_order(m, s, keep_delay ? SESSION_EXPIRED : SESSION_DESTROYED);
	}
	m_step_end(m);
	return any;
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

void
m_admin_list_sessions(struct master *m, const struct m_connection *c,
                      const struct msg_sessions_request *msg)
{
	bool all = m_connection_administers(m, c) || master_of_member(m, c->id);
	struct buffer rows = BUFFER(LIMIT_FRAME);
	struct message reply = {.code = MSG_sessions};
	struct wire_list *list = &reply.sessions.sessions;
	struct tree_session t = {.id = msg->after};

	/* Administrators and replicas see all sessions; other principals see their own, at the cost
	 * of these only. */
	while (!reply.sessions.more &&
	       (all ? tree_session_after(m->tree, t.id, &t)
	            : tree_session_of_after(m->tree, c->principal, t.id, &t))) {
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

/* ---- admin locks ----
 *
 * The list of all locks, for people. */

enum { PAGE = 256 * 1024 }; /* bytes of a message, unless one lock is longer */

void
m_admin_list_locks(struct master *m, const struct m_connection *c,
                   const struct msg_locks_request *msg)
{
	struct buffer rows = BUFFER(LIMIT_FRAME), queue = BUFFER(LIMIT_FRAME - 1024);
	struct message reply = {.code = MSG_locks};
	/* A replica, whose page is public, sees what all principals may see. */
	const struct bytes who = c->principal.len > 0 ? c->principal : bytes_of("*");
	uint64_t node = msg->after;

	while (!reply.locks.more && m_read_next_queue(m, who, &node, &queue)) {
		struct lock_row row = {.queue = buffer_view(&queue)};

		reply.locks.more = rows.len > 0 && rows.len + queue.len > PAGE;
		if (reply.locks.more)
			break;
		wire_put_lock_row(&rows, &row);
		reply.locks.locks.count++;
		buffer_reset(&queue);
	}
	reply.locks.locks.packed = buffer_view(&rows);
	m_connection_send(m, c, &reply);
	buffer_free(&rows);
	buffer_free(&queue);
}

/* ---- admin principals ----
 *
 * The administrators' list of principals. */

void
m_admin_list_principals(struct master *m, const struct m_connection *c,
                        const struct msg_principals_request *msg)
{
	struct buffer rows = BUFFER(LIMIT_FRAME);
	struct message reply = {.code = MSG_principals, .principals.rc = RC_PERM};
	struct msg_principals *list = &reply.principals;
	struct tree_principal p = {.name = msg->after};

	if (m_connection_administers(m, c))
		list->rc = RC_OK;
	while (list->rc == RC_OK && !list->more && tree_principal_after(m->tree, p.name, &p)) {
		list->more = list->principals.count == LIST_ROWS;
		if (list->more)
			break;
		wire_put_principal_row(&rows, &(struct principal_row){p.name, p.key, p.generation});
		list->principals.count++;
	}
	list->principals.packed = buffer_view(&rows);
	m_connection_send(m, c, &reply);
	buffer_free(&rows);
}
