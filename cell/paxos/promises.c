/* The reports of the promises to a candidate: for each slot the entry of the highest ballot, at
 * first without its value. Most entries accepted by others are in the candidate's own log, too: a
 * slot and an origin identify one value. Only missing values are asked for, of the replicas that
 * reported them, some at a time, so that nothing is sent twice over a slow network. */
#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

/* So many adjacent slots are asked of one replica, the next of another. */
enum { SPREAD_SLOTS = 8 };

void
px_promises_forget(struct px *px)
{
	log_window_start(&px->promises.picked, 0);
	log_window_start(&px->promises.kept, 0);
	px_changes_cut(&px->promises.changes, 0);
}

void
px_promises_keep(struct px *px)
{
	struct px_promises *p = &px->promises;
	const struct log_window picked = p->picked;

	if (picked.last >= p->kept.last) {
		p->picked = p->kept;
		p->kept = picked;
	}
	log_window_start(&p->picked, 0);
	px_changes_cut(&p->changes, 0);
}

void
px_pick_own(struct px *px)
{
	log_window_start(&px->promises.picked, px->learner.chosen);
	px->promises.picked.origin = log_window_origin(&px->log, px->learner.chosen);
	for (uint64_t slot = px->learner.chosen + 1; slot <= px->log.last; slot++) {
		struct log_entry e = log_window_entry(&px->log, slot);

		log_window_put(&px->promises.picked, &e);
		px_changes_put(&px->promises.changes, &e);
	}
}

uint64_t
px_picked_last(const struct px *px)
{
	uint64_t last = px->learner.chosen;

	while (last < px->promises.picked.last &&
	       log_window_goes_on(&px->promises.picked, last + 1))
		last++;
	return last;
}

bool
px_picked_whole(const struct px *px)
{
	for (uint64_t slot = px_picked_last(px); slot > px->learner.chosen; slot--)
		if (log_window_at(&px->promises.picked, slot)->holder != 0)
			return false;
	return true;
}

uint64_t
px_vote_have(const struct px *px, const struct vote *v)
{
	return v->have > px->learner.chosen ? v->have : px->learner.chosen;
}

/* ---- headers ---- */

static bool
is_value(const struct log_window_entry *e, const struct slot_header *h)
{
	return ballot_equal(e->origin, h->origin) && e->checksum == h->checksum;
}

/* The value was picked already: only its holder and its ballot may be new. A value that is on its
 * way is asked of nobody else. */
static void
pick_again(const struct px *px, struct log_window_entry *e, uint8_t from,
           const struct slot_header *h)
{
	const struct vote *v = &px->candidate.votes[e->holder];

	e->ballot = ballot_max(e->ballot, h->ballot);
	if (e->holder != 0 && h->slot / SPREAD_SLOTS % 2 == 1 &&
	    !(v->asked && v->asked_first == h->slot))
		e->holder = from;
}

/* True, with a view of the value, when an earlier candidacy has received it. */
static bool
is_kept(const struct px *px, const struct slot_header *h, struct bytes *value)
{
	const struct log_window *kept = &px->promises.kept;
	const struct log_window_entry *e;

	if (h->slot <= kept->base || h->slot > kept->last)
		return false;
	e = log_window_at(kept, h->slot);
	*value = e->payload;
	return e->holder == 0 && is_value(e, h);
}

/* Picks the entry if it is chosen, or if its ballot is the highest for its slot so far. */
static void
pick(struct px *px, uint8_t from, bool chosen, const struct slot_header *h)
{
	struct log_entry e = {.slot = h->slot,
	                      .ballot = h->ballot,
	                      .origin = h->origin,
	                      .checksum = h->checksum,
	                      .before = h->before};
	struct log_window_entry *picked;
	bool kept;

	if (h->slot <= px->promises.picked.last) {
		picked = log_window_at(&px->promises.picked, h->slot);
		if (is_value(picked, h)) {
			pick_again(px, picked, from, h);
			picked->chosen = picked->chosen || chosen;
			return;
		}
		if (picked->chosen || (!chosen && !ballot_less(picked->ballot, h->ballot)))
			return;
		/* Another value is picked for the slot: no vote received so far has reported this
		 * value, nor the entries that follow it. */
		for (int i = 0; i < px->group.others_n; i++) {
			struct vote *v = &px->candidate.votes[px->group.others[i]];

			if (v->same >= h->slot)
				v->same = h->slot - 1;
		}
	}
	PX_TRACE(px,
	         "picks for slot " SLOT " the value first proposed in " BALLOT
	         ", which replica %u %s in " BALLOT,
	         h->slot, BALLOT_OF(h->origin), from, chosen ? "knows as chosen" : "has accepted",
	         BALLOT_OF(h->ballot));
	kept = is_kept(px, h, &e.payload);
	log_window_put(&px->promises.picked, &e);
	px_changes_put(&px->promises.changes, &e);
	picked = log_window_at(&px->promises.picked, h->slot);
	picked->holder = kept ? 0 : from;
	picked->chosen = chosen;
}

/* Learns chosen slots whose values are here, in order. */
static void
learn_picked(struct px *px)
{
	const struct log_window_entry *first;

	while (px->promises.picked.last > px->learner.chosen &&
	       (first = log_window_at(&px->promises.picked, px->learner.chosen + 1))->chosen &&
	       first->holder == 0) {
		const struct log_entry e =
		    log_window_entry(&px->promises.picked, px->learner.chosen + 1);

		px_changes_trim(&px->promises.changes, e.slot);
		px_learn_entry(px, &e);
		log_window_trim(&px->promises.picked, e.slot);
	}
}

/* Takes one header of a promise; false when it does not follow the last one, or is not possible:
 * all ballots accepted by an acceptor that has promised are lower than the candidate's. */
static bool
take_header(struct px *px, uint8_t from, uint64_t chosen, const struct slot_header *h)
{
	struct vote *v = &px->candidate.votes[from];
	uint64_t have = px_vote_have(px, v);
	uint64_t same;

	if (h->slot <= have)
		return true;
	if (h->slot != have + 1 || h->slot - px->learner.chosen > PX_PICKED_MAX ||
	    ballot_less(h->ballot, h->origin) || !ballot_less(h->ballot, px->candidate.ballot)) {
		PX_TRACE(px, "can't use slot " SLOT " of replica %u's promise: it lacks slot " SLOT,
		         h->slot, from, have + 1);
		return false;
	}
	v->have = h->slot;
	pick(px, from, h->slot <= chosen, h);

	/* When two logs have the same entry in a slot, they have the same entries before it. */
	same = v->same > px->learner.chosen ? v->same : px->learner.chosen;
	if (h->slot == same + 1 && is_value(log_window_at(&px->promises.picked, h->slot), h))
		v->same = h->slot;

	return true;
}

bool
px_take_promise(struct px *px, uint8_t from, const struct msg_promise *m)
{
	struct cursor c = cursor_of(m->accepted.packed);
	struct slot_header h = {0};
	bool goes_on = m->accepted.count > 0;

	while (goes_on && wire_next_slot_header(&c, &h))
		goes_on = take_header(px, from, m->chosen, &h);
	learn_picked(px);
	return goes_on;
}

void
px_note_told(struct px *px, uint8_t from, const struct msg_promise *m)
{
	struct peer *p = &px->leader.peers[from];
	struct cursor c = cursor_of(m->accepted.packed);
	struct slot_header h = {0};

	if (p->told < px_known_to(px, p))
		p->told = px_known_to(px, p);
	while (wire_next_slot_header(&c, &h) && h.slot <= p->told + 1 && h.slot <= px->log.last)
		if (h.slot == p->told + 1 && is_value(log_window_at(&px->log, h.slot), &h))
			p->told = h.slot;
}

/* ---- values ---- */

/* False when the value is not the one that was picked for its slot. */
static bool
take_value(struct px *px, const struct log_entry *e)
{
	struct log_window_entry *picked;
	struct log_entry whole = *e;
	bool chosen;

	if (e->slot <= px->promises.picked.base || e->slot > px->promises.picked.last)
		return e->slot <= px->promises.picked.base;
	picked = log_window_at(&px->promises.picked, e->slot);
	if (picked->holder == 0) {
		PX_TRACE(px, "takes no value for slot " SLOT ": it is here", e->slot);
		return true;
	}
	if (!ballot_equal(picked->origin, e->origin) || picked->checksum != e->checksum ||
	    checksum(e->payload) != e->checksum) {
		PX_TRACE(px, "takes no value for slot " SLOT ": it is not the one that was picked",
		         e->slot);
		return false;
	}
	PX_TRACE(px, "has the value of slot " SLOT, e->slot);
	whole.ballot = picked->ballot;
	whole.before = picked->before;
	chosen = picked->chosen;
	log_window_put(&px->promises.picked, &whole);
	log_window_at(&px->promises.picked, e->slot)->chosen = chosen;
	px_changes_put(&px->promises.changes, &whole);
	return true;
}

bool
px_take_values(struct px *px, struct wire_list entries)
{
	struct cursor c = cursor_of(entries.packed);
	struct log_entry e = {0};
	bool any = false;

	while (wire_next_log_entry(&c, &e))
		any |= take_value(px, &e);
	learn_picked(px);
	return any;
}

/* Another replica that has promised may have the value that `id` reported and does not send. */
static uint8_t
another_holder(const struct px *px, uint8_t id, uint64_t slot)
{
	uint8_t other = id;

	for (int i = 0; i < px->group.others_n; i++) {
		const uint8_t next = px->group.others[i];
		const struct vote *v = &px->candidate.votes[next];

		if (next == id || !v->promised || v->have < slot)
			continue;
		if (other == id || (other < id && next > id))
			other = next;
	}
	return other;
}

bool
px_withholds(const struct px *px, uint8_t id)
{
	const int64_t lease = px->config.lease.ns;
	const struct vote *v = &px->candidate.votes[id];

	if (!v->asked || !mono_reached(px->now, mono_add(v->asked_at, (span_t){lease / 2})))
		return false;
	for (uint64_t slot = px->learner.chosen + 1; slot <= px->promises.picked.last; slot++)
		if (log_window_at(&px->promises.picked, slot)->holder == id &&
		    another_holder(px, id, slot) == id)
			return true;
	return false;
}

/* The time of this replica has passed. Its next time is twice as long, because a large value may be
 * in flight. */
static void
give_up_waiting(struct px *px, uint8_t id)
{
	struct vote *v = &px->candidate.votes[id];

	PX_TRACE(px, "gives up waiting for values of replica %u", id);
	v->asked = false;
	v->patience = (span_t){2 * v->patience.ns};

	for (uint64_t slot = px->learner.chosen + 1; slot <= px->promises.picked.last; slot++) {
		struct log_window_entry *e = log_window_at(&px->promises.picked, slot);

		if (e->holder == id)
			e->holder = another_holder(px, id, slot);
	}
}

static void
gather_from(struct px *px, uint8_t id)
{
	struct vote *v = &px->candidate.votes[id];
	const uint64_t end = px_picked_last(px);
	uint64_t first = px->learner.chosen + 1, last;

	while (first <= end && log_window_at(&px->promises.picked, first)->holder != id)
		first++;
	for (last = first;
	     last < end && log_window_at(&px->promises.picked, last + 1)->holder == id;)
		last++;
	if (first > end)
		return;
	PX_TRACE(px, "asks replica %u for the values of slots " SLOT "-" SLOT, id, first, last);
	v->asked = true;
	v->asked_first = first;
	v->asked_at = px->now;
	PX_SEND(px, id, 0, gather, .ballot = px->candidate.ballot, .first = first, .last = last);
}

void
px_gather(struct px *px)
{
	must(px->candidate.role == PX_CANDIDATE);
	if (!px_has_promises(px))
		return;
	for (int i = 0; i < px->group.others_n; i++) {
		struct vote *v = &px->candidate.votes[px->group.others[i]];

		if (v->patience.ns == 0)
			v->patience = px->config.lease;
		if (v->asked && mono_reached(px->now, mono_add(v->asked_at, v->patience)))
			give_up_waiting(px, px->group.others[i]);
	}
	for (int i = 0; i < px->group.others_n; i++)
		if (!px->candidate.votes[px->group.others[i]].asked)
			gather_from(px, px->group.others[i]);
}
