/* KeepAlives (Chubby, section 2.8). The master holds each back for a while, so that a client has
 * one in flight all the time. */
#ifndef LSFS_MASTER_MASTER_KEEPALIVE_H
#define LSFS_MASTER_MASTER_KEEPALIVE_H

#include <stdbool.h>
#include "cell/base/mono.h"
#include "cell/wire/codec.h"

struct master;
struct m_connection;
struct m_session;

struct connection_keepalive {
	bool greeted;      /* the first KeepAlive on the connection was answered */
	bool spread;       /* one has been held on it, for a time that chance decided */
	uint64_t sequence; /* of the last KeepAlive received on it */
};

struct session_keepalive {
	mono_t last; /* when the last one was received; {INT64_MIN}: none in this epoch */
	bool held;   /* one is held back, */
	uint64_t sequence;
	mono_t since, answer_at; /* from then on, and until then at the latest */
};

/* Nothing was received of a session that is recorded now. */
void m_keepalive_begin(struct m_session *s);
/* Handles a KeepAlive. */
void m_keepalive_receive(struct master *m, struct m_connection *c, const struct msg_keepalive *msg);
/* Handles one that was received as a datagram beside the connection. */
void m_keepalive_datagram(struct master *m, const struct m_connection *c,
                          const struct msg_keepalive *msg);
/* Answers the one that is held back. */
void m_keepalive_answer(struct master *m, struct m_session *s);
/* The session, if any, is not open on the connection any more. */
void m_keepalive_detach(struct m_connection *c);

#endif
