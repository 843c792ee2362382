/* The proposer's first phase: candidacy, and how a mastership ends.
 *
 *              stand_at reached                     quorum promised, own promise durable
 *   FOLLOWER --------------------> CANDIDATE -----------------------------------> MASTER
 *      ^                               |                                            |
 *      |  a higher ballot, a master    |        a higher ballot, handed over        |
 *      +-------------------------------+--------------------------------------------+
 *
 * A candidate asks the others first and promises to itself only when a quorum needs no more than
 * that. So a replica that hears nothing, but that the others still hear the master of, disturbs
 * nobody: it is refused for the sake of their leases, and can go back to following. */
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

void
px_follow(struct px *px, struct ballot master, span_t wait)
{
	px->role = PX_FOLLOWER;
	px->master = master;
	px->leaving = false;
	window_start(&px->picked, 0);
	px->stand_at = mono_max(mono_add(px->now, wait), px->granted_until);
	px->stand_at = mono_add(px->stand_at, px_jitter(px));
}

/* "Phase 1. (a) A proposer selects a proposal number n and sends a prepare request with number n
 * to a majority of acceptors" ("Paxos Made Simple", section 2.2). Its round is above every one
 * seen. */
void
px_stand(struct px *px)
{
	must(px->role == PX_FOLLOWER && !px_bound(px, px->config.self));
	must(mono_reached(px->now, px->silent_until));
	px->role = PX_CANDIDATE;
	px->master = BALLOT_NONE;
	px->seen = ballot_max(px->seen, px->promised);
	px->ballot = (struct ballot){px->seen.round + 1, px->config.self};
	px->seen = px->ballot;
	px->own_ticket = 0;
	memset(px->votes, 0, sizeof px->votes);
	window_start(&px->picked, px->chosen);
	px_ask(px);
	px_count_votes(px);
}

static uint64_t
vote_have(const struct px *px, const struct vote *v)
{
	return v->have > px->chosen ? v->have : px->chosen;
}

static bool
vote_complete(const struct px *px, const struct vote *v)
{
	return v->promised && vote_have(px, v) >= v->last;
}

static void
ask_one(struct px *px, int member)
{
	px_send(px, px->config.members.list[member].id, 0, &(struct message){
		.code = MSG_prepare,
		.prepare = {
			.ballot = px->ballot,
			.first = vote_have(px, &px->votes[member]) + 1,
		},
	});
}

void
px_ask(struct px *px)
{
	must(px->role == PX_CANDIDATE);
	for (int i = 0; i < px->config.members.n; i++)
		if (px->config.members.list[i].id != px->config.self &&
		    !vote_complete(px, &px->votes[i]))
			ask_one(px, i);
	px->retry_at = mono_add(mono_add(px->now, px->config.heartbeat), px_jitter(px));
}

void
px_count_votes(struct px *px)
{
	int votes = 1;

	must(px->role == PX_CANDIDATE);
	for (int i = 0; i < px->config.members.n; i++)
		if (px->config.members.list[i].id != px->config.self &&
		    vote_complete(px, &px->votes[i]))
			votes++;
	if (votes < px->quorum)
		return;
	if (px->own_ticket == 0) {
		px_promise(px, px->ballot);
		px->own_ticket = px->ticket;
	} else if (px->own_ticket <= px->durable_ticket) {
		px_begin_mastership(px);
	}
}

/* Keeps the entry if its ballot is the highest for its slot so far. */
static void
pick(struct window *picked, const struct log_entry *e)
{
	if (e->slot <= window_last(picked) &&
	    !ballot_less(window_at(picked, e->slot)->ballot, e->ballot))
		return;
	window_put(picked, e);
}

/* One entry of a promise; false when it does not go on where the last one ended. */
static bool
take_promised(struct px *px, struct vote *v, uint64_t chosen, const struct log_entry *e)
{
	uint64_t have = vote_have(px, v);

	if (e->slot <= have)
		return true;
	if (e->slot != have + 1 || checksum(e->payload) != e->checksum ||
	    ballot_less(e->ballot, e->origin))
		return false;
	v->have = e->slot;
	if (e->slot > chosen) {
		pick(&px->picked, e);
	} else if (e->slot == px->chosen + 1) {
		px_learn_entry(px, e);
		if (window_last(&px->picked) >= e->slot)
			window_trim(&px->picked, e->slot);
		else
			window_start(&px->picked, e->slot);
	}
	return true;
}

/* "[...] where v is the value of the highest-numbered proposal among the responses" ("Paxos Made
 * Simple", section 2.2) is gathered for each slot; what the member knows as chosen is learned. */
void
px_on_promise(struct px *px, uint8_t from, const struct msg_promise *m)
{
	struct vote *v = &px->votes[px_member(px, from)];
	struct cursor c = cursor_of(m->accepted.packed);
	struct log_entry e = {0};

	if (px->role != PX_CANDIDATE || !ballot_equal(m->ballot, px->ballot))
		return;
	v->promised = true;
	v->last = m->last;
	while (wire_next_log_entry(&c, &e))
		if (!take_promised(px, v, m->chosen, &e))
			break;
	if (vote_complete(px, v))
		px_count_votes(px);
	else if (m->accepted.count > 0)
		ask_one(px, px_member(px, from));
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
px_leave(struct px *px)
{
	if (px->role == PX_CANDIDATE)
		px_follow(px, BALLOT_NONE, px->config.lease);
	if (px->role != PX_MASTER || px->leaving)
		return;
	px->leaving = true;
	px->leave_by = mono_add(px->now, px->config.lease);
	px_leave_check(px);
}

static uint8_t
furthest(const struct px *px)
{
	uint64_t match = 0;
	uint8_t best = 0;

	for (int i = 0; i < px->config.members.n; i++)
		if (px->config.members.list[i].id != px->config.self && px->peers[i].match >= match) {
			match = px->peers[i].match;
			best = px->config.members.list[i].id;
		}
	return best;
}

/* We are no master any more, and valid no more, before the message that says so is made. */
void
px_leave_check(struct px *px)
{
	struct msg_hand_over over = {.ballot = px->ballot};

	if (px->role != PX_MASTER || !px->leaving)
		return;
	if (px->chosen < window_last(&px->log) && mono_before(px->now, px->leave_by))
		return;
	over.to = furthest(px);
	over.last = px->chosen;
	px_follow(px, BALLOT_NONE, (span_t){2 * px->config.lease.ns});
	for (int i = 0; i < px->config.members.n; i++)
		if (px->config.members.list[i].id != px->config.self)
			px_send(px, px->config.members.list[i].id, 0, &(struct message){
				.code = MSG_hand_over,
				.hand_over = over,
			});
}
