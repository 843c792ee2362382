/* Comparison of the replicas' states. Each replica computes a digest at regular intervals of
 * the log, and sends it to the master. A digest that a majority agrees on is put into an entry of
 * the log, and a replica with another digest for that index learns from it that its state is wrong
 * ("Paxos Made Live", section 6.2: a checksum of the database goes through the log, to find
 * inconsistent replicas). If no digest has a majority, because too few replicas answer, no replica
 * is known to be right; then the dispute is reported to people. */
#ifndef LSFS_REPLICA_DIVERGENCE_H
#define LSFS_REPLICA_DIVERGENCE_H

#include "cell/paxos/px.h"

enum {
	DIVERGENCE_EVERY = 1024,   /* entries from one digest to the next */
	DIVERGENCE_KEPT = 8,       /* digests that are kept */
	DIVERGENCE_PATIENCE_S = 3, /* time for the digests of the other replicas */
};

/* The digest that a replica has computed for a place. */
struct divergence_vote {
	uint8_t replica; /* 0: none */
	uint64_t digest;
};

/* A place in the log, and the digests of the state there. */
struct divergence_slot {
	uint64_t index; /* 0: nothing */
	bool computed;  /* `own` was computed */
	uint64_t own;
	bool logged;  /* the digest was proposed for the log */
	mono_t split; /* since when the digests of two replicas differ; 0: they do not */
	struct divergence_vote votes[LIMIT_REPLICAS];
};

struct divergence {
	uint64_t every;
	uint64_t disputed; /* the newest place where no digest got a majority in time; 0: none */
	struct divergence_slot slots[DIVERGENCE_KEPT];
};

/* Sets the beginning. `every`: entries from one digest to the next, at least 2, because the digest
 * itself takes an entry; 0: DIVERGENCE_EVERY. */
void divergence_init(struct divergence *d, uint64_t every);
/* True if a digest must be computed after this entry was applied. */
bool divergence_due(const struct divergence *d, uint64_t applied);
/* Keeps the digest that this replica has computed at a place that was due. */
void divergence_computed(struct divergence *d, uint64_t index, uint64_t digest);
/* Keeps the digest that a replica, perhaps the master itself, has sent to the master. A digest is
 * ignored if its place is not due, no longer kept, or after the last chosen slot. */
void divergence_reported(struct divergence *d, uint8_t replica, uint64_t index, uint64_t digest,
                         uint64_t chosen);
/* True if a majority of the voters agrees on a digest that is not in the log yet, with its place in
 * *index and *digest. From now on it counts as logged. */
bool divergence_agreed(struct divergence *d, const struct px_members *members, uint64_t *index,
                       uint64_t *digest);
/* True if a new dispute has begun. `disputed` is its place until a majority agrees on a digest at
 * or after it. */
bool divergence_disputed(struct divergence *d, const struct px_members *members, mono_t now);
/* Drops the digests of the other replicas at the end of a mastership. */
void divergence_forget(struct divergence *d);
/* Returns the digest that this replica has computed there; false if it is not kept any more. */
bool divergence_own(const struct divergence *d, uint64_t index, uint64_t *digest);
/* True if this replica has computed another digest there than that of the log; false if its own is
 * not kept any more. */
bool divergence_differ(const struct divergence *d, uint64_t index, uint64_t digest);

#endif
