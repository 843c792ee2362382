/* Requests: their order, what they prove, and their answers. */
#ifndef LSFS_MASTER_MASTER_REQUEST_H
#define LSFS_MASTER_MASTER_REQUEST_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/base/bytes.h"
#include "cell/base/limit.h"
#include "cell/tree/tree.h"

struct m_connection;
struct m_request;
struct m_session;
struct master;

/* ---- order.c ----
 *
 * The order of a session's requests: which of them may begin, and which wait behind what. */

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

/* True when an earlier command of the session, begun and not answered, touches what `r` touches. */
bool m_request_behind_command(const struct m_session *s, const struct m_request *r);
/* The list in which the request has to wait; NULL: it may begin. */
struct request_list *m_order_wait_list(struct master *m, struct m_session *s, struct m_request *r,
                                       const struct op *op);
/* That for which the requests of the list wait, for people. */
const char *m_order_wait_name(const struct master *m, const struct request_list *list);
/* The bytes of the request's footprint, of the claims of its keys, and of what holds them at the
 * gate. */
size_t m_order_bytes(const struct m_request *r);
/* The command was parked, or begins: it claims the keys of its footprint accordingly. */
void m_order_claim(struct m_session *s, struct m_request *r);
/* Puts the request, which waits nowhere, at the end of the list. */
void m_order_wait(struct m_request *r, struct request_list *list);
/* Takes the request out of the list in which it waits, if any. */
void m_order_leave(struct m_request *r);
/* The requests behind this one are looked at again: it has begun, or is answered. */
void m_order_wake(struct master *m, struct m_request *r);
/* A parked request that may be able to begin now; NULL if there is none. */
struct m_request *m_order_next(struct master *m);
/* Takes the request out of everything here, and frees its claims and its footprint. */
void m_order_forget(struct m_session *s, struct m_request *r);

/* ---- request_proof.c: check digits ----
 *
 * The check digits of a handle (Chubby, section 2.2): they prove which rights a subject of a
 * session had on a node when it opened it. Every master of the cell can compute them, and nobody
 * else. */

enum { CHECK_SECRET = 64 }; /* bytes of the cell's signing key, which is their key, too */

/* Computes the check digits of these rights of the requester. */
void check_digits(const uint8_t secret[CHECK_SECRET], const struct requester *who, uint64_t node,
                  uint8_t rights, uint8_t digits[LIMIT_CHECK]);
/* True if these are the check digits of those rights, by one of the `n` secrets. */
bool check_digits_genuine(const uint8_t (*secrets)[CHECK_SECRET], int n,
                          const struct requester *who, uint64_t node, uint8_t rights,
                          struct bytes digits);

/* ---- request_proof.c ----
 *
 * A request proves two things by codes that only a replica can make: the rights that its handle had
 * at the open, and its place in a queue. */

/* True when the rights of a handle on the node are shown by their check digits, or none are
 * claimed. */
bool m_proof_of_rights(struct master *m, const struct m_session *s, const struct msg_request *msg,
                       uint64_t node);
/* True when a master gave the acquire its ticket, or it is no acquire. */
bool m_proof_of_place(struct master *m, const struct m_session *s, const struct op *op);
/* The check digits of the rights with which the requester may open a handle of the node, in
 * `digits`; node 0: of none. */
struct bytes m_proof_for(struct master *m, const struct requester *who, uint64_t node,
                         uint8_t rights, uint8_t digits[LIMIT_CHECK]);

/* ---- master_request.c ----
 *
 * Requests that are not answered. Each takes effect once, those on one node in the order of their
 * numbers (order.c). */

struct m_request {
	RB_ENTRY(m_request) link;
	RB_ENTRY(m_request) by_name; /* an acquire */
	RB_ENTRY(m_request) by_lock; /* an acquire in the log, about which apply decides */
	bool in_log;                 /* it is one */
	struct m_session *session;
	struct requester requester; /* owns its user */
	uint64_t number, below;
	enum op_code code;
	uint64_t node;
	enum slot_kind slot;
	bool read;
	bool ordered;           /* every later command takes effect after it */
	bool parked;            /* not begun, or may have to begin again; `op` is its own copy */
	bool withdrawn;         /* an acquire: a cancel or release of it was received meanwhile */
	bool carried;           /* received on an earlier connection: it will be received again */
	uint64_t generation;    /* of its client's cache; 0: none */
	struct bytes op;        /* encoded; a view into the frame, or owned while parked */
	struct acquire acquire; /* of an acquire, with its ticket */
	struct guard guard;
	struct footprint footprint;
	size_t bytes; /* of its operation, and of what is kept for its footprint */
	struct request_order order;
	struct gate_pass *pass; /* NULL if it has none */
};

RB_HEAD(request_tree, m_request);
RB_HEAD(acquire_tree, m_request);

/* A request that was carried to this connection, and answered on it before it was received again:
 * the tree has kept no answer of one that it did not decide. */
struct carried_answer {
	TAILQ_ENTRY(carried_answer) entry;
	uint64_t number;
};
TAILQ_HEAD(carried_answers, carried_answer);

struct session_requests {
	struct carried_answers answered;
	struct request_tree by_number;
	struct acquire_tree acquires; /* the acquires, by node, owner, acquisition, number */
	size_t slots[SLOT_KINDS];     /* how many are taken */
	size_t window[SLOT_KINDS];    /* bytes of their operations */
};

/* Handles a request. */
void m_request_receive(struct master *m, struct m_connection *c, const struct msg_request *msg);
/* A session's own command was applied. */
void m_request_applied(struct master *m, const struct tree_answer *answer);
/* Answers the request and frees it; `result` is NULL where the code has none (wire_answer_kind). */
void m_request_reply(struct master *m, struct m_session *s, struct m_request *r, enum rc rc,
                     const struct result *result);
/* The unanswered acquire of this name that has the lowest number; NULL if there is none. */
struct m_request *m_request_find_acquire(struct m_session *s, uint64_t node, uint64_t owner,
                                         uint64_t acquisition);
/* A cancel or release with this number was received: that acquire is withdrawn if it is earlier. */
void m_request_withdraw(struct m_session *s, uint64_t number, uint64_t node, uint64_t owner,
                        uint64_t acquisition);
/* The ticket of the acquire: the last place in the queue, unless it has one. */
void m_request_give_ticket(struct master *m, struct m_request *r);
/* Begins the parked requests that may begin now, as many as the step has time for. */
void m_request_run(struct master *m);
/* The session is open on another connection, on which its client sends all again that it believes
 * to be unanswered. */
void m_request_carry(struct m_session *s);
/* Frees all requests of the session, unanswered. */
void m_request_free_all(struct master *m, struct m_session *s);

#endif
