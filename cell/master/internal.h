/* The master's state, made of parts that one file each writes, and the functions of files that have
 * no state of their own. A session and a connection (master_session.h) and a request
 * (master_request.h) are made of parts of the same files.
 *
 *   master.c             begin and end, dispatch, the frame of each step
 *   timer.c              the timers, sorted by the instant at which they expire
 *   master_connection.c  connections, and what is sent on them
 *   proposal.c           entries for the log
 *   master_session.c     the sessions, those of earlier epochs included: how they are opened, and
 *                        ended, from the decision to the last of the entries
 *   session_lease.c      when a session expires; leases that are longer while the master is loaded,
 *                        or were longer once
 *   session_cache.c      what a session may cache, and what it is told to drop
 *   watch_table.c        the nodes that sessions watch
 *   master_events.c      events for them, kept until they are received
 *   missed_events.c      those of before a fail-over, made again of the history
 *   master_keepalive.c   holding and answering KeepAlives
 *   master_request.c     requests, each of which takes effect once
 *   request_proof.c      what requests prove: rights (check digits), places in queues (tickets)
 *   order.c              which request may begin when
 *   gate.c               commands that change what may be cached, the keys that they hold, and the
 *                        admission of sessions' commands
 *   master_read.c        answers from the applied tree
 *   sequencer.c          signed proofs of a lock
 *   lock_request.c       acquire, release, cancel; acquires that came after their own cancel
 *   lock_queue.c         the queues of locks, grants
 *   delay_timer.c        lock-delays, and times to live
 *   failover_barrier.c   requests that a new master holds back, and the sessions for which it waits
 *   admin_lists.c        the operators' lists, and their orders to end a session
 *   principal_usage.c    what the sessions of a principal have together
 *   removed_principal.c  the end of all that a removed principal has, and of its name in ACL files
 *   growth.c             requests that a full disk refuses */
#ifndef LSFS_MASTER_INTERNAL_H
#define LSFS_MASTER_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <inttypes.h>
#include "cell/master/gate.h"
#include "cell/master/lock_queue.h"
#include "cell/master/master.h"
#include "cell/master/master_events.h"
#include "cell/master/master_request.h"
#include "cell/master/master_session.h"
#include "cell/master/session_lease.h"
#include "cell/master/timer.h"
#include "cell/wire/codec.h"

/* ---- principal_usage.c ----
 *
 * The sessions, waiters and unanswered requests of a principal have limits together, beside the
 * limits of each session: so that a principal with many sessions cannot fill the master's memory.
 * Its connections have one, too, which the server holds (LIMIT_PRINCIPAL_CONNECTIONS). */

struct principal_usage {
	RB_ENTRY(principal_usage) link;
	struct bytes principal; /* owned */
	size_t connections, sessions;
	size_t openings;         /* sessions whose create_session is in the log */
	size_t waiters;          /* for locks */
	size_t requests, window; /* without a reply, and their bytes */
};

RB_HEAD(principal_usages, principal_usage);

/* How near the limits are: of each the principal that is nearest to it, or only the named one. Its
 * name is a view. */
void m_usage_limits(const struct master *m, struct bytes only, struct limit_row rows[USAGE_LIMITS]);
/* Counts a connection that begins; one of no principal is not counted. */
void m_usage_connect(struct master *m, struct m_connection *c);
/* Counts the connection no longer. */
void m_usage_disconnect(struct master *m, struct m_connection *c);
/* Counts a session, whose record begins. */
void m_usage_join(struct master *m, struct m_session *s, struct bytes principal);
/* Counts the session no longer, of which no waiter and no request is counted any more. */
void m_usage_part(struct master *m, struct m_session *s);
/* True if the principal may have one more session, beside those that it is opening. */
bool m_usage_session_fits(struct master *m, struct bytes principal);
/* Counts a session that is being opened. */
struct principal_usage *m_usage_opening(struct master *m, struct bytes principal);
/* Counts it no longer: it is one, or will not be. */
void m_usage_opened(struct master *m, struct principal_usage *u);
/* True if the session's principal may have one more waiter. */
bool m_usage_waiter_fits(const struct m_session *s);
/* Counts a waiter. */
void m_usage_add_waiter(struct m_session *s);
/* Counts a request, and its bytes; false: its principal has more without a reply than it may. */
bool m_usage_take_request(struct m_session *s, size_t bytes);
/* Counts a waiter no longer. */
void m_usage_drop_waiter(struct m_session *s);
/* Counts the request no longer, nor its bytes. */
void m_usage_drop_request(struct m_session *s, size_t bytes);

/* ---- proposal.c ----
 *
 * Entries for the log. Commands are put together until the entry is complete: a release and the
 * grant that follows from it are one entry, so a lock changes hands with one commit. */

/* A command of the master's own that is proposed and not applied. Such commands are applied in the
 * order in which they were proposed. */
struct own_command {
	TAILQ_ENTRY(own_command) entry;
	enum op_code op;
	struct gate_pass *pass;        /* of an end_session, finish_session, purge_name or expire */
	uint64_t connection;           /* create_session, */
	struct principal_usage *usage; /* and the principal that it is of; else NULL */
	uint64_t session, node, owner, acquisition; /* grant; session: end_session; node: expire */
	uint8_t setting;                            /* settle_setting */
};

struct proposals {
	struct buffer commands; /* of the entry that is being put together, encoded */
	uint32_t commands_n;
	uint32_t weight; /* of the commands: the steps of a transaction count one by one */
	TAILQ_HEAD(own_commands, own_command) own;
};

/* Initializes the proposals of a new master. */
void m_proposals_init(struct master *m);
/* Forgets what is proposed and not applied: the mastership is lost. */
void m_proposals_clear(struct master *m);
/* Frees the room of the entry. */
void m_proposals_free(struct master *m);
/* Adds the session's command, as it was received, to the entry, behind what was refused to the
 * session. */
void m_propose_request(struct master *m, struct m_session *s, const struct m_request *r);
/* Adds a command of the master's own to the entry, on behalf of `session` or of none (0). The
 * caller fills in the fields that the kind of command uses. */
struct own_command *m_propose(struct master *m, uint64_t session, const struct op *op);
/* The same for the grant to a waiter, which acts for this user. */
struct own_command *m_propose_for(struct master *m, struct bytes user, const struct op *op);
/* The same for a command that has passed the gate, and declares what it changes. */
struct own_command *m_propose_bounded(struct master *m, uint64_t session, const struct op *op,
                                      struct gate_pass *pass);
/* The entry is complete, and proposed; without commands there is none. */
void m_propose_flush(struct master *m);
/* Takes out the oldest command of the master's own, which was applied and is an `op`; it has left
 * the gate. The caller frees it. */
struct own_command *m_proposal_applied(struct master *m, enum op_code op);

/* ---- removed_principal.c ----
 *
 * Principals that were removed. The removal is one entry of the log; then the master ends their
 * sessions, each by an entry of its own, and a new master continues that. */

struct removed_principals {
	bool due;       /* sessions may be left whose principal was removed */
	uint64_t after; /* sessions up to this one were checked */
};

/* True if the session's principal was removed; another one may have its name now. */
bool m_removed_owns(const struct master *m, const struct tree_session *t);
/* A principal was removed: its sessions are to end, and its connections are closed. A connection on
 * which the client was told of the end of a session is closed with that session. */
void m_removed_note(struct master *m, const struct tree_note *note);
/* A session has ended, and its client was told on this connection, which is closed if its principal
 * was removed. */
void m_removed_ended(struct master *m, uint64_t connection);
/* Orders the end of sessions, as many as the step has time for. */
void m_removed_run(struct master *m);
/* The mastership is over. */
void m_removed_clear(struct master *m);

/* ---- removed_principal.c: its name ----
 *
 * A removed principal's name is removed from the ACL files, a few with each command. Sessions that
 * may have cached these are told before, so the commands pass the gate. */

struct name_purge {
	struct bytes name;      /* owned; empty if none is purged */
	struct gate_pass *pass; /* of the next command; NULL: none yet */
	bool proposed;
};

/* True if something is to be done now for the name that is being purged, after the barrier. */
bool m_purge_is_due(const struct master *m);
/* Proposes the next command, if nothing stands in its way. */
void m_purge_run(struct master *m);
/* A command was applied, or refused because it declared too little. */
void m_purge_applied(struct master *m);
/* The mastership is over. */
void m_purge_clear(struct master *m);

/* ---- the master ---- */

struct master {
	struct master_config config;
	const struct tree *tree;
	bool serving;
	uint64_t epoch;
	uint64_t applied; /* the tree's */
	uint64_t noted;   /* the last entry of which all changes were told to those that watch */
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
	struct name_purge purge;
	struct orders order;
	struct gate gate;
	struct lock_queues queues;
	struct acquires_in_log acquires_in_log;
	struct tickets tickets;
	struct delay_timers delays, lives;
	struct expiries expiries;
	struct failover_barrier barrier;
	struct awaits await;
	struct lengthened_leases lengthened;
	struct lowered_leases lowered;
	struct watch_table watches;
	struct event_queues events;
	struct telling telling;
	struct missed_events missed;
};

/* How soon what waits for the master's own lease is looked at again. */
#define LEASE_RETRY span_ms(20)

/* Verdicts begin with the thing that they are about: a session, a lock (by its node), a request,
 * the barrier. */
#define M_TRACE(m, ...) TRACE((m)->config.trace, __VA_ARGS__)

/* Beyond this number of KeepAlives a second leases are lengthened: those of 20,000 sessions with a
 * lease of 12 s. */
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

/* Answers a read of the requester from the applied tree, with the state that only the master has,
 * unless the guard is stale. Returns the code of the reply; *r and its views are as those of
 * tree_read. */
enum rc m_read_answer(struct master *m, const struct requester *who, const struct guard *guard,
                      const struct op *op, struct result *r, struct buffer *scratch);

/* Appends the next lock, of a node greater than *node, with its holders and waiters as `get_queue`
 * is answered to the principal; *node is then that node. False when there is none. */
bool m_read_next_queue(struct master *m, struct bytes principal, uint64_t *node,
                       struct buffer *result);

/* Sends the verdict about a sequencer. */
void m_read_check(struct master *m, const struct m_connection *c,
                  const struct msg_check_sequencer *msg);

/* ---- admin_lists.c ---- */

/* Sends the page of locks that `msg` asks for: all that are held, delayed or awaited. */
void m_admin_list_locks(struct master *m, const struct m_connection *c,
                        const struct msg_locks_request *msg);

/* Sends the page of sessions that `msg` asks for. */
void m_admin_list_sessions(struct master *m, const struct m_connection *c,
                           const struct msg_sessions_request *msg);

/* Sends the page of principals that `msg` asks for. */
void m_admin_list_principals(struct master *m, const struct m_connection *c,
                             const struct msg_principals_request *msg);

/* ---- growth.c ---- */

/* A majority of the disks is full: refuses the request if it needs more room than it gives back. It
 * stays refused until its client has been told: when it is received again, and under the next
 * master, if that has a later command of the session. */
bool m_growth_refuse(struct master *m, struct m_session *s, struct m_request *r,
                     const struct op *op);
/* Answers a request that was refused, and is received again; false: it was not. */
bool m_growth_refuse_again(struct master *m, struct m_session *s, uint64_t number);
/* The client has the answers to all lower numbers. */
void m_growth_forget(const struct master *m, struct m_session *s, uint64_t below);
/* The session is over. */
void m_growth_forget_all(struct m_session *s);

#endif
