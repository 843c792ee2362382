/* One replica's paxos: creation, the step, the deadline, and the accessors. */
#include "cell/paxos/px.h"

#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

/* ---- creation ---- */

static void
check_config(const struct px_config *c)
{
	int voters = 0;

	must(c->self != 0 && c->members.n >= 1 && c->members.n <= LIMIT_REPLICAS);
	must(c->heartbeat.ns > 0 && c->lease.ns > c->heartbeat.ns && span_to_ms(c->lease) > 0);
	must(span_to_ms(c->lease) <= LIMIT_LEASE_MAX_S * 1000 && c->drift_permille < 1000);
	for (int i = 0; i < c->members.n; i++) {
		must(c->members.list[i].id != 0);
		voters += c->members.list[i].voter;
	}
	must(voters >= 1);
}

struct px *
px_new(const struct px_config *config, const struct px_recovered *recovered, mono_t now)
{
	struct px *px = memory_zero(1, sizeof *px);

	check_config(config);
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
	px_rounds_begin(px);
	px_accept_begin(px);
	px_lease_begin(px, recovered->wait);
	px_stand_from(px, px->lease.silent_until);
	if (px->group.others_n > 0)
		px_stand_from(px, mono_add(px->lease.silent_until, px_jitter(px)));
	px_note_status(px);
	return px;
}

void
px_free(struct px *px)
{
	if (!px)
		return;
	log_window_free(&px->log);
	log_window_free(&px->promises.picked);
	free(px->group.changes.items);
	free(px->promises.changes.items);
	free(px->learner.pending);
	free(px);
}

static void
update_clear(struct px_update *u)
{
	for (size_t i = 0; i < u->sends_n; i++)
		free((void *)u->sends[i].frame.data);
	u->sends_n = 0;
	u->records_n = 0;
	u->write = 0;
}

void
px_update_free(struct px_update *update)
{
	update_clear(update);
	free(update->records);
	free(update->sends);
	*update = (struct px_update){0};
}

/* ---- functions for all parts ---- */

void
px_record(struct px *px, struct px_record record)
{
	struct px_update *u = px->out;

	if (u->write == 0)
		u->write = ++px->write;
	ARRAY_ROOM(u->records, u->records_n, u->records_room);
	u->records[u->records_n++] = record;
}

void
px_send(struct px *px, uint8_t to, uint64_t after, const struct message *m)
{
	struct px_update *u = px->out;
	struct buffer frame = BUFFER(LIMIT_FRAME);

	must(to != px->config.self);
	wire_put_frame(&frame, m);
	must(!frame.failed);
	ARRAY_ROOM(u->sends, u->sends_n, u->sends_room);
	u->sends[u->sends_n++] = (struct px_send){
	    .to = to,
	    .after = after > px->learner.durable_write ? after : 0,
	    .frame = buffer_take(&frame),
	};
}

struct wire_list
px_pack(const struct px *px, uint64_t first, uint64_t last, size_t bytes, struct buffer *to)
{
	uint64_t slot = first > px->log.base ? first : px->log.base + 1;
	uint64_t end = last < px->log.last ? last : px->log.last;
	uint32_t count = 0;
	size_t packed = 0;

	for (; slot <= end; slot++, count++) {
		struct log_entry e = log_window_entry(&px->log, slot);

		packed += e.payload.len;
		if (count > 0 && (packed > bytes || count == px->config.batch_entries))
			break;
		wire_put_log_entry(to, &e);
	}
	return (struct wire_list){.packed = buffer_view(to), .count = count};
}

struct wire_list
px_pack_headers(const struct px *px, uint64_t first, uint64_t last, struct buffer *to)
{
	uint64_t slot = first > px->log.base ? first : px->log.base + 1;
	uint64_t end = last < px->log.last ? last : px->log.last;
	uint32_t count = 0;

	for (; slot <= end && count < px->config.batch_entries; slot++, count++) {
		const struct log_window_entry *e = log_window_at(&px->log, slot);

		wire_put_slot_header(to, &(struct slot_header){.slot = slot,
		                                               .ballot = e->ballot,
		                                               .origin = e->origin,
		                                               .checksum = e->checksum,
		                                               .before = e->before});
	}
	return (struct wire_list){.packed = buffer_view(to), .count = count};
}

span_t
px_jitter(struct px *px)
{
	uint64_t bound = (uint64_t)px->config.heartbeat.ns << px->candidate.attempts;

	return (span_t){(int64_t)rng_below(&px->rng, bound)};
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
	/* An unknown replica may have become a member behind the last slot known as chosen. */
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
persisted(struct px *px, uint64_t write)
{
	px_persisted(px, write);
	if (px->candidate.role == PX_CANDIDATE)
		px_count_votes(px);
	if (px->candidate.role == PX_MASTER)
		px_count_accepted(px);
}

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
	return px->repair.stateless && !px->witness.mute ? px->repair.source_at : MONO_NEVER;
}

static mono_t
candidacy_deadline(const struct px *px)
{
	if (px->witness.mute || !px_may_be_candidate(px))
		return MONO_NEVER;
	return mono_max(px->candidate.stand_at,
	                mono_max(px->lease.silent_until, px->lease.granted_until));
}

static void
follower_timeout(struct px *px)
{
	if (px->witness.lost || px->witness.expelled)
		return;
	if (mono_reached(px->now, hello_deadline(px)))
		px_say_hello(px);
	if (mono_reached(px->now, source_deadline(px)))
		px_look_for_state(px);
	if (mono_reached(px->now, candidacy_deadline(px)))
		px_begin_candidacy(px);
}

/* Perhaps it is no member any more, or no replica whose promise it lacks is one: a candidate that
 * has asked often sends hello, to all others of the newest list that it knows. */
static void
candidate_timeout(struct px *px)
{
	if (mono_before(px->now, px->candidate.retry_at))
		return;
	if (px->candidate.asks == PX_ASKS_MAX)
		px_say_hello(px);
	px_send_prepares(px);
}

static void
timeout(struct px *px)
{
	switch (px->candidate.role) {
	case PX_FOLLOWER:
		follower_timeout(px);
		break;
	case PX_CANDIDATE:
		candidate_timeout(px);
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
	update_clear(update);
	px->out = update;
	px->now = mono_max(px->now, event->now);
	if (px->repair.base_new)
		px_write_base(px);
	if (px->witness.of[px->config.self].mark.replica == 0)
		px_witness_write_own(px);
	switch (event->kind) {
	case PX_RECEIVE:
		meet(px, event->from, event->message);
		break;
	case PX_PERSISTED:
		persisted(px, event->write);
		break;
	case PX_PROPOSE:
		px_propose(px, event->payload);
		break;
	case PX_APPLIED:
		px_on_applied(px, event->slot);
		break;
	case PX_TIMEOUT:
		timeout(px);
		break;
	case PX_CLOSE:
		px_lease_close(px);
		px_leave(px, event->to);
		break;
	case PX_STEP_DOWN:
		px_leave(px, event->to);
		break;
	case PX_FULL:
		px->full = event->on;
		break;
	case PX_COPY_BEGUN:
		px_on_copy_begun(px, event->from);
		break;
	}
	settle(px);
	px_note_status(px);
	px->out = NULL;
	must(px->log.base <= px->learner.chosen && px->learner.chosen <= px->acceptor.accepted_to);
	must(px->acceptor.accepted_to <= px->log.last &&
	     px->acceptor.durable <= px->acceptor.accepted_to);
}

static bool
is_alone(const struct px *px)
{
	const struct px_members *m = &px->group.members;
	int self = 0, voters = 0;

	for (int i = 0; i < m->n; i++) {
		voters += m->list[i].voter;
		self += m->list[i].voter && m->list[i].id == px->config.self;
	}
	return voters == 1 && self == 1;
}

/* An open master has a vote: px_reconfig_settle. */
void
px_note_status(struct px *px)
{
	const bool master = px->candidate.role == PX_MASTER, open = px_open(px);

	px->status = (struct px_status){
	    .open = open,
	    .alone = is_alone(px),
	    .master = px->acceptor.master,
	    .lease_until = master ? px->lease.until : (mono_t){INT64_MIN},
	    .master_until = master ? px->lease.until : px->lease.granted_until,
	    .first = px->log.base + 1,
	    .chosen = px->learner.chosen,
	    .behind = master ? 0 : px_behind(px),
	    .condition = open ? CONDITION_VOTING : px_condition(px),
	    .deadline = px_deadline(px),
	};
}

const struct px_status *
px_status(const struct px *px)
{
	return &px->status;
}

/* ---- accessors ---- */

mono_t
px_deadline(const struct px *px)
{
	switch (px->candidate.role) {
	case PX_FOLLOWER:
		if (px->witness.lost || px->witness.expelled)
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

enum px_role
px_role(const struct px *px)
{
	return px->candidate.role;
}

bool
px_open(const struct px *px)
{
	return px->candidate.role == PX_MASTER && !px->candidate.leaving;
}

struct ballot
px_master(const struct px *px)
{
	return px->acceptor.master;
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

uint64_t
px_chosen(const struct px *px)
{
	return px->learner.chosen;
}

uint64_t
px_first(const struct px *px)
{
	return px->log.base + 1;
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
px_set_keys(struct px *px, uint64_t since)
{
	px->keys = since;
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
