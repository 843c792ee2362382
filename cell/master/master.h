/* The master's volatile state: leases, who waits for which lock, what is in flight. Rebuilt after a
 * fail-over from the tree and from what clients tell.
 *
 * Pure. It does not call paxos: a step returns what to propose, and replica.c tells it what was
 * applied. Connections are known to it always; everything else exists only on the replica that
 * paxos made master, between master_begin and master_end. */
#ifndef LSFS_MASTER_MASTER_H
#define LSFS_MASTER_MASTER_H

#include "cell/base/mono.h"
#include "cell/base/trace.h"
#include "cell/tree/tree.h"

struct master;

struct master_config {
	const char *cell;        /* its name; kept, not copied */
	uint8_t replica;         /* of this replica, told to clients (replica_new fills it in) */
	int drift_permille;      /* what clocks may differ in rate; default 10 */
	uint8_t signing_key[64]; /* Ed25519 secret key of the cell: for sequencers and tickets */
	struct trace *trace;     /* the caller's sink of verdicts; NULL: none */
};

/* `tree` is the replica's, read here and never changed. */
struct master *master_new(const struct master_config *config, const struct tree *tree);
void master_free(struct master *m);

struct master_send {
	uint64_t conn;
	struct bytes frame; /* owned by the update */
};

/* What the caller has to do, in this order: propose, send, close. */
struct master_update {
	struct bytes *proposals; /* encoded entry payloads, in order; owned by the update */
	size_t proposals_n, proposals_room;
	struct master_send *sends;
	size_t sends_n, sends_room;
	uint64_t *closes;
	size_t closes_n, closes_room;
};

/* What follows appends to an update that the caller cleared. */
void master_update_free(struct master_update *u);

/* The time of an event: `now` decides, `wall_ns` only stamps. `lease` tells whether this master's
 * own lease holds: without it reads wait, leases are not renewed and nobody's session is expired.
 */
struct master_clock {
	mono_t now;
	int64_t wall_ns;
	bool lease;
	bool full; /* a majority of the disks is: what grows is refused */
};

/* This replica's begin_epoch was applied: serve from `epoch` on. */
void master_begin(struct master *m, struct master_clock c, uint64_t epoch, struct master_update *u);
/* The mastership is lost: connected clients are redirected to `master` (0: unknown). */
void master_end(struct master *m, uint8_t master, struct master_update *u);
bool master_serving(const struct master *m);

/* A client's connection came, and went. */
void master_connected(struct master *m, uint64_t conn, struct bytes principal);
void master_disconnected(struct master *m, uint64_t conn);
/* One frame from a client, while it serves. A malformed one closes the connection. A frame from a
 * connection that was closed is ignored. */
void master_frame(struct master *m, struct master_clock c, uint64_t conn, struct bytes frame,
                  struct master_update *u);
/* One frame from a client, while it does not serve: it is sent to `master` (0: unknown). */
void master_elsewhere(struct master *m, uint64_t conn, struct bytes frame, uint8_t master,
                      struct master_update *u);
/* `conn` (0: everybody on whose connection there is no session, but who may listen there for this)
 * is told who is master. */
void master_announce(struct master *m, uint64_t conn, uint8_t master, struct master_update *u);
/* `conn` (0: everybody) is told the members of the cell: nobody before the first epoch. */
void master_tell_members(struct master *m, uint64_t conn, struct master_update *u);
/* Who is on the connection; false when it is gone. The view is the master's. */
bool master_principal(struct master *m, uint64_t conn, struct bytes *principal);
/* Ends the session, while it serves: its locks keep their delays if `keep_delay`. False when there
 * is no such session. */
bool master_destroy_session(struct master *m, struct master_clock c, uint64_t session,
                            bool keep_delay, struct master_update *u);
/* An entry behind the epoch's own was applied (after every tree_apply, in order). */
void master_applied(struct master *m, struct master_clock c, uint64_t index,
                    const struct tree_outcome *outcome, struct master_update *u);
/* To be called at the deadline, after all input that had arrived was handed in: a KeepAlive that is
 * there already must not come too late. */
void master_timeout(struct master *m, struct master_clock c, struct master_update *u);
/* When master_timeout is due. */
mono_t master_deadline(const struct master *m);

#endif
