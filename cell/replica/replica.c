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
	r->disk.synced = r->disk.unsaved = MONO_NEVER;
	TAILQ_INIT(&r->mastership.parked);
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

/* ---- apply ---- */

static void
look_at_note(struct replica *r, const struct tree_note *n)
{
	struct buffer path = BUFFER(2 * LIMIT_PATH);

	if (n->kind == TREE_SESSION_ENDED && n->cause == SESSION_EXPIRED)
		NOTICE(r->config.trace, "session %llu expired", (unsigned long long)n->session);
	else if (n->kind == TREE_DELAY_BEGAN && tree_path(r->tree, n->node, &path))
		NOTICE(r->config.trace, "%.*s: the lock is delayed for %lld s", (int)path.len,
		       (const char *)path.data, (long long)n->seconds);
	buffer_free(&path);
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
	else if (n->kind == TREE_PRINCIPAL_REMOVED && !r->mastership.serving) {
		/* A master that serves was told with the entry. */
		master_principal_removed(r->master, n->name, &r->master_update);
		r_absorb_master(r);
	}
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
		more = r->backlog.n > 0 && r_backlog_propose(r);
		while (may_apply(r) && r->work < APPLY_WORK) {
			apply_next(r);
			more = true;
		}
	}
}

/* ---- events ---- */

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
		if (m.code == MSG_hello || m.code == MSG_pre_vote)
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
on_event(struct replica *r, const struct replica_event *e)
{
	switch (e->kind) {
	case REPLICA_CONNECTED:
		master_connected(r->master, e->conn, e->principal, e->key);
		r_mastership_greet(r, e->conn);
		return;
	case REPLICA_DISCONNECTED:
		master_disconnected(r->master, e->conn);
		r_admin_disconnected(r, e->conn);
		return;
	case REPLICA_FRAME:
		on_frame(r, e);
		return;
	case REPLICA_DATAGRAM:
		if (!r->mastership.serving)
			return;
		master_datagram(r->master, r_clock(r), e->conn, e->frame, &r->master_update);
		r_absorb_master(r);
		return;
	case REPLICA_PEER:
		on_peer(r, e);
		return;
	case REPLICA_PERSISTED:
		r->disk.synced = e->write >= r->disk.written ? MONO_NEVER : r->now;
		r_step_px(r, (struct px_event){.kind = PX_PERSISTED, .write = e->write});
		return;
	case REPLICA_SAVED:
		r->disk.saved = e->index;
		if (e->unsaved)
			r->disk.unsaved = r->now;
		r_step_px(r, (struct px_event){.kind = PX_APPLIED, .slot = e->index});
		return;
	case REPLICA_SEND:
		r_step_px(r, (struct px_event){.kind = PX_SEND});
		return;
	case REPLICA_TIMEOUT:
		on_timeout(r);
		return;
	case REPLICA_STOP:
		r_step_px(r, (struct px_event){.kind = PX_CLOSE, .why = "it was stopped"});
		return;
	case REPLICA_FULL:
		r->disk.full = e->on;
		r_step_px(r, (struct px_event){.kind = PX_FULL, .on = e->on});
		r_mastership_supervise(r);
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

void
replica_step(struct replica *r, const struct replica_event *event, struct replica_update *update)
{
	const uint64_t applied = r->applied;

	must(!mono_before(event->now, r->now));
	r_update_clear(update);
	r->update = update;
	r->now = event->now;
	r->wall_ns = event->wall_ns;
	r->times = event->times;
	r->disk.unsaved = event->unsaved ? mono_min(r->disk.unsaved, r->now) : MONO_NEVER;
	r->work = 0;
	r->px_steps = 0;
	on_event(r, event);
	settle(r);
	if (r->mastership.news)
		r_mastership_announce(r);
	if (mono_before(r->now, r->paxos->master_until))
		r->master_seen = r->now;
	if (r->px_steps > 1)
		r_look_up_payloads(r);
	if (r->applied != applied) {
		tree_dirty_rows(r->tree, &update->rows);
		update->applied = r->applied;
		commit_times_applied(&r->commits, r->applied, r->now);
	}

	update->members_changed = r->members.unreported && r_member_list_report(r);
	update->behind = behind(r);
	update->diverged = r->diverged;
	update->backlog = r->backlog.bytes;
	update->unsent = r->paxos->unsent;
	update->condition = replica_condition(r);
	update->deadline = replica_deadline(r);

	r->update = NULL;
}

mono_t
replica_deadline(const struct replica *r)
{
	mono_t deadline = mono_min(r->paxos->deadline, r->master_update.deadline);

	if (may_apply(r))
		return r->now;
	return mono_min(deadline, r_mastership_disk_deadline(r));
}

const struct tree *
replica_tree(const struct replica *r)
{
	return r->tree;
}

const struct latency *
replica_commits(const struct replica *r)
{
	return &r->commits.seen;
}

const struct px *
replica_px(const struct replica *r)
{
	return r->px;
}
