/* The inside of the client, shared by its files only.
 *
 *   client.c             life, dispatch, time
 *   client_session.c     opening, the states, expiry, the end in good order
 *   client_connection.c  when and where to connect, and when to give a connection up; the second
 *                        connection, on which a new master is announced
 *   client_keepalive.c   the one KeepAlive in flight and the local lease
 *   client_request.c     numbers, requests in flight, the queue before them, sending again
 *   lock_waits.c         acquires that wait in a lock's queue at the cell
 *   watches.c            watched nodes, and the events of them
 *   caching.c            leave to cache, generations, invalidations
 *   cache.c              what is cached (its header: cache.h)
 *
 * Calls go from client.c down to the others; a file changes another file's fields only through
 * that file's functions. */
#ifndef LSFS_CLIENT_INTERNAL_H
#define LSFS_CLIENT_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/client/cache.h"
#include "cell/client/client.h"

/* Identifies one acquire of this session, for as long as the session lives. */
struct lock_key {
	uint64_t node, owner, acquisition;
};

enum request_origin {
	REQUEST_CALLER, /* the usual one; answered with the caller's token */
	REQUEST_WAIT,   /* a waiting acquire, presented again after a reconnect */
	REQUEST_CLOSE,  /* this client's own end_session */
};

struct client_request {
	TAILQ_ENTRY(client_request) entry;
	enum request_origin origin;
	uint64_t token;
	uint64_t number; /* 0 while it is queued */
	uint64_t node;   /* 0: it concerns no node */
	enum op_code code;
	bool ordered;
	bool given_up;  /* see client_call; of one in flight: the cell was not told that it is
	                   ordered */
	bool malformed; /* the operation; a field exceeds its limit, say */
	bool outlasts;  /* its session: it can be made in the next one */
	enum slot_kind slot;
	bool withdrawn;         /* an acquire with a later cancel or release: never sent again */
	struct lock_key key;    /* of an acquire, release or cancel; else zeros */
	struct acquire acquire; /* of an acquire only */
	struct guard guard;     /* node 0: none */
	struct bytes user;      /* owned */
	struct client_rights opened; /* node 0: none */
	struct bytes op;             /* encoded; owned */
	struct op decoded;           /* views into it */
	/* Of a command: the nodes that were dropped from the cache when it was submitted. */
	uint64_t own[CACHE_OWN];
	size_t own_n;
};
TAILQ_HEAD(request_list, client_request);

struct lock_wait {
	TAILQ_ENTRY(lock_wait) entry;
	RB_ENTRY(lock_wait) node;
	struct acquire acquire; /* with the ticket that it was given last */
	struct bytes user;      /* owned */
	bool present;           /* to be presented to the master on this connection */
	bool presenting;        /* that request is in flight */
};
TAILQ_HEAD(wait_list, lock_wait);
RB_HEAD(wait_tree, lock_wait);

enum connection_state {
	CONNECTION_NONE,       /* until `due`, then the next attempt */
	CONNECTION_CONNECTING, /* by the driver; given up at `due` */
	CONNECTION_OPENING,    /* open_session was sent, or is `unasked`; given up at `due` */
	CONNECTION_OPEN,       /* the session is open on it; watched by client_keepalive.c */
};

/* ---- the parts of a client, each written by its file ---- */

/* ---- client_session.c ---- */

struct client_session {
	enum client_state state;
	uint64_t id; /* 0: none */
	uint64_t epoch;
	uint8_t master;
	char principal[LIMIT_PRINCIPAL + 1];
	uint8_t nonce[LIMIT_NONCE]; /* of this session, or of the one that is being created */
	uint64_t earlier;           /* to be ended as expired before the next is created; 0: none */
	uint8_t earlier_nonce[LIMIT_NONCE];
	bool unasked;        /* open_session waits until the driver has invalidated everything */
	span_t grace;        /* configured, or of the cell as received last */
	mono_t grace_end;    /* while NEW or in JEOPARDY */
	mono_t patience_end; /* from then on requests without a session are answered RC_IO */
	bool closing;
	enum end_cause closes_as;
	mono_t close_end; /* CLOSED by then in every case */
	bool left_open;   /* and the cell may still have the session, or the earlier one */
	bool asked_for;   /* a lasting one was, and no answer has come */
	/* Numbers of sessions and of connections on which one was opened, of masters of a later
	 * epoch, and of times in jeopardy. */
	uint64_t sessions, connections, fail_overs, jeopardies;
};

/* ---- client_connection.c ---- */

struct client_connection {
	enum connection_state state;
	mono_t due;
	unsigned failures; /* since the last KeepAlive reply */
	uint8_t replica;   /* that it leads to, or led to last */
	int turn;          /* its index */
	uint8_t prefer;    /* to be tried next; 0: the next one in turn */
	uint8_t avoid;     /* was left in this epoch, and is not followed in it again */
	uint64_t avoid_epoch;
	uint64_t named_epoch; /* the highest in which a master was named to this client */
};

/* The second connection. */
struct client_standby {
	uint8_t replica;   /* 0: none */
	uint8_t failed;    /* to which the last one failed */
	unsigned failures; /* since the last announcement */
	mono_t due;
};

/* ---- client_keepalive.c ---- */

enum { DATAGRAMS_KEPT = 8 };

struct client_keepalive {
	uint64_t sequence;
	mono_t sent;   /* when the one in flight was sent */
	bool greeted;  /* one was answered on this connection */
	bool scarce;   /* little was left of the quota of bytes, said the last answer */
	bool returned; /* the master was told that everything was sent again */
	span_t lease;  /* of the cell, as received last */
	mono_t lease_end;

	/* Those over UDP: the number of the last one, which is never used again, and of the last
	 * one before the session was opened on this connection; the time of each of the last ones,
	 * and of the last one that was answered. */
	uint64_t datagram_sequence, datagram_before;
	mono_t datagram_sent[DATAGRAMS_KEPT];
	mono_t datagram_answered;
	uint64_t datagrams; /* that were answered, on all connections */
};

/* ---- client_request.c ---- */

struct client_requests {
	uint64_t next_number;
	struct request_list in_flight; /* in the order of their numbers */
	struct request_list queue;
	/* Requests of each kind have slots of their own: reads wait for no command, and releases
	 * and cancels wait for neither. */
	size_t in_flight_n[SLOT_KINDS], queued_n[SLOT_KINDS];
	size_t in_flight_bytes; /* of their operations */
	size_t given_up_n;      /* of those in flight: until they are answered no command is sent */
};

/* ---- client.c: replies ---- */

struct client_replies {
	struct buffer kept; /* frames, until the step after the one that has handled them, because
	                     * answers are views into it */
	bool spent;         /* they were handled, or are not to be */
	bool held;          /* the session was not SAFE when they were received */
};

/* ---- lock_waits.c ---- */

struct lock_waits {
	struct wait_list list; /* in the order in which they began to wait */
	struct wait_tree by_key;
	size_t present_n; /* how many are to be presented */
};

/* ---- watches.c ---- */

RB_HEAD(watch_tree, client_watch);

struct client_watches {
	struct watch_tree by_node;
	size_t n;
	uint64_t epoch;        /* of the master to which they were shown last; 0: none */
	uint64_t heard;        /* the number of the last event received from it, */
	uint64_t acknowledged; /* and of the last one that it knows to be received */
	uint64_t upto;         /* index of the log: no event of the changes up to it is to come */
	uint64_t asked, answered; /* beginnings of watches on this connection */
	bool shown;               /* it may know watches of this session */
	bool failed_over; /* to another master: reported to the caller when all watches stand */
	bool disturbed;   /* jeopardy or expiry was reported to the caller, but not its end */
};

/* ---- caching.c ---- */

/* The driver's report of an invalidation is awaited, to tell the cell this: */
struct caching_debt {
	TAILQ_ENTRY(caching_debt) entry;
	uint64_t invalidation;
	uint64_t upto;       /* a notice that is acknowledged; 0: none */
	struct buffer nodes; /* that are given back, encoded */
	uint32_t nodes_n;
	uint64_t leave; /* the last one before they were dropped */
	mono_t due;     /* when they may be given back */
};
TAILQ_HEAD(debt_list, caching_debt);

struct client_caching {
	struct cache cache;
	uint64_t generation;   /* of the cache, raised whenever all of it is dropped; 0: none */
	uint64_t unshown;      /* the generation is not shown to the cell before the driver has
	                        * reported this invalidation; 0: it is shown */
	uint64_t invalidation; /* the last one that the driver was asked for */
	struct debt_list debts;
	struct debt_list given; /* the driver has reported them; they are given back when due */
	bool granted;           /* there is leave to cache, */
	mono_t leave_end;       /* until then */
	uint64_t leave;         /* the highest number of leave in a reply of this generation */
	bool kept;              /* a reply was kept in this generation */
	size_t closes;          /* of ephemeral files that are not answered */
	mono_t used;            /* when the last read was submitted, or the client made */
	uint64_t hits, misses, invalidations, drops; /* see client_counts */
};

struct client {
	struct client_config config; /* its ids to try are those of the newest list */
	char *host;
	struct rng rng;
	mono_t now;                   /* of the current step */
	struct client_update *update; /* of the current step */
	mono_t deadline;              /* the earliest deadline of all parts */

	struct client_session session;
	struct client_connection connection;
	struct client_standby standby;
	struct client_members members; /* client_connection.c */
	struct client_keepalive keepalive;
	struct client_requests requests;
	struct client_replies replies;
	struct lock_waits waits;
	struct client_watches watches;
	struct client_caching caching;
};

/* A line of the trace: a verdict, with its numbers. */
#define CLIENT_TRACE(c, ...) TRACE((c)->config.trace, __VA_ARGS__)
/* Milliseconds from now until `until`, for traces. */
long long client_ms_until(const struct client *c, mono_t until);

/* ---- client_session.c ---- */

/* Initializes the session of a new client: there is none yet. */
void client_session_begin(struct client *c);
/* Sends open_session on the connection; for a new session as soon as the driver has invalidated
 * what was cached in an earlier one. */
void client_session_open(struct client *c);
/* The driver has invalidated everything. */
void client_session_invalidated(struct client *c);
/* Handles the reply to open_session. */
void client_session_on_opened(struct client *c, const struct msg_session_opened *m);
/* The cell says what its grace period is, for clients without one of their own. */
void client_session_learn_grace(struct client *c, uint32_t ms);
/* The lease is valid again: handles the frames that waited for it. */
void client_session_safe(struct client *c);
/* The cell does not know the key: the session is lost, or will not be opened. */
void client_session_denied(struct client *c);
/* The session is lost. `ended`: the cell has ended it; else the grace period has passed, and the
 * cell is still to end it. */
void client_session_lost(struct client *c, bool ended);
/* Begins to end the session in good order, with this cause. */
void client_session_close(struct client *c, enum end_cause cause);
/* The client is CLOSED. `ended`: so is the session, as the cell has said; else the time for that
 * has passed. */
void client_session_closed(struct client *c, bool ended);
/* The session in an image. */
void client_session_image(struct client *c, struct image *i);
/* Handles the deadlines of the session that have come. */
void client_session_tick(struct client *c);
/* The earliest deadline of the session. */
mono_t client_session_deadline(const struct client *c);

/* ---- client_connection.c ---- */

/* Initializes the connections of a new client: the first attempt is due now. */
void client_connection_begin(struct client *c);
/* Drops the connection; the next attempt follows after a pause that grows with each failure. */
void client_connection_drop(struct client *c);
/* Drops the connection because the replica does not answer. */
void client_connection_failed(struct client *c);
/* The connected replica is not the master, and names the master if it knows one. */
void client_connection_elsewhere(struct client *c, const struct msg_redirect *m);
/* Another replica names a new master. */
void client_connection_announced(struct client *c, const struct msg_redirect *m);
/* How long an answer may take that the replica can send at once. */
span_t client_connection_patience(const struct client *c);
/* Handles that the driver has connected. */
void client_connection_on_connected(struct client *c);
/* Handles that the connection is lost, or could not be made. */
void client_connection_on_disconnected(struct client *c);
/* open_session was sent on the connection. */
void client_connection_opening(struct client *c);
/* The session is open on it. */
void client_connection_opened(struct client *c);
/* A KeepAlive was answered on it: earlier failures do not count any more. */
void client_connection_proven(struct client *c);
/* No connection is needed any more: the client is CLOSED. */
void client_connection_end(struct client *c);
/* Handles the deadlines of the connection that have come. */
void client_connection_tick(struct client *c);
/* The earliest deadline of the connection. */
mono_t client_connection_deadline(const struct client *c);
/* The members in an image. */
void client_connection_image(struct client *c, struct image *i);
/* Sends a message on the connection; its views are copied. */
void client_send(struct client *c, const struct message *m);

/* Handles a frame that was received on the standby. */
void client_standby_on_frame(struct client *c, struct bytes frame);
/* Handles that the standby is lost, or could not be made. */
void client_standby_on_disconnected(struct client *c);
/* Handles the deadline of the standby, if it has come. */
void client_standby_tick(struct client *c);
/* The deadline of the standby. */
mono_t client_standby_deadline(const struct client *c);
/* Handles a list of members: a newer one replaces the ids to try. */
void client_replica_list_received(struct client *c, const struct msg_members *m);

/* ---- client_keepalive.c ---- */

/* Initializes the KeepAlives of a new client: there is no lease. */
void client_keepalive_begin(struct client *c);
/* There is no lease: the session is a new one. */
void client_keepalive_renounce(struct client *c);
/* The end of a lease of this length, which counts from the sending of the KeepAlive under way. */
mono_t client_keepalive_until(const struct client *c, uint32_t ms);
/* Sends the first KeepAlive on a connection. */
void client_keepalive_start(struct client *c);
/* Handles a reply, which extends the lease, and sends the next KeepAlive. */
void client_keepalive_on_reply(struct client *c, const struct msg_keepalive_reply *m);
/* Handles a frame that was received beside the connection. */
void client_keepalive_on_datagram(struct client *c, struct bytes frame);
/* Sends `returned`, if it is due: everything was sent again on this connection. */
void client_keepalive_tell_returned(struct client *c);
/* The lease and the numbers of KeepAlives in an image. */
void client_keepalive_image(struct client *c, struct image *i);
/* Handles the deadlines of lease and KeepAlive that have come. */
void client_keepalive_tick(struct client *c);
/* The earliest of these deadlines. */
mono_t client_keepalive_deadline(const struct client *c);

/* ---- client_request.c ---- */

/* Initializes the requests of a new client: there are none. */
void client_request_begin(struct client *c);
/* Numbers begin again with a new session. */
void client_request_renumber(struct client *c);
/* Takes the caller's request over: it is sent, queued or refused. */
void client_request_submit(struct client *c, struct client_request *r);
/* The answer's result has come with these check digits. */
void client_request_note_rights(struct client_answer *a, struct bytes check);
/* Answers the caller's request with this token; returns the answer, without a result. */
struct client_answer *client_request_answer(struct client *c, uint64_t token, enum rc rc);
/* Sends a request of the client's own, for this user. */
void client_request_own(struct client *c, enum request_origin origin, const struct op *op,
                        struct bytes user);
/* Sends the unanswered requests on a connection that was just opened. */
void client_request_send_again(struct client *c);
/* Sends the queued requests for which there is a slot. */
void client_request_pump(struct client *c);
/* Traces the numbers for which the request, if it was submitted in this step, is still queued. */
void client_request_trace_queue(struct client *c, const struct client_request *submitted);
/* True when one more command with an operation of `bytes` may be sent. */
bool client_request_room(const struct client *c, size_t bytes);
/* Answers the request to which the reply belongs. */
void client_request_on_reply(struct client *c, const struct msg_reply *m);
/* True when no request is in flight or queued. */
bool client_request_idle(const struct client *c);
/* How many requests are in flight. */
size_t client_request_in_flight(const struct client *c);
/* How many requests wait for a slot. */
size_t client_request_queued(const struct client *c);
/* The session is lost: answers RC_STALE to all requests but those that wait for the next
 * session. */
void client_request_carry_over(struct client *c);
/* Answers RC_STALE to all requests: the session is over. */
void client_request_fail_all(struct client *c);
/* The number of the next request in an image, while none is under way. */
void client_request_image(struct client *c, struct image *i);
/* Refuses queued requests when the cell could not be reached for the grace period. */
void client_request_tick(struct client *c);
/* The deadline of that. */
mono_t client_request_deadline(const struct client *c);

/* ---- client.c: replies ---- */

/* Handles the frames that were kept, as far as the session stays SAFE. */
void client_reply_flush(struct client *c);
/* Drops the replies that were not handled: on a new connection they will be sent again, and at the
 * end of the session they are void. */
void client_reply_forget(struct client *c);

/* ---- caching.c ---- */

/* Initializes the cache of a new client: it is empty, and there is no leave. */
void client_caching_begin(struct client *c);
/* Frees the cache. */
void client_caching_end(struct client *c);
/* True if the client was read from lately, and so wants leave to cache. */
bool client_caching_wanted(const struct client *c);
/* The generation for a KeepAlive; 0 also when no leave is asked for. */
uint64_t client_caching_asks(const struct client *c);
/* False while the driver has not reported that everything is invalidated. */
bool client_caching_shown(const struct client *c);
/* A KeepAlive reply renews the session's lease, and perhaps leave to cache. */
void client_caching_renew(struct client *c, const struct msg_keepalive_reply *m);
/* Drops everything, and raises the generation. */
void client_caching_drop(struct client *c, const char *why);
/* The session is over, and so are all of its requests. */
void client_caching_forget(struct client *c);
/* Handles the end of the leave, and nodes to be given back, when they are due. */
void client_caching_tick(struct client *c);
/* The generation of the cache, which is not written, in an image. */
void client_caching_image(struct client *c, struct image *i);
/* The earliest deadline of these. */
mono_t client_caching_deadline(const struct client *c);
/* Answers the caller's read from the cache, if there is leave; the request stays the caller's. */
bool client_caching_answer(struct client *c, const struct client_request *r);
/* A command is submitted: drops what it changes. */
void client_caching_submitted(struct client *c, struct client_request *r);
/* A request fails that was never sent. */
void client_caching_failed(struct client *c, const struct client_request *r);
/* A request, which is no longer in flight, was answered: the reply is kept in the cache, if that is
 * allowed. */
void client_caching_on_reply(struct client *c, const struct client_request *r,
                             const struct msg_reply *m, const struct result *result);
/* Handles an invalidation. */
void client_caching_on_invalidation(struct client *c, const struct msg_invalidation *m);
/* Handles the driver's report. */
void client_caching_on_invalidated(struct client *c, uint64_t invalidation);

/* ---- watches.c ---- */

/* The caller begins a watch, changes its mask, or ends it (mask 0). */
void client_watches_submit(struct client *c, const struct watch *watch, uint64_t generation);
/* The session is open on a new connection: shows it all watches. */
void client_watches_opened(struct client *c);
/* Handles the master's answer to watches. */
void client_watches_on_watching(struct client *c, const struct msg_watching *m);
/* Handles events. False: some are missing, and nothing says so. */
bool client_watches_on_events(struct client *c, const struct msg_events *m);
/* The watches in an image. */
void client_watches_image(struct client *c, struct image *i);
/* The number of the last event received, for a KeepAlive. */
uint64_t client_watches_acknowledge(struct client *c);
/* The session is in this state now: tells the caller. */
void client_watches_state(struct client *c, enum client_state to);
/* Forgets all watches: the session is over. */
void client_watches_forget(struct client *c);
/* Frees the events of the last step. */
void client_watches_update_clear(struct client_update *u);

/* ---- lock_waits.c ---- */

/* An acquire for the user was answered `queued`, with this ticket: it is in the lock's queue. */
void client_lock_waits_add(struct client *c, const struct acquire *a, struct bytes user,
                           struct ticket ticket);
/* The acquire is withdrawn, if it waits. */
void client_lock_waits_remove(struct client *c, struct lock_key key);
/* Handles a grant, which ends the wait. */
void client_lock_waits_on_granted(struct client *c, const struct msg_granted *m);
/* The reply to an acquire that was presented again; `g` is valid when rc is RC_OK or RC_QUEUED. */
void client_lock_waits_on_presented(struct client *c, struct lock_key key, enum rc rc,
                                    const struct result_acquired *g);
/* All waits are to be presented on the connection that was just opened. */
void client_lock_waits_reconnected(struct client *c);
/* Presents the waits to the master of this connection, as slots allow. */
void client_lock_waits_present(struct client *c);
/* The waits in an image; those that are read are to be presented. */
void client_lock_waits_image(struct client *c, struct image *i);
/* Forgets all waits: the session is over. */
void client_lock_waits_forget(struct client *c);

#endif
