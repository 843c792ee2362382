/* The learner: what is chosen, what of it is durable, and what the log need not keep. */
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"

void
px_learn(struct px *px, uint64_t slot)
{
	must(slot <= px->log.last);
	if (slot > px->learner.chosen) {
		PX_TRACE(px, "slots up to " SLOT " are chosen", slot);
		px->learner.chosen = slot;
	}
	if (px->group.changes.n > 0)
		px_reconfig_pass(px);
}

/* A slot and an origin have one value: if the log holds that one already, nothing is recorded
 * again. */
void
px_learn_entry(struct px *px, const struct log_entry *e)
{
	must(e->slot == px->learner.chosen + 1);
	if (e->slot > px->log.last ||
	    !ballot_equal(log_window_origin(&px->log, e->slot), e->origin)) {
		if (e->slot <= px->acceptor.accepted_to) {
			struct px_learner *l = &px->learner;

			/* The entries accepted from this slot on came from a master that could not
			 * have them chosen: they do not count any more, neither now nor when their
			 * records are durable. */
			PX_TRACE(px, "acceptances from slot " SLOT " on do not count any more",
			         e->slot);
			px_accept_cut(px, e->slot - 1);
			for (size_t i = 0; i < l->pending_n; i++)
				if (l->pending[i].accepted_to > e->slot - 1)
					l->pending[i].accepted_to = e->slot - 1;
		}
		px_store(px, e);
	}
	px_learn(px, e->slot);
	px_accept_chosen(px);
}

/* The slot up to which a replica has the current ballot's entries durable, without a hole. */
static uint64_t
matched(const struct px *px, uint8_t id)
{
	return id == px->config.self ? px->acceptor.durable : px->leader.peers[id].match;
}

/* The last slot chosen by voters of the list in force, up to and including the next change of the
 * list. */
static uint64_t
chosen_by_members(const struct px *px)
{
	const struct px_members *m = &px->group.members;
	const struct px_members *next =
	    px->group.changes.n > 0 ? px_next_members(&px->group.changes, m) : NULL;
	uint64_t end = next ? next->version : px->log.last;
	uint64_t chosen = px->learner.chosen;

	for (int i = 0; i < m->n; i++) {
		uint64_t slot = matched(px, m->list[i].id);

		slot = slot < end ? slot : end;
		if (slot > chosen && PX_MAJORITY(m, id, matched(px, id) >= slot))
			chosen = slot;
	}
	return chosen;
}

/* "To learn that a value has been chosen, a learner must find out that a proposal has been accepted
 * by a majority of acceptors" ("Paxos Made Simple", section 2.3): the slot that a majority has
 * durable in this master's ballot. The master's own disk counts like the others'. A change of the
 * members is chosen by the voters of the list that it replaces, entries after it by the new
 * ones. */
void
px_count_accepted(struct px *px)
{
	uint64_t chosen;

	must(px->candidate.role == PX_MASTER &&
	     ballot_equal(px->acceptor.promised, px->candidate.ballot));
	while (px->learner.chosen < px->acceptor.accepted_to &&
	       (chosen = chosen_by_members(px)) > px->learner.chosen)
		px_learn(px, chosen);
}

void
px_persisted(struct px *px, uint64_t write)
{
	struct px_learner *l = &px->learner;
	size_t n = 0;

	must(write <= px->write);
	if (write > l->durable_write)
		l->durable_write = write;
	while (n < l->pending_n && l->pending[n].write <= write) {
		const struct pending_write *p = &l->pending[n++];

		px_accept_durable(px, p->ballot, p->accepted_to);
		px_witness_durable(px, p->recorded, p->held);
		l->chosen_durable = p->chosen;
	}
	l->pending_n -= n;
	if (l->pending_n > 0)
		memmove(l->pending, l->pending + n, l->pending_n * sizeof l->pending[0]);
	must(l->chosen_durable <= l->chosen);
}

void
px_record_chosen(struct px *px)
{
	if (px->learner.chosen == px->learner.chosen_recorded)
		return;
	px_record(px, (struct px_record){.kind = PX_RECORD_CHOSEN, .slot = px->learner.chosen});
	px->learner.chosen_recorded = px->learner.chosen;
}

void
px_note_pending(struct px *px)
{
	if (px->learner.applied > px->learner.chosen_recorded && px->out->records_n > 0)
		px_record_chosen(px);
	if (px->learner.durable_write == px->write)
		return;
	/* A ballot may begin, and slots may be chosen, while the last write is not durable yet. */
	if (px->learner.pending_n == 0 ||
	    px->learner.pending[px->learner.pending_n - 1].write != px->write) {
		ARRAY_ROOM(px->learner.pending, px->learner.pending_n, px->learner.pending_room);
		px->learner.pending_n++;
	}
	px->learner.pending[px->learner.pending_n - 1] = (struct pending_write){
	    .write = px->write,
	    .ballot = px->acceptor.promised,
	    .accepted_to = px->acceptor.accepted_to,
	    .recorded = px->acceptor.promised_recorded,
	    .held = px->acceptor.held,
	    .chosen = px->learner.chosen_recorded,
	};
}

/* If state.db is ahead of the log's hint (PX_RECORD_CHOSEN), a crash now would leave entries that
 * the log does not know as chosen: the others must keep theirs. */
uint64_t
px_applied_reported(const struct px *px)
{
	const struct px_learner *l = &px->learner;

	return l->applied < l->chosen_durable ? l->applied : l->chosen_durable;
}

uint64_t
px_trim_target(const struct px *px)
{
	uint64_t target = px_applied_reported(px);

	if (px->candidate.role != PX_MASTER)
		return px->acceptor.trim_allowed;
	for (int i = 0; i < px->group.others_n; i++)
		if (px->leader.peers[px->group.others[i]].applied < target)
			target = px->leader.peers[px->group.others[i]].applied;
	return target;
}

/* The first slot up to which the log must be trimmed to be within `times` times the limit. The log
 * may hold far more than is to be trimmed, so the slot is found by bisection. */
static uint64_t
end_of_excess(const struct px *px, unsigned times)
{
	const uint64_t last = px->log.last;
	uint64_t low = px->log.base, high = px_applied_reported(px);

	while (low < high) {
		const uint64_t middle = low + (high - low) / 2;

		if (last - middle > px->config.log_entries * times ||
		    log_window_bytes(&px->log, middle, last) > px->config.log_bytes * times)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Entries beyond the log's limit are not kept for members that lack them: these copy the state
 * ("Paxos Made Live", section 5.5). A member that reads a copy also needs the entries written
 * meanwhile, or it would have to read another copy, and so on for ever in a cell that writes faster
 * than it copies. So more is kept, within a larger limit, until that member is within the usual
 * one. */
static uint64_t
least_trim(struct px *px)
{
	const uint64_t usual = end_of_excess(px, 1), most = end_of_excess(px, PX_LOG_COPIES);
	uint64_t slot = usual;

	for (int i = 0; i < px->group.others_n; i++) {
		struct peer *p = &px->leader.peers[px->group.others[i]];
		const uint64_t needed = p->match > p->copy ? p->match : p->copy;

		if (p->copy == 0)
			continue;
		if (needed < most || (p->match >= p->copy && p->match >= usual))
			p->copy = 0;
		else if (needed < slot)
			slot = needed;
	}
	return slot;
}

/* Trims only what is durable in this replica's state.db and in every member's, or is beyond the
 * limit. The last chosen entry stays: by its origin superseded entries after it are recognised. */
void
px_on_applied(struct px *px, uint64_t slot)
{
	uint64_t target, over;

	if (slot > px->learner.applied)
		px->learner.applied = slot;
	px_record_chosen(px);
	target = px_trim_target(px);
	if (target > px_applied_reported(px))
		target = px_applied_reported(px);
	over = least_trim(px);
	if (target < over)
		target = over;
	if (target + 1 > px->learner.chosen && target > 0)
		target = px->learner.chosen - 1;
	if (target <= px->log.base)
		return;
	PX_TRACE(px, "trims the log up to slot " SLOT "%s", target,
	         target > px_trim_target(px) ? ", which others need: it is over its limit" : "");
	px_record(px, (struct px_record){.kind = PX_RECORD_TRIM, .slot = target});
	log_window_trim(&px->log, target);
}
