/* The end of a session. It is a command in the log, and what the session has goes with it; of a
 * session that has more than goes in one entry the rest goes in further ones. */
#ifndef LSFS_MASTER_SESSION_END_H
#define LSFS_MASTER_SESSION_END_H

#include <bsd/sys/queue.h>
#include "cell/base/mono.h"
#include "cell/tree/tree.h"

struct master;
struct gate_pass;
struct m_session;

struct session_ending {
	bool proposed;          /* the end is */
	enum session_end cause; /* as an operator has ordered it; 0: none has */
	mono_t latest; /* ordered: by then the client knows of it, or has no leave to cache */
	bool due;      /* ordered: nothing but the barrier stands before it */
	TAILQ_ENTRY(m_session) entry;
};

struct endings {
	TAILQ_HEAD(due_list, m_session) due; /* to be ended when the barrier has fallen */
	bool unfinished; /* the tree may have sessions that have ended and are not finished */
	bool finishing;  /* a finish_session is proposed, and not applied */
	struct gate_pass *pass; /* of the next one, at the gate; NULL: there is none */
};

/* Initializes the endings of a new master. */
void m_end_init(struct master *m);
/* An epoch begins: its master goes on with the ends that earlier ones have begun. */
void m_end_begin(struct master *m);
/* Forgets what was proposed: the mastership is lost. */
void m_end_clear(struct master *m);
/* An operator orders the end of the session. Its client is told first. */
void m_end_order(struct master *m, struct m_session *s, enum session_end cause);
/* Of an end that an operator ordered: the client knows of it, or its time is over. */
void m_end_due(struct master *m, struct m_session *s);
/* Ends the sessions that are due, as many as the step has time for: the barrier has fallen. */
void m_end_run(struct master *m);
/* Proposes the end of the session, with the grants that follow from it. */
void m_end_propose(struct master *m, struct m_session *s, enum session_end cause);
/* apply has refused the end of the session (0: of none). */
void m_end_refused(struct master *m, uint64_t session);
/* apply has ended the session: its record goes. */
void m_end_applied(struct master *m, uint64_t id, enum session_end cause);
/* Tells the client that the session is over, and detaches the connection from it. */
void m_end_farewell(struct master *m, struct m_session *s);
/* True if there may be a part to propose, which does not wait at the gate. */
bool m_end_has_more(const struct master *m);
/* Proposes the next part of what is left of an ended session, if there is one, or waits at the gate
 * with it. None is proposed, and the barrier has fallen. */
void m_end_finish(struct master *m);
/* That part was applied. */
void m_end_finished(struct master *m);
/* The session's record goes. */
void m_end_forget(struct master *m, struct m_session *s);

#endif
