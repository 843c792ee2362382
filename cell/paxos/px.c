/* One replica's paxos: creation, the step, the deadline, and the accessors. */
#include "cell/paxos/px.h"

#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"

/* ---- deadlines ---- */

/* When a follower sends its next hello. A replica that can't stand for election and receives
 * nothing from a master may have been removed while it was away: no message would be sent to it. */
static mono_t
hello_deadline(const struct px *px)
{
	if (px->witness.mute || px_is_removed(&px->group.members, px->config.self))
		return px->witness.hello_at;
	if (px_may_be_candidate(px))
		return MONO_NEVER;
	return mono_max(px->witness.hello_at, mono_add(px->lease.granted_until, px->config.lease));
}

static mono_t
source_deadline(const struct px *px)
{
	if (!px->repair.stateless || px->witness.mute || px->witness.lost)
		return MONO_NEVER;
	return px->repair.source_at;
}

static mono_t
candidacy_deadline(const struct px *px)
{
	if (px->witness.mute || !px_may_be_candidate(px))
		return MONO_NEVER;
	return mono_max(px->candidate.stand_at,
	                mono_max(px->lease.silent_until, px->lease.granted_until));
}

static mono_t
deadline(const struct px *px)
{
	switch (px->candidate.role) {
	case PX_FOLLOWER:
		if (px->witness.expelled)
			return px_close_at(px);
		return mono_min(mono_min(hello_deadline(px), px_close_at(px)),
		                mono_min(source_deadline(px), candidacy_deadline(px)));
	case PX_CANDIDATE:
		return px->group.others_n > 0 ? px->candidate.retry_at : MONO_NEVER;
	case PX_MASTER:
		if (!px->candidate.leaving)
			return px->leader.heartbeat_at;
		return mono_min(px->candidate.leave_by, px->leader.heartbeat_at);
	}
	return MONO_NEVER;
}

/* ---- status ---- */

/* An open master has a vote: px_reconfig_settle. */
static void
note_status(struct px *px)
{
	const bool master = px->candidate.role == PX_MASTER,
	           open = master && !px->candidate.leaving;
	const struct px_members *m = &px->group.members;

	px->status = (struct px_status){
	    .open = open,
	    .alone = px_is_voter(m, px->config.self) && PX_VOTERS(m, id, true) == 1,
	    .replaceable = master && px_others_could(px),
	    .master = px->acceptor.master,
	    .lease_until = master ? px->lease.until : (mono_t){INT64_MIN},
	    .master_until = master ? px->lease.until : px->lease.granted_until,
	    .first = px->log.base + 1,
	    .chosen = px->learner.chosen,
	    .unsent = master && px->leader.unsent,
	    .behind = master ? 0 : px_behind(px),
	    .condition = open ? CONDITION_VOTING : px_condition(px),
	    .deadline = deadline(px),
	};
}

/* ---- creation ---- */

struct px *
px_new(const struct px_config *config, const struct px_recovered *recovered, mono_t now)
{
	struct px *px = memory_zero(1, sizeof *px);

	must(config->self != 0 && config->members.n >= 1 && config->members.n <= LIMIT_REPLICAS);
	must(config->heartbeat.ns > 0 && config->lease.ns > config->heartbeat.ns &&
	     span_to_ms(config->lease) > 0);
	must(span_to_ms(config->lease) <= LIMIT_LEASE_MAX_S * 1000 &&
	     config->drift_permille < 1000);
	for (int i = 0; i < config->members.n; i++)
		must(config->members.list[i].id != 0);
	must(PX_VOTERS(&config->members, id, true) >= 1);

	px->config = *config;
	if (config->log_entries == 0)
		px->config.log_entries = PX_LOG_ENTRIES;
	if (config->batch_entries == 0)
		px->config.batch_entries = PX_BATCH_ENTRIES;
	if (config->log_bytes == 0)
		px->config.log_bytes = PX_LOG_BYTES;
	px->rng = rng_seeded(config->seed);
	px->now = now;
	px_recover(px, recovered);
	px_witness_recover(px, recovered);
	px_begin_mute(px);
	px_look_for_state(px);
	px_accept_begin(px);
	px_lease_begin(px, recovered->wait);
	px_stand_from(px, px->lease.silent_until);
	if (px->group.others_n > 0)
		px_stand_from(px, mono_add(px->lease.silent_until, px_jitter(px)));
	note_status(px);
	return px;
}

void
px_free(struct px *px)
{
	if (!px)
		return;
	log_window_free(&px->log);
	log_window_free(&px->promises.picked);
	log_window_free(&px->promises.kept);
	free(px->group.changes.items);
	free(px->promises.changes.items);
	free(px->learner.pending);
	free(px);
}

/* ---- the step ---- */

/* Paxos needs no order and no guarantee of delivery, and tolerates duplicates ("Paxos Made Simple",
 * section 2.1): each handler refuses or ignores a message that does not fit. */
static void
receive(struct px *px, uint8_t from, const struct message *m)
{
	px_witness_note(px, from, m);
	if (px->witness.lost)
		return;
	switch (m->code) {
	case MSG_pre_vote:
		px_on_pre_vote(px, from, &m->pre_vote);
		break;
	case MSG_pre_voted:
		px_on_pre_voted(px, from, &m->pre_voted);
		break;
	case MSG_prepare:
		px_on_prepare(px, from, &m->prepare);
		break;
	case MSG_promise:
		px_on_promise(px, from, &m->promise);
		break;
	case MSG_accept:
		px_on_accept(px, from, &m->accept);
		break;
	case MSG_accepted:
		px_on_accepted(px, from, &m->accepted);
		break;
	case MSG_refused:
		px_on_refused(px, from, &m->refused);
		break;
	case MSG_heartbeat:
		px_on_heartbeat(px, from, &m->heartbeat);
		break;
	case MSG_heartbeat_reply:
		px_on_heartbeat_reply(px, from, &m->heartbeat_reply);
		break;
	case MSG_fetch:
		px_on_fetch(px, from, &m->fetch);
		break;
	case MSG_gather:
		px_on_gather(px, from, &m->gather);
		break;
	case MSG_gathered:
		px_on_gathered(px, from, &m->gathered);
		break;
	case MSG_hand_over:
		px_on_hand_over(px, from, &m->hand_over);
		break;
	default:
		break;
	}
}

/* Handles a message. A mute replica handles only hello, welcome and lists of members, and greets
 * the senders of other messages. */
static void
meet(struct px *px, uint8_t from, const struct message *m)
{
	if (from == 0 || from == px->config.self || px->witness.expelled)
		return;
	/* An unknown replica may have become a member after the last slot known as chosen. */
	if (px_is_removed(&px->group.members, from)) {
		px_expel(px, from, m);
		return;
	}
	if (m->code == MSG_members)
		px_on_members(px, &m->members);
	if (m->code < MSG_prepare || !px_rounds_reach(px, from, m))
		return;
	if (m->code == MSG_hello)
		px_on_hello(px, from, &m->hello);
	else if (m->code == MSG_welcome)
		px_on_welcome(px, from, &m->welcome);
	else if (px->witness.mute && !px->witness.lost)
		px_greet(px, from);
	else if (!px->witness.mute && !px->witness.lost)
		receive(px, from, m);
}

static void
timeout(struct px *px)
{
	switch (px->candidate.role) {
	case PX_FOLLOWER:
		if (px->witness.expelled)
			break;
		if (mono_reached(px->now, hello_deadline(px)))
			px_say_hello(px);
		if (mono_reached(px->now, source_deadline(px)))
			px_look_for_state(px);
		if (mono_reached(px->now, candidacy_deadline(px)))
			px_ask_for_votes(px);
		break;
	case PX_CANDIDATE:
		if (mono_reached(px->now, px->candidate.retry_at))
			px_ask_again(px);
		break;
	case PX_MASTER:
		if (mono_reached(px->now, px->leader.heartbeat_at))
			px_send_heartbeats(px);
		break;
	}
}

/* The end of each step. A part is called only if it has something to do. */
static void
settle(struct px *px)
{
	if (px->group.unsettled || px->candidate.role == PX_CANDIDATE)
		px_reconfig_settle(px);
	if (px->candidate.leaving)
		px_leave_check(px);
	if (px->lease.closing && !px->lease.closed)
		px_close_if_free(px);
	if (px->repair.damaged > 0)
		px_check_repaired(px);
	if (px->out->records_n > 0 && px->witness.changed)
		px_witness_write(px);
	if (px->out->records_n > 0 || px->learner.durable_write != px->write)
		px_note_pending(px);
}

void
px_step(struct px *px, const struct px_event *event, struct px_update *update)
{
	px_update_clear(update);
	px->out = update;
	px->now = mono_max(px->now, event->now);
	if (px->repair.base_new)
		px_write_base(px);
	if (px->witness.unrecorded)
		px_witness_write_own(px);
	switch (event->kind) {
	case PX_RECEIVE:
		meet(px, event->from, event->message);
		break;
	case PX_PERSISTED:
		px_persisted(px, event->write);
		if (px->candidate.role == PX_CANDIDATE)
			px_count_votes(px);
		if (px->candidate.role == PX_MASTER)
			px_count_accepted(px);
		break;
	case PX_PROPOSE:
		px_propose(px, event->payload);
		break;
	case PX_SEND:
		if (px->status.unsent)
			px_pump(px);
		break;
	case PX_APPLIED:
		px_on_applied(px, event->slot);
		break;
	case PX_TIMEOUT:
		timeout(px);
		break;
	case PX_CLOSE:
		px_lease_close(px);
		px_leave(px, event->to, event->why);
		break;
	case PX_STEP_DOWN:
		px_leave(px, event->to, event->why);
		break;
	case PX_FULL:
		px->full = event->on;
		break;
	case PX_COPY_BEGUN:
		if (px->candidate.role == PX_MASTER)
			px_peer_copies(px, event->from);
		break;
	}
	settle(px);
	note_status(px);
	px->out = NULL;
	must(px->log.base <= px->learner.chosen && px->learner.chosen <= px->acceptor.accepted_to);
	must(px->acceptor.accepted_to <= px->log.last &&
	     px->acceptor.durable <= px->acceptor.accepted_to);
}

/* Answers to heartbeats that carried the other length do not count: else a grant of the old length
 * would be counted with the new one. */
void
px_set_lease(struct px *px, span_t lease, span_t heartbeat)
{
	must(heartbeat.ns > 0 && lease.ns > heartbeat.ns);
	must(span_to_ms(lease) > 0 && span_to_ms(lease) <= LIMIT_LEASE_MAX_S * 1000);
	if (lease.ns != px->config.lease.ns)
		px_heartbeats_skip(px);
	px->config.lease = lease;
	px->config.heartbeat = heartbeat;
	if (!mono_is_never(px->leader.heartbeat_at))
		px_heartbeat_by(px, mono_add(px->now, heartbeat));
	note_status(px);
}

/* ---- accessors ---- */

const struct px_status *
px_status(const struct px *px)
{
	return &px->status;
}

enum px_role
px_role(const struct px *px)
{
	return px->candidate.role;
}

bool
px_has_master(const struct px *px, mono_t now)
{
	if (px->candidate.role == PX_MASTER)
		return px_lease_valid(px, now);
	return mono_before(now, px->lease.granted_until);
}

uint64_t
px_last(const struct px *px)
{
	return px->log.last;
}

struct px_log_room
px_log_room(const struct px *px)
{
	return (struct px_log_room){
	    .entries = px->log.last - px->log.base,
	    .entries_max = px->config.log_entries,
	    .bytes = log_window_bytes(&px->log, px->log.base, px->log.last),
	    .bytes_max = px->config.log_bytes,
	};
}

struct log_entry
px_entry(const struct px *px, uint64_t slot)
{
	return log_window_entry(&px->log, slot);
}

struct bytes
px_payload(const struct px *px, uint64_t slot)
{
	return log_window_at(&px->log, slot)->payload;
}

struct ballot
px_origin(const struct px *px, uint64_t slot)
{
	return log_window_origin(&px->log, slot);
}

const struct px_members *
px_members(const struct px *px)
{
	return &px->group.members;
}

void
px_set_keys(struct px *px, uint64_t keys, bool any)
{
	px->keys = keys;
	px->keyless = !any;
}

bool
px_progress(const struct px *px, uint8_t id, struct px_progress *progress)
{
	const struct peer *p = &px->leader.peers[id];
	bool member = false;

	for (int i = 0; i < px->group.members.n; i++)
		member = member || px->group.members.list[i].id == id;
	if (px->candidate.role != PX_MASTER || !member)
		return false;
	*progress =
	    (struct px_progress){p->match, p->applied, p->answered_at, p->full, p->minor, p->keys};
	if (id == px->config.self)
		*progress = (struct px_progress){px->acceptor.durable,
		                                 px->learner.applied,
		                                 px->now,
		                                 px->full,
		                                 px->config.minor,
		                                 px->keys};
	return true;
}
