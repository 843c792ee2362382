/* Ballots: (round, replica), ordered by round, then replica, so that no two replicas ever use the
 * same one ("Paxos Made Simple", section 2.5: disjoint sets of numbers). Round 0 is "none". */
#ifndef LSFS_PAXOS_BALLOT_H
#define LSFS_PAXOS_BALLOT_H

#include <stdbool.h>
#include "cell/wire/types.h"

#define BALLOT_NONE ((struct ballot){0, 0})

/* No honest cell gets here: a message that says so is damaged, and leaves no higher rounds. */
#define BALLOT_ROUND_MAX (UINT64_MAX / 2)

/* Rounds are not to be used up by a faulty replica. In each heartbeat interval a replica may hear
 * of one that is farther than a leap above those that it knows, and goes up by a step at most. At
 * that pace they last for a hundred years. */
#define BALLOT_ROUND_LEAP ((uint64_t)1 << 16)
#define BALLOT_ROUND_STEP ((uint64_t)1 << 28)

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

/* May an entry stand behind one of `origin`, that was proposed behind one of the origin `before`?
 * None: that is not known. */
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
