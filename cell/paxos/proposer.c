/* The proposer's first phase: candidacy, and how a mastership ends.
 *
 *              candidacy_at reached                 quorum promised, own promise durable
 *   FOLLOWER --------------------> CANDIDATE -----------------------------------> MASTER
 *      ^                               |                                            |
 *      |  a higher ballot, a master    |        a higher ballot, handed over        |
 *      +-------------------------------+--------------------------------------------+
 *
 * A candidate asks the others first and promises to itself only when a quorum needs no more than
 * that. So a replica that hears nothing, but that the others still hear the master of, disturbs
 * nobody: it is refused for the sake of their leases, and can go back to following. */
#include <string.h>

#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

void
px_follow(struct px *px, struct ballot master, span_t wait)
{
	px->role = PX_FOLLOWER;
	px->master = master;
	px->leaving = false;
	log_window_start(&px->picked, 0);
	px_changes_cut(&px->picked_changes, 0);
	px->candidacy_at = mono_max(mono_add(px->now, wait), px->granted_until);
	px->candidacy_at = mono_add(px->candidacy_at, px_jitter(px));
}

bool
px_may_be_candidate(const struct px *px)
{
	return !px->closing && px_is_fit(px) && px_is_voter(&px->members, px->config.self);
}

/* "Phase 1. (a) A proposer selects a proposal number n and sends a prepare request with number n
 * to a majority of acceptors" ("Paxos Made Simple", section 2.2). Its round is above every one
 * seen. */
void
px_begin_candidacy(struct px *px)
{
	must(px->role == PX_FOLLOWER && px_may_be_candidate(px) &&
	     !px_is_bound(px, px->config.self));
	must(mono_reached(px->now, px->silent_until));
	px->role = PX_CANDIDATE;
	px->master = BALLOT_NONE;
	px->seen = ballot_max(px->seen, px->promised);
	px->ballot = (struct ballot){px->seen.round + 1, px->config.self};
	px->seen = px->ballot;
	px->own_write = 0;
	memset(px->votes, 0, sizeof px->votes);
	px->asks = 0;
	px_pick_own(px);
	px_send_prepares(px);
	px_count_votes(px);
}

static bool
vote_complete(const struct px *px, const struct vote *v)
{
	return v->promised && px_vote_have(px, v) >= v->last;
}

static void
ask_one(struct px *px, uint8_t id)
{
	px_send(px, id, 0, &(struct message){
		.code = MSG_prepare,
		.prepare = {
			.ballot = px->ballot,
			.first = px_vote_have(px, &px->votes[id]) + 1,
			.last = log_window_last(&px->log),
		},
	});
}

void
px_send_prepares(struct px *px)
{
	must(px->role == PX_CANDIDATE);
	for (int i = 0; i < px->others_n; i++)
		if (!vote_complete(px, &px->votes[px->others[i]]))
			ask_one(px, px->others[i]);
	px->retry_at = mono_add(px->now, (span_t){px->config.heartbeat.ns << px->asks});
	px->retry_at = mono_add(px->retry_at, px_jitter(px));
	if (px->asks < PX_ASKS_MAX)
		px->asks++;
	px_gather(px);
}

static bool
promised_by(const struct px *px, const struct px_members *m)
{
	int votes = 0;

	for (int i = 0; i < m->n; i++) {
		uint8_t id = m->list[i].id;

		if (m->list[i].voter)
			votes += id == px->config.self || vote_complete(px, &px->votes[id]);
	}
	return px_majority(m, votes);
}

/* A change among what was picked may have been chosen, and then others behind it by the new list:
 * a majority of every list is needed, each of which tells of the next one. */
static bool
elected(const struct px *px)
{
	const struct px_members *m = &px->members;
	uint64_t last = px_picked_last(px);

	for (; m && m->version <= last; m = px_next_members(&px->picked_changes, m))
		if (!promised_by(px, m))
			return false;
	return true;
}

void
px_count_votes(struct px *px)
{
	must(px->role == PX_CANDIDATE);
	if (!px_picked_whole(px) || !elected(px))
		return;
	if (px->own_write == 0) {
		px_promise(px, px->ballot);
		px->own_write = px->write;
	}
	if (px->own_write <= px->durable_write)
		px_begin_mastership(px);
}

/* The first slot that a promise tells of: its log begins there, or behind its last one. */
static uint64_t
first_of(const struct msg_promise *m)
{
	struct cursor c = cursor_of(m->accepted.packed);
	struct slot_header h;

	return wire_next_slot_header(&c, &h) ? h.slot : m->last + 1;
}

/* What was told may name voters whom we did not know, and slots whose values are not here. */
static void
after_promise(struct px *px, int others)
{
	px_reconfig_gather(px);
	if (px->others_n > others)
		px_send_prepares(px);
	px_gather(px);
	px_count_votes(px);
}

/* "[...] where v is the value of the highest-numbered proposal among the responses" ("Paxos Made
 * Simple", section 2.2) is gathered for each slot; what the member knows as chosen is learned. */
void
px_on_promise(struct px *px, uint8_t from, const struct msg_promise *m)
{
	struct vote *v = &px->votes[from];
	const int others = px->others_n;
	uint64_t have;
	bool goes_on;

	if (px->role == PX_FOLLOWER || !ballot_equal(m->ballot, px->ballot))
		return;
	if (px->role == PX_MASTER) {
		px_note_told(px, from, m);
		return;
	}
	v->promised = true;
	v->last = m->last;
	have = px_vote_have(px, v);
	goes_on = px_take_promise(px, from, m);
	if (!vote_complete(px, v)) {
		if (px_vote_have(px, v) > have)
			ask_one(px, from);
		else if (!goes_on)
			px_note_first(px, from, first_of(m));
	}
	after_promise(px, others);
}

void
px_on_gathered(struct px *px, uint8_t from, const struct msg_gathered *m)
{
	const int others = px->others_n;

	if (px->role != PX_CANDIDATE || !ballot_equal(m->ballot, px->ballot) ||
	    !px_take_values(px, m->entries))
		return;
	px->votes[from].asked = false;
	px->votes[from].patience = px->config.lease;
	after_promise(px, others);
}

/* A higher ballot ends what we do with ours; for a lease in the way the candidate asks again,
 * soon. */
void
px_on_refused(struct px *px, uint8_t from, const struct msg_refused *m)
{
	(void)from;
	px->seen = ballot_max(px->seen, m->ballot);
	if (px->role == PX_FOLLOWER)
		return;
	if (ballot_less(px->ballot, m->ballot)) {
		if (px->role == PX_CANDIDATE && px->attempts < PX_ATTEMPTS_MAX)
			px->attempts++;
		px_follow(px, BALLOT_NONE, px->config.heartbeat);
	} else if (px->role == PX_CANDIDATE) {
		span_t soon = {px->config.heartbeat.ns / 4};

		px->retry_at = mono_min(px->retry_at, mono_add(px->now, soon));
	}
}

void
px_leave(struct px *px, uint8_t to)
{
	if (px->role == PX_CANDIDATE)
		px_follow(px, BALLOT_NONE, px->config.lease);
	if (px->role != PX_MASTER || px->leaving)
		return;
	px->leaving = true;
	px->leave_to = to;
	px->leave_by = mono_add(px->now, px->config.lease);
	px_leave_check(px);
}

static uint8_t
furthest(const struct px *px)
{
	uint64_t match = 0;
	uint8_t best = 0;

	for (int i = 0; i < px->members.n; i++) {
		uint8_t id = px->members.list[i].id;

		if (!px->members.list[i].voter || id == px->config.self ||
		    px->peers[id].match < match)
			continue;
		match = px->peers[id].match;
		best = id;
	}
	return best;
}

/* Is it the one to whom we were asked to hand over, and will it be heard? */
static bool
wanted(const struct px *px, uint8_t id)
{
	return id != 0 && id != px->config.self && px_is_voter(&px->members, id) &&
	       mono_before(px->now, mono_add(px->peers[id].answered_at, px->config.lease));
}

/* Is there somebody who has all that we have, so that nothing holds it up? */
static bool
may_hand_over(const struct px *px)
{
	uint64_t last = log_window_last(&px->log);

	return px->chosen == last &&
	       (!wanted(px, px->leave_to) || px->peers[px->leave_to].match >= last);
}

/* We are no master any more, and valid no more, before the message that says so is made. */
void
px_leave_check(struct px *px)
{
	struct msg_hand_over over = {.ballot = px->ballot};

	if (px->role != PX_MASTER || !px->leaving)
		return;
	if (!may_hand_over(px) && mono_before(px->now, px->leave_by))
		return;
	over.to = may_hand_over(px) && wanted(px, px->leave_to) ? px->leave_to : furthest(px);
	over.last = px->chosen;
	px_follow(px, BALLOT_NONE, (span_t){2 * px->config.lease.ns});
	for (int i = 0; i < px->others_n; i++)
		px_send(px, px->others[i], 0, &(struct message){
			.code = MSG_hand_over,
			.hand_over = over,
		});
}
