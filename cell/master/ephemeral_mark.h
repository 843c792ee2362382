/* A permanent file becomes ephemeral: it is marked. Every other session is asked first whether it
 * has the file open, and those that have become openers in the entry that marks the file. */
#ifndef LSFS_MASTER_EPHEMERAL_MARK_H
#define LSFS_MASTER_EPHEMERAL_MARK_H

#include <bsd/sys/queue.h>
#include "cell/master/order.h"
#include "cell/master/timer.h"
#include "cell/tree/tree.h"

struct m_connection;
struct m_request;
struct m_session;
struct master;

struct session_mark {
	bool asked;  /* the session is to answer the question under way */
	bool silent; /* it has not answered an earlier one in time: this one does not wait for it */
	TAILQ_ENTRY(m_session) entry;
};

enum mark_state {
	MARK_NONE,
	MARK_ASKING,   /* the sessions are asked */
	MARK_COUNTED,  /* all have answered, or their time is over */
	MARK_PROPOSED, /* and the make_ephemeral is in the log, not applied */
};

struct ephemeral_mark {
	enum mark_state state;
	uint64_t session, number, node; /* which make_ephemeral, of which file */
	uint64_t question;              /* the number of the last one in this epoch */
	uint64_t asked_upto, ask_upto;  /* the sessions up to here are asked, of those up to here */
	struct timer timer;
	TAILQ_HEAD(asked_sessions, m_session) asked;
	struct footprint openers;   /* the sessions that are counted */
	struct request_list asking; /* the make_ephemeral, until the sessions are counted */
	struct request_list opens;  /* requests by which others may open the file */
	struct request_list behind; /* other requests make_ephemeral */
};

/* Initializes the mark of a new master. */
void m_mark_init(struct master *m);
/* There is no mark: the mastership is lost. */
void m_mark_clear(struct master *m);
/* The list in which the request has to wait for another session's mark; NULL: it need not. */
struct request_list *m_mark_wait_list(struct master *m, const struct m_request *r);
/* The list in which a make_ephemeral, which could begin, waits for the answers; NULL: they are
 * there, or nobody has to be asked. */
struct request_list *m_mark_ask(struct master *m, const struct m_request *r);
/* True if there are sessions that are still to be asked. */
bool m_mark_asks(const struct master *m);
/* Asks them, as many as the step has time for. */
void m_mark_run(struct master *m);
/* The session is open on a new connection: it is told what it has open, and asked again. */
void m_mark_attached(struct master *m, struct m_session *s);
/* An answer has arrived. */
void m_mark_receive(struct master *m, const struct m_connection *c, const struct msg_opens *msg);
/* The session has the file open, or has not, or has ended. */
void m_mark_answered(struct master *m, struct m_session *s, bool open);
/* The time for the answers is over. */
void m_mark_timeout(struct master *m);
/* A request that waited here and need not any more; NULL: there is none. */
struct m_request *m_mark_next(struct master *m);
/* Proposes a make_ephemeral. */
void m_mark_propose(struct master *m, const struct m_session *s, const struct m_request *r);
/* A make_ephemeral was applied. */
void m_mark_applied(struct master *m, const struct tree_answer *answer);
/* A make_ephemeral goes. */
void m_mark_forget(struct master *m, const struct m_request *r);

#endif
