/* The process of one replica: its server is handed what comes, takes its turns, and lives as long
 * as faults let it. After each turn the log that it applied is compared with what every other
 * replica and every earlier life of it has applied. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

void
host_init(struct sim *s, struct host *n, int id)
{
	n->sim = s;
	n->id = id;
	disk_init(&n->disk);
	disk_init(&n->copy);
	disk_init(&n->boot.real);
}

void
host_create(struct sim *s, struct host *n, uint8_t body, const struct seats *file)
{
	const struct seat *seat = seats_find(file, (uint8_t)n->id);

	n->body = body;
	n->disk.file = *file;
	n->disk.has_key = seat->role != MEMBER_LEARNER;
	n->clock.offset = clock_draw_start(&s->rng);
	n->clock.ppm = clock_draw_rate(&s->rng, s->swarm.clocks);
}

bool
host_exists(const struct host *n)
{
	return n->body != 0 && n->life > 0 && !n->gone;
}

bool
host_runs(const struct host *n)
{
	return n->up || n->joining != NULL;
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
	else if ((*values)[index] != value && s->script == NULL) /* a script damages states */
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

		if (!sim_leases_hold(s) || !n->up || !px_lease_valid(replica_px(n->replica), now))
			continue;
		if (leased != NULL)
			sim_fail(s, "replicas %d and %d both have the master's lease", leased->id,
			         n->id);
		leased = n;
		/* What it knows as chosen it applies in bounded steps, and answers behind that. */
		if (replica_serving(n->replica, now) &&
		    px_chosen(replica_px(n->replica)) < s->model.applied)
			sim_fail(s, "replica %d serves, knows %lu, and %lu was decided", n->id,
			         (unsigned long)px_chosen(replica_px(n->replica)),
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

/* ---- turns ---- */

/* Whom it lets in, and connects to. */
static void
follow_members(struct host *n)
{
	struct msg_members told = replica_members(n->replica);
	struct seats seats;

	if (told.version == n->gate.version)
		return;
	seats_of_list(&seats, told.version, told.members);
	gate_set(n, &seats);
}

/* Without a list in its state a replica goes by the one in its cell file, which some change of the
 * members may have made. */
static void
check_first_list(struct sim *s, const struct host *n)
{
	const uint64_t version = px_members(replica_px(n->replica))->version;
	struct member member;

	if (!tree_member_after(replica_tree(n->replica), 0, &member) &&
	    version < n->disk.file.version)
		sim_fail(s, "replica %d goes by list %lu, and its cell file has list %lu", n->id,
		         (unsigned long)version, (unsigned long)n->disk.file.version);
}

static void
check(struct sim *s, struct host *n)
{
	check_applied(s, n);
	check_first_list(s, n);
	members_check(s, n);
	follow_role(s, n);
	if (replica_condition(n->replica) == CONDITION_OUTDATED && !n->downgraded &&
	    s->script == NULL)
		sim_fail(s, "replica %d does not speak the version of the log", n->id);
	check_masters(s);
	follow_members(n);
}

int64_t
host_busy_until(const struct sim *s, const struct host *n)
{
	if (!host_runs(n) || (n->paused_until <= s->now && n->busy_until <= s->now))
		return s->now;
	return n->paused_until > n->busy_until ? n->paused_until : n->busy_until;
}

bool
host_puts_off(struct sim *s, const struct host *n, struct event *e)
{
	struct event again = *e;

	again.at = host_busy_until(s, n);
	if (again.at <= s->now)
		return false;
	e->data = (struct bytes){0};
	heap_push(&s->heap, again);
	return true;
}

static void run_timer(struct sim *s, struct event *e);
static void run_turn(struct sim *s, struct event *e);

static void
turn_at(struct sim *s, struct host *n, int64_t at)
{
	if (n->turn_waits)
		return;
	n->turn_waits = true;
	heap_push(&s->heap,
	          (struct event){.at = at, .run = run_turn, .who = n->id - 1, .life = n->life});
}

static void
schedule(struct sim *s, struct host *n)
{
	const mono_t deadline = n->up ? server_deadline(n->server) : joining_deadline(n->joining);
	int64_t at;

	if (deadline.ns == 0) {
		turn_at(s, n, n->busy_until > s->now ? n->busy_until : s->now);
		return;
	}
	at = clock_global(&n->clock, deadline);
	if (at == INT64_MAX || (n->timer_at != 0 && n->timer_at <= at))
		return;
	n->timer_at = at > s->now ? at : s->now;
	heap_push(&s->heap, (struct event){.at = n->timer_at,
	                                   .run = run_timer,
	                                   .who = n->id - 1,
	                                   .life = n->life,
	                                   .a = ++n->timers});
}

static void obey(struct sim *s, struct host *n, enum server_verdict verdict);

static void
turn(struct sim *s, struct host *n)
{
	enum server_verdict verdict = SERVER_GOES_ON;

	s->quiet.turns++;
	if (n->up) {
		verdict = server_turn(n->server);
		check(s, n);
	}
	n->busy_until = s->now + n->spent;
	n->spent = 0;
	obey(s, n, verdict);
	if (host_runs(n))
		schedule(s, n);
}

static void
run_turn(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!host_runs(n) || n->life != e->life || host_puts_off(s, n, e))
		return;
	n->turn_waits = false;
	turn(s, n);
}

void
host_wake(struct sim *s, struct host *n)
{
	turn_at(s, n, s->now);
}

/* While its turn takes time, what comes meanwhile waits for the next one. */
void
host_settle(struct sim *s, struct host *n)
{
	if (s->swarm.cost_ns == 0) {
		turn(s, n);
		return;
	}
	if (n->up)
		check(s, n);
	turn_at(s, n, s->now);
}

/* What arrived while the process was paused is read before its timers are looked at. */
static void
run_timer(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!host_runs(n) || n->life != e->life || n->timers != e->a)
		return;
	if (host_busy_until(s, n) > s->now) {
		struct event again = *e;

		again.at = host_busy_until(s, n) + 1;
		heap_push(&s->heap, again);
		return;
	}
	n->timer_at = 0;
	s->quiet.server_timers++;
	if (n->up)
		server_timeout(n->server);
	else
		joining_timeout(n->joining);
	host_settle(s, n);
}

/* ---- connections ---- */

bool
host_opened(struct host *n, uint64_t conn, enum channel_role role, const uint8_t *key)
{
	return n->up ? server_opened(n->server, conn, role, key)
	             : joining_opened(n->joining, conn, role, key);
}

void
host_frame(struct host *n, uint64_t conn, struct bytes frame)
{
	if (n->up)
		server_frame(n->server, conn, frame);
	else
		joining_frame(n->joining, conn, frame);
}

void
host_closed(struct host *n, uint64_t conn, const char *why)
{
	if (n->up)
		server_closed(n->server, conn, why);
	else
		joining_closed(n->joining, conn, why);
}

/* ---- life ---- */

/* What it has in its data directory of the cell and of itself. */
static void
identify(struct sim *s, struct host *n)
{
	struct identity *identity = &n->identity;

	memset(identity, 0, sizeof *identity);
	cell_file_of_seats(&identity->cell_file, &n->disk.file);
	identity->cell_file.settings = sim_settings(s);
	identity->replica = (uint8_t)n->id;
	first_start_key(n, identity);
	memcpy(identity->pair.secret, seat_key(n->body), NOISE_KEY);
	memcpy(identity->pair.public, seat_key(n->body), NOISE_KEY);
}

static void
start_server(struct sim *s, struct host *n, struct tree *t, const struct px_recovered *recovered)
{
	const struct server_io io = host_io(n);
	struct server_config config = {
	    .identity = &n->identity,
	    .directory = "its data",
	    .tree = t,
	    .recovered = recovered,
	    .clients_max = SIZE_MAX,
	    .limits = s->swarm.limits,
	    .minor = n->minor,
	    .log_entries = s->swarm.log_entries,
	    .batch_entries = s->swarm.batch_entries,
	    .digest_every = s->swarm.digest_every,
	    .debug = s->options.trace || s->script != NULL,
	};

	n->server = server_new(&config, &io);
	n->replica = server_replica(n->server);
}

static void
start(struct sim *s, struct host *n)
{
	struct px_recovered recovered;
	struct tree *t;

	copies_swap_in(n);
	rot_try(s, &n->disk);
	t = disk_recover(s, &n->disk, &recovered);
	n->up = true;
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
	start_server(s, n, t, &recovered);
	free((void *)recovered.entries);
	if (n->full)
		server_full(n->server, true);
}

enum {
	DOWNGRADE_PERMILLE = 50,
	OUTDATED_MS = 2000, /* until the server says so: at its first deadline, at the latest */
};

/* Which program is started? Sometimes one that is older than the last one, too. */
static void
choose_minor(struct sim *s, struct host *n)
{
	struct rng own = rng_seeded(s->seed + (uint64_t)s->now); /* other runs are what they were */

	if (n->life == 0 && s->now > 0 && s->script == NULL)
		n->minor = MINOR_NEWEST; /* somebody has added it */
	else if (n->life > 0 && s->swarm.upgrades > 0 && rng_chance(&s->rng, s->swarm.upgrades))
		n->minor = MINOR_NEWEST;
	if (n->minor == MINOR_NEWEST && s->swarm.upgrades > 0 && !s->calm && n->life > 0 &&
	    rng_chance(&own, DOWNGRADE_PERMILLE)) {
		n->minor = MINOR_NEWEST - 1;
		n->downgraded = true;
		sim_trace(s, "replica %d is started with an older program", n->id);
	}
}

void
host_start(struct sim *s, struct host *n)
{
	must(!host_runs(n) && !n->gone);
	choose_minor(s, n);
	n->stopping = n->disk_failed = n->turn_waits = false;
	n->life++;
	n->paused_until = n->timer_at = n->busy_until = n->spent = 0;
	n->shown = (mono_t){0};
	n->gate = n->disk.file;
	identify(s, n);
	if (n->disk.has_key)
		start(s, n);
	else
		first_start_begin(s, n);
	host_settle(s, n);
}

static void
node_forget(struct host *n)
{
	server_free(n->server);
	joining_free(n->joining);
	n->server = NULL;
	n->joining = NULL;
	n->key_has_come = false;
	n->replica = NULL;
	copies_free(n);
}

static void
run_start(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!host_runs(n) && !n->gone && boot_allows(s, n))
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
	heap_push(&s->heap, (struct event){.at = n->back_at, .run = run_start, .who = n->id - 1});
}

static int64_t
until_back(struct sim *s)
{
	if (s->calm || rng_chance(&s->rng, 400))
		return sim_between(s, 0, 50 * MS);
	return sim_between(s, 0, rng_chance(&s->rng, 300) ? 20 * SECOND : SECOND);
}

static void
lose(struct sim *s, struct host *n, enum loss loss)
{
	if (disk_crash(s, &n->disk, loss))
		fault(s, FAULT_WRITES_LOST, "replica %d loses what was not synced", n->id);
	first_start_crash(s, n);
}

void
host_crash(struct sim *s, struct host *n, enum fault why)
{
	if (!host_runs(n))
		return;
	fault(s, why, "replica %d crashes", n->id);
	lose(s, n, LOSE_SOME);
	host_down(s, n, until_back(s));
}

void
host_crash_for(struct sim *s, struct host *n, enum loss loss, int64_t back)
{
	if (!host_runs(n))
		return;
	fault(s, FAULT_CRASH, "replica %d crashes for %.3f s", n->id, (double)back / 1e9);
	lose(s, n, loss);
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
stopped(struct sim *s, struct host *n)
{
	sim_trace(s, "replica %d has stopped", n->id);
	disk_finish(&n->disk);
	host_down(s, n, n->stopped_for < 0 ? until_back(s) : n->stopped_for);
}

/* It was removed from the cell. Now and then somebody starts it again all the same. */
void
host_expelled(struct sim *s, struct host *n)
{
	if (members_role(s, n->id) != MEMBER_REMOVED)
		sim_fail(s, "replica %d believes that it was removed", n->id);
	sim_trace(s, "replica %d knows that it was removed, and ends", n->id);
	disk_finish(&n->disk);
	n->gone = s->calm || rng_chance(&s->rng, 700);
	host_down(s, n, sim_between(s, 0, 5 * SECOND));
}

/* Its program is too old, or its state is not that of the others, which only a script brings about;
 * nobody starts it again by itself. */
static void
end_for_good(struct sim *s, struct host *n)
{
	disk_finish(&n->disk);
	host_down(s, n, INT32_MAX * SECOND);
}

static void
stop(struct host *n, int64_t back)
{
	n->stopping = true;
	n->stopped_for = back;
	server_stop(n->server);
}

/* Then somebody starts the newer program again. */
static void
outdated_ends(struct sim *s, struct host *n)
{
	sim_trace(s, "replica %d does not speak the version of the log, and ends", n->id);
	n->downgraded = false;
	n->outdated_at = 0;
	n->minor = MINOR_NEWEST;
	host_crash_for(s, n, LOSE_NOTHING, until_back(s));
}

static void
obey(struct sim *s, struct host *n, enum server_verdict verdict)
{
	const bool outdated = n->up && replica_condition(n->replica) == CONDITION_OUTDATED;

	if (outdated && n->outdated_at == 0)
		n->outdated_at = s->now;
	if (outdated && verdict == SERVER_GOES_ON && s->now - n->outdated_at > OUTDATED_MS * MS)
		sim_fail(s, "replica %d does not speak the version of the log, and goes on", n->id);
	switch (verdict) {
	case SERVER_GOES_ON:
		return;
	case SERVER_FAILED:
		if (n->disk_failed)
			fail(s, n);
		else if (outdated && s->script != NULL)
			end_for_good(s, n);
		else if (outdated)
			outdated_ends(s, n);
		else
			host_expelled(s, n);
		return;
	case SERVER_RESTARTS:
		stop(n, 0);
		return;
	case SERVER_DIVERGED:
		if (s->script != NULL) {
			end_for_good(s, n);
			return;
		}
		sim_fail(s, "replica %d says that its state differs", n->id);
	case SERVER_LEFT:
		stopped(s, n);
		return;
	}
}

/* A clean stop: it gives up the mastership, and goes when the others have been told. It comes back
 * after that time; negative: after some. */
void
host_stop(struct sim *s, struct host *n, int64_t back)
{
	if (!host_runs(n) || n->stopping || host_busy_until(s, n) > s->now)
		return;
	fault(s, FAULT_STOP, "replica %d is asked to stop", n->id);
	if (!n->up) {
		host_down(s, n, back < 0 ? until_back(s) : back);
		return;
	}
	stop(n, back);
	host_settle(s, n);
}

void
host_pause(struct sim *s, struct host *n, int64_t until)
{
	if (!host_runs(n) || n->paused_until > s->now)
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

bool
host_is_bound_by_lies(const struct sim *s, const struct host *n)
{
	bool more = false;

	for (int i = 0; i < s->hosts_n; i++)
		more = more || remembers_more(&s->hosts[i], n, &n->disk);
	/* The others may have kept a mark of it, made up, that exceeds what it has in slot or in
	 * ballot: its repair is confirmed when the log has grown beyond that. */
	if (s->liar.id != 0 && n->up && replica_condition(n->replica) == CONDITION_REPAIRING)
		return true;
	return n->id == s->liar.id && more;
}

/* Its rounds or those of the others were led up while it was away: they meet in steps. */
static bool
is_rounds_apart(struct sim *s, const struct host *n)
{
	const struct host *master = sim_serving(s);
	const uint64_t own = n->disk.promised.round;
	const uint64_t theirs = master != NULL ? px_master(replica_px(master->replica)).round : own;

	return s->liar.id != 0 &&
	       (own + BALLOT_ROUND_LEAP < theirs || theirs + BALLOT_ROUND_LEAP < own);
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
	struct disk *d = &n->disk, empty = {.file = d->file, .has_key = d->has_key};

	switch (f) {
	case FAULT_ROT_LOG:
		return disk_rot_log(s, d);
	case FAULT_ROT_STATE:
		return disk_rot_state(d);
	case FAULT_OLD_COPY:
		if (n->copy.incarnation == 0 || !is_found_out(s, n, &n->copy))
			return false;
		disk_copy(d, &n->copy);
		copies_forget_ready(n);
		d->replaced = true;
		return true;
	case FAULT_MACHINE_LOST:
		n->gone = true;
		return true;
	default:
		if (!is_found_out(s, n, &empty))
			return false;
		disk_free(d);
		copies_forget_ready(n);
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
	if (host_busy_until(s, n) > s->now) {
		heap_push(&s->heap, (struct event){.at = host_busy_until(s, n),
		                                   .run = run_full,
		                                   .who = n->id - 1,
		                                   .a = full});
		return;
	}
	n->full = full;
	if (!n->up)
		return;
	server_full(n->server, full);
	host_settle(s, n);
}

void
host_clock_changed(struct sim *s, struct host *n)
{
	n->timer_at = 0;
	if (host_runs(n))
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

/* Whoever has lost its state begins with the list there. */
static void
check_cell_file(struct sim *s, const struct host *n)
{
	const uint64_t version = tree_members_version(replica_tree(n->replica));

	if (n->disk.file.version != version)
		sim_fail(s, "the cell file of replica %d has list %lu, and there is list %lu",
		         n->id, (unsigned long)n->disk.file.version, (unsigned long)version);
}

void
host_check_minor(struct sim *s)
{
	const uint64_t minor =
	    tree_setting(replica_tree(sim_serving(s)->replica), SETTING_minor_version);
	uint64_t lowest = UINT64_MAX;
	bool told = true; /* one that has lost its vote answers nobody, and does not read the log */

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		const enum member_role role = members_role(s, n->id);

		if (role == 0 || role == MEMBER_REMOVED)
			continue;
		if (host_is_lost(n))
			told = false;
		else
			lowest = n->minor < lowest ? n->minor : lowest;
	}
	if (minor > lowest || (minor < lowest && told))
		sim_fail(s, "the log is of minor version %lu, and all speak %lu",
		         (unsigned long)minor, (unsigned long)lowest);
}

void
host_check_end(struct sim *s)
{
	/* An entry of the master's own may be as young as this. */
	const int64_t lease = setting_changes_greatest(s, SETTING_master_lease);

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
		if (host_is_bound_by_lies(s, n) || is_rounds_apart(s, n))
			continue;
		if (replica_condition(n->replica) != CONDITION_VOTING)
			sim_fail(s, "replica %d is not well: %d", n->id,
			         (int)replica_condition(n->replica));
		if (s->now - s->model.applied_at > lease &&
		    tree_applied(replica_tree(n->replica)) != s->model.applied)
			sim_fail(s, "replica %d has applied %lu, and %lu was decided", n->id,
			         (unsigned long)tree_applied(replica_tree(n->replica)),
			         (unsigned long)s->model.applied);
		check_cell_file(s, n);
	}
}

void
host_free(struct host *n)
{
	node_forget(n);
	copies_forget_ready(n);
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
	for (int i = 0;; i++)
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
