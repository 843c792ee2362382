/* The start from the recovered log, and the limits of a replica whose disk has lost some of it. */
#include "cell/base/must.h"
#include "cell/paxos/internal.h"

/* Takes the log as it was, except for entries that do not follow the entry before them any more. */
static void
take_entries(struct px *px, const struct px_recovered *recovered)
{
	bool superseded = false;

	px->acceptor.promised = px->acceptor.promised_recorded = recovered->promised;
	log_window_start(&px->log, recovered->trimmed);
	if (recovered->applied == recovered->trimmed)
		px->log.origin = recovered->applied_origin;
	px->acceptor.held = recovered->trimmed;
	for (size_t i = 0; i < recovered->entries_n; i++) {
		const struct log_entry *e = &recovered->entries[i];

		must(e->slot == ++px->acceptor.held);
		px->acceptor.promised = ballot_max(px->acceptor.promised, e->ballot);
		if (superseded)
			continue;
		log_window_put(&px->log, e);
		superseded = !log_window_goes_on(&px->log, e->slot);
		if (!superseded)
			continue;
		PX_TRACE(px,
		         "drops slot " SLOT " and those behind it: they were proposed behind "
		         "another value",
		         e->slot);
		log_window_cut(&px->log, e->slot - 1);
	}
}

/* Every slot of the state is chosen, but where the hint does not reach, the log may have accepted
 * other values than the chosen ones, or end. If its entry of the state's last slot has the origin
 * of the state's, that entry was chosen, and so were all entries before it, since each follows the
 * one before. Else the log begins after the state; entries accepted there stay if they follow
 * it. */
static void
begin_at_state(struct px *px, const struct px_recovered *recovered)
{
	uint64_t applied = recovered->applied;

	px->learner.chosen = applied;
	if (applied <= px->log.last &&
	    ballot_equal(log_window_origin(&px->log, applied), recovered->applied_origin))
		return;
	if (applied < px->log.last)
		log_window_trim(&px->log, applied);
	else
		log_window_start(&px->log, applied);
	PX_TRACE(px, "the log begins behind slot " SLOT ", which the state holds", applied);
	px->log.origin = recovered->applied_origin;
	if (applied < px->log.last && !log_window_goes_on(&px->log, applied + 1))
		log_window_cut(&px->log, applied);
	px->repair.base_new = true;
}

/* Where the log was cut in front of damage, acceptances are missing that others may have counted,
 * until each of those slots is chosen here, accepted in a higher ballot, or after the last slot of
 * a master. */
void
px_recover(struct px *px, const struct px_recovered *recovered)
{
	take_entries(px, recovered);
	/* The slots that the log's hint calls chosen, as far as they are readable. */
	must(recovered->chosen >= recovered->trimmed);
	px->learner.chosen = recovered->chosen < px->log.last ? recovered->chosen : px->log.last;
	px->learner.chosen_recorded = px->learner.chosen_durable = px->learner.chosen;
	if (recovered->applied > px->learner.chosen)
		begin_at_state(px, recovered);
	px->acceptor.accepted_to = px->learner.chosen;
	while (px->acceptor.accepted_to < px->log.last &&
	       ballot_equal(log_window_at(&px->log, px->acceptor.accepted_to + 1)->ballot,
	                    px->acceptor.promised))
		px->acceptor.accepted_to++;
	px->acceptor.durable = px->acceptor.accepted_to;
	px->learner.applied = recovered->applied;
	px->repair.damaged = recovered->damaged;
	if (px->acceptor.held < px->repair.damaged)
		px->acceptor.held = px->repair.damaged;
	if (px->acceptor.held < px->learner.applied)
		px->acceptor.held = px->learner.applied;
	px_check_repaired(px);
	px->repair.stateless = px->learner.applied < px->log.base;
	PX_TRACE(px,
	         "starts, incarnation %" PRIu64 ": has promised " BALLOT "; log behind slot " SLOT
	         " up to " SLOT ", chosen up to " SLOT "; state of slot " SLOT "%s",
	         recovered->incarnation, BALLOT_OF(px->acceptor.promised), px->log.base,
	         px->log.last, px->learner.chosen, px->learner.applied,
	         px->repair.damaged > 0 ? "; the log is damaged" : "");
	px_reconfig_recover(px);
}

void
px_write_base(struct px *px)
{
	if (!px->repair.base_new)
		return;
	px->repair.base_new = false;
	px_record(px, (struct px_record){.kind = PX_RECORD_TRIM, .slot = px->log.base});
	px->repair.base_write = px->write;
}

void
px_check_repaired(struct px *px)
{
	if (px->repair.damaged == 0 || px->acceptor.accepted_to < px->repair.damaged)
		return;
	PX_TRACE(px, "the log is repaired: each damaged slot is accepted again");
	px->repair.damaged = 0;
}

/* The lost acceptances may be a tail that was never chosen, which no master will send again. The
 * master that this replica follows found in its election that nothing after its last slot was
 * chosen in a lower ballot, or ever can be: lost acceptances after that slot, all of them in lower
 * ballots, are of no use to anyone. And in the master's own ballot this replica accepted nothing
 * after the last slot that the heartbeat reports, if it was sent after this start: it repeats the
 * start that the master knows by this replica's hello. The marks do not tell: a false one, higher
 * than all that this replica has, stays. */
void
px_compare_with_master(struct px *px, uint8_t from, const struct msg_heartbeat *m)
{
	if (px->repair.damaged == 0 || px->acceptor.accepted_to < m->last)
		return;
	if (m->incarnation != px->witness.incarnation || m->start != px->witness.start) {
		px_say_hello_to(px, from);
		return;
	}
	PX_TRACE(px, "the log is repaired: it has all entries of the master");
	px->repair.damaged = 0;
}

bool
px_may_promise(const struct px *px)
{
	return !px->witness.mute && !px->witness.lost && !px->witness.expelled &&
	       px->repair.damaged == 0;
}

bool
px_is_fit(const struct px *px)
{
	return px_may_promise(px) && !px->repair.stateless;
}

enum voting_condition
px_condition(const struct px *px)
{
	if (px->witness.expelled)
		return CONDITION_EXPELLED;
	if (px->witness.lost)
		return CONDITION_LOST;
	if (px->witness.mute)
		return CONDITION_JOINING;
	if (!px_is_fit(px))
		return CONDITION_REPAIRING;
	if (px_is_voter(&px->group.members, px->config.self))
		return CONDITION_VOTING;
	return CONDITION_LEARNER;
}

/* ---- replicas whose logs begin later ---- */

void
px_note_first(struct px *px, uint8_t from, uint64_t first)
{
	if (first > px->acceptor.accepted_to + 1)
		PX_TRACE(px, "is behind: replica %u's log begins with slot " SLOT, from, first);
	px->repair.ahead = from;
	px->repair.ahead_first = first;
}

void
px_look_for_state(struct px *px)
{
	const struct px_members *members = &px->group.members;
	uint8_t lowest = 0, next = 0;

	/* The next voter after the last source in the order of ids, without this replica. */
	for (int i = 0; i < members->n; i++) {
		uint8_t other = members->list[i].id;

		if (!members->list[i].voter || other == px->config.self)
			continue;
		if (lowest == 0 || other < lowest)
			lowest = other;
		if (other > px->repair.source && (next == 0 || other < next))
			next = other;
	}
	px->repair.source = next ? next : lowest;

	if (px->repair.stateless)
		PX_TRACE(px, "has no state: replica %u may have one", px->repair.source);
	px->repair.source_at = mono_add(px->now, (span_t){PX_SOURCE_LEASES * px->config.lease.ns});
}

uint8_t
px_behind(const struct px *px)
{
	uint64_t have =
	    px->candidate.role == PX_CANDIDATE ? px->learner.chosen : px->acceptor.accepted_to;

	if (px->witness.mute || px->witness.lost || px->witness.expelled ||
	    px->candidate.role == PX_MASTER)
		return 0;
	if (px->repair.ahead != 0 && px->repair.ahead_first > have + 1)
		return px->repair.ahead;
	if (!px->repair.stateless)
		return 0;
	if (px->repair.ahead != 0 && mono_before(px->now, px->lease.granted_until))
		return px->repair.ahead;
	return px->repair.source;
}
