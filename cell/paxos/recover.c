/* The start from what the disk holds, and what a replica without all of it may not do. */
#include "cell/base/must.h"
#include "cell/paxos/internal.h"

/* Takes the log as it was, but for what does not go on from the entry before it any more. */
static void
take_entries(struct px *px, const struct px_recovered *recovered)
{
	bool superseded = false;

	px->promised = px->promised_recorded = recovered->promised;
	log_window_start(&px->log, recovered->trimmed);
	if (recovered->applied == recovered->trimmed)
		px->log.origin = recovered->applied_origin;
	px->held = recovered->trimmed;
	for (size_t i = 0; i < recovered->entries_n; i++) {
		const struct log_entry *e = &recovered->entries[i];

		must(e->slot == ++px->held);
		px->promised = ballot_max(px->promised, e->ballot);
		if (superseded)
			continue;
		log_window_put(&px->log, e);
		superseded = !log_window_goes_on(&px->log, e->slot);
		if (superseded)
			log_window_cut(&px->log, e->slot - 1);
	}
}

/* What the log's hint calls chosen, as far as it can be read. */
static uint64_t
chosen_by_hint(const struct px *px, const struct px_recovered *recovered)
{
	uint64_t last = log_window_last(&px->log);

	must(recovered->chosen >= recovered->trimmed);
	return recovered->chosen < last ? recovered->chosen : last;
}

/* Every slot of the state is chosen, but where the hint does not reach the log may have accepted
 * others than those chosen, or end. If its entry of the state's last slot has the state's origin,
 * it is the one that was chosen, and so are all those before it: they go on from each other. Else
 * the log begins behind the state; what was accepted there stays so if it goes on from that. */
static void
begin_at_state(struct px *px, const struct px_recovered *recovered)
{
	uint64_t applied = recovered->applied;

	px->chosen = applied;
	if (applied <= log_window_last(&px->log) &&
	    ballot_equal(log_window_origin(&px->log, applied), recovered->applied_origin))
		return;
	if (applied < log_window_last(&px->log))
		log_window_trim(&px->log, applied);
	else
		log_window_start(&px->log, applied);
	px->log.origin = recovered->applied_origin;
	if (applied < log_window_last(&px->log) && !log_window_goes_on(&px->log, applied + 1))
		log_window_cut(&px->log, applied);
	px->base_new = true;
}

/* Where the log was cut in front of something damaged, acceptances are missing that others may have
 * counted, until each of those slots is chosen here, accepted in a higher ballot, or behind all
 * that a master has. */
void
px_recover(struct px *px, const struct px_recovered *recovered)
{
	take_entries(px, recovered);
	px->chosen = px->chosen_recorded = px->chosen_durable = chosen_by_hint(px, recovered);
	if (recovered->applied > px->chosen)
		begin_at_state(px, recovered);
	px->accepted_to = px->chosen;
	while (px->accepted_to < log_window_last(&px->log) &&
	       ballot_equal(log_window_at(&px->log, px->accepted_to + 1)->ballot, px->promised))
		px->accepted_to++;
	px->durable = px->accepted_to;
	px->applied = recovered->applied;
	px->damaged = recovered->damaged;
	if (px->held < px->damaged)
		px->held = px->damaged;
	if (px->held < px->applied)
		px->held = px->applied;
	px_check_repaired(px);
	px->stateless = px->applied < px->log.base;
	px->incarnation = recovered->incarnation;
	px_reconfig_recover(px);
}

void
px_write_base(struct px *px)
{
	if (!px->base_new)
		return;
	px->base_new = false;
	px_record(px, (struct px_record){.kind = PX_RECORD_TRIM, .slot = px->log.base});
	px->base_write = px->write;
}

void
px_check_repaired(struct px *px)
{
	if (px->accepted_to >= px->damaged)
		px->damaged = 0;
}

/* What we accepted once and lost may be a tail that was never chosen, which nobody sends again.
 * Whoever was elected with the ballot that we follow has found that nothing behind its last slot
 * was chosen in a lower one, or ever can be: acceptances of ours that stood there, all of them in
 * lower ballots, are of no use to anyone. And in its own ballot we accepted nothing behind the last
 * slot it tells, if it tells it after our start: it has heard our hello. */
void
px_compare_with_master(struct px *px, uint8_t from, const struct msg_heartbeat *m)
{
	if (px->damaged == 0 || px->accepted_to < m->last)
		return;
	if (px_is_known(px, m->marks.packed))
		px->damaged = 0;
	else
		px_say_hello_to(px, from);
}

bool
px_may_promise(const struct px *px)
{
	return !px->mute && !px->lost && !px->expelled && px->damaged == 0;
}

bool
px_is_fit(const struct px *px)
{
	return px_may_promise(px) && !px->stateless;
}

enum replica_condition
px_condition(const struct px *px)
{
	if (px->expelled)
		return CONDITION_EXPELLED;
	if (px->lost)
		return CONDITION_LOST;
	if (px->mute)
		return CONDITION_JOINING;
	if (!px_is_fit(px))
		return CONDITION_REPAIRING;
	return px_is_voter(&px->members, px->config.self) ? CONDITION_VOTING : CONDITION_LEARNER;
}

/* ---- behind the others' logs ---- */

void
px_note_first(struct px *px, uint8_t from, uint64_t first)
{
	px->ahead = from;
	px->ahead_first = first;
}

/* The voter behind `id` in the list, ourselves left out. */
static uint8_t
next_voter(const struct px *px, uint8_t id)
{
	const struct px_members *members = px_members(px);
	uint8_t lowest = 0, next = 0;

	for (int i = 0; i < members->n; i++) {
		uint8_t other = members->list[i].id;

		if (!members->list[i].voter || other == px->config.self)
			continue;
		if (lowest == 0 || other < lowest)
			lowest = other;
		if (other > id && (next == 0 || other < next))
			next = other;
	}
	return next ? next : lowest;
}

void
px_look_for_state(struct px *px)
{
	px->source = next_voter(px, px->source);
	px->source_at = mono_add(px->now, (span_t){PX_SOURCE_LEASES * px->config.lease.ns});
}

uint8_t
px_behind(const struct px *px)
{
	uint64_t have = px->role == PX_CANDIDATE ? px->chosen : px->accepted_to;

	if (px->mute || px->lost || px->expelled || px->role == PX_MASTER)
		return 0;
	if (px->ahead != 0 && px->ahead_first > have + 1)
		return px->ahead;
	if (!px->stateless)
		return 0;
	return px->ahead != 0 && mono_before(px->now, px->granted_until) ? px->ahead : px->source;
}
