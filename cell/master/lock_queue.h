/* The queues of locks. A waiter is an acquire that stands in the queue of its node's lock. */
#ifndef LSFS_MASTER_LOCK_QUEUE_H
#define LSFS_MASTER_LOCK_QUEUE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct master;
struct m_request;
struct m_session;
struct own_command;

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
	bool granting;   /* its grant is proposed */
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
	bool touched;       /* the lock may have become available */
	TAILQ_ENTRY(lock_queue) touched_entry;
};

RB_HEAD(queue_tree, lock_queue);

struct lock_queues {
	struct queue_tree by_node;
	struct waiter_names waiters; /* of all queues, by (node, session, owner, acquisition) */
	TAILQ_HEAD(touched_list, lock_queue) touched;
};

struct session_waiters {
	TAILQ_HEAD(waiter_list, waiter) list;
	size_t n;
};

/* Initializes the queues of a new master. */
void m_queue_init(struct master *m);
/* The queue of the node's lock; NULL: nobody waits. */
struct lock_queue *m_queue_find(struct master *m, uint64_t node);
/* The queue of the first node greater than `after` that has one; NULL: there is none. */
struct lock_queue *m_queue_after(struct master *m, uint64_t after);
/* Appends the waiters, in their order, to a list for a message; returns their number. */
uint32_t m_queue_list(struct master *m, const struct lock_queue *q, struct buffer *list);
/* The lock of the node may have become available: its queue is looked at before the step ends. */
void m_queue_touch(struct master *m, uint64_t node);
/* Touches all queues. */
void m_queue_touch_all(struct master *m);
/* Looks at the touched queues, at as many as the step has time for. */
void m_queue_run(struct master *m);
/* True when an acquire that is not a conversion has to stand behind the waiters of `q` (NULL: there
 * are none). */
bool m_queue_blocks(const struct lock_queue *q, const struct acquire *a);
/* True when a holder waits for its conversion. */
bool m_queue_converting(const struct lock_queue *q);
/* Proposes the grants that the applied tree allows; a queue for which the step has no time is
 * touched again. */
void m_queue_grant(struct master *m, struct lock_queue *q);
/* Adds to the entry the grants that will be right when only `others` hold the lock, none of them
 * exclusively, and the session `gone` (NULL: none) has ended. */
void m_queue_grant_behind(struct master *m, struct lock_queue *q, size_t others,
                          const struct m_session *gone);
/* A grant was applied. */
void m_queue_granted(struct master *m, const struct own_command *own,
                     const struct tree_answer *answer);
/* The node is deleted: all waiters are refused, in this step or in later ones. */
void m_queue_gone(struct master *m, uint64_t node);

/* The waiter of this name; NULL: there is none. */
struct waiter *m_waiter_find(struct master *m, uint64_t node, uint64_t session, uint64_t owner,
                             uint64_t acquisition);
/* Puts the acquire into the queue, at the place of its ticket. NULL: the queue is full, or the
 * session has too many waiters. */
struct waiter *m_waiter_add(struct master *m, struct m_session *s, const struct m_request *r,
                            bool converting);
/* The waiter's request is answered later (or NULL: is answered). */
void m_waiter_owe_reply(struct waiter *w, struct m_request *r);
/* Takes the waiter out of the queue and frees it. */
void m_waiter_drop(struct master *m, struct waiter *w);
/* Initializes the waiters of a new session: none. */
void m_waiters_init(struct m_session *s);
/* Drops all waiters of the session. */
void m_waiters_drop(struct master *m, struct m_session *s);

#endif
