/* Locks: the requests about them, the queues of the acquires that wait, and lock-delays. */
#ifndef LSFS_MASTER_LOCK_QUEUE_H
#define LSFS_MASTER_LOCK_QUEUE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>

#include "cell/master/timer.h"
#include "cell/tree/tree.h"

struct m_request;
struct m_session;
struct master;
struct own_command;

/* ---- lock_queue.c ----
 *
 * The queues of locks. A waiter is an acquire that stands in the queue of its node's lock. */

struct waiter {
	RB_ENTRY(waiter) by_place, by_name;
	TAILQ_ENTRY(waiter) of_session;
	struct m_session *session;
	struct lock_queue *queue;
	uint64_t number;           /* of its request */
	int64_t since_ns;          /* master's time of day when it joined the queue */
	struct m_request *request; /* answered when the await bit is raised; NULL: is answered */
	struct acquire acquire;    /* with its ticket */
	struct bytes user;         /* that the request acts for; owned */
	bool converting; /* holds the lock shared and wants it exclusive: stands in front */
	size_t granting; /* the number of proposed grants to it */
	uint64_t judged; /* the change of rights after which it was found to have the right */
};

RB_HEAD(waiter_places, waiter);
RB_HEAD(waiter_names, waiter);

/* The queue of one lock; a lock without waiters has none. */
struct lock_queue {
	RB_ENTRY(lock_queue) link;
	uint64_t node;
	struct waiter_places places;
	size_t n, granting_n;
	size_t exclusive_n; /* the waiters for the exclusive lock */
	bool gone;          /* the node is deleted: each waiter is refused */
	bool unjudged;      /* waiters may have lost the right to the lock */
	bool touched;       /* the lock may have become available, or waiters are unjudged */
	TAILQ_ENTRY(lock_queue) touched_entry;
};

RB_HEAD(queue_tree, lock_queue);

struct lock_queues {
	struct queue_tree by_node;
	struct waiter_names waiters; /* of all queues, by (node, session, owner, acquisition) */
	TAILQ_HEAD(touched_list, lock_queue) touched;
	uint64_t rights; /* changes of rights so far */
};

struct session_waiters {
	TAILQ_HEAD(waiter_list, waiter) list;
	size_t n;
};

/* The queue of the node's lock; NULL if nobody waits. */
struct lock_queue *m_queue_find(struct master *m, uint64_t node);
/* The queue of the first node greater than `after` that has one; NULL if there is none. */
struct lock_queue *m_queue_after(struct master *m, uint64_t after);
/* Appends the waiters, in their order, to a list for a message; returns their number. */
uint32_t m_queue_list(struct master *m, const struct lock_queue *q, struct buffer *list);
/* The lock of the node may have become available: its queue is looked at before the step ends. */
void m_queue_touch(struct master *m, uint64_t node);
/* Touches all queues. */
void m_queue_touch_all(struct master *m);
/* The rights on the node have changed: waiters without the right to its lock are refused, in this
 * step or in later ones. */
void m_queue_judge(struct master *m, uint64_t node);
/* Likewise the rights on every node. */
void m_queue_judge_all(struct master *m);
/* Looks at the touched queues, at as many as the step has time for. */
void m_queue_run(struct master *m);
/* True when an acquire that is not a conversion has to queue behind the waiters of `q` (NULL: there
 * are none). */
bool m_queue_blocks(const struct master *m, const struct lock_queue *q, const struct acquire *a);
/* True when a holder waits for its conversion. */
bool m_queue_converting(const struct lock_queue *q);
/* Proposes the grants that the applied tree allows; a queue for which the step has no time is
 * touched again. */
void m_queue_grant(struct master *m, struct lock_queue *q);
/* Adds to the entry a grant to the first waiter whatever the tree allows: what is proposed already
 * may free the lock. */
void m_queue_grant_first(struct master *m, struct lock_queue *q);
/* Adds to the entry the grants that will be right when only `others` hold the lock, none of them
 * exclusively, and the session `gone` (NULL: none) has ended; none after a waiter of that session,
 * whose end may be refused. */
void m_queue_grant_behind(struct master *m, struct lock_queue *q, size_t others,
                          const struct m_session *gone);
/* A grant was applied. */
void m_queue_granted(struct master *m, const struct own_command *own,
                     const struct tree_answer *answer);
/* A holder has lost the lock to an operator: its session is told. */
void m_queue_lost(struct master *m, const struct tree_note *lost);
/* The node is deleted: all waiters are refused, in this step or in later ones. */
void m_queue_gone(struct master *m, uint64_t node);

/* The waiter of this name; NULL if there is none. */
struct waiter *m_waiter_find(struct master *m, uint64_t node, uint64_t session, uint64_t owner,
                             uint64_t acquisition);
/* False: the queue is full, or the session or its principal has too many waiters. */
bool m_waiter_fits(struct master *m, const struct m_session *s, uint64_t node);
/* Puts an acquire that fits into the queue, at the place of its ticket. */
struct waiter *m_waiter_add(struct master *m, struct m_session *s, const struct m_request *r,
                            bool converting);
/* The waiter's request is answered later (or NULL: is answered). */
void m_waiter_owe_reply(struct waiter *w, struct m_request *r);
/* Takes the waiter out of the queue and frees it. */
void m_waiter_drop(struct master *m, struct waiter *w);
/* Drops all waiters of the session. */
void m_waiters_drop(struct master *m, struct m_session *s);

/* ---- request_proof.c: tickets ----
 *
 * Tickets: places in locks' queues, as clients carry them from one master to the next. */

struct tickets {
	uint8_t key[2][16]; /* of the codes: one for each signing key */
	uint64_t last;      /* the last place that was given out in this epoch */
};

/* Derives the keys from the cell's signing keys. */
void m_ticket_set_keys(struct master *m);
/* Places are counted from the beginning: an epoch begins. */
void m_ticket_begin(struct master *m);
/* The ticket for the last place in the queue, for this acquire of `session`. */
struct ticket m_ticket_next(struct master *m, uint64_t session, const struct acquire *a);
/* True when a master of this cell gave the acquire its ticket, or when it has none. */
bool m_ticket_genuine(const struct master *m, uint64_t session, const struct acquire *a);

/* ---- lock_request.c ----
 *
 * Acquire, release and cancel: what is proposed at once, and what waits in the lock's queue. */

/* True when a master gave the acquire its ticket. The key that proved it is no longer in force when
 * the cell's key was rotated twice since; but a session that has the lock by now must be told
 * so. */
bool m_lock_genuine(struct master *m, const struct m_session *s, const struct acquire *a);
/* Begins an acquire: it is proposed, put into the queue, or refused. */
void m_lock_acquire(struct master *m, struct m_session *s, struct m_request *r);
/* True while an acquire of the node's lock, with a ticket of the same epoch before this one, is in
 * the log, and apply has not decided about it. */
bool m_lock_in_log(const struct master *m, uint64_t node, const struct ticket *before);
/* The acquire is decided, or its session is gone. */
void m_lock_acquire_decided(struct master *m, struct m_request *r);
/* Begins a transaction. A grant to the first waiter for each lock that it would take comes before
 * it in its entry: granted or refused, the transaction does not pass a waiter. */
void m_lock_transaction(struct master *m, struct m_session *s, struct m_request *r,
                        const struct op_transaction *o);
/* apply has found the lock busy for an acquire that may wait. */
void m_lock_acquire_refused(struct master *m, struct m_session *s, struct m_request *r);
/* Begins a release: it is proposed with the grants that follow from it. */
void m_lock_release(struct master *m, struct m_session *s, struct m_request *r,
                    const struct op_release *op);
/* Begins a cancel: as a release. */
void m_lock_cancel(struct master *m, struct m_session *s, struct m_request *r,
                   const struct op_cancel *op);
/* Begins an end_session of a client: it is proposed with the grants that follow from it. */
void m_lock_end_session(struct master *m, struct m_session *s, struct m_request *r,
                        const struct op_end_session *op);
/* The entry that is being put together ends the session, or part of what it has left: adds the
 * grants that follow. */
void m_lock_session_ends(struct master *m, uint64_t session, enum end_cause cause);
/* That entry ends the node's lock-delay: adds the grants that follow. */
void m_lock_delay_ends(struct master *m, uint64_t node);
/* A release or cancel with this number was received, perhaps not for the first time: an earlier
 * acquire of this name gets no lock any more. Returns true when it stood in the queue. */
bool m_lock_withdraw(struct master *m, struct m_session *s, uint64_t number, uint64_t node,
                     uint64_t owner, uint64_t acquisition);
/* Answers the session's acquires that stand in queues and are not answered: its await bit is
 * raised. */
void m_lock_reply_queued(struct master *m, struct m_session *s);

/* Acquires in the log, about which apply has not decided, by node. */
RB_HEAD(acquires_in_log, m_request);

/* ---- lock_request.c: withdrawals ----
 *
 * Acquires that a cancel or a release has withdrawn. Each is remembered until its number is below
 * the session's `below`: an acquire of a lower number that is received (again) after it must not
 * take the lock any more. */

struct withdrawal {
	RB_ENTRY(withdrawal) link; /* by node, owner, acquisition */
	TAILQ_ENTRY(withdrawal) entry;
	uint64_t number; /* of the cancel or release */
	uint64_t node, owner, acquisition;
};

RB_HEAD(withdrawal_tree, withdrawal);

/* Withdrawals of one session, at most: a client names one acquire under each number, and what is
 * remembered spans two windows of numbers. */
enum { WITHDRAWALS = 2 * LIMIT_NUMBERS };

/* The withdrawals of one session. */
struct withdrawals {
	struct withdrawal_tree by_name;
	TAILQ_HEAD(withdrawal_list, withdrawal) received; /* in the order of arrival */
	size_t n;
};

/* Forgets the withdrawals with numbers lower than `below`. */
void m_withdrawals_forget(struct withdrawals *w, uint64_t below);

/* ---- delay_timer.c ----
 *
 * States of a node that the master's clock ends: the delay of its lock (Chubby, section 2.4), and
 * its time to live. */

/* A lock-delay or a time to live, which stands in the tree since the command of the index `began`;
 * the generation of the lock or of the contents was this one then. */
struct delay_timer {
	RB_ENTRY(delay_timer) link;
	TAILQ_ENTRY(delay_timer) in_due;
	uint64_t node, generation, began;
	mono_t end;
	struct timer timer;
	bool due;               /* a time to live that is over */
	struct gate_pass *pass; /* of its command; NULL: none yet */
};

RB_HEAD(delay_tree, delay_timer);

struct delay_timers {
	enum timer_kind kind;
	bool (*after)(const struct tree *t, uint64_t node, struct tree_note *begun);
	struct delay_tree by_node;
	uint64_t inherited; /* of earlier epochs those of nodes up to here run; UINT64_MAX: all */
};

/* Initializes the delays and times to live of a new master. */
void m_delay_init(struct master *m);
/* An epoch begins: all that stand in the tree are to run. */
void m_delay_begin_epoch(struct master *m);
/* Starts the timers of what began in earlier epochs, as many as the step has time for. */
void m_delay_inherit(struct master *m);
/* A delay or time to live has begun, or begun again: `note` says of which node and how long it is;
 * 0: it is over. */
void m_delay_begin(struct master *m, struct delay_timers *of, const struct tree_note *note);
/* The delay or time to live of the node, if any, does not run any more. */
void m_delay_drop(struct master *m, struct delay_timers *of, uint64_t node);
/* The timer of the node's lock-delay has expired. */
void m_delay_timeout(struct master *m, uint64_t node);
/* The timer of the file's time to live has expired. */
void m_ttl_timeout(struct master *m, uint64_t node);
/* The process was paused for this long: no file could be renewed. */
void m_ttl_account_pause(struct master *m, span_t pause);
/* Whole seconds left, rounded up; 1 while only the commit of the end is missing. */
int64_t m_delay_left_s(const struct delay_timers *of, mono_t now, uint64_t node);
/* Drops all: the mastership is lost. */
void m_delay_clear(struct master *m);

/* ---- delay_timer.c: expiries ----
 *
 * Files whose time to live is over. Others may have cached them and are told before, so the
 * commands pass the gate. */

struct expiries {
	TAILQ_HEAD(due_expiries, delay_timer) due;
};

/* True if there is something to be done now, after the barrier. */
bool m_expiry_is_due(const struct master *m);
/* Proposes the next expiries, as far as nothing stands in their way. */
void m_expiry_run(struct master *m);
/* An expiry was applied, or refused because it declared too little. */
void m_expiry_applied(struct master *m, const struct own_command *own, enum rc rc);

#endif
