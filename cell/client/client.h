/* The client: one session with a cell, pure.
 *
 * It opens the session, keeps it alive, numbers requests and sends them again after a reconnect
 * until they are answered, and reports the state of the session. The driver and the simulator pass
 * frames and the time to it, and carry out its updates. It owns no socket and no clock.
 *
 *   NEW --opened--> SAFE --local lease over--> JEOPARDY --lease renewed--> SAFE
 *    |                |                           |
 *    |                |                           `--grace over, or the cell says that it ended--.
 *    `----------------+--the cell says that it ended--> EXPIRED <-------------------------------'
 *
 * A lasting session has no grace limit: it stays in JEOPARDY until the cell is back.
 *
 * In EXPIRED all locks and handles of the old session are void; the client ends it at the cell as
 * expired and then opens a new one: back to NEW, then SAFE with another id. */
#ifndef LSFS_CLIENT_CLIENT_H
#define LSFS_CLIENT_CLIENT_H

#include "cell/base/image.h"
#include "cell/base/mono.h"
#include "cell/base/rng.h"
#include "cell/base/trace.h"
#include "cell/wire/codec.h"

struct client;

enum client_state { CLIENT_NEW, CLIENT_SAFE, CLIENT_JEOPARDY, CLIENT_EXPIRED, CLIENT_CLOSED };

struct client_config {
	const char *host;   /* sent to the cell, shown to people */
	span_t grace;       /* 0: as the cell says */
	int drift_permille; /* maximum difference of two clocks' rates; default 10 */
	bool lasting;       /* its sessions never expire: an operator ends them, or the client */
	bool caching;       /* asks for leave; the driver carries out invalidations */
	size_t cached;      /* nodes at a time; 0: LIMIT_CACHED */
	uint64_t seed;      /* of nonces and retries; from the driver's random source */
	uint8_t nonce[LIMIT_NONCE];
	uint8_t replicas[LIMIT_REPLICAS]; /* ids to try, until the cell sends its members */
	int replicas_n;
	/* A session of an earlier run that is ended as expired before the new one is opened; 0:
	 * none. */
	uint64_t earlier_session;
	uint8_t earlier_nonce[LIMIT_NONCE];
	struct trace *trace; /* the caller's sink of verdicts; NULL: none */
};

/* A new client, owned by the caller, without a connection: the first step asks for one. */
struct client *client_new(const struct client_config *config, mono_t now);
/* Frees the client, in whatever state. */
void client_free(struct client *c);

/* True if another process could go on with its session: that is safe, and nothing is under way but
 * waits for locks. */
bool client_is_still(const struct client *c);
/* The image of such a client: the session, the numbers of its requests, the waits for locks and the
 * watches. The cache and the connections are no part of it: the next client makes a connection, as
 * after one that has failed. */
void client_save(const struct client *c, struct image *to);
/* A client of this configuration that continues the session of the image, on the clock of the other
 * process; NULL if the image is not valid. */
struct client *client_load(const struct client_config *config, struct image *from, mono_t now);

enum client_event_kind {
	CLIENT_CONNECTED,    /* the connection asked for by `connect` is established */
	CLIENT_DISCONNECTED, /* it could not be made, or broke */
	CLIENT_FRAME,        /* frame: one whole frame from the replica */
	CLIENT_DATAGRAM,     /* frame: likewise, but beside the connection (see datagram) */
	CLIENT_REQUEST,      /* request */
	CLIENT_WATCH,        /* node, mask, generation, user */
	CLIENT_INVALIDATED,  /* invalidation: all up to this one are carried out */
	CLIENT_TIMEOUT,
	CLIENT_CLOSE, /* as_expired: end the session; then the state is CLIENT_CLOSED */
};

struct client_event {
	enum client_event_kind kind;
	mono_t now;
	struct bytes frame;
	bool standby; /* FRAME, DISCONNECTED: from the second connection (see listen) */
	bool denied;  /* DISCONNECTED: the replica says that no principal has the client's key; of
	               * the standby it is ignored */
	struct client_request *request; /* the step takes ownership of it */
	uint64_t invalidation;
	/* WATCH: events of the node are wanted, of the kinds in `mask` (1 << enum watch_event_kind,
	 * and WATCH_TREE; 0: none any more). `generation` of its contents, as the caller knows it:
	 * later ones are events; 0: the events are those from now on. */
	uint64_t node, generation;
	uint32_t mask;
	struct bytes user; /* WATCH: for which it begins (see client_call); copied */
	bool as_expired; /* its locks are not free at once, but after their lock-delay; of a lasting
	                  * session: it is left to an operator */
};

/* Rights on a node that an answer has shown, with the check digits by which the cell knows them
 * again: a handle is opened by them, and keeps them. */
struct client_rights {
	uint64_t node; /* 0: none */
	uint8_t rights;
	uint8_t check[LIMIT_CHECK];
};

/* An operation, and what it depends on. */
struct client_call {
	uint64_t token; /* it is answered with this, exactly once */
	/* No operation: the caller of the earlier call with this token is answered before it, and
	 * commands that are made from now on take effect after it. */
	bool given_up;
	struct op op;
	bool ordered; /* its caller is answered already: all later requests come after it */
	/* The request does not depend on the session: if that is lost before the request can have
	 * taken effect, it waits for the next session. */
	bool outlasts;
	struct guard guard; /* RC_GUARD unless this acquisition is held; node 0: none */
	/* The request acts for this user of the session's principal, and is decided by the rights
	 * of PRINCIPAL/USER; empty: for the principal itself. */
	struct bytes user;
	/* The rights of the handle that it goes through, for contents, opened for the same user;
	 * node 0: none. */
	struct client_rights opened;
};

/* The request for a later step: the call is encoded here, so that its views need not outlive this
 * function. Owned by the caller until a step takes it. */
struct client_request *client_request_new(const struct client_call *call);
/* Frees a request that no step has taken. */
void client_request_free(struct client_request *r);

/* The answer to a request. RC_STALE: the session expired while the request was in flight or queued
 * (see client_call); RC_IO: no session could be opened for a whole grace period; later requests are
 * answered so at once until there is a session. The views are valid until the next step. */
struct client_answer {
	uint64_t token;
	enum rc rc;
	uint64_t index;
	bool cached;                /* answered without the cell; read at `index`, and still true */
	struct result result;       /* decoded, when rc is RC_OK (or RC_QUEUED) */
	struct client_rights opens; /* as a handle may be opened by them */
};

/* A lock was granted to an acquire that had been answered RC_QUEUED; or, with rc RC_STALE, it never
 * will be: the node was deleted. (When the session expires all waits end, without a grant.)
 * RC_QUEUED: the next master has it in its queue, and its owner holds nothing any more. RC_INTR: an
 * operator has released the lock that was granted. */
struct client_grant {
	uint64_t node, owner, acquisition;
	enum rc rc;
	uint64_t lock_generation, fence;
};

/* An event of a watched node or of the session. Of one session none is left out, unless a gap or
 * the fail-over of the master says that some may be: then those of any node. With the end of the
 * session all watches end. */
struct client_watched {
	enum watch_event_kind kind;
	uint64_t node;       /* 0: of the session, or of all nodes */
	uint64_t generation; /* of the contents or the lock; 0: neither has changed */
	int64_t time_ns;     /* by the master's wall clock; 0: not known */
	struct bytes path;   /* of the node, below the cell's root; owned by the update, like */
	struct bytes name;   /* of a child, or the path below the node of what changed there */
};

struct client_update {
	bool connect; /* make a connection to `replica` (close an existing one first) */
	uint8_t replica;
	bool listen; /* keep an idle second connection to replica `listen_to` (close an
	              * existing one first; 0: none): a new master's epoch is announced
	              * on it */
	uint8_t listen_to;
	struct buffer frames; /* whole frames, to be sent in order on the connection */
	/* Empty, or a frame to be sent to the replica at once, beside the connection: it may be
	 * lost, doubled or late, and need not be sent at all. */
	struct buffer datagram;
	struct client_answer *answers;
	size_t answers_n, answers_room;
	struct client_grant *grants;
	size_t grants_n, grants_room;
	/* The driver, which may have passed on what it was answered, makes sure that the attributes
	 * of these nodes, or of all, are asked for again, before it carries out anything else of
	 * the update. Then it reports this number with CLIENT_INVALIDATED, if it is not 0: the cell
	 * waits for the report, within the cache lease. */
	uint64_t invalidation;
	bool invalid_all;
	uint64_t *invalid;
	size_t invalid_n, invalid_room;
	struct client_watched *watched;
	size_t watched_n, watched_room;
	bool state_changed;
	bool opened;          /* the session is open on another connection */
	bool members_changed; /* see client_members; the ids to try may be new ones */
	mono_t deadline;      /* client_deadline, as it is now */
};

/* Clears `update`, handles the event and fills it.
 *
 * Queued acquires: the client keeps node, owner, acquisition and ticket of every acquire answered
 * RC_QUEUED until it is granted or cancelled (its op cancel or op release passes through here), and
 * presents them again, in order, after every reconnect.
 *
 * At most LIMIT_IN_FLIGHT requests with LIMIT_WINDOW bytes are in flight, the rest queue here;
 * release and cancel overtake that queue, but never an earlier one on the same node. */
void client_step(struct client *c, const struct client_event *event, struct client_update *update);
/* Frees the contents of the update and clears it. */
void client_update_free(struct client_update *u);

/* When to step with CLIENT_TIMEOUT, if no event comes before. */
mono_t client_deadline(const struct client *c);

struct client_status {
	enum client_state state;
	uint64_t session; /* 0: none */
	bool lasting;     /* it never expires */
	bool left_open;   /* CLOSED: the cell may still have a session of this client */
	uint64_t epoch;
	uint8_t master;
	mono_t lease_end; /* when the local lease ends */
	mono_t leave_end; /* when the leave to cache ends; never if there is none */
	mono_t grace_end; /* while in jeopardy or without a session; may be never */
	const uint8_t *nonce;
	char principal[LIMIT_PRINCIPAL + 1];
	bool scarce; /* little of the quota of bytes was left when the cell answered last */
	size_t in_flight, queued;
	uint64_t requests; /* of this session that were sent to the cell, so far */
};

/* A snapshot, for people and for the mount. Its views are valid until the next step. */
struct client_status client_status(const struct client *c);

/* Numbers for people; those of events count since the client was made. */
struct client_counts {
	bool connected; /* its session is open on a connection */
	size_t cached_nodes, cached_bytes;
	size_t watches; /* nodes that are watched */
	/* Reads that were answered from the cache, and that the cell was asked for. */
	uint64_t hits, misses;
	uint64_t invalidations;         /* by the cell */
	uint64_t drops;                 /* of the whole cache at once */
	uint64_t sessions, connections; /* that were opened */
	uint64_t fail_overs;            /* masters of a later epoch */
	uint64_t jeopardies;
	uint64_t datagrams; /* that were answered while the connection was late */
};

/* The numbers as they are now. */
struct client_counts client_counts(const struct client *c);

/* True if the client might answer a read of the node at `now` from its cache. */
bool client_caches(const struct client *c, uint64_t node, mono_t now);

/* The time at `now` that is left of the leave to cache, if the client has cached the attributes of
 * the node and those that were read at `index` are the same; else 0. The driver may pass them on to
 * one that keeps them for half of that time, and at most CLIENT_PASSED_ON_MS. */
span_t client_leave(const struct client *c, uint64_t node, uint64_t index, mono_t now);
enum { CLIENT_PASSED_ON_MS = 1000 };

/* A replica of the cell: its address, and the public key by which it proves its identity. */
struct client_replica {
	uint8_t id;
	bool voter; /* else it is a learner, which can be asked for the master */
	char address[LIMIT_ADDRESS + 1];
	uint8_t key[32];
};

struct client_members {
	uint64_t version;
	struct client_replica list[LIMIT_REPLICAS];
	int n; /* 0: no list received yet */
};

/* The members in the newest list that a replica has sent, voters first. */
const struct client_members *client_members(const struct client *c);

#endif
