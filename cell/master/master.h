/* The master's volatile state: leases, who waits for which lock, what is in flight. Rebuilt after a
 * fail-over from the tree and from what clients tell (DESIGN: Master).
 *
 * Pure. It does not call paxos: a step returns what to propose, and replica.c tells it what was
 * applied. All of it runs only on the replica that paxos made master, after its epoch was applied. */
#ifndef LSFS_MASTER_MASTER_H
#define LSFS_MASTER_MASTER_H

#include "cell/base/mono.h"
#include "cell/tree/tree.h"

struct master;

struct master_config {
	const char *cell;        /* its name; kept, not copied */
	span_t session_lease;    /* default 12 s */
	int drift_permille;      /* what clocks may differ in rate; default 10 */
	uint8_t signing_key[64]; /* Ed25519 secret key of the cell: signs sequencers */
};

/* `tree` is the replica's, read here and never changed. */
struct master *master_new(const struct master_config *config, const struct tree *tree);
void master_free(struct master *m);

struct master_send {
	uint64_t conn;
	struct bytes frame; /* owned by the update */
};

struct master_update {
	struct bytes *proposals; /* encoded entry payloads, in order; owned by the update */
	size_t proposals_n, proposals_room;
	struct master_send *sends;
	size_t sends_n, sends_room;
	uint64_t *closes;
	size_t closes_n, closes_room;
};

void master_update_free(struct master_update *u);

/* Each of these appends to `u` (cleared by the caller). `wall_ns` stamps commands. */
struct master_clock { mono_t now; int64_t wall_ns; };

/* This replica's begin_epoch was applied: take office at `epoch`. */
void master_begin(struct master *m, struct master_clock c, uint64_t epoch, struct master_update *u);
/* The mastership is lost: connected clients are redirected to `master` (0: unknown). */
void master_end(struct master *m, uint8_t master, struct master_update *u);

void master_connected(struct master *m, struct master_clock c, uint64_t conn, struct bytes principal);
void master_disconnected(struct master *m, struct master_clock c, uint64_t conn);
/* One frame from a client. A malformed one closes the connection. `lease` tells whether reads may be
 * answered now; if not they wait for the next master_timeout. */
void master_frame(struct master *m, struct master_clock c, bool lease, uint64_t conn,
                  struct bytes frame, struct master_update *u);
/* An entry was applied (on the master, after every tree_apply). */
void master_applied(struct master *m, struct master_clock c, uint64_t index,
                    const struct tree_outcome *outcome, struct master_update *u);
void master_timeout(struct master *m, struct master_clock c, bool lease, struct master_update *u);
mono_t master_deadline(const struct master *m);

#endif
