/* Opening sessions: a client's open_session creates a session, or attaches one that is live to the
 * connection. The reply is session_opened. */
#ifndef LSFS_MASTER_SESSION_OPENING_H
#define LSFS_MASTER_SESSION_OPENING_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"
#include "cell/base/limit.h"
#include "cell/tree/tree.h"

struct master;
struct m_connection;
struct own_command;

struct connection_opening {
	bool under_way; /* a create_session with `nonce` is proposed, or the message is parked */
	uint8_t nonce[LIMIT_NONCE];
	struct bytes message; /* parked: the open_session, encoded; owned */
	TAILQ_ENTRY(m_connection) entry;
};

struct openings {
	TAILQ_HEAD(opening_list, m_connection) parked; /* until the barrier has fallen */
};

/* Initializes the openings of a new master. */
void m_opening_init(struct master *m);
/* Handles an open_session. */
void m_opening_receive(struct master *m, struct m_connection *c,
                       const struct msg_open_session *msg);
/* Handles the parked messages, as many as the step has time for: the barrier has fallen. */
void m_opening_run(struct master *m);
/* A create_session was applied. */
void m_opening_created(struct master *m, const struct own_command *own,
                       const struct tree_answer *answer);
/* No session is being opened on the connection any more. */
void m_opening_detach(struct master *m, struct m_connection *c);

#endif
