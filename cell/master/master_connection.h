/* Connections of clients. The master knows them on every replica, whether or not it serves. */
#ifndef LSFS_MASTER_MASTER_CONNECTION_H
#define LSFS_MASTER_MASTER_CONNECTION_H

#include <bsd/sys/tree.h>
#include "cell/master/master_keepalive.h"
#include "cell/master/session_opening.h"
#include "cell/wire/codec.h"

struct m_session;

struct m_connection {
	RB_ENTRY(m_connection) link;
	uint64_t id;
	struct bytes principal;        /* of the client; owned, and so is */
	struct bytes key;              /* the key that has proved it; empty: this process vouches */
	struct principal_usage *usage; /* of the principal, NULL: it has none */
	struct m_session *session;     /* that is open on it; NULL: none */
	uint64_t ended;                /* the session that was open on it and has ended; 0: none */
	bool left; /* its session is another master's: later frames for that are ignored */
	struct connection_opening opening;
	struct connection_keepalive keepalive;
};

RB_HEAD(m_connection_tree, m_connection);
RB_PROTOTYPE(m_connection_tree, m_connection, link, )

struct m_connections {
	struct m_connection_tree by_id;
};

/* The connection, NULL when it is closed. */
struct m_connection *m_connection_find(struct master *m, uint64_t id);
/* The principal of the client; false when it was removed. Another one of its name has another
 * key. */
bool m_connection_principal(const struct master *m, const struct m_connection *c,
                            struct tree_principal *p);
/* True if it is an administrator. */
bool m_connection_administers(const struct master *m, const struct m_connection *c);
/* Sends the message; its views are copied. */
void m_connection_send(struct master *m, const struct m_connection *c,
                       const struct message *message);
/* Likewise as a datagram, beside the connection: it may be lost. */
void m_connection_send_datagram(struct master *m, const struct m_connection *c,
                                const struct message *message);
/* The session is open on this connection now. A session has one connection: an older one of it is
 * closed. */
void m_connection_attach(struct master *m, struct m_connection *c, struct m_session *s);
/* No session is open on the connection any more, nor being opened on it. */
void m_connection_detach(struct master *m, struct m_connection *c);
/* Detaches it because the mastership is lost. */
void m_connection_leave(struct master *m, struct m_connection *c);
/* Records that the session, which the client may still believe in, has ended. */
void m_connection_ended(struct m_connection *c, uint64_t session);
/* Closes and frees it. */
void m_connection_close(struct master *m, struct m_connection *c);
/* Closes and frees it because the client sent what no client sends; `why` is for the trace. */
void m_connection_breach(struct master *m, struct m_connection *c, const char *why);
/* Closes and frees it because the client, which has the key of a member, is no principal. */
void m_connection_deny(struct master *m, struct m_connection *c);
/* Frees it: its owner has closed it. */
void m_connection_free(struct master *m, struct m_connection *c);

#endif
