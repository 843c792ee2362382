/* Ballots: (round, replica), ordered by round, then by replica, so that no two replicas ever use
 * the same ballot ("Paxos Made Simple", section 2.5: disjoint sets of numbers). Round 0 is
 * "none". */
#ifndef LSFS_PAXOS_BALLOT_H
#define LSFS_PAXOS_BALLOT_H

#include <inttypes.h>
#include <stdbool.h>
#include "cell/wire/types.h"

#define BALLOT_NONE ((struct ballot){0, 0})
/* The format of a ballot in a trace, and its arguments. */
#define BALLOT "%" PRIu64 ".%u"
#define BALLOT_OF(b) (b).round, (b).replica

/* No correct cell reaches this round: a message with a higher one is damaged, and no rounds would
 * be left above it. */
#define BALLOT_ROUND_MAX (UINT64_MAX / 2)

/* A faulty replica must not use up the rounds. Towards a round that is more than a LEAP above those
 * that it knows, a replica goes in steps, of a STEP each BALLOT_STEP_MS at most. At that pace the
 * rounds last for a hundred years. */
#define BALLOT_ROUND_LEAP ((uint64_t)1 << 16)
#define BALLOT_ROUND_STEP ((uint64_t)1 << 28)
enum { BALLOT_STEP_MS = 100 };

static inline bool
ballot_less(struct ballot a, struct ballot b)
{
	return a.round != b.round ? a.round < b.round : a.replica < b.replica;
}

static inline bool
ballot_equal(struct ballot a, struct ballot b)
{
	return a.round == b.round && a.replica == b.replica;
}

/* True when an entry that was proposed after one of the origin `before` may follow an entry of
 * `origin`. BALLOT_NONE for either: that origin is not known. */
static inline bool
ballot_goes_on(struct ballot before, struct ballot origin)
{
	return before.round == 0 || origin.round == 0 || ballot_equal(before, origin);
}

static inline struct ballot
ballot_max(struct ballot a, struct ballot b)
{
	return ballot_less(a, b) ? b : a;
}

#endif
