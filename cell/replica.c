/* One replica: the log below, the tree above it, and the master while this replica is it. Whatever
 * comes in goes to one of the three; then what became chosen is applied, what the master wants is
 * proposed, and what changed is handed out. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/replica.h"
#include "cell/waiting.h"
#include "cell/wire/codec.h"

enum {
	TRACE_LIMIT = 1 << 20,
	EARLY_MAX = 4096, /* clients that wait for the epoch */
	DISK_PATIENCE_MS = 5000,
};

struct replica {
	struct replica_config config;
	struct tree *tree;
	struct px *px;
	struct master *master;
	struct ballot candidacy;     /* the ballot whose begin_epoch was proposed */
	int64_t office_ns;           /* wall clock when this replica took office the last time */
	struct ballot announced;     /* the master that clients were told of */
	uint64_t announced_epoch;
	uint64_t written;            /* ticket of the newest records */
	mono_t synced;               /* since then nothing was synced, and something waits for it */
	struct waiting_list backlog; /* proposals, in order */
	struct waiting_list early;   /* open_session frames, until the epoch is applied */
	size_t early_n;

	/* Of the step that runs. */
	mono_t now;
	int64_t wall_ns;
	struct replica_update *update;
	struct px_update px_update;
	struct master_update master_update;
	struct tree_outcome outcome;
};

static bool
ballot_equal(struct ballot a, struct ballot b)
{
	return a.round == b.round && a.replica == b.replica;
}

/* ---- life ---- */

struct replica *
replica_new(const struct replica_config *config, struct tree *tree,
            const struct px_recovered *recovered, mono_t now)
{
	struct replica *r = memory_zero(1, sizeof *r);

	r->config = *config;
	r->config.master.replica = config->paxos.self;
	r->tree = tree;
	r->px = px_new(&config->paxos, recovered, now);
	r->master = master_new(&r->config.master, tree);
	r->synced = MONO_NEVER;
	TAILQ_INIT(&r->backlog);
	TAILQ_INIT(&r->early);
	return r;
}

void
replica_free(struct replica *r)
{
	waiting_clear(&r->backlog);
	waiting_clear(&r->early);
	master_free(r->master);
	px_free(r->px);
	tree_free(r->tree);
	px_update_free(&r->px_update);
	master_update_free(&r->master_update);
	tree_outcome_free(&r->outcome);
	free(r);
}

static void
update_clear(struct replica_update *u)
{
	for (size_t i = 0; i < u->sends_n; i++)
		free((void *)u->sends[i].frame.data);
	u->records_n = u->sends_n = u->closes_n = 0;
	u->ticket = u->applied = 0;
	u->members_changed = u->diverged = false;
	u->behind = 0;
	row_list_free(&u->rows);
	u->trace.limit = TRACE_LIMIT;
	buffer_reset(&u->trace);
}

void
replica_update_free(struct replica_update *u)
{
	update_clear(u);
	free(u->records);
	free(u->sends);
	free(u->closes);
	buffer_free(&u->trace);
	*u = (struct replica_update){0};
}

/* ---- what the parts want goes into the update ---- */

static struct master_clock
clock_of(const struct replica *r)
{
	return (struct master_clock){r->now, r->wall_ns, px_lease_valid(r->px, r->now)};
}

static void
put_send(struct replica *r, struct replica_send send)
{
	struct replica_update *u = r->update;

	ARRAY_ROOM(u->sends, u->sends_n, u->sends_room);
	u->sends[u->sends_n++] = send;
}

static void
step_px(struct replica *r, struct px_event event)
{
	struct replica_update *u = r->update;
	struct px_update *px = &r->px_update;

	event.now = r->now;
	px_step(r->px, &event, px);
	for (size_t i = 0; i < px->records_n; i++) {
		ARRAY_ROOM(u->records, u->records_n, u->records_room);
		u->records[u->records_n++] = px->records[i];
	}
	if (px->ticket != 0) {
		u->ticket = r->written = px->ticket;
		r->synced = mono_min(r->synced, r->now);
	}
	for (size_t i = 0; i < px->sends_n; i++) {
		struct px_send *s = &px->sends[i];

		put_send(r,
		         (struct replica_send){
		             .to_peer = true, .peer = s->to, .after = s->after, .frame = s->frame});
		s->frame = (struct bytes){NULL, 0};
	}
}

/* The payloads are views into the log, which later steps of paxos in this step may have moved. */
static void
look_up_payloads(struct replica *r)
{
	struct replica_update *u = r->update;

	for (size_t i = 0; i < u->records_n; i++)
		if (u->records[i].kind == PX_RECORD_ENTRY)
			u->records[i].payload = px_payload(r->px, u->records[i].slot);
}

/* Takes over what the master left in its update. */
static void
absorb_master(struct replica *r)
{
	struct master_update *m = &r->master_update;
	struct replica_update *u = r->update;

	for (size_t i = 0; i < m->proposals_n; i++)
		waiting_push(&r->backlog, 0, m->proposals[i]);
	for (size_t i = 0; i < m->sends_n; i++)
		put_send(
		    r, (struct replica_send){.conn = m->sends[i].conn, .frame = m->sends[i].frame});
	for (size_t i = 0; i < m->closes_n; i++) {
		ARRAY_ROOM(u->closes, u->closes_n, u->closes_room);
		u->closes[u->closes_n++] = m->closes[i];
	}
	buffer_put_bytes(&u->trace, buffer_view(&m->trace));
	m->proposals_n = m->sends_n = m->closes_n = 0;
	m->trace.limit = TRACE_LIMIT;
	buffer_reset(&m->trace);
}

/* ---- the mastership ---- */

static bool
is_master(const struct replica *r)
{
	return px_role(r->px) == PX_MASTER && px_open(r->px);
}

/* A master first commits an entry of its own; what it applies up to there was decided before it. */
static void
propose_epoch(struct replica *r)
{
	struct buffer op = BUFFER(LIMIT_ENTRY), commands = BUFFER(LIMIT_ENTRY);
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	struct op begin = {.code = OP_begin_epoch, .begin_epoch = {.ballot = px_master(r->px)}};
	struct command command = {.stamp_ns = r->wall_ns};
	struct entry entry;

	r->candidacy = px_master(r->px);
	wire_put_op(&op, &begin);
	command.op = buffer_view(&op);
	wire_put_command(&commands, &command);
	entry.commands = (struct wire_list){buffer_view(&commands), 1};
	wire_put_entry(&payload, &entry);
	must(!op.failed && !commands.failed && !payload.failed);
	must(TAILQ_EMPTY(&r->backlog));
	waiting_push(&r->backlog, 0, buffer_take(&payload));
	buffer_free(&op);
	buffer_free(&commands);
}

static void
send_elsewhere(struct replica *r, uint64_t conn, struct bytes frame)
{
	uint8_t master = px_master(r->px).replica;

	if (master == r->config.paxos.self)
		master = 0; /* not any more, or not yet */
	master_elsewhere(r->master, conn, frame, master, &r->master_update);
	absorb_master(r);
}

static void
on_persisted(struct replica *r, uint64_t ticket)
{
	r->synced = ticket >= r->written ? MONO_NEVER : r->now;
	step_px(r, (struct px_event){.kind = PX_PERSISTED, .ticket = ticket});
}

/* A master whose disk is stuck has no right to lead: it may be the next one whose log is needed.
 * Without others there is nobody to follow it. */
static mono_t
disk_deadline(const struct replica *r)
{
	if (!is_master(r) || r->config.paxos.members.n == 1)
		return MONO_NEVER;
	return mono_add(r->synced, span_ms(DISK_PATIENCE_MS));
}

static void
give_up_stuck_disk(struct replica *r)
{
	buffer_printf(&r->update->trace, "nothing was synced for %d ms: gives up the mastership\n",
	              DISK_PATIENCE_MS);
	step_px(r, (struct px_event){.kind = PX_STEP_DOWN});
}

/* Clients that came between the election and the epoch's entry. */
static void
admit_early(struct replica *r)
{
	struct waiting *w;

	while ((w = TAILQ_FIRST(&r->early)) != NULL) {
		if (master_serving(r->master))
			master_frame(r->master, clock_of(r), w->conn, w->bytes, &r->master_update);
		else
			send_elsewhere(r, w->conn, w->bytes);
		absorb_master(r);
		waiting_pop(&r->early);
		r->early_n--;
	}
}

static bool
master_soon(const struct replica *r)
{
	return is_master(r) || r->config.paxos.members.n == 1;
}

static void
leave_office(struct replica *r)
{
	uint8_t master = px_master(r->px).replica;

	if (master == r->config.paxos.self)
		master = 0;
	master_end(r->master, master, &r->master_update);
	absorb_master(r);
	waiting_clear(&r->backlog);
	buffer_printf(&r->update->trace, "no longer master\n");
}

/* Keeps the master's part in step with what paxos says about the mastership. */
static void
follow_role(struct replica *r)
{
	bool same = ballot_equal(r->candidacy, px_master(r->px));

	if (is_master(r) && same)
		return;
	if (master_serving(r->master))
		leave_office(r);
	waiting_clear(&r->backlog);
	if (is_master(r))
		propose_epoch(r);
	else if (!master_soon(r))
		admit_early(r);
}

static void
take_office(struct replica *r, const struct tree_note *n)
{
	if (!is_master(r) || !ballot_equal(n->ballot, r->candidacy) ||
	    !ballot_equal(n->ballot, px_master(r->px)))
		return;
	buffer_printf(&r->update->trace, "master of epoch %llu, ballot %llu.%u\n",
	              (unsigned long long)n->epoch, (unsigned long long)n->ballot.round,
	              n->ballot.replica);
	r->office_ns = r->wall_ns;
	master_begin(r->master, clock_of(r), n->epoch, &r->master_update);
	absorb_master(r);
	admit_early(r);
}

/* Clients keep an idle connection to a replica besides the master's, on which they hear at once of
 * a new one. It is named when it speaks up and once more when its epoch has begun. A cell of one
 * has nobody to tell. */
static bool
has_news(const struct replica *r)
{
	struct ballot master = px_master(r->px);

	if (r->config.paxos.members.n == 1 || master.round == 0)
		return false;
	return master.replica != r->config.paxos.self || master_serving(r->master);
}

static void
announce(struct replica *r)
{
	struct ballot master = px_master(r->px);
	uint64_t epoch = tree_epoch(r->tree);

	if (!has_news(r) || (ballot_equal(r->announced, master) && r->announced_epoch == epoch))
		return;
	r->announced = master;
	r->announced_epoch = epoch;
	master_announce(r->master, 0, master.replica, &r->master_update);
	absorb_master(r);
}

/* ---- apply ---- */

static void
trace_note(struct replica *r, const struct tree_note *n)
{
	struct buffer *t = &r->update->trace;

	if (n->kind == TREE_SESSION_ENDED && n->cause == SESSION_EXPIRED)
		buffer_printf(t, "session %llu expired\n", (unsigned long long)n->session);
	else if (n->kind == TREE_DELAY_BEGAN)
		buffer_printf(t, "lock of node %llu is delayed for %lld s\n",
		              (unsigned long long)n->node, (long long)n->seconds);
}

static void
apply_next(struct replica *r)
{
	uint64_t index = tree_applied(r->tree) + 1;
	struct tree_outcome *out = &r->outcome;

	must(index >= px_first(r->px) && index <= px_chosen(r->px));
	if (tree_apply(r->tree, index, px_origin(r->px, index), px_payload(r->px, index), out) ==
	    RC_BAD_MESSAGE)
		buffer_printf(&r->update->trace, "entry %llu is malformed: nothing changed\n",
		              (unsigned long long)index);
	if (master_serving(r->master)) {
		master_applied(r->master, clock_of(r), index, out, &r->master_update);
		absorb_master(r);
	}
	for (size_t i = 0; i < out->notes_n; i++) {
		trace_note(r, &out->notes[i]);
		if (out->notes[i].kind == TREE_EPOCH_BEGAN)
			take_office(r, &out->notes[i]);
	}
}

/* Until nothing is left that can be done now. */
static void
settle(struct replica *r)
{
	bool more = true;

	while (more) {
		more = false;
		follow_role(r);
		while (!TAILQ_EMPTY(&r->backlog) && px_room(r->px) && is_master(r)) {
			step_px(r, (struct px_event){.kind = PX_PROPOSE,
			                             .payload = TAILQ_FIRST(&r->backlog)->bytes});
			waiting_pop(&r->backlog);
			more = true;
		}
		while (tree_applied(r->tree) < px_chosen(r->px)) {
			apply_next(r);
			more = true;
		}
	}
}

/* ---- events ---- */

static void
on_peer(struct replica *r, const struct replica_event *e)
{
	struct message message;

	if (wire_get_frame(e->frame, &message) == RC_OK)
		step_px(
		    r, (struct px_event){.kind = PX_RECEIVE, .from = e->peer, .message = &message});
	else
		buffer_printf(&r->update->trace, "a malformed message from replica %u\n", e->peer);
}

static bool
opens_session(struct bytes frame)
{
	struct message message;

	return wire_get_frame(frame, &message) == RC_OK && message.code == MSG_open_session;
}

static enum replica_role
role_of(const struct replica *r)
{
	if (replica_serving(r, r->now))
		return REPLICA_MASTER;
	if (px_role(r->px) == PX_MASTER)
		return REPLICA_ELECTED;
	return px_role(r->px) == PX_CANDIDATE ? REPLICA_CANDIDATE : REPLICA_FOLLOWER;
}

/* Every replica says how it is, for people. */
static void
answer_status(struct replica *r, uint64_t conn)
{
	const struct result_usage usage = tree_usage(r->tree);
	const uint64_t chosen = px_chosen(r->px);
	struct message m = {
		.code = MSG_status_reply,
		.status_reply = {
			.self = r->config.paxos.self, .role = role_of(r),
			.master = px_master(r->px).replica, .epoch = tree_epoch(r->tree),
			.last = px_last(r->px), .applied = usage.applied,
			.chosen = chosen > usage.applied ? chosen : usage.applied,
			.sessions = usage.sessions, .locks_held = usage.locks_held,
		},
	};
	struct buffer frame = BUFFER(LIMIT_FRAME);

	if (m.status_reply.role == REPLICA_MASTER)
		m.status_reply.master_since_ns = r->office_ns;
	wire_put_frame(&frame, &m);
	put_send(r, (struct replica_send){.conn = conn, .frame = buffer_take(&frame)});
}

static void
on_frame(struct replica *r, const struct replica_event *e)
{
	if (wire_frame_code(e->frame) == MSG_status_request) {
		answer_status(r, e->conn);
	} else if (master_serving(r->master)) {
		master_frame(r->master, clock_of(r), e->conn, e->frame, &r->master_update);
		absorb_master(r);
	} else if (master_soon(r) && r->early_n < EARLY_MAX && opens_session(e->frame)) {
		waiting_push(&r->early, e->conn, bytes_copy(e->frame));
		r->early_n++;
	} else {
		send_elsewhere(r, e->conn, e->frame);
	}
}

/* It may have missed the news while it was without a connection. */
static void
on_connected(struct replica *r, const struct replica_event *e)
{
	master_connected(r->master, e->conn, e->principal);
	if (!has_news(r))
		return;
	master_announce(r->master, e->conn, px_master(r->px).replica, &r->master_update);
	absorb_master(r);
}

static void
on_timeout(struct replica *r)
{
	if (mono_reached(r->now, px_deadline(r->px)))
		step_px(r, (struct px_event){.kind = PX_TIMEOUT});
	if (mono_reached(r->now, disk_deadline(r)))
		give_up_stuck_disk(r);
	follow_role(r);
	if (mono_reached(r->now, master_deadline(r->master))) {
		master_timeout(r->master, clock_of(r), &r->master_update);
		absorb_master(r);
	}
}

static void
on_event(struct replica *r, const struct replica_event *e)
{
	switch (e->kind) {
	case REPLICA_CONNECTED:
		on_connected(r, e);
		return;
	case REPLICA_DISCONNECTED:
		master_disconnected(r->master, e->conn);
		return;
	case REPLICA_FRAME:
		on_frame(r, e);
		return;
	case REPLICA_PEER:
		on_peer(r, e);
		return;
	case REPLICA_PERSISTED:
		on_persisted(r, e->ticket);
		return;
	case REPLICA_SAVED:
		step_px(r, (struct px_event){.kind = PX_APPLIED, .slot = e->index});
		return;
	case REPLICA_TIMEOUT:
		on_timeout(r);
		return;
	case REPLICA_STOP:
		step_px(r, (struct px_event){.kind = PX_STEP_DOWN});
		return;
	case REPLICA_FULL:
		step_px(r, (struct px_event){.kind = PX_FULL, .on = e->on});
		return;
	}
}

void
replica_step(struct replica *r, const struct replica_event *event, struct replica_update *update)
{
	uint64_t applied = tree_applied(r->tree);

	must(!mono_before(event->now, r->now));
	update_clear(update);
	r->update = update;
	r->now = event->now;
	r->wall_ns = event->wall_ns;
	r->master_update.trace.limit = TRACE_LIMIT;
	on_event(r, event);
	settle(r);
	announce(r);
	look_up_payloads(r);
	if (tree_applied(r->tree) != applied) {
		tree_changes(r->tree, &update->rows);
		update->applied = tree_applied(r->tree);
	}
	r->update = NULL;
}

mono_t
replica_deadline(const struct replica *r)
{
	return mono_min(mono_min(px_deadline(r->px), master_deadline(r->master)),
	                disk_deadline(r));
}

const struct tree *
replica_tree(const struct replica *r)
{
	return r->tree;
}

const struct px *
replica_px(const struct replica *r)
{
	return r->px;
}

bool
replica_serving(const struct replica *r, mono_t now)
{
	return master_serving(r->master) && px_lease_valid(r->px, now);
}
