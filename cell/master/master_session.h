/* The master's record of each session that lives in the tree. Of sessions of earlier epochs a new
 * master makes its records step by step. */
#ifndef LSFS_MASTER_MASTER_SESSION_H
#define LSFS_MASTER_MASTER_SESSION_H

#include "cell/master/await_bit.h"
#include "cell/master/ephemeral_mark.h"
#include "cell/master/event_queue.h"
#include "cell/master/failover_barrier.h"
#include "cell/master/lock_queue.h"
#include "cell/master/master_keepalive.h"
#include "cell/master/master_request.h"
#include "cell/master/order.h"
#include "cell/master/session_cache.h"
#include "cell/master/session_end.h"
#include "cell/master/session_lease.h"
#include "cell/master/watch_table.h"
#include "cell/master/withdrawal.h"
#include "cell/tree/tree.h"

struct m_connection;
struct principal_usage;

struct m_session {
	RB_ENTRY(m_session) link;
	uint64_t id;
	struct m_connection *connection; /* NULL: none; written by master_connection.c */
	struct session_lease lease;
	struct session_keepalive keepalive;
	struct session_ending ending;
	struct session_cache cache;
	struct session_await await;
	struct session_barrier barrier;
	struct principal_usage *usage;
	struct session_requests requests;
	struct session_order order;
	struct withdrawals withdrawals;
	struct session_waiters waiters;
	struct session_watches watches;
	struct session_events events;
	struct session_mark mark;
};

RB_HEAD(m_session_tree, m_session);
RB_PROTOTYPE(m_session_tree, m_session, link, )

struct m_sessions {
	struct m_session_tree by_id;
	uint64_t inherited;  /* of the sessions of earlier epochs those up to here are recorded, */
	uint64_t inherit_to; /* of those up to here */
};

/* The session's record, NULL when the session is not live. One of an earlier epoch is found before
 * its turn, too. */
struct m_session *m_session_find(struct master *m, uint64_t id);
/* All sessions that the tree has now are to be recorded as those of earlier epochs. */
void m_session_begin(struct master *m);
/* Records the sessions of earlier epochs, as many as the step has time for. */
void m_session_inherit(struct master *m);
/* True when all of these are recorded. */
bool m_session_all_inherited(const struct master *m);
/* Records a session that lives in the tree. */
struct m_session *m_session_record(struct master *m, const struct tree_session *t);
/* Nothing that the session has asked for and that is not proposed yet is done any more. */
void m_session_forget_requests(struct master *m, struct m_session *s);
/* Frees the record. */
void m_session_free(struct master *m, struct m_session *s);
/* Frees all records: the mastership is lost. */
void m_session_free_all(struct master *m);

#endif
