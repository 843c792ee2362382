/* A session as the master records it, and the connection on which it is open. */
#ifndef LSFS_MASTER_MASTER_SESSION_H
#define LSFS_MASTER_MASTER_SESSION_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>

#include "cell/base/bytes.h"
#include "cell/base/keyed.h"
#include "cell/base/limit.h"
#include "cell/base/mono.h"
#include "cell/master/gate.h"
#include "cell/master/lock_queue.h"
#include "cell/master/master_events.h"
#include "cell/master/master_request.h"
#include "cell/master/session_lease.h"
#include "cell/master/timer.h"
#include "cell/tree/tree.h"

struct gate_pass;
struct m_connection;
struct m_request;
struct m_session;
struct master;
struct own_command;
struct principal_usage;

/* ---- growth.c ---- */

/* A request that the master has refused, and that is in the log once a later one is. */
struct refused_request {
	TAILQ_ENTRY(refused_request) entry;
	uint64_t number;
	enum op_code code;
	bool logged;
};
TAILQ_HEAD(refused_requests, refused_request);

/* ---- failover_barrier.c: await bits ----
 *
 * The await bits. Each session that may cache, or that waits for a lock, has a bit in the tree: a
 * new master waits for the sessions whose bits are raised. */

struct session_await {
	bool bit;            /* as it will be when all that is proposed of it is applied */
	unsigned proposed_n; /* changes of the bit that are proposed, and not applied */
	bool caching;        /* the session has asked for leave to cache */
	bool idle;           /* it has neither leave to cache nor a waiter, */
	mono_t idle_since;   /* from then on */
	TAILQ_ENTRY(m_session) entry;
};

struct awaits {
	TAILQ_HEAD(idle_list, m_session) idle; /* with a raised bit; the longest idle first */
	struct timer timer;
};

/* Initializes the await bits of a new master. */
void m_await_init(struct master *m);
/* The bit of a session that is recorded now, as the tree has it. */
void m_await_begin(struct m_session *s, bool bit);
/* The session has, or has not, asked for leave to cache. */
void m_await_set_caching(struct m_session *s, bool caching);
/* The session is about to get leave to cache, or a ticket: returns true when its bit is raised. If
 * not, that is proposed; when it is applied, m_lock_reply_queued and m_cache_awaited are called. */
bool m_await_raise(struct master *m, struct m_session *s);
/* A change of a bit was applied. */
void m_await_applied(struct master *m, const struct own_command *own);
/* The session may be idle now. */
void m_await_idle(struct master *m, struct m_session *s);
/* The timer of the idle sessions has expired. */
void m_await_timeout(struct master *m);
/* The session's record goes. */
void m_await_forget(struct master *m, struct m_session *s);

/* ---- failover_barrier.c ----
 *
 * The barrier: the requests that a new master holds back until every session whose await bit is
 * raised has returned, or the longest cache lease is over (Chubby, section 2.9). */

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
/* The client says itself that the session has passed the barrier (message `returned`). */
void m_barrier_returned(struct master *m, const struct m_connection *c,
                        const struct msg_returned *msg);
/* Proposes to record that the barrier has fallen: it is unsettled, and no queue is touched. */
void m_barrier_settle(struct master *m);
/* True when the request has to wait until the barrier, which stands, falls. */
bool m_barrier_holds(struct master *m, const struct m_session *s, const struct m_request *r);
/* True when the queue of the node's lock may not be complete yet. */
bool m_barrier_keeps(const struct master *m, uint64_t node);

/* ---- master_keepalive.c ----
 *
 * KeepAlives (Chubby, section 2.8). The master holds each back for a while, so that a client has
 * one in flight all the time. */

struct connection_keepalive {
	bool greeted;      /* the first KeepAlive on the connection was answered */
	bool spread;       /* one has been held on it, for a time that chance decided */
	uint64_t sequence; /* of the last KeepAlive received on it */
};

struct session_keepalive {
	mono_t last; /* when the last one was received; {INT64_MIN}: none in this epoch */
	bool held;   /* one is held back, */
	uint64_t sequence;
	mono_t since, answer_at; /* from then on, and until then at the latest */
};

/* Nothing was received of a session that is recorded now. */
void m_keepalive_begin(struct m_session *s);
/* Handles a KeepAlive. */
void m_keepalive_receive(struct master *m, struct m_connection *c, const struct msg_keepalive *msg);
/* Handles one that was received as a datagram beside the connection. */
void m_keepalive_datagram(struct master *m, const struct m_connection *c,
                          const struct msg_keepalive *msg);
/* Answers the one that is held back. */
void m_keepalive_answer(struct master *m, struct m_session *s);
/* The session, if any, is not open on the connection any more. */
void m_keepalive_detach(struct m_connection *c);

/* ---- session_cache.c ----
 *
 * The leave to cache (the cache lease). A session may cache the answers that carry leave for as
 * long as its leave is renewed, by answers to KeepAlives; and it acknowledges that it has dropped
 * what it is told to drop, or its leave ends one cache lease later at the latest. */

struct session_cache {
	struct gate_session copies;
	uint64_t generation; /* of the client's cache, the highest that it has shown; 0: none */
	bool wanted;         /* its last KeepAlive asked for leave */
	bool lapsed;         /* the leave of this generation is over, for good */
	mono_t leave_end;    /* by then its leave is over, unless it is renewed; {INT64_MIN}: it had
	                      * none in this generation */
	struct timer timer;  /* expires then, and when a notice is late, while that is not
	                      * acknowledged */
	uint64_t late;       /* the last notice that was not acknowledged in time */
	span_t penalty;    /* how long its leave was not renewed when it was late last; 0: never */
	mono_t late_at;    /* then */
	mono_t renew_from; /* its leave is not renewed before */
};

/* Initializes the cache of a session that is recorded now: nothing is known of it. */
void m_cache_begin(struct m_session *s);
/* True while the client may answer from its cache. */
bool m_cache_has_leave(const struct master *m, const struct m_session *s);
/* A message of the session asks for leave for this generation of the client's cache. */
void m_cache_want(struct master *m, struct m_session *s, uint64_t generation);
/* A KeepAlive of the session asks for no leave. */
void m_cache_want_no_more(struct m_session *s);
/* A KeepAlive of the session is answered, which was held for the span `held`: the leave that the
 * answer renews, in ms; 0: none. */
uint32_t m_cache_renew(struct master *m, struct m_session *s, span_t held);
/* A KeepAlive of the session is held from now on: when it is to be answered at the latest, for the
 * leave to be renewed before it ends; MONO_NEVER: the session has none. */
mono_t m_cache_renew_at(const struct master *m, const struct m_session *s);
/* The bit of the session is raised: a KeepAlive that is held may bring it leave now. */
void m_cache_awaited(struct master *m, struct m_session *s);
/* The leave for the answer to the request, which depends on these keys: its number; 0: none. */
uint64_t m_cache_leave(struct master *m, struct m_session *s, const struct m_request *r,
                       const uint64_t *keys, size_t n);
/* The client has dropped what it was told to, or gives leave back. */
void m_cache_receive(struct master *m, struct m_connection *c, const struct msg_dropped *msg);
/* Sends the notices that the step has made. */
void m_cache_tell(struct master *m);
/* The session's timer has expired. */
void m_cache_timeout(struct master *m, struct m_session *s);
/* The session's record goes. */
void m_cache_forget(struct master *m, struct m_session *s);

/* ---- master_session.c: the end ----
 *
 * The end of a session. It is a command in the log, and what the session has goes with it; of a
 * session that has more than goes in one entry the rest goes in further ones. */

struct session_ending {
	bool proposed;        /* the end is */
	enum end_cause cause; /* as an operator has ordered it; 0 if none has */
	uint64_t connection;  /* on which the client was told of the order; 0: on none */
	mono_t latest; /* ordered: by then the client knows of it, or has no leave to cache */
	bool due;      /* ordered: nothing but the barrier stands before it */
	TAILQ_ENTRY(m_session) entry;
};

struct endings {
	TAILQ_HEAD(due_list, m_session) due; /* to be ended when the barrier has fallen */
	bool unfinished; /* the tree may have sessions that have ended and are not finished */
	bool finishing;  /* a finish_session is proposed, and not applied */
	struct gate_pass *pass; /* of the next one, at the gate; NULL if there is none */
};

/* An epoch begins: its master goes on with the ends that earlier ones have begun. */
void m_end_begin(struct master *m);
/* Forgets what was proposed: the mastership is lost. */
void m_end_clear(struct master *m);
/* An operator orders the end of the session. Its client is told first. */
void m_end_order(struct master *m, struct m_session *s, enum end_cause cause);
/* An end that an operator ordered is due: the client knows of it, or its time has passed. */
void m_end_due(struct master *m, struct m_session *s);
/* Ends the sessions that are due, as many as the step has time for: the barrier has fallen. */
void m_end_run(struct master *m);
/* Proposes the end of the session, with the grants that follow from it. */
void m_end_propose(struct master *m, struct m_session *s, enum end_cause cause);
/* apply has refused the end of the session (0: of none). */
void m_end_refused(struct master *m, uint64_t session);
/* apply has ended the session: its record is removed. */
void m_end_applied(struct master *m, uint64_t id, enum end_cause cause);
/* True if there may be a part to propose, which does not wait at the gate. */
bool m_end_has_more(const struct master *m);
/* Proposes the next part of what is left of an ended session, if there is one, or waits at the gate
 * with it. None is proposed, and the barrier has fallen. */
void m_end_finish(struct master *m);
/* The part was applied. */
void m_end_finished(struct master *m);

/* ---- master_session.c: opening ----
 *
 * Opening sessions: a client's open_session creates a session, or attaches one that is live to the
 * connection. The reply is session_opened. */

struct connection_opening {
	bool under_way; /* a create_session with `nonce` is proposed, or the message is parked */
	uint8_t nonce[LIMIT_NONCE];
	struct bytes message; /* parked: the open_session, encoded; owned */
	TAILQ_ENTRY(m_connection) entry;
};

struct openings {
	TAILQ_HEAD(opening_list, m_connection) parked; /* until the barrier has fallen */
};

/* Handles an open_session. */
void m_opening_receive(struct master *m, struct m_connection *c,
                       const struct msg_open_session *msg);
/* Handles the parked messages, as many as the step has time for: the barrier has fallen. */
void m_opening_run(struct master *m);
/* A create_session was applied. */
void m_opening_created(struct master *m, const struct own_command *own,
                       const struct tree_answer *answer);
/* No session is being opened on the connection any more. */
void m_opening_detach(struct master *m, struct m_connection *c);

/* ---- master_session.c ----
 *
 * The master's record of each session that lives in the tree. Of sessions of earlier epochs a new
 * master makes its records step by step. */

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
	struct refused_requests refused; /* of which the client may not know */
	struct session_order order;
	struct withdrawals withdrawals;
	struct session_waiters waiters;
	struct session_watches watches;
	struct session_events events;
	struct session_missed missed;
};

RB_HEAD(m_session_tree, m_session);
KEYED_PROTOTYPE(m_session_tree, m_session, link)

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
/* Frees all records: the mastership is lost. */
void m_session_free_all(struct master *m);

/* ---- master_connection.c ----
 *
 * Connections of clients. The master knows them on every replica, whether or not it serves. */

struct m_connection {
	RB_ENTRY(m_connection) link;
	uint64_t id;
	struct bytes principal;        /* of the client; owned, and so is */
	struct bytes key;              /* the key that has proved it; empty: this process vouches */
	struct principal_usage *usage; /* of the principal, NULL if it has none */
	struct m_session *session;     /* that is open on it; NULL: none */
	uint64_t ended;                /* the session that was open on it and has ended; 0: none */
	bool left; /* its session is another master's: later frames for that are ignored */
	struct connection_opening opening;
	struct connection_keepalive keepalive;
};

RB_HEAD(m_connection_tree, m_connection);
KEYED_PROTOTYPE(m_connection_tree, m_connection, link)

struct m_connections {
	struct m_connection_tree by_id;
};

/* The connection, NULL when it is closed. */
struct m_connection *m_connection_find(struct master *m, uint64_t id);
/* The principal of the client; false when it was removed. Another one of its name has another
 * key. */
bool m_connection_principal(const struct master *m, const struct m_connection *c,
                            struct tree_principal *p);
/* True if it is an administrator. */
bool m_connection_administers(const struct master *m, const struct m_connection *c);
/* Sends the message; its views are copied. */
void m_connection_send(struct master *m, const struct m_connection *c,
                       const struct message *message);
/* Likewise as a datagram, beside the connection: it may be lost. */
void m_connection_send_datagram(struct master *m, const struct m_connection *c,
                                const struct message *message);
/* The session is open on this connection now. A session has one connection: an older one of it is
 * closed. */
void m_connection_attach(struct master *m, struct m_connection *c, struct m_session *s);
/* No session is open on the connection any more, nor being opened on it. */
void m_connection_detach(struct master *m, struct m_connection *c);
/* Detaches it because the mastership is lost. */
void m_connection_leave(struct master *m, struct m_connection *c);
/* Records that the session, which the client may still believe in, has ended. */
void m_connection_ended(struct m_connection *c, uint64_t session);
/* Closes and frees it. */
void m_connection_close(struct master *m, struct m_connection *c);
/* Closes and frees it because the client sent what no client sends; `why` is for the trace. */
void m_connection_breach(struct master *m, struct m_connection *c, const char *why);
/* Closes and frees it, and tells the client why: it has the key of a member and is no principal
 * (RC_PERM), or may have no lasting session (RC_ACCES). */
void m_connection_deny(struct master *m, struct m_connection *c, enum rc rc);
/* Frees it: its owner has closed it. */
void m_connection_free(struct master *m, struct m_connection *c);

#endif
