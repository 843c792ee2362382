/* Drives one replica: events in, updates out, records to the disk before the messages that wait for
 * them. After each step the log it applied is compared with what every other replica and every
 * earlier life of it has applied. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

#define WALL_START (1700000000 * SECOND)

enum { LEAVE_SECONDS = 2 };

void
host_init(struct host *n, int id)
{
	n->id = id;
	TAILQ_INIT(&n->held);
	disk_init(&n->disk);
	disk_init(&n->copy);
	disk_init(&n->boot.real);
}

void
host_create(struct sim *s, struct host *n, uint8_t body, const struct seats *file)
{
	n->body = body;
	n->disk.file = *file;
	n->clock.offset = sim_between(s, 1, 1000) * SECOND;
	n->clock.ppm = clock_draw_rate(&s->rng, s->swarm.clocks);
}

bool
host_exists(const struct host *n)
{
	return n->body != 0 && n->life > 0 && !n->gone;
}

const struct disk *
host_disk(const struct host *n)
{
	return n->boot.failed ? &n->boot.real : &n->disk;
}

bool
host_is_lost(const struct host *n)
{
	return n->up && replica_condition(n->replica) == CONDITION_LOST;
}

/* ---- checks ---- */

static void
remember(struct sim *s, uint64_t **values, size_t *room, uint64_t index, uint64_t value,
         const struct host *n, const char *what)
{
	while (index >= *room) {
		size_t more = *room ? *room * 2 : 1024;

		*values = memory_grow(*values, more, sizeof **values);
		memset(*values + *room, 0, (more - *room) * sizeof **values);
		*room = more;
	}
	if ((*values)[index] == 0)
		(*values)[index] = value;
	else if ((*values)[index] != value)
		sim_fail(s, "replica %d: %s of index %lu is not what it was", n->id, what,
		         (unsigned long)index);
}

void
host_inspect(struct sim *s, struct host *n)
{
	const struct tree *t = n->up ? replica_tree(n->replica) : NULL;
	struct model *model = &s->model;

	if (t == NULL)
		return;
	members_check_office(s, n);
	if (tree_check(t) != NULL)
		sim_fail(s, "replica %d: tree_check: %s", n->id, tree_check(t));
	if (tree_applied(t) > 0)
		remember(s, &model->slices, &model->slices_room, tree_applied(t),
		         tree_slice_digest(t) | 1, n, "what is stored as");
	model_check_locks(s, t);
}

static void
check_applied(struct sim *s, struct host *n)
{
	const struct tree *t = replica_tree(n->replica);
	const struct px *px = replica_px(n->replica);
	struct model *model = &s->model;
	uint64_t applied = tree_applied(t);

	if (applied <= n->checked)
		return;
	for (uint64_t i = n->checked + 1; i <= applied; i++) {
		struct bytes payload;

		if (i < px_first(px))
			continue; /* applied in an earlier life, gone from the log */
		payload = px_payload(px, i);
		remember(s, &model->sums, &model->sums_room, i, checksum(payload) | 1, n,
		         "the payload");
		if (i != model->applied + 1)
			continue;
		members_check_decided(s, i, px_origin(px, i));
		model_apply(s, i, payload);
	}
	remember(s, &model->digests, &model->digests_room, applied, tree_digest(t) | 1, n,
	         "the digest");
	n->checked = applied;
	if (applied > model->applied)
		sim_fail(s, "replica %d applied %lu, and nobody has seen the entries", n->id,
		         (unsigned long)applied);
}

/* At no moment two replicas have the master's lease, not even one that is frozen; and who has it
 * and serves knows everything that was decided. */
static void
check_masters(struct sim *s)
{
	const struct host *leased = NULL;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		mono_t now = clock_local(&n->clock, s->now);

		if (!sim_leases_hold(s) || !n->up ||
		    !px_lease_valid(replica_px(n->replica), now))
			continue;
		if (leased != NULL)
			sim_fail(s, "replicas %d and %d both have the master's lease", leased->id,
			         n->id);
		leased = n;
		if (replica_serving(n->replica, now) &&
		    tree_applied(replica_tree(n->replica)) != s->model.applied)
			sim_fail(s, "replica %d serves, knows %lu, and %lu was decided", n->id,
			         (unsigned long)tree_applied(replica_tree(n->replica)),
			         (unsigned long)s->model.applied);
	}
}

static void
follow_role(struct sim *s, struct host *n)
{
	static const char *const roles[] = {
	    [PX_FOLLOWER] = "follows",
	    [PX_CANDIDATE] = "stands for election",
	    [PX_MASTER] = "is elected",
	};
	enum px_role role = px_role(replica_px(n->replica));
	struct ballot ballot = px_master(replica_px(n->replica));

	if ((int)role != n->role)
		sim_trace(s, "replica %d %s (last known ballot %lu.%u)", n->id, roles[role],
		          (unsigned long)ballot.round, ballot.replica);
	if (role == PX_CANDIDATE)
		members_check_candidate(s, n);
	if (role == PX_MASTER && n->role != PX_MASTER)
		members_check_elected(s, n);
	n->role = (int)role;
}

/* ---- updates ---- */

static void fail(struct sim *s, struct host *n);

/* What the disk reports comes when the disk can write and the process is there to hear it. */
static bool
is_put_off(struct sim *s, const struct host *n, struct event *e)
{
	int64_t until = n->paused_until > n->disk.stuck_until ? n->paused_until
	                                                      : n->disk.stuck_until;
	struct event again = *e;

	if (until <= s->now)
		return false;
	again.at = until;
	heap_push(&s->heap, again);
	return true;
}

static void
run_persisted(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	struct held_send *h;

	if (!n->up || n->life != e->life || is_put_off(s, n, e))
		return;
	if (n->disk.broken) {
		fail(s, n);
		return;
	}
	if (!disk_log_done(&n->disk, e->a))
		return;
	n->durable_ticket = e->a;
	while ((h = TAILQ_FIRST(&n->held)) != NULL && h->after <= e->a) {
		if (h->send.to_peer)
			link_send(s, n->id, h->send.peer, h->send.frame);
		else
			net_to_client(s, h->send.conn, h->send.frame);
		TAILQ_REMOVE(&n->held, h, entry);
		free((void *)h->send.frame.data);
		free(h);
	}
	host_event(s, n, (struct replica_event){.kind = REPLICA_PERSISTED, .write = e->a});
}

/* Whom it lets in, and connects to. */
static void
follow_members(struct host *n)
{
	struct msg_members told = replica_members(n->replica);
	struct seats seats;

	seats_of_list(&seats, told.version, told.members);
	gate_set(n, &seats);
}

/* Its cell file follows the state that is on the disk, as in cell/server/cell_file_writer.h. */
static void
keep_cell_file(struct host *n)
{
	const uint64_t version = tree_members_version(replica_tree(n->replica));
	const struct seat *self = seats_find(&n->gate, (uint8_t)n->id);
	struct seats *file = &n->disk.file;

	if (version > n->disk.applied || version <= file->version || n->gate.version != version ||
	    self == NULL || self->role == MEMBER_REMOVED)
		return;
	file->version = version;
	file->n = 0;
	for (int i = 0; i < n->gate.n; i++)
		if (n->gate.list[i].role != MEMBER_REMOVED)
			file->list[file->n++] = n->gate.list[i];
}

static void
run_saved(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || is_put_off(s, n, e))
		return;
	if (n->disk.broken) {
		fail(s, n);
		return;
	}
	if (!disk_state_done(&n->disk, e->a))
		return;
	keep_cell_file(n);
	host_event(s, n, (struct replica_event){.kind = REPLICA_SAVED, .index = e->a});
}

static void
send(struct sim *s, struct host *n, const struct replica_send *send)
{
	struct held_send *h;

	if (send->after > n->durable_ticket) {
		h = memory_zero(1, sizeof *h);
		h->after = send->after;
		h->send = *send;
		h->send.frame = bytes_copy(send->frame);
		TAILQ_INSERT_TAIL(&n->held, h, entry);
	} else if (send->to_peer) {
		link_send(s, n->id, send->peer, send->frame);
	} else {
		net_to_client(s, send->conn, send->frame);
	}
}

static void run_timer(struct sim *s, struct event *e);
static void run_stopped(struct sim *s, struct event *e);

/* The others were told that it goes. */
static bool
has_left(const struct host *n)
{
	return replica_left(n->replica, (mono_t){INT64_MAX - 1}) && TAILQ_EMPTY(&n->held) &&
	       n->durable_ticket >= n->written_ticket;
}

static void
schedule(struct sim *s, struct host *n)
{
	int64_t at = clock_global(&n->clock, replica_deadline(n->replica));

	if (at == INT64_MAX || (n->timer_at != 0 && n->timer_at <= at))
		return;
	n->timer_at = at > s->now ? at : s->now;
	heap_push(&s->heap, (struct event){.at = n->timer_at,
	                                   .run = run_timer,
	                                   .who = n->id - 1,
	                                   .life = n->life,
	                                   .a = ++n->timers});
}

/* Who is behind the others' logs replaces its state by a copy of one of theirs and starts anew. */
static void
run_copied(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	uint8_t from;

	if (!n->up || n->life != e->life)
		return;
	n->copying = false;
	from = n->update.behind;
	if (from == 0 || !s->hosts[from - 1].up || !gate_passes(s, from, n->id) ||
	    s->hosts[from - 1].disk.applied <= n->disk.applied)
		return;
	disk_crash(s, &n->disk, LOSE_SOME);
	disk_copy_state(&n->disk, &s->hosts[from - 1].disk);
	sim_trace(s, "replica %d has a copy of the state of replica %u", n->id, from);
	host_down(s, n, 0);
}

/* Nothing is gone from any log that a member lacks: no log has a limit that would be reached,
 * nobody came later, nothing was damaged; and no crash took entries that a state already had, whose
 * log then begins behind them. */
static bool
keeps_logs(const struct sim *s)
{
	const uint64_t *struck = s->stats.faults;

	return s->swarm.log_entries == 0 && s->swarm.operators == 0 &&
	       struck[FAULT_ROT_LOG] + struck[FAULT_ROT_STATE] + struck[FAULT_WIPED] +
	               struck[FAULT_OLD_COPY] + struck[FAULT_WRITES_LOST] + struck[FAULT_FSYNC] ==
	           0;
}

static void
copy_if_behind(struct sim *s, struct host *n)
{
	if (n->copying || n->update.behind == 0)
		return;
	if (keeps_logs(s))
		sim_fail(s, "replica %d needs a copy, and no log is over its limit", n->id);
	n->copying = true;
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 10 * MS, 500 * MS),
	                                   .run = run_copied,
	                                   .who = n->id - 1,
	                                   .life = n->life});
}

static void run_expelled(struct sim *s, struct event *e);

static void
carry_out(struct sim *s, struct host *n)
{
	struct replica_update *u = &n->update;

	if (u->records_n > 0) {
		n->written_ticket = u->write;
		heap_push(&s->heap, (struct event){.at = disk_write_log(s, &n->disk, u->write,
		                                                        u->records, u->records_n),
		                                   .run = run_persisted,
		                                   .who = n->id - 1,
		                                   .life = n->life,
		                                   .a = u->write});
	}
	adversary_recorded(s, n);
	for (size_t i = 0; i < u->sends_n; i++)
		send(s, n, &u->sends[i]);
	if (u->rows.n > 0) {
		uint64_t applied = u->applied;

		heap_push(&s->heap,
		          (struct event){.at = disk_write_state(s, &n->disk, applied, &u->rows),
		                         .run = run_saved,
		                         .who = n->id - 1,
		                         .life = n->life,
		                         .a = applied});
	}
	for (size_t i = 0; i < u->closes_n; i++)
		net_node_closes(s, u->closes[i]);
	if (u->trace.len > 0)
		sim_trace(s, "replica %d says: %.*s", n->id, (int)u->trace.len - 1,
		          (char *)u->trace.data);
	check_applied(s, n);
	members_check(s, n);
	follow_role(s, n);
	check_masters(s);
	if (u->diverged)
		sim_fail(s, "replica %d says that its state differs", n->id);
	if (u->members_changed)
		follow_members(n);
	if (replica_condition(n->replica) == CONDITION_EXPELLED)
		heap_push(&s->heap, (struct event){.at = s->now,
		                                   .run = run_expelled,
		                                   .who = n->id - 1,
		                                   .life = n->life});
	copy_if_behind(s, n);
	schedule(s, n);
	if (n->stopping && has_left(n))
		heap_push(&s->heap, (struct event){.at = s->now,
		                                   .run = run_stopped,
		                                   .who = n->id - 1,
		                                   .life = n->life});
}

void
host_event(struct sim *s, struct host *n, struct replica_event event)
{
	event.now = clock_local(&n->clock, s->now);
	event.wall_ns = WALL_START + s->now + n->wall_off;
	replica_step(n->replica, &event, &n->update);
	if (n->update.rows.n + n->update.sends_n > LIMIT_STEP)
		sim_fail(s, "a step of replica %d changes %zu rows and sends %zu frames", n->id,
		         n->update.rows.n, n->update.sends_n);
	carry_out(s, n);
}

int64_t
host_turn(struct sim *s, struct host *n)
{
	int64_t turn = n->busy_until > s->now ? n->busy_until : s->now;

	n->busy_until = turn + s->swarm.cost_ns;
	return turn;
}

/* What arrived while the process was paused is read before its timers are looked at. */
static void
run_timer(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life || n->timers != e->a)
		return;
	if (n->paused_until > s->now) {
		struct event again = *e;

		again.at = n->paused_until + 1;
		heap_push(&s->heap, again);
		return;
	}
	n->timer_at = 0;
	host_event(s, n, (struct replica_event){.kind = REPLICA_TIMEOUT});
}

/* ---- life ---- */

void
host_start(struct sim *s, struct host *n)
{
	struct member members[LIMIT_REPLICAS];
	struct replica_config config = {
	    .members = members,
	    .members_n = n->disk.file.n,
	    .members_version = n->disk.file.version,
	    .digest_every = s->swarm.digest_every,
	    .settings = sim_settings(s),
	    .paxos = {.self = (uint8_t)n->id,
	              .key = {n->body},
	              .drift_permille = 10,
	              .log_entries = s->swarm.log_entries,
	              .start = rng_next(&s->rng),
	              .seed = rng_next(&s->rng)},
	    .master = {.cell = "sim",
	               .drift_permille = 10},
	};
	struct px_recovered recovered;
	struct tree *t = disk_recover(s, &n->disk, &recovered);

	must(!n->up && !n->gone);
	for (int i = 0; i < n->disk.file.n; i++)
		members[i] = seat_member(n->disk.file.list[i]);
	n->up = true;
	n->stopping = n->copying = false;
	n->life++;
	n->durable_ticket = n->written_ticket = 0;
	n->paused_until = n->timer_at = n->busy_until = 0;
	n->checked = tree_applied(t);
	n->role = PX_FOLLOWER;
	sim_trace(s, "replica %d starts: its state is of log %lu, its log ends at %lu", n->id,
	          (unsigned long)tree_applied(t),
	          recovered.entries_n
	              ? (unsigned long)recovered.entries[recovered.entries_n - 1].slot
	              : 0);
	if (n->checked > 0)
		remember(s, &s->model.digests, &s->model.digests_room, n->checked,
		         tree_digest(t) | 1, n, "the digest");
	if (tree_check(t) != NULL)
		sim_fail(s, "replica %d: tree_check: %s", n->id, tree_check(t));
	n->replica = replica_new(&config, t, &recovered, clock_local(&n->clock, s->now));
	n->gate = n->disk.file;
	follow_members(n);
	keep_cell_file(n);
	free((void *)recovered.entries);
	schedule(s, n);
	if (n->full)
		host_event(s, n, (struct replica_event){.kind = REPLICA_FULL, .on = true});
}

static void
node_forget(struct host *n)
{
	struct held_send *h;

	while ((h = TAILQ_FIRST(&n->held)) != NULL) {
		TAILQ_REMOVE(&n->held, h, entry);
		free((void *)h->send.frame.data);
		free(h);
	}
	if (n->replica != NULL)
		replica_free(n->replica);
	n->replica = NULL;
	replica_update_free(&n->update);
}

static void
run_start(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up && !n->gone && boot_allows(s, n))
		host_start(s, n);
}

void
host_down(struct sim *s, struct host *n, int64_t back)
{
	n->up = false;
	n->life++;
	n->back_at = s->now + back;
	node_forget(n);
	net_node_died(s, n->id - 1);
	heap_push(&s->heap,
	          (struct event){.at = n->back_at, .run = run_start, .who = n->id - 1});
}

static int64_t
until_back(struct sim *s)
{
	if (s->calm || rng_chance(&s->rng, 400))
		return sim_between(s, 0, 50 * MS);
	return sim_between(s, 0, rng_chance(&s->rng, 300) ? 20 * SECOND : SECOND);
}

void
host_crash(struct sim *s, struct host *n, enum fault why)
{
	if (!n->up)
		return;
	fault(s, why, "replica %d crashes", n->id);
	if (disk_crash(s, &n->disk, LOSE_SOME))
		fault(s, FAULT_WRITES_LOST, "replica %d loses what was not synced", n->id);
	host_down(s, n, until_back(s));
}

void
host_crash_for(struct sim *s, struct host *n, enum loss loss, int64_t back)
{
	if (!n->up)
		return;
	fault(s, FAULT_CRASH, "replica %d crashes for %.3f s", n->id, (double)back / 1e9);
	if (disk_crash(s, &n->disk, loss))
		fault(s, FAULT_WRITES_LOST, "replica %d loses what was not synced", n->id);
	host_down(s, n, back);
}

/* A replica whose fsync failed trusts nothing any more: it ends itself. Its supervisor knows no
 * better than to start it again at once. */
static void
fail(struct sim *s, struct host *n)
{
	int64_t restart = boot_failed(s, n);

	host_down(s, n, sim_between(s, 0, 200 * MS));
	n->back_at = restart;
}

/* It has left, or has waited long enough for that. */
static void
run_stopped(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life)
		return;
	sim_trace(s, "replica %d has stopped", n->id);
	disk_finish(&n->disk);
	host_down(s, n, n->stopped_for < 0 ? until_back(s) : n->stopped_for);
}

/* It was removed from the cell. Now and then somebody starts it again all the same. */
static void
run_expelled(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up || n->life != e->life)
		return;
	if (members_role(s, n->id) != MEMBER_REMOVED)
		sim_fail(s, "replica %d believes that it was removed", n->id);
	sim_trace(s, "replica %d knows that it was removed, and ends", n->id);
	disk_finish(&n->disk);
	n->gone = s->calm || rng_chance(&s->rng, 700);
	host_down(s, n, sim_between(s, 0, 5 * SECOND));
}

/* A clean stop: it gives up the mastership, and goes when the others have been told. It comes back
 * after that time; negative: after some. */
void
host_stop(struct sim *s, struct host *n, int64_t back)
{
	if (!n->up || n->stopping || n->paused_until > s->now)
		return;
	fault(s, FAULT_STOP, "replica %d is asked to stop", n->id);
	n->stopping = true;
	n->stopped_for = back;
	heap_push(&s->heap, (struct event){.at = s->now + LEAVE_SECONDS * SECOND,
	                                   .run = run_stopped,
	                                   .who = n->id - 1,
	                                   .life = n->life});
	host_event(s, n, (struct replica_event){.kind = REPLICA_STOP});
}

void
host_pause(struct sim *s, struct host *n, int64_t until)
{
	if (!n->up || n->paused_until > s->now)
		return;
	n->paused_until = until;
	fault(s, FAULT_PAUSE, "replica %d pauses for %.3f s", n->id,
	      (double)(until - s->now) / 1e9);
}

static bool
remembers_more(const struct host *other, const struct host *n, const struct disk *with)
{
	const struct mark *m = &host_disk(other)->marks[n->id];
	uint64_t last = with->highest > with->applied ? with->highest : with->applied;

	return m->incarnation > with->incarnation || m->slot > last ||
	       ballot_less(with->promised, m->ballot);
}

/* An acceptor that forgets is found out when whoever may welcome it remembers more of it. If a
 * majority with it remembers less, nobody can know. */
static bool
is_found_out_by(const struct sim *s, const struct seats *list, const struct host *n,
                const struct disk *with)
{
	int others = 0, voters = 0, welcome = 0;

	for (int i = 0; i < list->n; i++) {
		const struct host *other = &s->hosts[list->list[i].id - 1];

		if (list->list[i].role != MEMBER_VOTER)
			continue;
		voters++;
		others += other != n;
		welcome += other != n && host_exists(other) && !remembers_more(other, n, with);
	}
	return welcome < (others < voters ? voters / 2 : voters / 2 + 1);
}

/* It asks those in its file first, or those whom the disk names: one from the time when it had the
 * only vote asks nobody. */
static bool
is_found_out(const struct sim *s, const struct host *n, const struct disk *with)
{
	const struct members *m = &s->members;

	for (size_t i = 0; i < m->lists_n; i++) {
		bool over = i + 1 < m->lists_n && m->lists[i + 1].version <= with->applied;

		if (!over && m->lists[i].version <= with->highest &&
		    !is_found_out_by(s, &m->lists[i], n, with))
			return false;
	}
	return is_found_out_by(s, members_last(s), n, with) &&
	       is_found_out_by(s, &with->file, n, with);
}

/* A state that is lost has to be somebody else's, too, and as far as the logs begin. */
static bool
has_state_elsewhere(const struct sim *s, const struct host *n)
{
	uint64_t begins = 0, reached = 0;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct disk *d = &s->hosts[i].disk;

		if (!host_exists(&s->hosts[i]))
			continue;
		begins = d->trimmed > begins ? d->trimmed : begins;
		if (&s->hosts[i] != n && disk_is_whole(d) && d->applied > reached)
			reached = d->applied;
	}
	return reached >= begins;
}

static bool
damage(struct sim *s, struct host *n, enum fault f)
{
	struct disk *d = &n->disk, empty = {.file = d->file};

	switch (f) {
	case FAULT_ROT_LOG:
		return disk_rot_log(s, d);
	case FAULT_ROT_STATE:
		return disk_rot_state(d);
	case FAULT_OLD_COPY:
		if (n->copy.incarnation == 0 || !is_found_out(s, n, &n->copy))
			return false;
		disk_copy(d, &n->copy);
		d->replaced = true;
		return true;
	case FAULT_MACHINE_LOST:
		n->gone = true;
		return true;
	default:
		if (!is_found_out(s, n, &empty))
			return false;
		disk_free(d);
		*d = empty;
		disk_init(d);
		d->replaced = true;
		return true;
	}
}

void
host_damage(struct sim *s, struct host *n, enum fault f)
{
	static const char *const what[] = {
	    [FAULT_ROT_LOG] = "an entry of its log is damaged",
	    [FAULT_ROT_STATE] = "its state is damaged",
	    [FAULT_OLD_COPY] = "an old copy of its data is put in their place",
	    [FAULT_WIPED] = "its data directory is emptied",
	    [FAULT_MACHINE_LOST] = "it is lost for good",
	};

	if (members_spare_memory(s, n) || n->disk.replaced || n->boot.failed ||
	    (f != FAULT_ROT_LOG && !has_state_elsewhere(s, n)))
		return;
	if (n->up)
		host_crash(s, n, FAULT_CRASH);
	if (damage(s, n, f))
		fault(s, f, "replica %d: %s", n->id, what[f]);
}

static void
run_full(struct sim *s, struct event *e)
{
	host_full(s, &s->hosts[e->who], e->a != 0);
}

void
host_full(struct sim *s, struct host *n, bool full)
{
	if (n->full == full)
		return;
	if (n->up && n->paused_until > s->now) {
		heap_push(&s->heap, (struct event){.at = n->paused_until,
		                                   .run = run_full,
		                                   .who = n->id - 1,
		                                   .a = full});
		return;
	}
	n->full = full;
	if (n->up)
		host_event(s, n, (struct replica_event){.kind = REPLICA_FULL, .on = full});
}

void
host_clock_changed(struct sim *s, struct host *n)
{
	n->timer_at = 0;
	if (n->up)
		schedule(s, n);
}

void
host_calm_down(struct sim *s, struct host *n)
{
	host_full(s, n, false);
	n->disk.slow_until = 0;
	n->disk.broken = false;
	if (s->swarm.clocks == CLOCKS_WILD && n->paused_until <= s->now) {
		clock_set_rate(&n->clock, s->now, clock_draw_rate(&s->rng, CLOCKS_DRIFT));
		host_clock_changed(s, n);
	}
}

void
host_check_end(struct sim *s)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		enum member_role role = members_role(s, n->id);

		if (role == 0 || role == MEMBER_REMOVED)
			continue;
		if (!n->up)
			sim_fail(s, "replica %d is down", n->id);
		/* One whose copy held all that it had told may go on. */
		if (n->disk.replaced && replica_condition(n->replica) == CONDITION_LOST)
			continue;
		if (replica_condition(n->replica) != CONDITION_VOTING)
			sim_fail(s, "replica %d is not well: %d", n->id,
			         (int)replica_condition(n->replica));
		if (tree_applied(replica_tree(n->replica)) != s->model.applied)
			sim_fail(s, "replica %d has applied %lu, and %lu was decided", n->id,
			         (unsigned long)tree_applied(replica_tree(n->replica)),
			         (unsigned long)s->model.applied);
	}
}

void
host_free(struct host *n)
{
	node_forget(n);
	disk_free(&n->disk);
	disk_free(&n->copy);
	disk_free(&n->boot.real);
}

struct host *
sim_random_host(struct sim *s)
{
	int existing = 0, turn;

	for (int i = 0; i < s->hosts_n; i++)
		existing += host_exists(&s->hosts[i]);
	must(existing > 0);
	turn = (int)rng_below(&s->rng, (uint64_t)existing);
	for (int i = 0; ; i++)
		if (host_exists(&s->hosts[i]) && turn-- == 0)
			return &s->hosts[i];
}

struct host *
sim_serving(struct sim *s)
{
	for (int i = 0; i < s->hosts_n; i++) {
		struct host *n = &s->hosts[i];

		if (n->up && replica_serving(n->replica, clock_local(&n->clock, s->now)))
			return n;
	}
	return NULL;
}
