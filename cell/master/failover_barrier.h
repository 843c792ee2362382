/* The barrier: the requests that a new master holds back until every session whose await bit is
 * raised has returned, or the longest cache lease is over (Chubby, section 2.9). */
#ifndef LSFS_MASTER_FAILOVER_BARRIER_H
#define LSFS_MASTER_FAILOVER_BARRIER_H

#include <bsd/sys/queue.h>
#include "cell/master/timer.h"
#include "cell/wire/codec.h"

struct m_connection;
struct m_request;
struct m_session;

struct session_barrier {
	bool outstanding; /* the session has not returned, and the barrier waits for it */
	TAILQ_ENTRY(m_session) entry;
};

struct failover_barrier {
	bool stands;
	bool needed;    /* a session was outstanding in this epoch */
	bool unsettled; /* it has fallen, and the log does not say so yet */
	mono_t end;     /* it falls then at the latest */
	struct timer timer;
	TAILQ_HEAD(outstanding_list, m_session) outstanding;
	size_t outstanding_n;
};

/* Initializes the barrier of a new master. */
void m_barrier_init(struct master *m);
/* An epoch begins: the barrier stands if there are sessions. */
void m_barrier_raise(struct master *m);
/* The session is outstanding, if the barrier stands. */
void m_barrier_await(struct master *m, struct m_session *s);
/* All sessions of earlier epochs are recorded: if none is outstanding, the barrier falls. */
void m_barrier_counted(struct master *m);
/* There is no barrier: the mastership is lost. */
void m_barrier_clear(struct master *m);
/* The barrier's timer has expired. */
void m_barrier_timeout(struct master *m);
/* The session has no cache from before this epoch any more, and waits for no lock that this master
 * does not know of. */
void m_barrier_passed(struct master *m, struct m_session *s);
/* The client says so itself. */
void m_barrier_returned(struct master *m, const struct m_connection *c,
                        const struct msg_returned *msg);
/* Proposes to record that the barrier has fallen: it is unsettled, and no queue is touched. */
void m_barrier_settle(struct master *m);
/* True when the request has to wait until the barrier, which stands, falls. */
bool m_barrier_holds(struct master *m, const struct m_session *s, const struct m_request *r);
/* True when the queue of the node's lock may not be complete yet. */
bool m_barrier_keeps(const struct master *m, uint64_t node);

#endif
