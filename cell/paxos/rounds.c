/* Which rounds are believed: a faulty replica must not carry the ballots of the cell away. */
#include <inttypes.h>

#include "cell/paxos/internal.h"

void
px_rounds_begin(struct px *px)
{
	px->rounds.step_at = px->now;
}

/* True when so many voters have sent such rounds that one of them is not faulty. */
static bool
is_told_by_sound(const struct px *px, uint64_t round)
{
	int voters = 0, tell = 0;

	for (int i = 0; i < px->group.members.n; i++) {
		const uint8_t id = px->group.members.list[i].id;

		voters += px->group.members.list[i].voter;
		tell += id != px->config.self && px->rounds.of[id] >= round;
	}
	return tell > (voters - 1) / 2;
}

/* How many steps this replica may take towards a far round by now. An interval without a far round
 * does not use its step up. */
static uint64_t
steps_allowed(const struct px *px)
{
	const span_t saved = mono_since(px->now, px->rounds.step_at);

	return saved.ns < 0 ? 0 : 1 + (uint64_t)(saved.ns / px->config.heartbeat.ns);
}

/* Rounds grow by one with each election; a cell that accepted a far higher one of a faulty replica
 * could never return. A replica whose peer alone accepted such rounds catches up step by step. */
static bool
believes(struct px *px, uint8_t from, uint64_t round)
{
	const uint64_t seen = px->acceptor.seen.round;
	uint64_t needed, taken, reached;

	if (round <= seen + BALLOT_ROUND_LEAP || is_told_by_sound(px, round - BALLOT_ROUND_LEAP))
		return true;
	needed = (round - seen + BALLOT_ROUND_STEP - 1) / BALLOT_ROUND_STEP;
	taken = needed < steps_allowed(px) ? needed : steps_allowed(px);
	px->rounds.step_at =
	    mono_add(px->rounds.step_at, (span_t){(int64_t)taken * px->config.heartbeat.ns});
	reached = taken == needed ? round : seen + taken * BALLOT_ROUND_STEP;
	px_accept_see(px, (struct ballot){reached, px->acceptor.seen.replica});
	if (reached == round)
		return true;
	PX_TRACE(px, "does not believe replica %u yet: round %" PRIu64 " is far, goes to %" PRIu64,
	         from, round, px->acceptor.seen.round);
	return false;
}

/* All messages from a Prepare on begin with a ballot. One that leaves no room for higher ones is
 * damaged. A welcome demands nothing by its ballot, which only tells how far the rounds have come
 * while this replica was away. */
bool
px_rounds_reach(struct px *px, uint8_t from, const struct message *m)
{
	const uint64_t round = m->prepare.ballot.round;

	if (round == 0 || round > BALLOT_ROUND_MAX)
		return false;
	if (px->rounds.of[from] < round)
		px->rounds.of[from] = round;
	return m->code == MSG_welcome || believes(px, from, round);
}
