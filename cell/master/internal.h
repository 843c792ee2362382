/* The master's state, made of parts that one file each writes, and the functions of files that have
 * no state of their own. A session (master_session.h), a connection (master_connection.h) and a
 * request (master_request.h) are made of parts of the same files.
 *
 *   master.c             begin and end, dispatch, the frame of each step
 *   timer.c              the timers, sorted by the instant at which they expire
 *   master_connection.c  connections, and what is sent on them
 *   proposal.c           entries for the log
 *   master_session.c     the sessions, those of earlier epochs included
 *   session_opening.c    open_session: creating a session, or attaching one to a connection
 *   session_end.c        the end of a session, from the decision to the last of its entries
 *   session_lease.c      when a session expires
 *   session_cache.c      what a session may cache, and what it is told to drop
 *   watch_table.c        the nodes of whose changes sessions want to know
 *   event_queue.c        events for these sessions, kept until they are received
 *   master_keepalive.c   holding and answering KeepAlives
 *   master_request.c     requests, each of which takes effect once
 *   order.c              which request may begin when
 *   gate.c               commands that change what may be cached, and the keys that they hold
 *   admission.c          the way of sessions' commands through the gate
 *   master_read.c        answers from the applied tree
 *   lock_request.c       acquire, release, cancel
 *   withdrawal.c         acquires that came behind their own cancel or release
 *   lock_queue.c         the queues of locks, grants
 *   queue_ticket.c       places in queues that outlive masters
 *   delay_timer.c        lock-delays
 *   failover_barrier.c   requests that a new master holds back
 *   await_bit.c          the sessions for which a new master has to wait
 *   ephemeral_mark.c     a permanent file becomes ephemeral
 *   lease_load.c         how much longer leases make the load bearable
 *   lengthened_lease.c   session leases while the master is loaded
 *   lowered_lease.c      leases that were longer once
 *   admin_sessions.c     the operators' list of sessions, and their orders to end one
 *   admin_locks.c        the list of all locks
 *   admin_principals.c   the list of principals
 *   removed_principal.c  the end of all that a removed principal has
 *   growth.c             requests that a full disk refuses */
#ifndef LSFS_MASTER_INTERNAL_H
#define LSFS_MASTER_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <inttypes.h>
#include "cell/master/admission.h"
#include "cell/master/await_bit.h"
#include "cell/master/delay_timer.h"
#include "cell/master/ephemeral_mark.h"
#include "cell/master/event_queue.h"
#include "cell/master/failover_barrier.h"
#include "cell/master/gate.h"
#include "cell/master/lengthened_lease.h"
#include "cell/master/lock_queue.h"
#include "cell/master/lock_request.h"
#include "cell/master/lowered_lease.h"
#include "cell/master/master.h"
#include "cell/master/master_connection.h"
#include "cell/master/master_keepalive.h"
#include "cell/master/master_request.h"
#include "cell/master/master_session.h"
#include "cell/master/order.h"
#include "cell/master/principal_usage.h"
#include "cell/master/proposal.h"
#include "cell/master/queue_ticket.h"
#include "cell/master/removed_principal.h"
#include "cell/master/session_cache.h"
#include "cell/master/session_end.h"
#include "cell/master/session_lease.h"
#include "cell/master/session_opening.h"
#include "cell/master/timer.h"
#include "cell/master/watch_table.h"
#include "cell/master/withdrawal.h"
#include "cell/wire/codec.h"

struct master {
	struct master_config config;
	const struct tree *tree;
	bool serving;
	uint64_t epoch;
	uint64_t applied; /* the tree's */
	mono_t deadline;  /* as it stood at the end of the last step */

	/* Of the current step. */
	mono_t now;
	int64_t wall_ns;
	bool has_lease; /* the master's own lease holds */
	bool full;      /* a majority of the disks is */
	struct master_update *update;
	size_t work; /* done so far, about in bytes */

	struct m_connections connections;
	struct timers timers;
	struct proposals proposals;
	struct m_sessions sessions;
	struct principal_usages usages;
	struct openings opening;
	struct endings ending;
	struct removed_principals removed;
	struct orders order;
	struct gate gate;
	struct lock_queues queues;
	struct tickets tickets;
	struct delay_timers delays;
	struct failover_barrier barrier;
	struct awaits await;
	struct ephemeral_mark mark;
	struct lengthened_leases lengthened;
	struct lowered_leases lowered;
	struct watch_table watches;
	struct event_queues events;
};

/* How soon what waits for the master's own lease is looked at again. */
#define LEASE_RETRY span_ms(20)

/* Verdicts begin with the thing that they are about: a session, a lock (by its node), a request,
 * the barrier. */
#define M_TRACE(m, ...) TRACE((m)->config.trace, __VA_ARGS__)

/* Beyond so many KeepAlives a second leases are lengthened: those of 20,000 sessions with a lease
 * of 12 s. */
enum { KEEPALIVES = 5000 };

/* A step that has done so much leaves what may wait to the next step: so a step takes milliseconds,
 * however much became possible in it. A message counts as its bytes, others as below. */
enum { STEP_WORK = 1024 * 1024, REQUEST_WORK = 4096, WAITER_WORK = 512, SESSION_WORK = 1024 };

/* True while the step has time for more of what may wait. */
static inline bool
m_has_time(const struct master *m)
{
	return m->work < m->config.step_work;
}

/* ---- master.c ---- */

/* Begins a step, at the time of `c`. Messages, proposals and closes are appended to `u`. */
void m_step_begin(struct master *m, struct master_clock c, struct master_update *u);
/* Ends the step: does what has become possible, as much as the step has time for, and sets the
 * deadline. */
void m_step_end(struct master *m);

/* ---- master_read.c ---- */

/* Answers a read of the requester from the applied tree into `result`, with the state that only the
 * master has, unless the guard is stale. Returns the code of the reply. */
enum rc m_read_answer(struct master *m, const struct requester *who, const struct guard *guard,
                      const struct op *op, struct buffer *result);

/* Appends the next lock, of a node greater than *node, with its holders and waiters as `get_queue`
 * is answered to the principal; *node is then that node. False when there is none. */
bool m_read_next_queue(struct master *m, struct bytes principal, uint64_t *node,
                       struct buffer *result);

/* Sends the verdict about a sequencer. */
void m_read_check(struct master *m, const struct m_connection *c,
                  const struct msg_check_sequencer *msg);

/* ---- admin_locks.c ---- */

/* Sends the page of locks that `msg` asks for: all that are held, delayed or awaited. */
void m_admin_list_locks(struct master *m, const struct m_connection *c,
                        const struct msg_locks_request *msg);

/* ---- admin_sessions.c ---- */

/* Sends the page of sessions that `msg` asks for. */
void m_admin_list_sessions(struct master *m, const struct m_connection *c,
                           const struct msg_sessions_request *msg);

/* ---- admin_principals.c ---- */

/* Sends the page of principals that `msg` asks for. */
void m_admin_list_principals(struct master *m, const struct m_connection *c,
                             const struct msg_principals_request *msg);

/* ---- growth.c ---- */

/* A majority of the disks is full: true when the request needs more room than it gives back. */
bool m_growth_refused(const struct master *m, const struct m_session *s, const struct m_request *r,
                      const struct op *op);

#endif
