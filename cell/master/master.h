/* The master's volatile state: leases, queues of locks, requests in flight. After a fail-over it is
 * built again from the tree and from the messages of clients.
 *
 * The master does not call paxos: a step returns the proposals, and the replica calls
 * master_applied with each applied entry. Connections are known to it on every replica; everything
 * else exists only on the replica that paxos made master, between master_begin and master_end. */
#ifndef LSFS_MASTER_MASTER_H
#define LSFS_MASTER_MASTER_H

#include "cell/base/mono.h"
#include "cell/base/trace.h"
#include "cell/tree/tree.h"

struct master;
struct msg_dropped;

/* The cell's signing keys, of Ed25519: for sequencers, tickets and check digits. The first one
 * signs; what any of them has signed is genuine. */
struct master_keys {
	uint8_t secret[2][64];
	int n;           /* 0: this replica has none yet, and can't become master */
	bool incomplete; /* it still lacks one that others may have signed with */
	uint64_t since;  /* index of the entry that put them in force; 0 if none has */
};

struct master_config {
	const char *cell;   /* its name; kept, not copied */
	uint8_t replica;    /* of this replica, sent to clients; filled in by replica_new */
	int drift_permille; /* by which clocks may differ in rate; default 10 */
	struct master_keys keys;
	size_t step_work;    /* that a step does, about in bytes; 0: the default */
	unsigned keepalives; /* a second; above it session leases are longer; 0: the default */
	struct trace *trace; /* the caller's sink of verdicts; NULL: none */
};

/* A master that does not serve. The config is copied, but for the name in it. `tree` is the
 * replica's: it is read here and never changed, and has to outlive the master. */
struct master *master_new(const struct master_config *config, const struct tree *tree);
/* The signing keys from here on; one at least while it serves. */
void master_set_keys(struct master *m, const struct master_keys *keys);
/* Frees the master, in whatever state. */
void master_free(struct master *m);

struct master_send {
	uint64_t conn;
	bool datagram;      /* beside the connection, where it may be lost */
	struct bytes frame; /* owned by the update */
};

/* The caller proposes, sends and closes, in this order. */
struct master_update {
	struct bytes *proposals; /* encoded entry payloads, in order; owned by the update */
	size_t proposals_n, proposals_room;
	struct master_send *sends;
	size_t sends_n, sends_room;
	uint64_t *closes;
	size_t closes_n, closes_room;
	mono_t deadline; /* when master_timeout is due */
};

/* Frees the contents of the update and clears it. */
void master_update_free(struct master_update *u);

/* The circumstances of an event. The functions below append to an update that the caller has
 * cleared. */
struct master_clock {
	mono_t now;      /* decides */
	int64_t wall_ns; /* time of day in ns since 1970: only stamps */
	bool lease; /* this master's own lease holds: without it reads wait, session leases are not
	             * renewed, and no session expires */
	bool full;  /* a majority of the disks is: requests that need room are refused */
};

/* This replica's begin_epoch was applied: the master serves from now on, in `epoch`. */
void master_begin(struct master *m, struct master_clock c, uint64_t epoch, struct master_update *u);
/* The mastership is lost: all clients are redirected to the replica `master` (0: unknown). */
void master_end(struct master *m, uint8_t master, struct master_update *u);

/* A client has connected. `conn` is its number, never used before; `principal` is copied, and so is
 * the key by which it has proved that (empty: a client in this process). An empty principal has no
 * right: it is the holder of a member's key. */
void master_connected(struct master *m, uint64_t conn, struct bytes principal, struct bytes key);
/* The connection was closed. */
void master_disconnected(struct master *m, uint64_t conn);
/* Handles one frame of a client, while the master serves. A malformed one closes the connection;
 * one of a connection that was closed is ignored. The frame is the caller's. */
void master_frame(struct master *m, struct master_clock c, uint64_t conn, struct bytes frame,
                  struct master_update *u);
/* Handles a frame that a client has sent as a datagram, while the master serves: a KeepAlive. Any
 * other is ignored. */
void master_datagram(struct master *m, struct master_clock c, uint64_t conn, struct bytes frame,
                     struct master_update *u);
/* Handles one frame of a client, while the master does not serve: the client is redirected to the
 * replica `master` (0: unknown). */
void master_redirect(struct master *m, uint64_t conn, struct bytes frame, uint8_t master,
                     struct master_update *u);
/* Sends the client on `conn` the replica that is master (0: unknown). `conn` 0: every client on
 * whose connection no session is open; these are standby connections, which are there for it. */
void master_announce(struct master *m, uint64_t conn, uint8_t master, struct master_update *u);
/* Sends the client on `conn` (0: every client) the members of the cell: none before the first
 * epoch. */
void master_send_members(struct master *m, uint64_t conn, struct master_update *u);
/* The principal of the client on the connection; false when that is closed, or the principal was
 * removed. The views are the tree's. */
bool master_principal(struct master *m, uint64_t conn, struct tree_principal *principal);
/* True if the client on the connection has the key of a member: it is an operator on the host of a
 * replica. */
bool master_of_member(struct master *m, uint64_t conn);
/* True if a session is open on the connection. */
bool master_has_session(struct master *m, uint64_t conn);
/* The number of requests without a reply of all sessions of the connection's principal. */
size_t master_under_way(struct master *m, uint64_t conn);
/* True if this says that the session of the connection has dropped what a notice names, which it
 * has not said before. */
bool master_awaits(struct master *m, uint64_t conn, const struct msg_dropped *msg);
enum { USAGE_LIMITS = 4 }; /* that a principal has, beside the limits of each session */

/* How near the limits of principals are (m_usage_limits): of the nearest ones, if the connection is
 * an administrator's, or else of its own. */
void master_usage(struct master *m, uint64_t conn, struct limit_row rows[USAGE_LIMITS]);
/* A principal was removed, while the master does not serve: closes its connections. */
void master_principal_removed(struct master *m, struct bytes principal, struct master_update *u);
/* Begins to end the session, while the master serves: its locks keep their lock-delays if
 * `keep_delay`. False when there is no such session. */
bool master_destroy_session(struct master *m, struct master_clock c, uint64_t session,
                            bool keep_delay, struct master_update *u);
/* The same for all sessions that the principal has up to the id `last`; false if it has none. */
bool master_destroy_sessions(struct master *m, struct master_clock c, struct bytes principal,
                             uint64_t last, bool keep_delay, struct master_update *u);
/* Begins to take the principal's name out of the ACL files, unless another name is under way; a
 * next master does not go on with it. */
void master_purge_name(struct master *m, struct master_clock c, struct bytes principal,
                       struct master_update *u);
/* An entry after the epoch's own was applied: called after each tree_apply, in order. */
void master_applied(struct master *m, struct master_clock c, uint64_t index,
                    const struct tree_outcome *outcome, struct master_update *u);
/* Handles the timers that have expired. The caller calls it at the deadline, after all messages
 * that had arrived: a KeepAlive that is there already must not be too late. */
void master_timeout(struct master *m, struct master_clock c, struct master_update *u);

#endif
