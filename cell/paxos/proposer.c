/* The proposer's first phase: the candidacy, and how a mastership ends.
 *
 *              quorum would promise                 quorum promised, own promise durable
 *   FOLLOWER --------------------> CANDIDATE -----------------------------------> MASTER
 *      ^                               |                                            |
 *      |  a higher ballot, a master    |        a higher ballot, handed over        |
 *      +-------------------------------+--------------------------------------------+
 *
 * A follower that receives nothing from a master asks for votes first, and a candidate promises its
 * own ballot only when that completes a quorum. So replicas that a master does not reach disturb
 * nobody, and can follow that master again: a quorum has granted it the lease and gives them no
 * vote; so they promise each other nothing. */
#include <string.h>

#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

span_t
px_jitter(struct px *px)
{
	uint64_t bound = (uint64_t)px->config.heartbeat.ns << px->candidate.attempts;

	return (span_t){(int64_t)rng_below(&px->rng, bound)};
}

void
px_follow(struct px *px, struct ballot master, span_t wait)
{
	const enum px_role was = px->candidate.role;

	if (was != PX_FOLLOWER)
		PX_TRACE(px, "is no longer %s " BALLOT,
		         was == PX_MASTER ? "the master of" : "a candidate with",
		         BALLOT_OF(px->candidate.ballot));
	if (was == PX_MASTER)
		px_lease_ends(px, px->config.self,
		              bytes_of(px->candidate.leaving ? px->candidate.leave_why
		                                             : "a higher ballot was promised"));
	px->candidate.role = PX_FOLLOWER;
	px->candidate.leaving = false;
	px->candidate.asks = 0;
	px_accept_follow(px, master);
	if (master.round != 0)
		px_promises_forget(px);
	else if (was == PX_CANDIDATE)
		px_promises_keep(px);
	px->candidate.stand_at = mono_max(mono_add(px->now, wait), px->lease.granted_until);
	px->candidate.stand_at = mono_add(px->candidate.stand_at, px_jitter(px));
}

void
px_stand_from(struct px *px, mono_t at)
{
	px->candidate.stand_at = at;
}

void
px_stand_instead(struct px *px)
{
	px->candidate.stood_instead = true;
	px_ask_for_votes(px);
}

void
px_candidate_calm(struct px *px)
{
	px->candidate.attempts = 0;
	px->candidate.stood_instead = false;
	memset(px->candidate.passed_over, 0, sizeof px->candidate.passed_over);
}

void
px_candidate_elected(struct px *px)
{
	px->candidate.role = PX_MASTER;
	px->candidate.elected_at = px->now;
	px_candidate_calm(px);
	px->candidate.leaving = false;
	px_accept_follow(px, px->candidate.ballot);
}

bool
px_may_be_candidate(const struct px *px)
{
	return !px->lease.closing && px_is_fit(px) && !px->keyless &&
	       px_is_voter(&px->group.members, px->config.self);
}

bool
px_may_stand(const struct px *px)
{
	return px_may_be_candidate(px) && !px_is_bound(px, px->config.self) &&
	       mono_reached(px->now, px->lease.silent_until);
}

/* True when all of the replica's promise is here. A candidate promises its own ballot last. */
static bool
has_promise(const struct px *px, uint8_t id)
{
	const struct vote *v = &px->candidate.votes[id];

	return id == px->config.self || (v->promised && px_vote_have(px, v) >= v->last);
}

static void
ask_one(struct px *px, uint8_t id)
{
	PX_SEND(px, id, 0, prepare, .ballot = px->candidate.ballot,
	        .first = px_vote_have(px, &px->candidate.votes[id]) + 1, .last = px->log.last);
}

/* The span until this replica asks again: longer each time. */
static span_t
ask_interval(struct px *px)
{
	const span_t span = {px->config.heartbeat.ns << px->candidate.asks};

	if (px->candidate.asks < PX_ASKS_MAX)
		px->candidate.asks++;
	return (span_t){span.ns + px_jitter(px).ns};
}

/* Sends a Prepare again to those that have not answered in full. */
static void
send_prepares(struct px *px)
{
	must(px->candidate.role == PX_CANDIDATE);
	for (int i = 0; i < px->group.others_n; i++)
		if (!has_promise(px, px->group.others[i]))
			ask_one(px, px->group.others[i]);
	px->candidate.retry_at = mono_add(px->now, ask_interval(px));
	px_gather(px);
}

/* "Phase 1. (a) A proposer selects a proposal number n and sends a prepare request with number n
 * to a majority of acceptors" ("Paxos Made Simple", section 2.2). Its round is above every round
 * received. */
void
px_begin_candidacy(struct px *px)
{
	must(px->candidate.role == PX_FOLLOWER && px_may_stand(px));
	px->candidate.role = PX_CANDIDATE;
	px_accept_follow(px, BALLOT_NONE);
	px_accept_see(px, px->acceptor.promised);
	px->candidate.ballot = (struct ballot){px->acceptor.seen.round + 1, px->config.self};
	px_accept_see(px, px->candidate.ballot);
	PX_TRACE(px, "is a candidate with " BALLOT, BALLOT_OF(px->candidate.ballot));
	px->candidate.own_write = 0;
	memset(px->candidate.votes, 0, sizeof px->candidate.votes);
	px->candidate.asks = 0;
	px_pick_own(px);
	send_prepares(px);
	px_count_votes(px);
}

/* True if a majority of the list in force would promise it a ballot; the election itself may also
 * need other votes. A vote that was long under way says nothing about the lease that is valid now.
 */
static bool
is_consented(const struct px *px)
{
	return mono_before(px->now, mono_add(px->candidate.asked_at, px->config.lease)) &&
	       PX_MAJORITY(&px->group.members, id,
	                   id == px->config.self || px->candidate.pre_voted[id]);
}

/* The pre-vote ("Consensus: Bridging Theory and Practice", section 9.6). Perhaps this replica is no
 * member any more, or none of those that do not answer is one: a follower that has asked often
 * sends hello, to all others of the newest list that it knows. */
void
px_ask_for_votes(struct px *px)
{
	struct px_candidate *c = &px->candidate;
	const struct ballot next = {px->acceptor.seen.round + 1, px->config.self};

	px_accept_follow(px, BALLOT_NONE);
	memset(c->pre_voted, 0, sizeof c->pre_voted);
	c->asked++;
	c->asked_at = px->now;
	if (c->asks == 0)
		c->asks_since = px->now;
	if (c->asks == PX_ASKS_MAX)
		px_say_hello(px);
	c->stand_at = mono_add(px->now, ask_interval(px));
	if (is_consented(px)) {
		px_begin_candidacy(px);
		return;
	}
	for (int i = 0; i < px->group.others_n; i++)
		PX_SEND(px, px->group.others[i], 0, pre_vote, next, c->asked);
}

void
px_on_pre_voted(struct px *px, uint8_t from, const struct msg_pre_voted *m)
{
	struct px_candidate *c = &px->candidate;

	if (c->role != PX_FOLLOWER || c->asks == 0 || m->ballot.replica != px->config.self ||
	    m->sequence != c->asked) {
		PX_TRACE(px, "needs no vote of replica %u", from);
		return;
	}
	PX_TRACE(px, "replica %u would promise it a ballot", from);
	c->pre_voted[from] = true;
	if (is_consented(px) && px_may_stand(px))
		px_begin_candidacy(px);
}

/* A change among the picked entries may have been chosen, and then entries after it by the new
 * list. So a majority of every list is needed, each of which reports the next change. The list in
 * force counts whatever the log holds: a lost log is shorter than the list of the cell file is
 * new. */
static bool
elected(const struct px *px)
{
	const struct px_members *m = &px->group.members;
	uint64_t last = px_picked_last(px);

	do {
		if (!PX_MAJORITY(m, id, has_promise(px, id)))
			return false;
		m = px_next_members(&px->promises.changes, m);
	} while (m && m->version <= last);
	return true;
}

void
px_count_votes(struct px *px)
{
	must(px->candidate.role == PX_CANDIDATE);
	if (!px_picked_whole(px) || !elected(px))
		return;
	if (px->candidate.own_write == 0) {
		PX_TRACE(px, "a majority has promised " BALLOT ": promises it, too",
		         BALLOT_OF(px->candidate.ballot));
		px_promise(px, px->candidate.ballot);
		px->candidate.own_write = px->write;
	}
	if (px->candidate.own_write <= px->learner.durable_write)
		px_begin_mastership(px);
}

/* The first slot that a promise reports: the log of its sender begins there, or after its last
 * entry. */
static uint64_t
first_of(const struct msg_promise *m)
{
	struct cursor c = cursor_of(m->accepted.packed);
	struct slot_header h;

	return wire_next_slot_header(&c, &h) ? h.slot : m->last + 1;
}

/* The promise may report voters that were not known, and slots whose values are not here. */
static void
after_promise(struct px *px, int others)
{
	px_reconfig_gather(px);
	if (px->group.others_n > others)
		send_prepares(px);
	px_gather(px);
	px_count_votes(px);
}

/* "[...] where v is the value of the highest-numbered proposal among the responses" ("Paxos Made
 * Simple", section 2.2) is picked for each slot; slots that the member knows as chosen are
 * learned. */
void
px_on_promise(struct px *px, uint8_t from, const struct msg_promise *m)
{
	struct vote *v = &px->candidate.votes[from];
	const int others = px->group.others_n;
	uint64_t have;
	bool goes_on;

	if (px->candidate.role == PX_FOLLOWER || !ballot_equal(m->ballot, px->candidate.ballot)) {
		PX_TRACE(px, "needs no promise of " BALLOT, BALLOT_OF(m->ballot));
		return;
	}
	if (px->candidate.role == PX_MASTER) {
		px_note_told(px, from, m);
		return;
	}
	if (px->candidate.passed_over[from] && px->candidate.asks < PX_ASKS_MAX) {
		PX_TRACE(px, "does without the promise of replica %u, if it can", from);
		return;
	}
	have = px_vote_have(px, v);
	goes_on = px_take_promise(px, from, m);
	if (!v->promised || px_vote_have(px, v) > have)
		px->candidate.progress_at = px->now;
	v->promised = true;
	v->refused = false;
	v->last = m->last;
	PX_TRACE(px, "replica %u has promised " BALLOT ": reported slots up to " SLOT " of " SLOT,
	         from, BALLOT_OF(m->ballot), px_vote_have(px, v), v->last);
	if (!has_promise(px, from)) {
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
	const int others = px->group.others_n;

	if (px->candidate.role != PX_CANDIDATE || !ballot_equal(m->ballot, px->candidate.ballot) ||
	    !px_take_values(px, m->entries))
		return;
	px->candidate.progress_at = px->now;
	px->candidate.votes[from].asked = false;
	px->candidate.votes[from].patience = px->config.lease;
	after_promise(px, others);
}

/* ---- refusals ---- */

void
px_candidate_followed(struct px *px, uint8_t by)
{
	px->candidate.votes[by].refused = false;
}

static void
lose(struct px *px, span_t wait)
{
	if (px->candidate.role == PX_CANDIDATE && px->candidate.attempts < PX_ATTEMPTS_MAX)
		px->candidate.attempts++;
	px_follow(px, BALLOT_NONE, wait);
}

/* Whether a master that the others follow begins a new ballot because a minority refuses it. One
 * that has promised a higher ballot can't follow it otherwise; a faulty one, which would refuse
 * every ballot, must not end every mastership. So the span from the election until then doubles
 * each time; after a mastership that was much longer than that it is short again. Without a lease a
 * master needs that minority, perhaps, but has not been answered yet when it is just elected. */
static bool
yields(struct px *px)
{
	struct px_candidate *c = &px->candidate;
	const int64_t leases = mono_since(px->now, c->elected_at).ns / px->config.lease.ns;

	if (!px_lease_valid(px, px->now))
		return leases >= 1;
	if (c->yield_after == 0 || leases > 8 * (int64_t)c->yield_after)
		c->yield_after = PX_YIELD_LEAST;
	if (leases < c->yield_after)
		return false;
	if (c->yield_after < PX_YIELD_MOST)
		c->yield_after *= 2;
	return true;
}

/* Has a majority answered this candidate, by promises or (unless these are `promises` only) by
 * refusals because of a higher ballot? */
static bool
answered(const struct px *px, bool promises)
{
	const struct vote *votes = px->candidate.votes;

	return PX_MAJORITY(&px->group.members, id,
	                   id == px->config.self || votes[id].promised ||
	                       (votes[id].refused && !promises));
}

bool
px_has_promises(const struct px *px)
{
	return answered(px, true);
}

bool
px_is_gathering(const struct px *px)
{
	return px->candidate.role == PX_CANDIDATE && px_has_promises(px) &&
	       mono_before(px->now, mono_add(px->candidate.progress_at, px->config.lease));
}

/* A higher ballot ends this candidacy or mastership when a majority can't be had without replicas
 * that have promised it: one that says so may be faulty. After a refusal because of a lease the
 * candidate asks again soon, for others have been granted it about as long as this replica; one
 * that has asked for votes for a whole lease lacks only the master's messages. */
void
px_on_refused(struct px *px, uint8_t from, const struct msg_refused *m)
{
	struct px_candidate *c = &px->candidate;
	const mono_t soon = mono_add(px->now, (span_t){px->config.heartbeat.ns / 4});

	px_accept_see(px, m->ballot);
	PX_TRACE(px, "is refused by replica %u because of " BALLOT, from, BALLOT_OF(m->ballot));
	if (c->role == PX_FOLLOWER) {
		if (c->asks > 0 && mono_before(px->now, mono_add(c->asks_since, px->config.lease)))
			c->stand_at = mono_min(c->stand_at, soon);
	} else if (ballot_less(c->ballot, m->ballot)) {
		c->votes[from].refused = true;
		if (!PX_MAJORITY(&px->group.members, id, !c->votes[id].refused))
			lose(px, px->config.heartbeat);
		else if (c->role == PX_MASTER && yields(px)) {
			const bool leased = px_lease_valid(px, px->now);

			px_lease_keep(px);
			lose(px, (span_t){0});
			if (px_may_stand(px) && leased)
				px_begin_candidacy(px);
			else if (px_may_stand(px))
				px_ask_for_votes(px);
		}
	} else if (c->role == PX_CANDIDATE) {
		c->retry_at = mono_min(c->retry_at, soon);
	}
}

/* The values of a replica may not come, though its promise did: its link may lose large packets.
 * With a majority besides, values that only that replica has accepted are not chosen; but as this
 * ballot has its promise, another one has to do without it. */
static bool
does_without(struct px *px)
{
	struct px_candidate *c = &px->candidate;
	bool any = false;

	for (int i = 0; i < px->group.others_n; i++) {
		const uint8_t slow = px->group.others[i];

		if (c->passed_over[slow] || !px_withholds(px, slow) ||
		    !PX_MAJORITY(&px->group.members, id, id != slow && has_promise(px, id)))
			continue;
		PX_TRACE(px, "the values of replica %u do not come", slow);
		c->passed_over[slow] = any = true;
	}
	return any;
}

/* A candidate without the promises of a majority needs another ballot when a majority has answered,
 * and does not go on with this one when it has asked often: it asks for votes again. One that has
 * them says hello, for no replica whose promise it lacks may be a member any more. */
void
px_ask_again(struct px *px)
{
	const bool often = px->candidate.asks == PX_ASKS_MAX;

	if (does_without(px) || (!px_has_promises(px) && (often || answered(px, false)))) {
		lose(px, (span_t){0});
		if (px_may_stand(px))
			px_ask_for_votes(px);
		return;
	}
	if (often)
		px_say_hello(px);
	send_prepares(px);
}

/* ---- leaving ---- */

void
px_leave(struct px *px, uint8_t to, const char *why)
{
	if (px->candidate.role == PX_CANDIDATE)
		px_follow(px, BALLOT_NONE, px->config.lease);
	if (px->candidate.role != PX_MASTER || px->candidate.leaving)
		return;
	PX_TRACE(px, "is to hand over its mastership");
	px->candidate.leaving = true;
	px->candidate.stood_instead = true; /* its successor may have less of the log */
	px->candidate.leave_to = to;
	px->candidate.leave_why = why;
	px->candidate.leave_by = mono_add(px->now, px->config.lease);
	px_leave_check(px);
}

/* The voter with the longest log, of those that have answered lately if any has. */
static uint8_t
furthest(const struct px *px)
{
	uint8_t best = 0;

	for (int i = 0; i < px->group.members.n; i++) {
		const uint8_t id = px->group.members.list[i].id;

		if (!px->group.members.list[i].voter || id == px->config.self)
			continue;
		if (best == 0 || px_answers(px, id) > px_answers(px, best) ||
		    (px_answers(px, id) == px_answers(px, best) &&
		     px->leader.peers[id].match >= px->leader.peers[best].match))
			best = id;
	}
	return best;
}

/* True for the member to which a hand-over was requested, if it can be master. */
static bool
wanted(const struct px *px, uint8_t id)
{
	return id != 0 && id != px->config.self && px_is_voter(&px->group.members, id) &&
	       px_answers(px, id);
}

/* True when the wanted member, or some voter if there is none, has the whole log, so that nothing
 * delays the hand-over. */
static bool
may_hand_over(const struct px *px)
{
	uint64_t last = px->log.last;

	return px->learner.chosen == last &&
	       (!wanted(px, px->candidate.leave_to) ||
	        px->leader.peers[px->candidate.leave_to].match >= last);
}

/* This replica is no longer master, and has no lease, before the message that says so is made. */
void
px_leave_check(struct px *px)
{
	struct msg_hand_over over = {.ballot = px->candidate.ballot};

	if (px->candidate.role != PX_MASTER || !px->candidate.leaving)
		return;
	if (!may_hand_over(px) && mono_before(px->now, px->candidate.leave_by))
		return;
	over.to = px->candidate.leave_to;
	if (!may_hand_over(px) || !wanted(px, over.to))
		over.to = furthest(px);
	over.last = px->learner.chosen;
	over.why = bytes_of(px->candidate.leave_why);
	PX_TRACE(px, "hands over to replica %u, at slot " SLOT, over.to, over.last);
	px_follow(px, BALLOT_NONE, (span_t){2 * px->config.lease.ns});
	for (int i = 0; i < px->group.others_n; i++)
		px_send(px, px->group.others[i], 0,
		        &(struct message){.code = MSG_hand_over, .hand_over = over});
}
