/* What the files of cell/master share. Each file owns one idea:
 *
 *   master.c             life, dispatch, the end of each step
 *   timer.c              what is due when
 *   master_connection.c  connections and what is sent on them
 *   proposal.c           entries for the log
 *   master_session.c     opening, attaching, ending sessions
 *   session_lease.c      when a session expires
 *   master_keepalive.c   holding and answering KeepAlives
 *   master_request.c     exactly once
 *   order.c              which request may begin when
 *   master_read.c        answers from the applied tree
 *   lock_request.c       acquire, release, cancel
 *   lock_queue.c         the queues of locks, grants
 *   delay_timer.c        lock-delays
 *   queue_ticket.c       places in queues that outlive masters
 *   failover_barrier.c   what a new one waits for
 *   awaited.c            for whom a new one waits
 *   admin_sessions.c     what operators ask about sessions
 *   growth.c             what a full disk refuses
 *   lowered_lease.c      leases that were longer once
 *   marking.c            a permanent file becomes ephemeral
 */
#ifndef LSFS_MASTER_INTERNAL_H
#define LSFS_MASTER_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/master/master.h"
#include "cell/wire/codec.h"

enum timer_kind { TIMER_BARRIER, TIMER_SESSION, TIMER_DELAY, TIMER_SETTING, TIMER_IDLE };

/* Something that is due at an instant. Sorted by (at, kind, id), so that equal instants come in an
 * order that does not depend on addresses. */
struct timer {
	RB_ENTRY(timer) link;
	mono_t at; /* MONO_NEVER: not set, and not in the tree */
	enum timer_kind kind;
	uint64_t id;
};

struct m_connection {
	RB_ENTRY(m_connection) link;
	uint64_t id;
	struct bytes principal; /* owned */
	struct m_session *session;
	uint64_t ended; /* the session that it had and that has ended; 0: none */
	bool left;      /* its session is another master's: what still comes for it is ignored */
	bool opening;   /* create_session with `nonce` is in flight, or waits for the barrier */
	struct bytes open; /* the open_session that waits, encoded; owned */
	TAILQ_ENTRY(m_connection) opens_entry;
	uint8_t nonce[LIMIT_NONCE];
	bool greeted;      /* its first KeepAlive was answered */
	uint64_t sequence; /* of the last KeepAlive on it */
};

TAILQ_HEAD(request_list, m_request);

/* An unanswered command and one of the keys that it touches. */
struct claim {
	RB_ENTRY(claim) link; /* by key, number */
	uint64_t key, number;
	struct m_request *request;
};

struct claim_list {
	struct claim *claims;
	size_t n;
};

RB_HEAD(claim_tree, claim);

/* A request that was not answered yet. */
struct m_request {
	RB_ENTRY(m_request) link;
	RB_ENTRY(m_request) by_name; /* an acquire */
	struct m_session *session;
	uint64_t number, below;
	enum op_code code;
	uint64_t node;
	enum slot_kind slot;
	bool read;
	bool ordered;           /* every later command takes effect after it */
	bool parked;            /* not begun; `op` is its own copy */
	bool cancelled;         /* an acquire that was given up meanwhile */
	struct bytes op;        /* encoded; the frame's, or owned while parked */
	struct acquire acquire; /* of an acquire, with the ticket it got */
	struct footprint footprint;
	struct claim_list claims, claims_ordered;
	struct request_list behind; /* that wait for this one */
	struct request_list *place; /* where it waits itself; NULL: nowhere */
	TAILQ_ENTRY(m_request) waits;
};

/* A cancel or release that came in, kept until its number is below the session's `below`: an
 * acquire of a lower number that arrives (again) after it must not take the lock any more. */
struct given_up {
	RB_ENTRY(given_up) link; /* by node, owner, acquisition */
	TAILQ_ENTRY(given_up) entry;
	uint64_t number, node, owner, acquisition;
};

RB_HEAD(given_up_tree, given_up);
RB_HEAD(request_tree, m_request);
RB_HEAD(acquire_tree, m_request);

struct m_session {
	RB_ENTRY(m_session) link;
	uint64_t id;
	struct m_connection *connection;
	mono_t promised; /* end of the lease as told to the client */
	mono_t expiry;   /* unheard until then: it is ended */
	struct timer timer;
	bool ending; /* its end is proposed */
	enum session_end doomed; /* an operator ends it, once its client knows; 0: nobody */
	mono_t doomed_until;     /* by then its client knows, or has no leave to cache */
	bool due;                /* nothing is waited for any more but the barrier */
	TAILQ_ENTRY(m_session) due_entry;
	mono_t heard; /* its last KeepAlive; {INT64_MIN}: none in this epoch */
	bool caching; /* it has asked for leave to */
	bool awaited; /* its bit, when all that is proposed of it is applied; see awaited.c */
	unsigned awaiting_n; /* changes of the bit in flight */
	bool idle;           /* it has neither leave nor a waiter */
	mono_t idle_since;
	TAILQ_ENTRY(m_session) idle_entry;
	bool missing; /* the barrier waits for it */
	TAILQ_ENTRY(m_session) missing_entry;
	bool held;   /* a KeepAlive waits for its answer */
	uint64_t held_sequence;
	mono_t held_since, answer_at;
	struct request_tree requests;
	struct acquire_tree acquires; /* of them, by node, owner, acquisition, number */
	struct claim_tree claims_parked;  /* of commands that have not begun */
	struct claim_tree claims_begun;   /* of those that have */
	struct claim_tree claims_ordered; /* of ordered ones, in both cases */
	size_t slots[SLOT_KINDS];
	size_t window[SLOT_KINDS]; /* bytes of their operations */
	struct given_up_tree given_up;
	TAILQ_HEAD(given_up_list, given_up) given_up_order;
	size_t given_up_n;
	TAILQ_HEAD(session_waiters, waiter) waiters;
	size_t waiters_n;
};

/* An acquire in a lock's queue. */
struct waiter {
	RB_ENTRY(waiter) by_place, by_name;
	TAILQ_ENTRY(waiter) of_session;
	struct m_session *session;
	struct lock_queue *queue;
	uint64_t number;           /* of its request */
	struct m_request *request; /* to be answered when the session's bit is raised; else NULL */
	struct acquire acquire; /* with its ticket */
	bool converting;        /* holds the lock shared and wants it exclusive: goes first */
	bool granting;          /* its grant is in flight */
};

RB_HEAD(place_tree, waiter);
RB_HEAD(name_tree, waiter);

/* The queue of one lock; there is one only while somebody waits. */
struct lock_queue {
	RB_ENTRY(lock_queue) link;
	uint64_t node;
	struct place_tree places;
	size_t n, granting_n;
	size_t exclusive_n; /* who do not want it shared */
	bool gone;  /* the node is: all who wait are told so */
	bool dirty; /* the lock may have become available */
	TAILQ_ENTRY(lock_queue) dirty_entry;
};

/* See barrier.c. */
struct failover_barrier {
	bool stands;
	bool waited;    /* somebody was awaited in this epoch */
	bool unsettled; /* it has fallen, and the log does not say so yet */
	mono_t end; /* it falls then at the latest */
	struct timer timer;
	TAILQ_HEAD(missing_list, m_session)
	missing; /* sessions that have not come to this master yet */
	size_t missing_n;
};

/* See marking.c. */
struct marking {
	RB_HEAD(unshared_tree, unshared_file) files;
	TAILQ_HEAD(unshared_list, unshared_file) order; /* the same, the oldest first */
	size_t files_n;
	bool in_flight; /* a make_ephemeral, */
	uint64_t session, number, node; /* which one and of what */
	struct request_list reads; /* of the node, that wait for it */
	struct request_list marks; /* other ones */
};

/* A lock-delay that runs. */
struct delay_timer {
	RB_ENTRY(delay_timer) link;
	uint64_t node, lock_generation, began;
	mono_t end;
	struct timer timer;
};

/* A command of the master's own that is in flight; they come back in the order of proposing. */
struct flight {
	TAILQ_ENTRY(flight) entry;
	enum op_code op;
	uint64_t connection;                        /* create_session */
	uint64_t session, node, owner, acquisition; /* grant; session: end_session */
};

RB_HEAD(timer_tree, timer);
RB_HEAD(m_connection_tree, m_connection);
RB_HEAD(m_session_tree, m_session);
RB_HEAD(queue_tree, lock_queue);
RB_HEAD(delay_tree, delay_timer);
RB_PROTOTYPE(m_connection_tree, m_connection, link, )
RB_PROTOTYPE(m_session_tree, m_session, link, )

struct master {
	struct master_config config;
	const struct tree *tree;
	struct m_connection_tree connections;
	uint8_t ticket_key[16];

	bool serving;
	uint64_t epoch;
	uint64_t applied; /* the tree's */
	uint64_t place; /* the last place in a queue that was given out in this epoch */
	struct m_session_tree sessions;
	uint64_t inherited, inherit_last; /* sessions in between are still to be recorded, */
	uint64_t delays_inherited;        /* and delays on nodes behind it; UINT64_MAX: none */
	struct queue_tree queues;
	struct name_tree waiters; /* of all queues, by (node, session, owner, acquisition) */
	struct delay_tree delays;
	struct failover_barrier barrier;
	struct marking marking;
	TAILQ_HEAD(idle_list, m_session)
	idle; /* whose bits may be lowered, the longest idle first */
	struct timer idle_alarm;
	TAILQ_HEAD(opens_list, m_connection) opens; /* that wait for the barrier */
	struct timer_tree timers;
	mono_t timer_next; /* the earliest of them */
	TAILQ_HEAD(flight_list, flight) flights;
	bool finishing; /* a part of the end of a session is in flight */
	bool ending;    /* the tree may have sessions that end */
	struct request_list runnable;  /* parked ones that may be able to begin now */
	struct request_list held;      /* that wait for the barrier to fall */
	struct request_list leaseless; /* that wait for the master's lease */
	TAILQ_HEAD(dirty_list, lock_queue) dirty;
	TAILQ_HEAD(due_list, m_session) due; /* to be ended when the barrier has fallen */
	struct timer lowered[SETTING_CODES]; /* due when what was promised has ended */
	uint64_t lowered_since[SETTING_CODES];
	mono_t deadline; /* as it stood at the end of the last step */

	/* Of the step that runs. */
	mono_t now;
	int64_t wall_ns;
	bool lease, full;
	struct master_update *u;
	size_t work; /* done so far, about in bytes: see STEP_WORK */
	struct buffer commands; /* of the entry that is being put together */
	uint32_t commands_n;
};

/* How soon what waits for the master's own lease looks again. */
#define LEASE_RETRY span_ms(20)

/* Of what may wait, no more is done in one step; the next step goes on. A request counts as a few
 * KiB, a message as its bytes: so a step takes milliseconds, however much became possible in it. */
enum { STEP_WORK = 1024 * 1024, REQUEST_WORK = 4096, WAITER_WORK = 512, SESSION_WORK = 1024 };

/* master.c */
/* Every step begins and ends so. */
void m_step_begin(struct master *m, struct master_clock c, struct master_update *u);
void m_step_end(struct master *m);

/* timer.c */
void m_timer_set(struct master *m, struct timer *a, mono_t at);
void m_timer_off(struct master *m, struct timer *a);
/* The first timer that is due; NULL when there is none. */
struct timer *m_timer_due(struct master *m);

/* master_connection.c */
struct m_connection *m_connection_find(struct master *m, uint64_t id);
void m_connection_send(struct master *m, const struct m_connection *c,
                       const struct message *message);
/* Takes the session off the connection, and what the connection waits for off the session. */
void m_connection_detach(struct master *m, struct m_connection *c);
void m_connection_close(struct master *m, struct m_connection *c);
/* Closes it because the client did what no client does. */
void m_connection_breach(struct master *m, struct m_connection *c, const char *why);
void m_connection_free(struct master *m, struct m_connection *c);

/* proposal.c */
/* Adds a session's own command, as it came, to the entry that is being put together. */
void m_propose_request(struct master *m, const struct m_session *s, const struct m_request *r);
/* Adds a command of the master's own, on behalf of `session` or of nobody (0). The flight that is
 * returned wants the fields its kind uses. */
struct flight *m_propose(struct master *m, uint64_t session, const struct op *op);
/* The entry is complete. */
void m_propose_flush(struct master *m);
/* The oldest flight, which the answer `op` belongs to. The caller frees it. */
struct flight *m_flight_land(struct master *m, enum op_code op);

/* master_session.c */
struct m_session *m_session_find(struct master *m, uint64_t id);
/* Records the sessions of earlier epochs, as many as the step has time for; one that is looked for
 * is found before its turn, too. */
void m_session_inherit(struct master *m);
bool m_session_all_inherited(const struct master *m);
void m_session_open(struct master *m, struct m_connection *c, const struct msg_open_session *msg);
/* Opens what waited for the barrier, as much as the step has time for. */
void m_session_run_opens(struct master *m);
void m_session_created(struct master *m, const struct flight *f, const struct tree_answer *answer);
/* Makes the master's record of a session that lives in the tree. */
struct m_session *m_session_record(struct master *m, const struct tree_session *t);
void m_session_ended(struct master *m, uint64_t id, enum session_end cause);
void m_session_free(struct master *m, struct m_session *s);
/* Proposes the next part of the end of a session that has more than goes in one entry; none is in
 * flight. */
void m_session_finish(struct master *m);
/* Tells the client on its connection that the session is over, and takes it off there. */
void m_session_farewell(struct master *m, struct m_session *s);
/* Nothing that it has asked for and that is not proposed yet is done any more. */
void m_session_forget_requests(struct master *m, struct m_session *s);

/* lowered_lease.c */
void m_lowered_init(struct master *m);
/* A new master runs each term that began under an earlier one from its start. */
void m_lowered_begin(struct master *m);
void m_lowered_end(struct master *m);
/* What the note of a change says of the setting: lowered, or not any more. */
void m_lowered_note(struct master *m, const struct tree_note *note);
void m_lowered_timeout(struct master *m, uint8_t code);

/* marking.c */
void m_marking_init(struct master *m);
void m_marking_clear(struct master *m);
/* The session has made the file; the file is gone. */
void m_marking_made(struct master *m, uint64_t node, uint64_t session);
void m_marking_gone(struct master *m, uint64_t node);
/* The session of the read is told of the nodes of its footprint. */
void m_marking_told(struct master *m, const struct m_request *r);
/* Where the request has to wait for a mark in flight; NULL: nowhere. */
struct request_list *m_marking_place(struct master *m, const struct m_request *r);
/* One that waited and does not have to any more; NULL when there is none. */
struct m_request *m_marking_next(struct master *m);
/* Proposes the make_ephemeral, or refuses it. */
void m_marking_begin(struct master *m, struct m_session *s, struct m_request *r);
/* The answer to a make_ephemeral. */
void m_marking_applied(struct master *m, const struct tree_answer *answer);

/* session_lease.c */
span_t m_lease_margin(const struct master *m, span_t lease);
/* Of every session, as it is promised now. */
span_t m_lease(const struct master *m);
/* That an earlier master may have promised. */
span_t m_lease_longest(const struct master *m, enum setting which);
/* The session may count on a promise of an earlier master, whatever that had to promise then. */
void m_lease_inherited(struct master *m, struct m_session *s);
/* The session was heard of: it lives at least a lease from now. */
void m_lease_heard(struct master *m, struct m_session *s);
/* The client is told that it has its lease until a lease from now. */
void m_lease_promise(struct master *m, struct m_session *s);
/* Sets the session's timer to what is due first. */
void m_lease_arm(struct master *m, struct m_session *s);
void m_lease_timeout(struct master *m, struct m_session *s);
void m_lease_expiry_refused(struct master *m, uint64_t session);
/* Adds time in which the master did not run to every session's lease; `last`: of the last step. */
void m_lease_account_pause(struct master *m, mono_t last);

/* master_keepalive.c */
void m_keepalive_receive(struct master *m, struct m_connection *c, const struct msg_keepalive *msg);
void m_keepalive_answer(struct master *m, struct m_session *s);

/* master_request.c */
void m_request_receive(struct master *m, struct m_connection *c, const struct msg_request *msg);
/* The answer to a session's own command. */
void m_request_applied(struct master *m, const struct tree_answer *answer);
/* Answers and forgets it. */
void m_request_reply(struct master *m, struct m_session *s, struct m_request *r, enum rc rc,
                     struct bytes result);
/* An acquire of this name that is not answered yet; NULL when there is none. */
struct m_request *m_request_find_acquire(struct m_session *s, uint64_t node, uint64_t owner,
                                         uint64_t acquisition);
/* Begins what was parked and may begin now, as much as the step has time for. */
void m_request_run(struct master *m);
void m_request_free_all(struct m_session *s);

/* order.c */
/* Does an earlier command of the session, begun and not answered, touch what `r` touches? */
bool m_request_behind_command(const struct m_session *s, const struct m_request *r);
/* Where the request has to wait; NULL: it may begin. */
struct request_list *m_order_place(struct master *m, struct m_session *s,
                                   const struct m_request *r);
/* The command was parked, or begins: it is in the way of later ones accordingly. */
void m_order_claim(struct m_session *s, struct m_request *r);
void m_order_wait(struct m_request *r, struct request_list *place);
void m_order_leave(struct m_request *r);
/* What waits for the request is looked at again: it has begun, or is answered. */
void m_order_wake(struct master *m, struct m_request *r);
/* One that was parked and is worth a look; NULL when there is none. */
struct m_request *m_order_next(struct master *m);
/* Takes it out of everything here, and frees what it has of it. */
void m_order_forget(struct m_session *s, struct m_request *r);

/* master_read.c */
/* Answers a read from the applied tree into `result`, with what only the master knows. */
enum rc m_read_answer(struct master *m, uint64_t session, const struct op *op,
                      struct buffer *result);

/* lock_request.c */
void m_lock_acquire(struct master *m, struct m_session *s, struct m_request *r);
/* apply found the lock busy for an acquire that may wait. */
void m_lock_acquire_refused(struct master *m, struct m_session *s, struct m_request *r);
void m_lock_release(struct master *m, struct m_session *s, struct m_request *r,
                    const struct op_release *op);
void m_lock_cancel(struct master *m, struct m_session *s, struct m_request *r,
                   const struct op_cancel *op);
void m_lock_end_session(struct master *m, struct m_session *s, struct m_request *r,
                        const struct op_end_session *op);
/* The entry that is put together ends the session, or part of what it has left, or the node's
 * lock-delay: it carries the grants that follow. */
void m_lock_session_ends(struct master *m, uint64_t session, enum session_end cause);
void m_lock_delay_ends(struct master *m, uint64_t node);
/* A release or cancel arrived, perhaps not for the first time: nobody waits by this name any more.
 * Returns true when somebody did. */
bool m_lock_give_up(struct master *m, struct m_session *s, uint64_t number, uint64_t node,
                    uint64_t owner, uint64_t acquisition);
void m_lock_forget_given_up(struct m_session *s, uint64_t below);

/* Answers those that are queued and were not told, when the session's bit has been raised. */
void m_lock_tell_queued(struct master *m, struct m_session *s);

/* awaited.c */
/* The session is about to be told of leave to cache, or of a ticket: is its bit raised? If not it
 * is proposed, and m_lock_tell_queued called when it is. */
bool m_awaited_raise(struct master *m, struct m_session *s);
void m_awaited_landed(struct master *m, const struct flight *f);
/* It may have neither any more. */
void m_awaited_idle(struct master *m, struct m_session *s);
void m_awaited_ring(struct master *m);
/* The session goes. */
void m_awaited_forget(struct master *m, struct m_session *s);

/* lock_queue.c */
struct lock_queue *m_queue_find(struct master *m, uint64_t node);
void m_queue_touch(struct master *m, uint64_t node);
void m_queue_touch_all(struct master *m);
/* Must an acquire that is not a conversion go behind those who wait? */
bool m_queue_blocks(const struct lock_queue *q, const struct acquire *a);
/* Does a holder wait for its conversion? */
bool m_queue_converting(const struct lock_queue *q);
struct waiter *m_waiter_find(struct master *m, uint64_t node, uint64_t session, uint64_t owner,
                             uint64_t acquisition);
/* NULL when the queue is full, or the session waits for too much. */
struct waiter *m_waiter_add(struct master *m, struct m_session *s, const struct m_request *r,
                            bool converting);
void m_waiter_drop(struct master *m, struct waiter *w);
/* Proposes the grants that the applied tree allows; where the step has no time for all of them the
 * queue is touched again. */
void m_queue_grant(struct master *m, struct lock_queue *q);
/* Proposes the grants that will be right when only `others` hold the lock, none exclusively, and
 * the session `gone` (NULL: none) has ended. */
void m_queue_grant_behind(struct master *m, struct lock_queue *q, size_t others,
                          const struct m_session *gone);
void m_queue_granted(struct master *m, const struct flight *f, const struct tree_answer *answer);
/* The node is gone: all who wait are told, in this step or in later ones. */
void m_queue_gone(struct master *m, uint64_t node);
void m_queue_tell_gone(struct master *m, struct lock_queue *q);

/* queue_ticket.c */
void m_ticket_init(struct master *m);
/* The last place in the queue, for this acquire of `session`. */
void m_ticket_give(struct master *m, uint64_t session, struct acquire *a);
/* Did a master of this cell give the acquire its ticket, if it has one? */
bool m_ticket_genuine(const struct master *m, uint64_t session, const struct acquire *a);

/* failover_barrier.c */
/* At the beginning of an epoch; it does not stand longer than for the sessions that are awaited. */
void m_barrier_raise(struct master *m);
void m_barrier_await(struct master *m, struct m_session *s);
/* All who are awaited are known. */
void m_barrier_counted(struct master *m);
void m_barrier_clear(struct master *m);
void m_barrier_timeout(struct master *m);
/* The session has no cache from before this epoch any more. */
void m_barrier_passed(struct master *m, struct m_session *s);
/* ... and says so itself. */
void m_barrier_returned(struct master *m, const struct m_connection *c,
                        const struct msg_returned *msg);
/* When it is unsettled and no lock's queue is dirty: tells the log that it has fallen. */
void m_barrier_settle(struct master *m);
/* Must the request wait for the barrier, which stands? */
bool m_barrier_holds(struct master *m, const struct m_session *s, const struct m_request *r);
/* Is it a lock whose queue may not be complete yet? */
bool m_barrier_keeps(const struct master *m, uint64_t node);

/* admin_sessions.c */
/* Ends the sessions that operators want ended. */
void m_admin_end_sessions(struct master *m);
/* Nothing is waited for any more before the end of a session that an operator wants ended: its
 * client knows, or its time is over. */
void m_operate_due(struct master *m, struct m_session *s);
void m_admin_list_sessions(struct master *m, const struct m_connection *c,
                           const struct msg_sessions_request *msg);

/* growth.c */
/* There is no room: is the request refused because it needs more than it gives back? */
bool m_growth_refused(const struct master *m, const struct m_session *s, const struct m_request *r,
                      const struct op *op);

/* delay_timer.c */
void m_delay_begin(struct master *m, const struct tree_note *note);
void m_delay_drop(struct master *m, uint64_t node);
/* Those of earlier epochs, as many as the step has time for. */
void m_delay_inherit(struct master *m);
void m_delay_timeout(struct master *m, uint64_t node);
/* Whole seconds left of the node's delay, rounded up; 1 while only its commit is missing. */
int64_t m_delay_left_s(struct master *m, uint64_t node);
void m_delay_free_all(struct master *m);

#endif
