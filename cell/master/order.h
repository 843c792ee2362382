/* The order of a session's requests: which of them may begin, and which wait behind what. */
#ifndef LSFS_MASTER_ORDER_H
#define LSFS_MASTER_ORDER_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>

struct master;
struct op;
struct m_request;
struct m_session;

TAILQ_HEAD(request_list, m_request);

/* An unanswered command and one of the keys that it touches. */
struct claim {
	RB_ENTRY(claim) link; /* by key, number */
	uint64_t key, number;
	struct m_request *request;
};

RB_HEAD(claim_tree, claim);

struct claim_list {
	struct claim *claims;
	size_t n;
};

struct request_order {
	struct claim_list claims;         /* in the session's tree `parked` or `begun` */
	struct claim_list claims_ordered; /* in its tree `ordered` */
	struct request_list behind;       /* the requests that wait behind this one */
	struct request_list *list;        /* in which this one waits; NULL: in none */
	TAILQ_ENTRY(m_request) entry;
};

/* The claims of a session's commands. */
struct session_order {
	struct claim_tree parked;  /* of those that have not begun */
	struct claim_tree begun;   /* of those that have */
	struct claim_tree ordered; /* of ordered ones, begun or not */
};

struct orders {
	struct request_list runnable;       /* parked requests that may be able to begin now */
	struct request_list behind_barrier; /* that wait until the barrier falls */
	struct request_list without_lease;  /* that wait for the master's own lease */
	struct request_list at_gate;        /* that wait until the gate lets them pass */
};

/* Initializes the lists of a new master. */
void m_order_init(struct master *m);
/* True when an earlier command of the session, begun and not answered, touches what `r` touches. */
bool m_request_behind_command(const struct m_session *s, const struct m_request *r);
/* The list in which the request has to wait; NULL: it may begin. */
struct request_list *m_order_wait_list(struct master *m, struct m_session *s, struct m_request *r,
                                       const struct op *op);
/* That for which the requests of the list wait, for people. */
const char *m_order_wait_name(const struct master *m, const struct request_list *list);
/* The command was parked, or begins: it claims the keys of its footprint accordingly. */
void m_order_claim(struct m_session *s, struct m_request *r);
/* Puts the request, which waits nowhere, at the end of the list. */
void m_order_wait(struct m_request *r, struct request_list *list);
/* Takes the request out of the list in which it waits, if any. */
void m_order_leave(struct m_request *r);
/* The requests behind this one are looked at again: it has begun, or is answered. */
void m_order_wake(struct master *m, struct m_request *r);
/* A parked request that may be able to begin now; NULL: there is none. */
struct m_request *m_order_next(struct master *m);
/* Takes the request out of everything here, and frees its claims and its footprint. */
void m_order_forget(struct m_session *s, struct m_request *r);

#endif
