/* The master's second phase: the pipeline of Accepts, and its heartbeats.
 *
 *   log:  ... chosen | match of the slowest | ... | next | ... last
 *                       durable there               to be sent to it
 *
 * Each follower is sent consecutive slots, without waiting for answers, up to a bound of bytes
 * (see flow). Beyond PX_FLIGHT_SLOTS only full batches are sent, so under load the batches grow
 * while disks and networks are busy ("Paxos Made Live", section 4.2: many values, one disk flush).
 *
 * Heartbeats do not wait behind entries, so their answers do not show what was lost. If an answer
 * lacks entries that were sent, an Accept without entries is sent after them: a follower that
 * receives it, and not all entries before it, reports the hole. Each time the master sends from an
 * earlier slot again a new pass begins, and reports of holes in earlier passes are ignored. */
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"

/* ---- flow ----
 *
 * How much a master may have open, and how much of it may be in flight to a follower. Entries sent
 * faster than the follower accepts them only wait in queues, ahead of all that is sent later and of
 * messages to others over the same link. So the time from sending to acceptance is measured, of one
 * message at a time, and the window is adjusted to it: its new size is the one for which that time
 * would be the shortest one measured so far plus one heartbeat interval. */

uint64_t
px_known_to(const struct px *px, const struct peer *p)
{
	const uint64_t known = p->have > p->told ? p->have : p->told;

	return known > px->log.base ? known : px->log.base;
}

static size_t
flow_room(const struct px *px, const struct peer *p)
{
	const uint64_t known = px_known_to(px, p);
	const size_t flight =
	    p->next - 1 > known ? log_window_bytes(&px->log, known, p->next - 1) : 0;

	return flight < p->flow.window ? p->flow.window - flight : 0;
}

bool
px_answers(const struct px *px, uint8_t id)
{
	const mono_t answered_at = px->leader.peers[id].answered_at;

	return id != px->config.self &&
	       mono_before(px->now, mono_add(answered_at, px->config.lease));
}

/* If the master is lost, its successor proposes the open entries again before it serves, perhaps to
 * voters that have none of them. So no more is open than the fastest voters that make a majority
 * accept in a short time; further commands wait in front of the log. */
static size_t
open_bytes(const struct px *px)
{
	const struct px_members *m = &px->group.members;
	const struct peer *peers = px->leader.peers;
	const int voters = PX_VOTERS(m, id, true);
	size_t window = 0;

	if (voters < 2)
		return PX_ROOM_BYTES;
	for (int i = 0; i < m->n; i++) {
		const size_t w = peers[m->list[i].id].flow.window;

		if (m->list[i].voter && px_answers(px, m->list[i].id) && w > window &&
		    PX_VOTERS(m, id, px_answers(px, id) && peers[id].flow.window >= w) >=
		        voters / 2)
			window = w;
	}
	return 2 * window > PX_ROOM_LEAST ? 2 * window : PX_ROOM_LEAST;
}

bool
px_room(const struct px *px)
{
	const uint64_t last = px->log.last, chosen = px->learner.chosen;
	const uint64_t from = chosen > px->leader.inherited ? chosen : px->leader.inherited;

	if (px->group.changes.n > 0 && px_next_members(&px->group.changes, &px->group.members))
		return false;
	return px->status.open && last - chosen < PX_ROOM_SLOTS &&
	       (last == from || log_window_bytes(&px->log, from, last) < open_bytes(px));
}

static void
flow_accepted(struct px *px, struct peer *p)
{
	struct flow *f = &p->flow;
	const int64_t took = mono_since(px->now, f->sent).ns / 1000 + 1; /* microseconds */
	int64_t wanted;

	if (f->sample == 0 || p->have < f->sample)
		return;
	f->sample = 0;

	/* Behind other traffic, or on another path through the network, acceptance may take longer
	 * than it did. When the window limited the follower, a longer time may be due to a queue;
	 * when it did not, the path itself takes longer and the shortest time is raised. */
	if (f->shortest_us == 0 || took < f->shortest_us)
		f->shortest_us = took;
	else if (!f->limited)
		f->shortest_us += (took - f->shortest_us) / 8;

	if (!f->limited)
		return;
	wanted = f->shortest_us + px->config.heartbeat.ns / 1000;
	wanted = wanted < 2 * took ? wanted : 2 * took;
	f->window = (size_t)((int64_t)f->window * wanted / took);
	if (f->window < PX_FLIGHT_LEAST)
		f->window = PX_FLIGHT_LEAST;
	if (f->window > PX_FLIGHT_BYTES)
		f->window = PX_FLIGHT_BYTES;
	PX_TRACE(px, "replica %u has accepted after %" PRId64 " us: %zu bytes may be in flight",
	         (unsigned)(p - px->leader.peers), took, f->window);
}

/* ---- mastership ---- */

/* "(a) If the proposer receives a response to its prepare requests (numbered n) from a majority of
 * acceptors, then it sends an accept request [...] where v is the value of the highest-numbered
 * proposal among the responses" ("Paxos Made Simple", section 2.2): the open slots are sent first,
 * and accepted here in the new ballot, too. */
void
px_begin_mastership(struct px *px)
{
	uint64_t last = px_picked_last(px);

	must(px->candidate.role == PX_CANDIDATE &&
	     ballot_equal(px->acceptor.promised, px->candidate.ballot));
	must(px->promises.picked.base == px->learner.chosen &&
	     px->acceptor.accepted_to == px->learner.chosen);
	px_log_cut(px, px->learner.chosen);
	for (uint64_t slot = px->learner.chosen + 1; slot <= last; slot++) {
		struct log_entry e = log_window_entry(&px->promises.picked, slot);

		e.ballot = px->candidate.ballot;
		px_store(px, &e);
	}
	px->leader.inherited = last;
	px_promises_forget(px);
	log_window_recount(&px->log);

	px_candidate_elected(px);
	PX_TRACE(px, "is the master of " BALLOT ": chosen up to slot " SLOT ", open up to " SLOT,
	         BALLOT_OF(px->candidate.ballot), px->learner.chosen, last);
	px->leader.leaseless_heartbeats = px->leader.stalled_heartbeats = 0;
	px->leader.chosen = px->learner.chosen;
	for (int id = 0; id <= LIMIT_REPLICA_ID; id++) {
		const uint64_t same = px->candidate.votes[id].same;

		px->leader.peers[id] = (struct peer){
		    .have = px->learner.chosen,
		    .next = px->learner.chosen + 1,
		    .told = same < last ? same : last,
		    .flow.window = PX_FLIGHT_FIRST,
		    .lease_end = {INT64_MIN},
		    .answered_at = {INT64_MIN},
		};
	}
	px_lease_count(px);
	px_send_heartbeats(px);
	px_pump(px);
}

void
px_heartbeat_by(struct px *px, mono_t at)
{
	px->leader.heartbeat_at = mono_min(px->leader.heartbeat_at, at);
}

/* The copy holds what is durable in state.db. */
void
px_peer_copies(struct px *px, uint8_t id)
{
	px->leader.peers[id].copy = px_applied_reported(px);
}

void
px_heartbeats_skip(struct px *px)
{
	px->leader.sequence += PX_SENT_TIMES;
}

void
px_propose(struct px *px, struct bytes payload)
{
	const uint64_t last = px->log.last;

	if (px->candidate.role != PX_MASTER || px->candidate.leaving) {
		PX_TRACE(px, "proposes nothing: is no master, or about to hand over");
		return;
	}
	must(payload.len <= LIMIT_ENTRY);
	must(px->group.changes.n == 0 || !px_next_members(&px->group.changes, &px->group.members));
	px_store(px, &(struct log_entry){.slot = last + 1,
	                                 .ballot = px->candidate.ballot,
	                                 .origin = px->candidate.ballot,
	                                 .checksum = checksum(payload),
	                                 .payload = payload,
	                                 .before = log_window_origin(&px->log, last)});
	PX_TRACE(px, "proposes slot " SLOT, last + 1);
	px->leader.unsent = px->group.others_n > 0;
}

/* ---- entries ---- */

static void
send_accept(struct px *px, uint8_t id, struct wire_list named, struct wire_list entries)
{
	const struct peer *p = &px->leader.peers[id];

	PX_SEND(px, id, 0, accept, .ballot = px->candidate.ballot, .chosen = px->learner.chosen,
	        .pass = p->pass, .first = p->next, .named = named, .entries = entries);
}

/* Entries that were open at the election, and that the follower's promise reported, are only
 * named. */
static void
send_batch(struct px *px, uint8_t id)
{
	struct peer *p = &px->leader.peers[id];
	struct buffer headers = BUFFER(LIMIT_FRAME), packed = BUFFER(LIMIT_FRAME);
	const size_t room = flow_room(px, p);
	const struct wire_list named = px_pack_headers(px, p->next, p->told, &headers);
	const uint64_t next = p->next + named.count;
	struct wire_list entries = {0};
	struct flow *f = &p->flow;

	if (next > p->told)
		entries = px_pack(px, next, px->log.last,
		                  room < PX_BATCH_BYTES ? room : PX_BATCH_BYTES, &packed);
	send_accept(px, id, named, entries);
	p->next = next + entries.count;

	if (f->sample == 0) {
		f->sample = p->next - 1;
		f->sent = px->now;
		f->limited = false;
	}

	buffer_free(&headers);
	buffer_free(&packed);
}

/* A follower that lacks slots before the first one in this log can't get them from the log. */
static bool
may_send(const struct px *px, struct peer *p)
{
	uint64_t last = px->log.last;
	uint64_t known = px_known_to(px, p);
	uint64_t flight = p->next - 1 > known ? p->next - 1 - known : 0;

	if (p->next > last || p->next <= px->log.base)
		return false;
	if (flight > 0 && flow_room(px, p) == 0) {
		p->flow.limited = true;
		return false;
	}
	return flight < PX_FLIGHT_SLOTS || last - p->next >= PX_FLIGHT_SLOTS;
}

void
px_pump(struct px *px)
{
	must(px->candidate.role == PX_MASTER);
	px->leader.unsent = false;
	for (int i = 0; i < px->group.others_n; i++)
		while (may_send(px, &px->leader.peers[px->group.others[i]]))
			send_batch(px, px->group.others[i]);
}

void
px_send_heartbeat(struct px *px, uint8_t id)
{
	struct buffer marks = BUFFER(LIMIT_FRAME);

	PX_SEND(px, id, 0, heartbeat, .ballot = px->candidate.ballot, .chosen = px->learner.chosen,
	        .sequence = px->leader.sequence, .lease_ms = px_lease_ms(px),
	        .trim = px_trim_target(px), .first = px->log.base + 1, .last = px->log.last,
	        .marks = px_witness_pack(px, &marks), .incarnation = px->witness.of[id].incarnation,
	        .start = px->witness.of[id].start);
	buffer_free(&marks);
}

/* An election needs the disks of a majority. A voter that does not answer may be cut off from here
 * alone; but the promise of this replica helps only one that answers. */
bool
px_others_could(const struct px *px)
{
	const struct px_members *m = &px->group.members;
	bool is_heard = false;
	int able = 0;

	for (int i = 0; i < m->n; i++) {
		const struct peer *p = &px->leader.peers[m->list[i].id];
		const bool syncs = p->accepted <= p->match;

		if (!m->list[i].voter || m->list[i].id == px->config.self)
			continue;
		able += syncs || !px_answers(px, m->list[i].id);
		is_heard = is_heard || (syncs && px_answers(px, m->list[i].id));
	}
	able += is_heard && px->acceptor.accepted_to == px->acceptor.durable;
	return px_majority(m, able);
}

/* At each heartbeat. True when nothing was chosen for long, though something is open: disks are
 * stuck, or only short messages arrive. Others may be a majority that can; but where the network is
 * slow for all, the next master needs more time. */
static bool
note_stall(struct px *px)
{
	struct px_leader *l = &px->leader;
	if (px->learner.chosen > l->stalled_at)
		l->stalls = 0;
	if (px->learner.chosen > l->chosen || px->learner.chosen == px->log.last)
		l->stalled_heartbeats = 0;
	else
		l->stalled_heartbeats++;
	l->chosen = px->learner.chosen;
	if (!px_others_could(px) || l->stalled_heartbeats * px->config.heartbeat.ns <=
	                                (PX_STALLED_LEASES << l->stalls) * px->config.lease.ns)
		return false;
	if (l->stalls < PX_STALLS_MAX)
		l->stalls++;
	l->stalled_at = px->learner.chosen;
	return true;
}

/* Sends heartbeats, which ask for a renewal of the lease and report the chosen slot. Followers that
 * receive those of a master that does not receive their answers would never elect another one. */
void
px_send_heartbeats(struct px *px)
{
	struct px_leader *l = &px->leader;

	must(px->candidate.role == PX_MASTER);
	l->leaseless_heartbeats = px_lease_valid(px, px->now) ? 0 : l->leaseless_heartbeats + 1;
	if (l->leaseless_heartbeats * px->config.heartbeat.ns >
	    PX_LEASELESS_MAX * px->config.lease.ns) {
		PX_TRACE(px, "has had no lease for %u heartbeats", l->leaseless_heartbeats);
		px_follow(px, BALLOT_NONE, (span_t){2 * px->config.lease.ns});
		return;
	}
	if (!px->candidate.leaving && note_stall(px))
		px_leave(px, 0, "it could commit nothing");
	l->sequence++;
	l->sent_at[l->sequence % PX_SENT_TIMES] = px->now;
	l->heartbeat_at =
	    px->group.others_n > 0 ? mono_add(px->now, px->config.heartbeat) : MONO_NEVER;
	for (int i = 0; i < px->group.others_n; i++)
		px_send_heartbeat(px, px->group.others[i]);
}

static bool
ours(const struct px *px, struct ballot ballot)
{
	return px->candidate.role == PX_MASTER && ballot_equal(ballot, px->candidate.ballot);
}

/* `match` never falls; `next` may: a member that restarts may have forgotten which slots are
 * chosen. */
static void
matches(struct px *px, struct peer *p, uint64_t slot)
{
	if (slot > px->log.last)
		return; /* not possible: no other replica proposes in this ballot */
	if (p->match < slot)
		p->match = slot;
	if (p->have < slot)
		p->have = slot;
	if (p->next <= slot)
		p->next = slot + 1;
	flow_accepted(px, p);
}

/* An acceptor's answer in phase 2 ("Paxos Made Simple", section 2.2): it counts for every slot of
 * the ballot up to its own. */
void
px_on_accepted(struct px *px, uint8_t from, const struct msg_accepted *m)
{
	if (!ours(px, m->ballot))
		return;
	px->leader.peers[from].answered_at = px->now;
	matches(px, &px->leader.peers[from], m->upto);
	px_count_accepted(px);
	px_pump(px);
}

/* The grant counts from the sending of the heartbeat that is answered ("Paxos Made Live", section
 * 5.2). If the member lacks entries that were sent, an empty Accept makes it report the hole. */
void
px_on_heartbeat_reply(struct px *px, uint8_t from, const struct msg_heartbeat_reply *m)
{
	struct peer *p = &px->leader.peers[from];

	if (!ours(px, m->ballot) || m->sequence > px->leader.sequence ||
	    px->leader.sequence - m->sequence >= PX_SENT_TIMES) {
		PX_TRACE(px, "counts no grant of replica %u to " BALLOT " for heartbeat %" PRIu64,
		         from, BALLOT_OF(m->ballot), m->sequence);
		return;
	}
	p->lease_end = mono_max(p->lease_end,
	                        px_lease_end(px, px->leader.sent_at[m->sequence % PX_SENT_TIMES]));
	px_lease_count(px);
	PX_TRACE(px, "replica %u has granted the lease for %" PRId64 " ms more", from,
	         span_to_ms(mono_since(p->lease_end, px->now)));
	px_candidate_followed(px, from);
	p->answered_at = px->now;
	p->accepted = m->upto;
	p->full = m->full;
	p->minor = m->minor;
	p->keys = m->keys;
	if (m->durable_applied > p->applied)
		p->applied = m->durable_applied;
	matches(px, p, m->durable);
	if (m->upto < p->next - 1)
		send_accept(px, from, (struct wire_list){0}, (struct wire_list){0});
	px_count_accepted(px);
	px_pump(px);
}

/* A follower has reported a hole: all entries from there are sent again, with their values if it
 * has lost entries that it had reported. */
void
px_on_fetch(struct px *px, uint8_t from, const struct msg_fetch *m)
{
	struct peer *p = &px->leader.peers[from];

	if (!ours(px, m->ballot) || m->first == 0 || m->first >= p->next || m->pass != p->pass)
		return;
	PX_TRACE(px, "replica %u lacks slot " SLOT ": sends again from there", from, m->first);
	p->pass++;
	p->next = m->first;
	p->have = m->first - 1;
	if (m->whole && p->told >= m->first)
		p->told = m->first - 1;
	p->flow.sample = 0;
	px_pump(px);
}
