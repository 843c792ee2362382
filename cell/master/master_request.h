/* Requests that are not answered. Each takes effect once, those on one node in the order of their
 * numbers (order.h). */
#ifndef LSFS_MASTER_MASTER_REQUEST_H
#define LSFS_MASTER_MASTER_REQUEST_H

#include <bsd/sys/tree.h>
#include "cell/master/order.h"
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct m_connection;

struct m_request {
	RB_ENTRY(m_request) link;
	RB_ENTRY(m_request) by_name; /* an acquire */
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
	struct request_order order;
	struct gate_pass *pass; /* NULL: it has none */
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
	struct acquire_tree acquires; /* of them, by node, owner, acquisition, number */
	size_t slots[SLOT_KINDS];     /* how many are taken */
	size_t window[SLOT_KINDS];    /* bytes of their operations */
};

/* Handles a request. */
void m_request_receive(struct master *m, struct m_connection *c, const struct msg_request *msg);
/* A session's own command was applied. */
void m_request_applied(struct master *m, const struct tree_answer *answer);
/* Answers the request and frees it; `result` is copied. */
void m_request_reply(struct master *m, struct m_session *s, struct m_request *r, enum rc rc,
                     struct bytes result);
/* The unanswered acquire of this name that has the lowest number; NULL: there is none. */
struct m_request *m_request_find_acquire(struct m_session *s, uint64_t node, uint64_t owner,
                                         uint64_t acquisition);
/* A cancel or release with this number was received: that acquire is withdrawn if it is earlier. */
void m_request_withdraw(struct m_session *s, uint64_t number, uint64_t node, uint64_t owner,
                        uint64_t acquisition);
/* The ticket of the acquire: the last place in the queue, unless it has one. */
void m_request_give_ticket(struct master *m, struct m_request *r);
/* Begins the parked requests that may begin now, as many as the step has time for. */
void m_request_run(struct master *m);
/* Initializes the requests of a new session: none. */
void m_request_begin(struct m_session *s);
/* The session is open on another connection, on which its client sends all again that it believes
 * to be unanswered. */
void m_request_carry(struct m_session *s);
/* Frees all requests of the session, unanswered. */
void m_request_free_all(struct master *m, struct m_session *s);

#endif
