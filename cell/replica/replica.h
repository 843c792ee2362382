/* One replica of a cell, pure: paxos, tree and master behind one step function. cell/server carries
 * out its updates. */
#ifndef LSFS_REPLICA_REPLICA_H
#define LSFS_REPLICA_REPLICA_H

#include "cell/base/latency.h"
#include "cell/master/master.h"
#include "cell/paxos/px.h"

struct replica;

struct replica_config {
	struct px_config paxos; /* replica_new fills in the members and the settings */
	struct master_config master;
	/* The members in the cell file, the caller's, read by replica_new: the first list of a new
	 * cell, and the list of a replica whose tree has none. */
	const struct member *members;
	int members_n;            /* LIMIT_REPLICAS at most */
	uint64_t members_version; /* log index of the change that made this list; 0: none */
	/* The key of the administrator of a new or restored cell; empty: a cell in one process. */
	struct bytes admin_key;
	bool closed;              /* a new cell's root is its administrators' alone */
	struct settings settings; /* of a new cell, and until the first epoch; 0: the default */
	uint64_t digest_every; /* entries between two digests of the state; 0: DIVERGENCE_EVERY */
	struct bytes version;  /* of the program, for people; the caller's */
	struct trace *trace;   /* the caller's sink of verdicts, also of paxos and master; NULL:
	                        * none */
};

/* Makes a replica from what was stored: `tree`, which it takes over, was loaded from state.db, and
 * `recovered` is the contents of log.db, perhaps with entries that the tree has applied already. */
struct replica *replica_new(const struct replica_config *config, struct tree *tree,
                            const struct px_recovered *recovered, mono_t now);
/* Frees the replica and its tree. */
void replica_free(struct replica *r);

enum replica_event_kind {
	REPLICA_CONNECTED,    /* conn: a client's connection; principal; key: that has proved it,
	                       * empty for a client in this process */
	REPLICA_DISCONNECTED, /* conn */
	REPLICA_FRAME,        /* conn, frame: one whole frame from a client; code: its message's */
	REPLICA_DATAGRAM,     /* conn, frame: likewise, but received beside the connection */
	REPLICA_PEER,         /* peer, frame: one whole frame from a replica */
	REPLICA_PERSISTED,    /* write: the records of all updates up to this number are durable */
	REPLICA_SAVED,        /* index: state.db is durable up to there */
	REPLICA_SEND, /* sends the other replicas what was proposed (replica_update.unsent) */
	REPLICA_TIMEOUT,
	REPLICA_STOP,       /* hand the mastership over; the driver goes on until replica_left */
	REPLICA_FULL,       /* on: the disk is full, or (off) has room again */
	REPLICA_COPY_BEGUN, /* peer: a copy of state.db will be made for it */
	REPLICA_KEYS,       /* key: the public signing keys that can be put in force, the newest and
	                     * the one before it; empty: a new one can't be introduced */
};

/* The driver's connections to the other members, for the status. */
struct replica_links {
	struct replica_link {
		uint8_t id;
		mono_t down_since; /* MONO_NEVER: it is up */
	} list[LIMIT_MEMBERS];
	int n;
};

/* Measurements of the driver, for the status. */
struct replica_times {
	uint64_t longest_us, slow;   /* the longest step; the number of steps of more than 10 ms */
	size_t clients, clients_max; /* connections of clients: the present ones, the most */
	uint64_t disk_used, disk_size;     /* in bytes, of MSG_status_request alone; 0: not known */
	const struct replica_links *links; /* NULL: none */
	size_t unfinished; /* bytes of frames that have come in part, of the principal with most;
	                    * when a status is asked for */
};

/* Every event has both clocks: decisions use `now`, time stamps `wall_ns`. */
struct replica_event {
	enum replica_event_kind kind;
	mono_t now;
	int64_t wall_ns;
	uint64_t conn; /* the driver's number of a connection, never used again */
	uint8_t peer;
	uint64_t write, index;
	unsigned code;
	struct bytes frame;
	struct bytes principal, key;
	bool on;
	bool unsaved; /* so much of the state is not in state.db yet that requests wait */
	struct replica_times times;
};

struct replica_send {
	bool to_peer;
	bool datagram; /* to the client on `conn`, beside the connection, where it may be lost */
	uint64_t conn;
	uint8_t peer;
	uint64_t after;     /* number of the write that must be durable first; 0: none */
	struct bytes frame; /* owned by the update */
};

struct replica_update {
	/* For log.db, in one transaction; the payloads are valid until the next step. */
	struct px_record *records;
	size_t records_n, records_room;
	uint64_t write; /* the number of this transaction */
	struct replica_send *sends;
	size_t sends_n, sends_room;
	uint64_t *closes; /* connections to be closed after the sends */
	size_t closes_n, closes_room;
	/* For state.db, in one transaction with the index `applied`; empty: nothing. */
	struct row_list rows;
	uint64_t applied;
	bool members_changed; /* see replica_members */
	bool rotates_key;     /* a new signing key must be introduced: REPLICA_KEYS */
	/* The replica whose state must be fetched: the driver fetches it, and starts the replica
	 * again with it; 0 if none is needed. In every update. */
	uint8_t behind;
	/* The state differs from that of a majority: the driver moves state.db away, and starts the
	 * replica again, which then fetches a state. */
	bool diverged;
	/* In every update, as after the step. */
	size_t backlog; /* bytes of requests that wait for room in the log; only the driver bounds
	                 * them: while they are many it keeps further requests back, but not
	                 * KeepAlives */
	bool unsent;    /* entries were proposed that wait for REPLICA_SEND */
	enum voting_condition condition; /* replica_condition */
	mono_t deadline;                 /* replica_deadline */
};

/* Takes one step: processes the event, and fills in the update, which is cleared before and must be
 * freed by replica_update_free at the end. The event's views must be valid during the step. */
void replica_step(struct replica *r, const struct replica_event *event,
                  struct replica_update *update);
/* Frees what the update owns. */
void replica_update_free(struct replica_update *update);

/* The signing keys from here on, while this replica is the master. */
void replica_set_keys(struct replica *r, const struct master_keys *keys);

/* The time of the next REPLICA_TIMEOUT. */
mono_t replica_deadline(const struct replica *r);

/* The tree of the replica, for the driver, tests, and the invariants of the simulator. */
const struct tree *replica_tree(const struct replica *r);
/* How long the commands took that this replica proposed as the master, since it was made. A view,
 * which changes with the next step. */
const struct latency *replica_commits(const struct replica *r);
/* The paxos of the replica, for the same users. */
const struct px *replica_px(const struct replica *r);
/* The condition of this replica, for people. */
enum voting_condition replica_condition(const struct replica *r);
/* The replicas to connect to, with their keys: the newest list that was applied here or sent by
 * another replica, removed members included; before there is one, that of the configuration. A
 * view, valid until the next step. */
struct msg_members replica_members(const struct replica *r);
/* After REPLICA_STOP: true when the mastership is handed over, and everything is done that can be
 * done by the time `by`. */
bool replica_left(const struct replica *r, mono_t by);
/* True if a session is open on the client's connection: not while another replica is master. */
bool replica_has_session(const struct replica *r, uint64_t conn);
/* The number of requests without a reply of the principal of a client's connection. */
size_t replica_under_way(const struct replica *r, uint64_t conn);
/* True if the session of a client's connection owes an acknowledgement, and this is one. */
bool replica_awaits(const struct replica *r, uint64_t conn, const struct msg_dropped *msg);
/* True if this replica is the master, its epoch is applied, and its lease is valid. */
bool replica_serving(const struct replica *r, mono_t now);

#endif
