/* One replica: paxos, the tree, and cell/master. An event goes to one of the three; then chosen
 * entries are applied, the master's proposals go to the log, and changes go into the update. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "cell/replica/internal.h"
#include "cell/wire/codec.h"

enum {
	/* The work of applying in one step, about in bytes; the rest is left to the next step. */
	APPLY_WORK = 1024 * 1024,
	COMMAND_WORK = 2048,
	ROW_WORK = 512,
	SEND_WORK = 1024, /* of cell/master for a message, in addition to its bytes */
};

/* ---- life ---- */

struct replica *
replica_new(const struct replica_config *config, struct tree *tree,
            const struct px_recovered *recovered, mono_t now)
{
	struct replica *r = memory_zero(1, sizeof *r);

	r->config = *config;
	r->config.members = NULL; /* the caller's */
	r->config.master.replica = config->paxos.self;
	r->config.paxos.trace = r->config.master.trace = config->trace;
	r->tree = tree;
	r->now = now;
	r->applied = r->disk.saved = tree_applied(tree);
	r->master_seen = now;
	r->disk.synced = MONO_NEVER;
	r_mastership_init(r);
	r_admin_init(r, config->admin_key);
	r_member_list_init(r, config, &r->config.paxos);
	r->config.paxos.lease = r_settings_span(r, SETTING_master_lease);
	r->config.paxos.heartbeat = r_settings_span(r, SETTING_heartbeat);
	divergence_init(&r->divergence, config->digest_every);
	r->px = px_new(&r->config.paxos, recovered, now);
	r->paxos = px_status(r->px);
	r->master_update.deadline = MONO_NEVER;
	r_settings_follow(r);
	r->master = master_new(&r->config.master, tree);
	return r;
}

void
replica_free(struct replica *r)
{
	r_mastership_free(r);
	r_admin_free(r);
	r_member_list_free(r);
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
	u->write = u->applied = 0;
	u->members_changed = u->rotates_key = u->diverged = false;
	u->behind = 0;
	if (u->rows.rows != NULL)
		row_list_free(&u->rows);
}

void
replica_update_free(struct replica_update *u)
{
	update_clear(u);
	free(u->records);
	free(u->sends);
	free(u->closes);
	*u = (struct replica_update){0};
}

/* ---- the updates of the parts go into that of the replica ---- */

bool
r_lease_valid(const struct replica *r)
{
	return mono_before(r->now, r->paxos->lease_until);
}

struct master_clock
r_clock(const struct replica *r)
{
	return (struct master_clock){
	    .now = r->now,
	    .wall_ns = r->wall_ns,
	    .lease = r_lease_valid(r),
	    .full = r->mastership.refuses_growth,
	};
}

static void
add_send(struct replica *r, struct replica_send send)
{
	struct replica_update *u = r->update;

	ARRAY_ROOM(u->sends, u->sends_n, u->sends_room);
	u->sends[u->sends_n++] = send;
}

static struct bytes
frame_of(const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	return buffer_take(&frame);
}

void
r_answer(struct replica *r, uint64_t conn, const struct message *m)
{
	add_send(r, (struct replica_send){.conn = conn, .frame = frame_of(m)});
}

void
r_send_peer(struct replica *r, uint8_t peer, const struct message *m)
{
	add_send(r, (struct replica_send){.to_peer = true, .peer = peer, .frame = frame_of(m)});
}

void
r_step_px(struct replica *r, struct px_event event)
{
	struct replica_update *u = r->update;
	struct px_update *px = &r->px_update;

	event.now = r->now;
	r->px_steps++;
	px_step(r->px, &event, px);
	for (size_t i = 0; i < px->records_n; i++) {
		ARRAY_ROOM(u->records, u->records_n, u->records_room);
		u->records[u->records_n++] = px->records[i];
	}
	if (px->write != 0) {
		u->write = r->disk.written = px->write;
		r->disk.synced = mono_min(r->disk.synced, r->now);
	}
	for (size_t i = 0; i < px->sends_n; i++) {
		struct px_send *s = &px->sends[i];

		add_send(r, (struct replica_send){.to_peer = true,
		                                  .peer = s->to,
		                                  .after = s->after,
		                                  .frame = s->frame});
		s->frame = (struct bytes){NULL, 0};
	}
}

/* The payloads are views into the log, which later steps of paxos, in the same step of the replica,
 * may have changed. */
static void
look_up_payloads(struct replica *r)
{
	struct replica_update *u = r->update;

	for (size_t i = 0; i < u->records_n; i++)
		if (u->records[i].kind == PX_RECORD_ENTRY)
			u->records[i].payload = px_payload(r->px, u->records[i].slot);
}

/* ---- the backlog ---- */

void
r_backlog_put(struct replica *r, struct bytes owned)
{
	struct proposal_backlog *b = &r->backlog;

	ARRAY_ROOM(b->proposals, b->n, b->room);
	b->proposals[b->n++] = owned;
	b->bytes += owned.len;
}

static void
backlog_drop(struct replica *r, size_t n)
{
	struct proposal_backlog *b = &r->backlog;

	for (size_t i = 0; i < n; i++) {
		b->bytes -= b->proposals[i].len;
		free((void *)b->proposals[i].data);
	}
	b->n -= n;
	if (b->n > 0)
		memmove(b->proposals, b->proposals + n, b->n * sizeof *b->proposals);
}

void
r_backlog_clear(struct replica *r)
{
	backlog_drop(r, r->backlog.n);
	free(r->backlog.proposals);
	r->backlog = (struct proposal_backlog){0};
}

/* False: the log has no room for what waits. */
static bool
backlog_propose(struct replica *r)
{
	size_t n = 0;

	while (n < r->backlog.n && px_room(r->px))
		r_step_px(r, (struct px_event){.kind = PX_PROPOSE,
		                               .payload = r->backlog.proposals[n++]});
	backlog_drop(r, n);
	return n > 0;
}

void
r_absorb_master(struct replica *r)
{
	struct master_update *m = &r->master_update;
	struct replica_update *u = r->update;

	for (size_t i = 0; i < m->proposals_n; i++)
		r_backlog_put(r, m->proposals[i]);
	for (size_t i = 0; i < m->sends_n; i++) {
		r->work += SEND_WORK + m->sends[i].frame.len;
		add_send(r, (struct replica_send){.conn = m->sends[i].conn,
		                                  .datagram = m->sends[i].datagram,
		                                  .frame = m->sends[i].frame});
	}
	for (size_t i = 0; i < m->closes_n; i++) {
		ARRAY_ROOM(u->closes, u->closes_n, u->closes_room);
		u->closes[u->closes_n++] = m->closes[i];
		r_admin_disconnected(r, m->closes[i]);
	}
	m->proposals_n = m->sends_n = m->closes_n = 0;
}

/* ---- apply ---- */

static void
trace_note(struct replica *r, const struct tree_note *n)
{
	struct buffer path = BUFFER(2 * LIMIT_PATH);

	if (n->kind == TREE_SESSION_ENDED && n->cause == SESSION_EXPIRED)
		NOTICE(r->config.trace, "session %llu expired", (unsigned long long)n->session);
	else if (n->kind == TREE_DELAY_BEGAN && tree_path(r->tree, n->node, &path))
		NOTICE(r->config.trace, "%.*s: the lock is delayed for %lld s", (int)path.len,
		       (const char *)path.data, (long long)n->seconds);
	buffer_free(&path);
}

/* A master that serves was told with the entry. */
static void
principal_removed(struct replica *r, struct bytes principal)
{
	if (r->mastership.serving)
		return;
	master_principal_removed(r->master, principal, &r->master_update);
	r_absorb_master(r);
}

static void
look_at_note(struct replica *r, const struct tree_note *n)
{
	trace_note(r, n);
	if (n->kind == TREE_MEMBERS_CHANGED)
		r_member_list_changed(r);
	if (n->kind == TREE_SETTING_CHANGED || n->kind == TREE_EPOCH_BEGAN)
		r_settings_follow(r);
	if (n->kind == TREE_DIGEST_CHECKED)
		r_divergence_checked(r, n);
	else if (n->kind == TREE_SETTING_CHANGED)
		r_settings_changed(r);
	else if (n->kind == TREE_EPOCH_BEGAN)
		r_mastership_epoch(r, n);
	else if (n->kind == TREE_PRINCIPAL_REMOVED)
		principal_removed(r, n->name);
}

static void
apply_next(struct replica *r)
{
	const uint64_t index = r->applied + 1;
	const struct log_entry e = px_entry(r->px, index);
	struct tree_outcome *out = &r->outcome;

	must(index >= r->paxos->first && index <= r->paxos->chosen);
	r->applied = index;
	r->work += e.payload.len;
	if (tree_apply(r->tree, index, e.origin, e.payload, out) == RC_BAD_MESSAGE)
		NOTICE(r->config.trace, "entry %llu is malformed: nothing changed",
		       (unsigned long long)index);
	r->work += (1 + out->answers_n) * COMMAND_WORK + out->rows * ROW_WORK;
	if (r->mastership.serving) {
		master_applied(r->master, r_clock(r), index, out, &r->master_update);
		r_absorb_master(r);
		if (r->admin.n > 0 || r->admin.rotating || r->members.changing)
			r_admin_applied(r, out);
	}
	if (index % r->divergence.every == 0)
		r_divergence_compute(r, index);
	for (size_t i = 0; i < out->notes_n; i++)
		look_at_note(r, &out->notes[i]);
}

bool
r_state_waits(const struct replica *r)
{
	return r->applied + 1 < r->paxos->first;
}

static bool
may_apply(const struct replica *r)
{
	return r->applied < r->paxos->chosen && !r_state_waits(r) && !r->settings.outdated;
}

static void
follow_paxos(struct replica *r)
{
	if (!r->paxos->open || !ballot_equal(r->mastership.candidacy, r->paxos->master))
		r_mastership_follow(r);
}

/* Proposes and applies until nothing is left that can be done now, or the step has done enough
 * work. */
static void
settle(struct replica *r)
{
	bool more = true;

	while (more) {
		if (r->admin.n > 0)
			r_admin_go_on(r);
		follow_paxos(r);
		more = r->backlog.n > 0 && backlog_propose(r);
		while (may_apply(r) && r->work < APPLY_WORK) {
			apply_next(r);
			more = true;
		}
	}
}

/* ---- events ---- */

static void
on_persisted(struct replica *r, uint64_t ticket)
{
	r->disk.synced = ticket >= r->disk.written ? MONO_NEVER : r->now;
	r_step_px(r, (struct px_event){.kind = PX_PERSISTED, .write = ticket});
}

static void
on_saved(struct replica *r, uint64_t index)
{
	r->disk.saved = index;
	r_step_px(r, (struct px_event){.kind = PX_APPLIED, .slot = index});
}

static void
on_peer(struct replica *r, const struct replica_event *e)
{
	struct message m;

	if (wire_get_frame(e->frame, &m) != RC_OK) {
		NOTICE(r->config.trace, "a malformed message from replica %u", e->peer);
	} else if (m.code == MSG_digest) {
		r_divergence_received(r, e->peer, &m.digest);
	} else if (m.code == MSG_members) {
		r_member_list_received(r, e->peer, &m.members);
	} else {
		if (m.code == MSG_hello || m.code == MSG_prepare)
			r_member_list_send_peer(r, e->peer);
		r_step_px(r, (struct px_event){.kind = PX_RECEIVE, .from = e->peer, .message = &m});
	}
}

static void
on_client(struct replica *r, const struct replica_event *e)
{
	if (!r->mastership.serving) {
		r_mastership_frame(r, e->conn, e->frame);
		return;
	}
	master_frame(r->master, r_clock(r), e->conn, e->frame, &r->master_update);
	r_absorb_master(r);
}

static void
on_frame(struct replica *r, const struct replica_event *e)
{
	switch (e->code) {
	case MSG_status_request:
		r_status_answer(r, e->conn);
		return;
	case MSG_members_request:
		r_member_list_send(r, e->conn);
		return;
	case MSG_settings_request:
		r_settings_send(r, e->conn);
		return;
	case MSG_operate:
	case MSG_sessions_request:
	case MSG_locks_request:
	case MSG_principals_request:
	case MSG_check_sequencer:
		if (!r->mastership.serving || !r_admin_frame(r, e->conn, e->frame))
			on_client(r, e);
		return;
	default:
		on_client(r, e);
	}
}

static void
on_datagram(struct replica *r, const struct replica_event *e)
{
	if (!r->mastership.serving)
		return;
	master_datagram(r->master, r_clock(r), e->conn, e->frame, &r->master_update);
	r_absorb_master(r);
}

static void
on_connected(struct replica *r, const struct replica_event *e)
{
	master_connected(r->master, e->conn, e->principal, e->key);
	r_mastership_greet(r, e->conn);
}

static void
on_disconnected(struct replica *r, const struct replica_event *e)
{
	master_disconnected(r->master, e->conn);
	r_admin_disconnected(r, e->conn);
}

static void
on_timeout(struct replica *r)
{
	if (mono_reached(r->now, r->paxos->deadline))
		r_step_px(r, (struct px_event){.kind = PX_TIMEOUT});
	if (mono_reached(r->now, r_mastership_disk_deadline(r)))
		r_mastership_give_up_stuck_disk(r);
	follow_paxos(r);
	if (mono_reached(r->now, r->master_update.deadline)) {
		master_timeout(r->master, r_clock(r), &r->master_update);
		r_absorb_master(r);
	}
	r_mastership_supervise(r);
}

static void
on_full(struct replica *r, bool on)
{
	r->disk.full = on;
	r_step_px(r, (struct px_event){.kind = PX_FULL, .on = on});
	r_mastership_supervise(r);
}

static void
on_event(struct replica *r, const struct replica_event *e)
{
	switch (e->kind) {
	case REPLICA_CONNECTED:
		on_connected(r, e);
		return;
	case REPLICA_DISCONNECTED:
		on_disconnected(r, e);
		return;
	case REPLICA_FRAME:
		on_frame(r, e);
		return;
	case REPLICA_DATAGRAM:
		on_datagram(r, e);
		return;
	case REPLICA_PEER:
		on_peer(r, e);
		return;
	case REPLICA_PERSISTED:
		on_persisted(r, e->write);
		return;
	case REPLICA_SAVED:
		on_saved(r, e->index);
		return;
	case REPLICA_TIMEOUT:
		on_timeout(r);
		return;
	case REPLICA_STOP:
		r_step_px(r, (struct px_event){.kind = PX_CLOSE});
		return;
	case REPLICA_FULL:
		on_full(r, e->on);
		return;
	case REPLICA_COPY_BEGUN:
		r_step_px(r, (struct px_event){.kind = PX_COPY_BEGUN, .from = e->peer});
		return;
	case REPLICA_KEYS:
		r_admin_keys(r, e->key);
		return;
	}
}

/* The replica whose state must be fetched, because no log has the next entry any more; 0: none. */
static uint8_t
behind(const struct replica *r)
{
	uint8_t from = r->paxos->behind;

	if (from == 0 && r_state_waits(r) && r->paxos->master.replica != r->config.paxos.self)
		from = r->paxos->master.replica;
	return from;
}

static bool
is_well(const struct replica *r)
{
	return r->paxos->condition == CONDITION_VOTING && !r->settings.outdated &&
	       !r_state_waits(r) && mono_before(r->now, r->paxos->master_until);
}

static void
report_to_driver(struct replica *r, struct replica_update *u)
{
	u->members_changed = r->members.unreported && r_member_list_report(r);
	u->behind = behind(r);
	u->diverged = r->diverged;
	u->backlog = r->backlog.bytes;
	u->condition = is_well(r) ? CONDITION_VOTING : replica_condition(r);
	u->deadline = replica_deadline(r);
}

void
replica_step(struct replica *r, const struct replica_event *event, struct replica_update *update)
{
	const uint64_t applied = r->applied;

	must(!mono_before(event->now, r->now));
	update_clear(update);
	r->update = update;
	r->now = event->now;
	r->wall_ns = event->wall_ns;
	r->times = event->times;
	r->work = 0;
	r->px_steps = 0;
	on_event(r, event);
	settle(r);
	if (r->mastership.news)
		r_mastership_announce(r);
	if (mono_before(r->now, r->paxos->master_until))
		r->master_seen = r->now;
	if (r->px_steps > 1)
		look_up_payloads(r);
	if (r->applied != applied) {
		tree_dirty_rows(r->tree, &update->rows);
		update->applied = r->applied;
	}
	report_to_driver(r, update);
	r->update = NULL;
}

mono_t
replica_deadline(const struct replica *r)
{
	mono_t deadline = mono_min(r->paxos->deadline, r->master_update.deadline);

	if (may_apply(r))
		return r->now;
	if (mono_is_never(r->disk.synced) || r->paxos->alone)
		return deadline;
	return mono_min(deadline, r_mastership_disk_deadline(r));
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

size_t
replica_under_way(const struct replica *r, uint64_t conn)
{
	return master_under_way(r->master, conn);
}
