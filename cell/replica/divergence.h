/* Do the replicas have the same state? Each computes a digest at every so many entries of the log
 * and tells the master; what a majority agrees on is told to all by an entry of the log, and who
 * has computed another one at that place knows that its own state is wrong ("Paxos Made Live",
 * section 6.2: a checksum of the database goes through the log, to find inconsistent replicas).
 * Where so few can be heard that none has a majority, nobody knows who is right, and people are
 * told. */
#ifndef LSFS_REPLICA_DIVERGENCE_H
#define LSFS_REPLICA_DIVERGENCE_H

#include "cell/paxos/px.h"

enum {
	DIVERGENCE_EVERY = 1024, /* entries */
	DIVERGENCE_KEPT = 8,  /* so many places back */
	DIVERGENCE_PATIENCE_S = 3, /* for those that have not told yet */
};

struct divergence_vote {
	uint8_t replica; /* 0: none */
	uint64_t digest;
};

/* What is known of one place in the log. */
struct divergence_place {
	uint64_t index;  /* 0: nothing */
	bool computed;   /* `own` is */
	uint64_t own;
	bool logged;     /* the log tells it, or will */
	mono_t split;    /* since then replicas have told two digests; 0: they have not */
	struct divergence_vote votes[LIMIT_REPLICAS];
};

struct divergence {
	uint64_t every;
	uint64_t disputed; /* the newest place where nobody has a majority for long; 0: none */
	struct divergence_place places[DIVERGENCE_KEPT];
};

/* `every`: at least 2, because telling it is an entry, too; 0: DIVERGENCE_EVERY. */
void divergence_init(struct divergence *d, uint64_t every);
/* Is there one to be computed when `applied` is? */
bool divergence_due(const struct divergence *d, uint64_t applied);
void divergence_computed(struct divergence *d, uint64_t index, uint64_t digest);
/* For the master: what a replica, itself too, has computed; `chosen`: it can't be further. */
void divergence_reported(struct divergence *d, uint8_t replica, uint64_t index, uint64_t digest,
                         uint64_t chosen);
/* A majority of the voters agrees on a digest that the log does not tell yet. From now on it counts
 * as told. */
bool divergence_agreed(struct divergence *d, const struct px_members *members, uint64_t *index,
                       uint64_t *digest);
/* Is there a dispute that was not there before? Then `disputed` is its place, until one that is
 * agreed on behind it. */
bool divergence_disputed(struct divergence *d, const struct px_members *members, mono_t now);
/* Forgets what the replicas have told: another one may be master, and then again this one. */
void divergence_forget(struct divergence *d);
/* What this replica has computed there; false when that is not known any more. */
bool divergence_own(const struct divergence *d, uint64_t index, uint64_t *digest);
/* The log tells this digest: is our own another one? No, if we do not know ours any more. */
bool divergence_differ(const struct divergence *d, uint64_t index, uint64_t digest);

#endif
