/* One replica of a cell, pure: paxos, tree and master behind one step function. What the simulator
 * runs, and what cell/server/server.h drives with real disks, sockets and clocks. */
#ifndef LSFS_REPLICA_REPLICA_H
#define LSFS_REPLICA_REPLICA_H

#include "cell/master/master.h"
#include "cell/paxos/px.h"

struct replica;

struct replica_config {
	struct px_config paxos; /* replica_new fills in `members` and what is set by settings */
	struct master_config master;
	/* The cell as its file describes it, views of the caller's: the first list of a new cell,
	 * and what a replica goes by whose tree has none. */
	const struct member *members;
	int members_n;            /* LIMIT_REPLICAS at most */
	uint64_t members_version; /* log index of the change that made this list; 0: none */
	struct settings settings; /* of a new cell, and until the tree has some; 0: the default */
	uint64_t digest_every; /* entries; 0: DIVERGENCE_EVERY (cell/replica/divergence.h) */
	struct trace *trace;   /* the caller's sink of verdicts, also of paxos and master; NULL:
	                        * none */
};

/* `tree` was loaded from the stored rows; it becomes the replica's. `recovered` may hold entries
 * that the tree has applied already. */
struct replica *replica_new(const struct replica_config *config, struct tree *tree,
                            const struct px_recovered *recovered, mono_t now);
void replica_free(struct replica *r);

enum replica_event_kind {
	REPLICA_CONNECTED,    /* conn: a client's connection; principal */
	REPLICA_DISCONNECTED, /* conn */
	REPLICA_FRAME,        /* conn, frame: one whole frame from a client */
	REPLICA_PEER,         /* peer, frame: one whole frame from a replica */
	REPLICA_PERSISTED,    /* write: log records are durable */
	REPLICA_SAVED,        /* index: state.db is durable up to here */
	REPLICA_TIMEOUT,
	REPLICA_STOP,         /* the driver goes on until replica_left, and all is written */
	REPLICA_FULL,         /* on: the disk is full, or (off) has room again */
	REPLICA_COPY_BEGUN,   /* peer: a copy of state.db will be made for it */
};

/* What the driver has measured of its steps, for status. */
struct replica_times {
	uint64_t longest_us, slow; /* the longest one; how many took more than 10 ms */
};

/* Both clocks come with every event: `now` decides, `wall_ns` only stamps. */
struct replica_event {
	enum replica_event_kind kind;
	mono_t now;
	int64_t wall_ns;
	uint64_t conn; /* made up by the driver, never used again */
	uint8_t peer;
	uint64_t write, index;
	struct bytes frame;
	struct bytes principal;
	bool on;
	struct replica_times times;
};

struct replica_send {
	bool to_peer;
	uint64_t conn;
	uint8_t peer;
	uint64_t after; /* log write that must be durable first; 0: now */
	struct bytes frame; /* owned by the update */
};

struct replica_update {
	struct px_record *records; /* for log.db, one transaction; valid until the next step */
	size_t records_n, records_room;
	uint64_t write;
	struct replica_send *sends;
	size_t sends_n, sends_room;
	uint64_t *closes; /* connections to be closed after the sends */
	size_t closes_n, closes_room;
	struct row_list rows; /* for state.db, one transaction up to `applied`; empty: nothing */
	uint64_t applied;
	bool members_changed; /* see replica_members */
	/* A state must be copied from this replica: the driver fetches one and starts anew with it;
	 * 0: none. Told again in every update as long as it is so. */
	uint8_t behind;
	/* The state differs from what a quorum has: the driver sets state.db aside and starts
	 * anew, to fetch a copy. */
	bool diverged;
};

/* Clears `update`, handles the event and fills it. */
void replica_step(struct replica *r, const struct replica_event *event,
                  struct replica_update *update);
void replica_update_free(struct replica_update *update);

/* When REPLICA_TIMEOUT is due. */
mono_t replica_deadline(const struct replica *r);

/* Bytes of requests that wait for room in the log. Nothing here bounds them: when they are many the
 * driver gives no further ones, but KeepAlives and the like. */
size_t replica_backlog(const struct replica *r);

/* For status, tests and the simulator's invariants. */
const struct tree *replica_tree(const struct replica *r);
const struct px *replica_px(const struct replica *r);
enum replica_condition replica_condition(const struct replica *r);
/* Who is connected to, and whose keys are good: the newest list that was applied here or told by
 * another replica, with those that were removed; before there is one, that of the configuration.
 * Views, valid until the next step. */
struct msg_members replica_members(const struct replica *r);
/* After REPLICA_STOP: is there nothing left to do, or nothing that would be done by then? */
bool replica_left(const struct replica *r, mono_t by);
bool replica_serving(const struct replica *r, mono_t now); /* master, epoch applied, lease valid */

#endif
