/* The life of one replica's process: it starts, and ends as faults, operators and its server want
 * it. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
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
	if (seat->role != MEMBER_LEARNER)
		signing_keys_first(&n->disk.keys);
	n->clock.offset = clock_draw_start(&s->rng);
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

/* ---- starts ---- */

/* What it has in its data directory of the cell and of itself. */
static void
identify(struct sim *s, struct host *n)
{
	struct identity *identity = &n->identity;

	memset(identity, 0, sizeof *identity);
	cell_file_of_seats(&identity->cell_file, &n->disk.file);
	identity->cell_file.settings = sim_settings(s);
	identity->replica = (uint8_t)n->id;
	signing_keys_identify(n, identity);
	memcpy(identity->pair.secret, seat_key(n->body), NOISE_KEY);
	memcpy(identity->pair.public, seat_key(n->body), NOISE_KEY);
}

/* All other clients have one key, and none of them is delayed for the sake of others. Somebody who
 * has another key, and asks for nothing, is one of these others. */
static bool
has_bystander(const struct sim *s)
{
	return s->script == NULL && s->swarm.limits.budget > 0;
}

size_t
host_clients_max(const struct sim *s)
{
	if (s->swarm.clients_spare == 0)
		return SIZE_MAX;
	return (size_t)s->swarm.machines + (size_t)s->swarm.operators + s->swarm.clients_spare +
	       has_bystander(s);
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
	    .clients_max = host_clients_max(s),
	    .limits = s->swarm.limits,
	    .minor = n->minor,
	    .log_entries = s->swarm.log_entries,
	    .batch_entries = s->swarm.batch_entries,
	    .digest_every = s->swarm.digest_every,
	    .debug = s->options.trace || (s->script != NULL && !s->script->bare),
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
		host_remember(s, &s->model.digests, &s->model.digests_room, n->checked,
		              tree_digest(t) | 1, n, "the digest");
	if (tree_check(t) != NULL)
		sim_fail(s, "replica %d: tree_check: %s", n->id, tree_check(t));
	start_server(s, n, t, &recovered);
	free((void *)recovered.entries);
	if (n->full)
		server_full(n->server, true);
	if (has_bystander(s))
		net_connect(s, SCRIPTED, n->id - 1, false, n->body);
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
	must(!n->up && !n->gone);
	choose_minor(s, n);
	n->stopping = n->disk_failed = n->turn_waits = false;
	n->life++;
	n->paused_until = n->timer_at = n->busy_until = n->spent = 0;
	n->shown = (mono_t){0};
	n->clients = 0;
	n->requests_from = -1;
	n->gate = n->disk.file;
	identify(s, n);
	start(s, n);
	if (n->disk.keys.keys.n == 0)
		adversary_joining(s, n);
	liar_greet(s, n);
	host_settle(s, n);
}

static void
node_forget(struct host *n)
{
	server_free(n->server);
	n->server = NULL;
	n->replica = NULL;
	copies_free(n);
}

static void
run_start(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (!n->up && !n->gone && boot_allows(s, n))
		host_start(s, n);
}

/* The next process of a replica sends nothing before the last frame of this one has left. */
void
host_down(struct sim *s, struct host *n, int64_t back)
{
	const int64_t sent = host_departure(s, n);

	n->up = false;
	n->life++;
	n->back_at = s->now + back > sent ? s->now + back : sent;
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
}

void
host_crash(struct sim *s, struct host *n, enum fault why)
{
	if (!n->up)
		return;
	fault(s, why, "replica %d crashes", n->id);
	lose(s, n, LOSE_SOME);
	host_down(s, n, until_back(s));
}

void
host_crash_for(struct sim *s, struct host *n, enum loss loss, int64_t back)
{
	if (!n->up)
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

/* When it is stopped it leaves at once. */
static void
check_failed(struct sim *s, struct host *n)
{
	server_stop(n->server);
	if (server_deadline(n->server).ns != 0 || server_turn(n->server) != SERVER_LEFT)
		sim_fail(s, "replica %d has failed, and does not leave", n->id);
}

void
host_obey(struct sim *s, struct host *n, enum server_verdict verdict)
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
			check_failed(s, n);
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
		copies_check_newer(n);
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
	if (!n->up || n->stopping || host_busy_until(s, n) > s->now)
		return;
	fault(s, FAULT_STOP, "replica %d is asked to stop", n->id);
	stop(n, back);
	host_settle(s, n);
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
	if (n->up)
		host_schedule(s, n);
}

void
host_calm_down(struct sim *s, struct host *n)
{
	host_full(s, n, false);
	n->disk.slow_until = 0;
	n->disk.broken = false;
	if (n->disk.state_stuck_until > s->now)
		host_disk_goes_on(s, n);
	if (s->swarm.clocks == CLOCKS_WILD && n->paused_until <= s->now) {
		clock_set_rate(&n->clock, s->now, clock_draw_rate(&s->rng, CLOCKS_DRIFT));
		host_clock_changed(s, n);
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
