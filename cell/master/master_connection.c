#include <stdlib.h>
#include <string.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

KEYED_GENERATE(m_connection_tree, m_connection, link, id)

struct m_connection *
m_connection_find(struct master *m, uint64_t id)
{
	return m_connection_tree_find(&m->connections.by_id, id);
}

void
master_connected(struct master *m, uint64_t conn, struct bytes principal, struct bytes key)
{
	struct m_connection *c = memory_zero(1, sizeof *c);

	must(conn != 0 && principal.len <= LIMIT_PRINCIPAL);
	c->id = conn;
	c->principal = bytes_copy(principal);
	c->key = bytes_copy(key);
	must(RB_INSERT(m_connection_tree, &m->connections.by_id, c) == NULL);
	m_usage_connect(m, c);
}

static void
add_send(struct master *m, const struct m_connection *c, const struct message *message,
         bool datagram)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	struct master_update *u = m->update;

	wire_put_frame(&frame, message);
	must(!frame.failed);
	ARRAY_ROOM(u->sends, u->sends_n, u->sends_room);
	m->work += frame.len;
	u->sends[u->sends_n++] =
	    (struct master_send){.conn = c->id, .datagram = datagram, .frame = buffer_take(&frame)};
}

void
m_connection_send(struct master *m, const struct m_connection *c, const struct message *message)
{
	add_send(m, c, message, false);
}

void
m_connection_send_datagram(struct master *m, const struct m_connection *c,
                           const struct message *message)
{
	add_send(m, c, message, true);
}

void
master_announce(struct master *m, uint64_t conn, uint8_t master, struct master_update *u)
{
	struct message redirect = MESSAGE(redirect, .epoch = tree_epoch(m->tree), .master = master);
	struct m_connection *c = m_connection_find(m, conn);

	m->update = u;
	if (c != NULL)
		m_connection_send(m, c, &redirect);
	if (conn == 0)
		RB_FOREACH(c, m_connection_tree, &m->connections.by_id)
			if (c->session == NULL)
				m_connection_send(m, c, &redirect);
	m->update = NULL;
}

void
master_send_members(struct master *m, uint64_t conn, struct master_update *u)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message message =
	    MESSAGE(members, tree_members_version(m->tree), tree_members(m->tree, &packed));
	struct m_connection *c = m_connection_find(m, conn);

	m->update = u;
	if (c != NULL)
		m_connection_send(m, c, &message);
	if (conn == 0)
		RB_FOREACH(c, m_connection_tree, &m->connections.by_id)
			m_connection_send(m, c, &message);
	m->update = NULL;
	buffer_free(&packed);
}

bool
m_connection_principal(const struct master *m, const struct m_connection *c,
                       struct tree_principal *p)
{
	return tree_principal(m->tree, c->principal, p) &&
	       (c->key.len == 0 || bytes_equal(c->key, p->key));
}

bool
m_connection_administers(const struct master *m, const struct m_connection *c)
{
	struct tree_principal p;

	return m_connection_principal(m, c, &p) && tree_is_admin(m->tree, p.name);
}

bool
master_principal(struct master *m, uint64_t conn, struct tree_principal *principal)
{
	const struct m_connection *c = m_connection_find(m, conn);

	return c != NULL && m_connection_principal(m, c, principal);
}

bool
master_of_member(struct master *m, uint64_t conn)
{
	const struct m_connection *c = m_connection_find(m, conn);

	return c != NULL && c->principal.len == 0 && tree_has_member_key(m->tree, c->key);
}

bool
master_has_session(struct master *m, uint64_t conn)
{
	const struct m_connection *c = m_connection_find(m, conn);

	return c != NULL && c->session != NULL;
}

size_t
master_under_way(struct master *m, uint64_t conn)
{
	const struct m_connection *c = m_connection_find(m, conn);

	return c != NULL && c->session != NULL ? c->session->usage->requests : 0;
}

void
master_usage(struct master *m, uint64_t conn, struct limit_row rows[USAGE_LIMITS])
{
	const struct m_connection *c = m_connection_find(m, conn);
	const bool all = c == NULL || m_connection_administers(m, c);

	m_usage_limits(m, all ? (struct bytes){0} : c->principal, rows);
}

void
m_connection_attach(struct master *m, struct m_connection *c, struct m_session *s)
{
	must(c->session == NULL || c->session == s);
	if (s->connection != NULL && s->connection != c)
		m_connection_close(m, s->connection);
	m_request_carry(s);
	c->session = s;
	c->ended = 0;
	c->left = false;
	s->connection = c;
}

void
m_connection_detach(struct master *m, struct m_connection *c)
{
	m_opening_detach(m, c);
	m_keepalive_detach(c);
	if (c->session == NULL)
		return;
	must(c->session->connection == c);
	m_event_detach(m, c->session);
	c->session->connection = NULL;
	c->session = NULL;
}

void
m_connection_leave(struct master *m, struct m_connection *c)
{
	c->left |= c->session != NULL;
	m_connection_detach(m, c);
}

void
m_connection_ended(struct m_connection *c, uint64_t session)
{
	c->ended = session;
}

void
m_connection_free(struct master *m, struct m_connection *c)
{
	m_connection_detach(m, c);
	m_usage_disconnect(m, c);
	RB_REMOVE(m_connection_tree, &m->connections.by_id, c);
	free((void *)c->principal.data);
	free((void *)c->key.data);
	free(c);
}

void
m_connection_close(struct master *m, struct m_connection *c)
{
	struct master_update *u = m->update;

	ARRAY_ROOM(u->closes, u->closes_n, u->closes_room);
	u->closes[u->closes_n++] = c->id;
	m_connection_free(m, c);
}

void
m_connection_breach(struct master *m, struct m_connection *c, const char *why)
{
	NOTICE(m->config.trace, "connection %llu closed: %s", (unsigned long long)c->id, why);
	m_connection_close(m, c);
}

void
m_connection_deny(struct master *m, struct m_connection *c, enum rc rc)
{
	m_connection_send(m, c, &(struct message){.code = MSG_denied, .denied.rc = (uint8_t)rc});
	M_TRACE(m, "connection %" PRIu64 " is denied: %s", c->id, rc_name(rc));
	m_connection_close(m, c);
}
