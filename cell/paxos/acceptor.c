/* The acceptor: promises, acceptances and grants ("Paxos Made Simple", section 2.2). */
#include <inttypes.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

/* Enters `ballot`, higher than any before, as the one whose slots are counted in accepted_to. */
static void
enter(struct px *px, struct ballot ballot)
{
	must(ballot_less(px->acceptor.promised, ballot));
	px->acceptor.promised = ballot;
	px->acceptor.accepted_to = px->learner.chosen;
	if (px->learner.durable_write == px->write)
		px->acceptor.durable = px->learner.chosen;
	else if (px->acceptor.durable > px->learner.chosen)
		px->acceptor.durable = px->learner.chosen;
}

/* Records the ballot apart from the entries, and before them: the next hello reports the highest
 * ballot in the log, which must not be lost with a damaged entry. */
static void
record_ballot(struct px *px, struct ballot ballot)
{
	if (!ballot_less(px->acceptor.promised_recorded, ballot))
		return;
	px->acceptor.promised_recorded = ballot;
	px_record(px, (struct px_record){.kind = PX_RECORD_PROMISE, .ballot = ballot});
}

void
px_promise(struct px *px, struct ballot ballot)
{
	must(!ballot_less(ballot, px->acceptor.promised));
	if (ballot_less(px->acceptor.promised, ballot))
		enter(px, ballot);
	record_ballot(px, ballot);
}

static void
record_entry(struct px *px, uint64_t slot, const struct log_window_entry *e)
{
	px_record(px, (struct px_record){.kind = PX_RECORD_ENTRY,
	                                 .slot = slot,
	                                 .ballot = e->ballot,
	                                 .origin = e->origin,
	                                 .before = e->before,
	                                 .payload = e->payload,
	                                 .checksum = e->checksum});
}

void
px_accept_begin(struct px *px)
{
	px->acceptor.seen = px->acceptor.promised;
	px->acceptor.fetched_at = px->acceptor.giving_until = px->now;
	px->rounds.step_at = px->now; /* from now on a far round is approached */
}

void
px_accept_follow(struct px *px, struct ballot master)
{
	px->acceptor.master = master;
}

void
px_accept_see(struct px *px, struct ballot ballot)
{
	px->acceptor.seen = ballot_max(px->acceptor.seen, ballot);
}

void
px_accept_chosen(struct px *px)
{
	if (px->acceptor.accepted_to < px->learner.chosen)
		px->acceptor.accepted_to = px->learner.chosen;
}

void
px_accept_cut(struct px *px, uint64_t slot)
{
	px->acceptor.accepted_to = slot;
	if (px->acceptor.durable > slot)
		px->acceptor.durable = slot;
}

void
px_accept_durable(struct px *px, struct ballot ballot, uint64_t slot)
{
	struct px_acceptor *a = &px->acceptor;

	if (ballot_equal(ballot, a->promised) && slot > a->durable)
		a->durable = slot;
	must(a->durable <= a->accepted_to);
}

void
px_store(struct px *px, const struct log_entry *e)
{
	const struct log_window_entry *put;

	must(e->slot > px->learner.chosen && e->slot == px->acceptor.accepted_to + 1);
	px->acceptor.accepted_to = e->slot;
	if (e->slot > px->acceptor.held)
		px->acceptor.held = e->slot;
	record_ballot(px, e->ballot);
	put = log_window_put(&px->log, e);
	px_reconfig_accept(px, e);
	/* An entry that was proposed after another entry than this one was never chosen. */
	if (e->slot < px->log.last && !log_window_goes_on(&px->log, e->slot + 1)) {
		PX_TRACE(px,
		         "cuts the log behind slot " SLOT ": the entries there were proposed "
		         "behind another value",
		         e->slot);
		px_log_cut(px, e->slot);
	}
	record_entry(px, e->slot, put);
}

/* The ballot for which a Prepare is refused, and why; BALLOT_NONE when it is not refused. */
static struct ballot
obstacle(const struct px *px, uint8_t from, struct ballot ballot, const char **why)
{
	const struct px_candidate *own = &px->candidate;

	*why = "has promised";
	if (ballot_less(ballot, px->acceptor.promised))
		return px->acceptor.promised;
	*why = "is itself a candidate with";
	if (own->role == PX_CANDIDATE && ballot_less(ballot, own->ballot) &&
	    !ballot_equal(ballot, px->acceptor.promised))
		return own->ballot;
	*why = "receives what it lacks as the candidate with";
	if (px_is_gathering(px))
		return own->ballot;
	*why = "waits for its first grants as the master of";
	if (own->role == PX_MASTER && !px_lease_valid(px, px->now) &&
	    mono_before(px->now, mono_add(own->elected_at, px->config.lease)))
		return own->ballot;
	*why = "gives values to";
	if (ballot_equal(px->acceptor.giving_to, px->acceptor.promised) &&
	    px->acceptor.promised.replica != from &&
	    mono_before(px->now, px->acceptor.giving_until))
		return px->acceptor.promised;
	*why = own->role == PX_FOLLOWER ? "has granted a lease to" : "has the lease of";
	if (px_is_bound(px, from))
		return own->role == PX_FOLLOWER ? px->lease.granted_to : own->ballot;
	return BALLOT_NONE;
}

static void
refuse(struct px *px, uint8_t to, struct ballot ballot, const char *why, struct ballot because)
{
	PX_TRACE(px, "refuses " BALLOT ": %s " BALLOT, BALLOT_OF(ballot), why, BALLOT_OF(because));
	PX_SEND(px, to, 0, refused, .ballot = because);
}

/* False when this replica has no vote, or must not use it yet. */
static bool
may_answer(const struct px *px, uint8_t from, struct ballot ballot)
{
	if (ballot.replica == from && px_may_promise(px) &&
	    !mono_before(px->now, px->lease.silent_until))
		return true;
	PX_TRACE(px, "gives replica %u no answer to " BALLOT ": %s", from, BALLOT_OF(ballot),
	         ballot.replica != from ? "the ballot is another replica's"
	         : !px_may_promise(px)  ? "its log is damaged"
	                                : "a lease of before its start may be valid");
	return false;
}

/* Answers as it would answer a Prepare of a ballot that is high enough, and promises nothing. */
void
px_on_pre_vote(struct px *px, uint8_t from, const struct msg_pre_vote *m)
{
	struct ballot because;
	const char *why;

	if (!may_answer(px, from, m->ballot))
		return;
	because = obstacle(px, from, (struct ballot){BALLOT_ROUND_MAX, from}, &why);
	if (because.round) {
		refuse(px, from, m->ballot, why, because);
		return;
	}
	PX_SEND(px, from, 0, pre_voted, m->ballot, m->sequence);
}

/* True when the candidate lacks so much of the log that it would delay the cell, and this replica
 * may become a candidate instead: the entries on its disk would have to be sent to the candidate
 * over the network. It does so once: if no master comes of that, a quorum does not hear it, and
 * may hear the other one. */
static bool
stands_instead(const struct px *px, uint64_t last)
{
	uint64_t from = last > px->log.base ? last : px->log.base;

	return px->candidate.role == PX_FOLLOWER && !px->candidate.stood_instead &&
	       px_may_stand(px) && px->log.last > from &&
	       log_window_bytes(&px->log, from, px->log.last) > PX_AHEAD_BYTES;
}

/* "If an acceptor receives a prepare request with number n greater than that of any prepare request
 * to which it has already responded, then it responds to the request with a promise not to accept
 * any more proposals numbered less than n and with the highest-numbered proposal (if any) that it
 * has accepted" ("Paxos Made Simple", section 2.2), here for all slots from `first` on. A candidate
 * whose promise does not fit into one message asks for the rest with the same ballot. The values
 * are sent only when the candidate asks for those that it lacks. */
void
px_on_prepare(struct px *px, uint8_t from, const struct msg_prepare *m)
{
	struct ballot because;
	struct buffer packed = BUFFER(LIMIT_FRAME);
	const char *why;

	if (!may_answer(px, from, m->ballot))
		return;
	px->acceptor.seen = ballot_max(px->acceptor.seen, m->ballot);
	because = obstacle(px, from, m->ballot, &why);
	if (because.round) {
		refuse(px, from, m->ballot, why, because);
		return;
	}
	if (stands_instead(px, m->last)) {
		PX_TRACE(px, "its log reaches far beyond slot " SLOT " of candidate " BALLOT,
		         m->last, BALLOT_OF(m->ballot));
		px_stand_instead(px);
		return;
	}
	if (ballot_less(px->acceptor.promised, m->ballot))
		px_follow(px, BALLOT_NONE, px->config.lease);
	px_promise(px, m->ballot);
	PX_TRACE(px, "promises " BALLOT ": slots are chosen up to " SLOT ", accepted up to " SLOT,
	         BALLOT_OF(m->ballot), px->learner.chosen, px->log.last);
	PX_SEND(px, from, px->write, promise, .ballot = m->ballot, .chosen = px->learner.chosen,
	        .last = px->log.last,
	        .accepted = px_pack_headers(px, m->first, UINT64_MAX, &packed),
	        .own = px_mark_recorded(px));
	buffer_free(&packed);
}

/* The candidate that was promised to is alive, has the promises of a majority, and has yet to fetch
 * what it lacks: for a lease it is left in peace. This replica stands a lease after that: if the
 * values do not arrive, the candidate may do without them. */
void
px_on_gather(struct px *px, uint8_t from, const struct msg_gather *m)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);

	if (m->ballot.replica != from || !ballot_equal(m->ballot, px->acceptor.promised)) {
		PX_TRACE(px, "gives no values to " BALLOT ": has promised " BALLOT,
		         BALLOT_OF(m->ballot), BALLOT_OF(px->acceptor.promised));
		return;
	}
	if (px->candidate.role == PX_FOLLOWER)
		px_follow(px, px->acceptor.master, (span_t){2 * px->config.lease.ns});
	px->acceptor.giving_to = m->ballot;
	px->acceptor.giving_until = mono_add(px->now, px->config.lease);
	PX_SEND(px, from, 0, gathered, .ballot = m->ballot,
	        .entries = px_pack(px, m->first, m->last, PX_GATHER_BYTES, &packed));
	buffer_free(&packed);
}

/* Judges a message of a master: refuses it when its ballot is too low, else follows its sender. A
 * grant holds against a ballot that was not promised here, as it does against a Prepare: the thief
 * of a replica's key can name any ballot. A master that a majority has elected meanwhile is
 * followed when the grant has expired. */
static bool
obey(struct px *px, uint8_t from, struct ballot ballot)
{
	if (ballot.replica != from) {
		PX_TRACE(px, "follows no replica %u with " BALLOT ", which is another replica's",
		         from, BALLOT_OF(ballot));
		return false;
	}
	px->acceptor.seen = ballot_max(px->acceptor.seen, ballot);
	if (ballot_less(ballot, px->acceptor.promised)) {
		refuse(px, from, ballot, "has promised", px->acceptor.promised);
		return false;
	}
	if (ballot_less(px->acceptor.promised, ballot) && px_is_bound(px, from)) {
		PX_TRACE(px, "does not follow the master of " BALLOT ": %s", BALLOT_OF(ballot),
		         px->candidate.role == PX_FOLLOWER ? "has granted a lease to another one"
		                                           : "has a lease itself");
		return false;
	}
	if (!ballot_equal(ballot, px->acceptor.master))
		PX_TRACE(px, "follows the master of " BALLOT, BALLOT_OF(ballot));
	/* A majority has promised this ballot: entering it needs no record until an acceptance
	 * depends on it. */
	if (ballot_less(px->acceptor.promised, ballot))
		enter(px, ballot);
	px_candidate_calm(px);
	px_follow(px, ballot, px->config.lease);
	return true;
}

/* True when an entry of `origin`, proposed after one of `before`, may follow the accepted ones. */
static bool
extends(const struct px *px, struct ballot ballot, struct ballot origin, struct ballot before)
{
	const struct ballot last = log_window_origin(&px->log, px->acceptor.accepted_to);

	return !ballot_less(ballot, origin) && !ballot_less(origin, last) &&
	       ballot_goes_on(before, last);
}

/* Accepts an entry if it is the next one; returns whether later ones may follow it. */
static bool
accept(struct px *px, struct ballot ballot, const struct log_entry *e)
{
	struct log_entry accepted = *e;

	if (e->slot <= px->acceptor.accepted_to)
		return true;
	if (e->slot != px->acceptor.accepted_to + 1 || checksum(e->payload) != e->checksum ||
	    !extends(px, ballot, e->origin, e->before))
		return false;
	accepted.ballot = ballot;
	px_store(px, &accepted);
	return true;
}

/* Accepts an entry of which the master sends only the name: its value was accepted here in an
 * earlier ballot, and is recorded again with this one. A slot and an origin identify one value.
 * Checksum and predecessor are compared as well: a master with a wrong view of this log then sends
 * the value. */
static bool
accept_named(struct px *px, struct ballot ballot, const struct slot_header *h)
{
	struct log_window_entry *e;

	if (h->slot <= px->acceptor.accepted_to)
		return true;
	if (h->slot != px->acceptor.accepted_to + 1 || h->slot <= px->log.base ||
	    h->slot > px->log.last || !extends(px, ballot, h->origin, h->before))
		return false;
	e = log_window_at(&px->log, h->slot);
	if (!ballot_equal(e->origin, h->origin) || e->checksum != h->checksum ||
	    !ballot_equal(e->before, h->before))
		return false;
	record_ballot(px, ballot);
	e->ballot = ballot;
	record_entry(px, h->slot, e);
	px->acceptor.accepted_to = h->slot;
	return true;
}

static void
fetch(struct px *px, uint8_t to, const struct msg_accept *m, bool whole)
{
	px->acceptor.fetched_at = mono_add(px->now, px->config.heartbeat);
	PX_TRACE(px, "lacks slot " SLOT ": asks for %s from there on", px->acceptor.accepted_to + 1,
	         whole ? "the values" : "the entries");
	PX_SEND(px, to, 0, fetch, .ballot = m->ballot, .pass = m->pass,
	        .first = px->acceptor.accepted_to + 1, .whole = whole);
}

/* "If an acceptor receives an accept request for a proposal numbered n, it accepts the proposal
 * unless it has already responded to a prepare request having a number greater than n" ("Paxos Made
 * Simple", section 2.2). Slots are accepted in order; the answer is sent when they are durable. The
 * ballot is recorded besides its first entries: if these are damaged later, the log still holds the
 * ballot. */
void
px_on_accept(struct px *px, uint8_t from, const struct msg_accept *m)
{
	struct cursor named = cursor_of(m->named.packed), entries = cursor_of(m->entries.packed);
	struct slot_header h = {0};
	struct log_entry e = {0};
	bool is_known = true, goes_on;
	uint64_t before;

	if (!obey(px, from, m->ballot))
		return;
	px_promise(px, m->ballot);

	before = px->acceptor.accepted_to;
	goes_on = m->first <= before + 1;
	while (goes_on && is_known && wire_next_slot_header(&named, &h))
		is_known = accept_named(px, m->ballot, &h);
	while (goes_on && is_known && wire_next_log_entry(&entries, &e))
		goes_on = accept(px, m->ballot, &e);
	/* At most one value is asked for in answer to a message that begins where the log ends, so
	 * this need not wait for a heartbeat. */
	if (!is_known)
		fetch(px, from, m, true);
	/* Slots before these are missing here: the master is told, and sends them again at once. */
	else if (!goes_on && mono_reached(px->now, px->acceptor.fetched_at))
		fetch(px, from, m, false);

	if (px->acceptor.accepted_to > before)
		PX_TRACE(px, "accepts slots " SLOT "-" SLOT " in " BALLOT, before + 1,
		         px->acceptor.accepted_to, BALLOT_OF(m->ballot));
	px_learn(px, m->chosen < px->acceptor.accepted_to ? m->chosen : px->acceptor.accepted_to);
	PX_SEND(px, from, px->write, accepted, .ballot = m->ballot,
	        .upto = px->acceptor.accepted_to, .own = px_mark_recorded(px));
}

/* Renews the master's lease and reports this replica's progress. Writes to the disk only for the
 * first grant of an incarnation ("Paxos Made Live", section 5.2). */
void
px_on_heartbeat(struct px *px, uint8_t from, const struct msg_heartbeat *m)
{
	if (px->lease.closing || m->lease_ms == 0 || m->lease_ms > LIMIT_LEASE_MAX_S * 1000) {
		PX_TRACE(px, "grants " BALLOT " no lease: %s", BALLOT_OF(m->ballot),
		         px->lease.closing ? "is about to end" : "no lease has such a length");
		return;
	}
	if (!obey(px, from, m->ballot))
		return;
	px_note_marks(px, m);
	if (px->witness.lost)
		return;
	px_learn(px, m->chosen < px->acceptor.accepted_to ? m->chosen : px->acceptor.accepted_to);
	px_note_first(px, from, m->first);
	px_compare_with_master(px, from, m);
	px->acceptor.trim_allowed =
	    m->trim > px->acceptor.trim_allowed ? m->trim : px->acceptor.trim_allowed;
	px_grant(px, m->ballot, span_ms(m->lease_ms));
	PX_SEND(px, from, px->lease.write, heartbeat_reply, .ballot = m->ballot,
	        .sequence = m->sequence, .upto = px->acceptor.accepted_to,
	        .durable = px->acceptor.durable, .durable_applied = px_applied_reported(px),
	        .full = px->full, .own = px_mark_durable(px), .minor = px->config.minor,
	        .keys = px->keys);
}

/* The sender is no longer master, so the grant to it is void. The replica that it names asks
 * for votes at once, for this message may have been long under way; the others wait for the span of
 * a lease. */
void
px_on_hand_over(struct px *px, uint8_t from, const struct msg_hand_over *m)
{
	if (m->ballot.replica != from)
		return;
	PX_TRACE(px, "the master of " BALLOT " hands over to replica %u, at slot " SLOT,
	         BALLOT_OF(m->ballot), m->to, m->last);
	if (ballot_equal(m->ballot, px->lease.granted_to)) {
		px_lease_ends(px, from, m->why);
		px_grant_void(px);
	}
	if (!ballot_equal(m->ballot, px->acceptor.master) || px->candidate.role != PX_FOLLOWER)
		return;
	px_follow(px, BALLOT_NONE, px->config.lease);
	if (m->to == px->config.self && m->last <= px->acceptor.accepted_to && px_may_stand(px))
		px_ask_for_votes(px);
}

/* ---- rounds that are believed: a faulty replica must not carry the ballots of the cell away ----
 */

/* True when enough voters have sent rounds as high as this that one of them is not faulty. */
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

enum { SAVED_MS = 10000 };

/* How many steps this replica may take towards a far round by now. A time without a far round does
 * not use them up, but few are saved: a replica that starts later has to take them all. */
static uint64_t
steps_allowed(struct px *px)
{
	span_t saved;

	px->rounds.step_at = mono_max(px->rounds.step_at, mono_add(px->now, span_ms(-SAVED_MS)));
	saved = mono_since(px->now, px->rounds.step_at);
	return saved.ns < 0 ? 0 : 1 + (uint64_t)(saved.ns / span_ms(BALLOT_STEP_MS).ns);
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
	px->rounds.step_at = mono_add(px->rounds.step_at, span_ms((int64_t)taken * BALLOT_STEP_MS));
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
