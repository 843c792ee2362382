/* Paxos under every fault, from seeds: first anything may break for a while and nothing may go
 * wrong, then the faults stop and everything must get going again ("Paxos Made Live", section
 * 6.3: safety mode, then liveness mode).
 *
 * test_px_sim               the seeds of make check
 * test_px_sim SEED [COUNT]  that seed, or so many from there on */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/px_world.h"

#define MS 1000000ll

static uint64_t
below(struct world *w, uint64_t bound)
{
	return rng_below(&w->rng, bound);
}

static uint8_t
anyone(struct world *w)
{
	return (uint8_t)(1 + below(w, (uint64_t)w->n));
}

static uint8_t
master_or_anyone(struct world *w)
{
	for (int i = 0; i < w->n; i++) {
		const struct px *px = w->nodes[i].px;

		if (px && px_role(px) == PX_MASTER && rng_chance(&w->rng, 700))
			return (uint8_t)(i + 1);
	}
	return anyone(w);
}

static void
heal(struct world *w)
{
	for (int i = 0; i <= WORLD_NODES; i++)
		for (int k = 0; k <= WORLD_NODES; k++)
			w->cut[i][k] = false;
}

/* Cuts all links from one side to the other, and back. */
static void
split(struct world *w, uint64_t sides, bool one_way)
{
	for (int i = 0; i < WORLD_NODES; i++)
		for (int k = 0; k < WORLD_NODES; k++)
			if ((sides >> i & 1) > (sides >> k & 1)) {
				w->cut[i + 1][k + 1] = true;
				w->cut[k + 1][i + 1] = !one_way;
			}
}

/* As many voters as the others can do without: these may change the members meanwhile. */
static uint64_t
minority(struct world *w)
{
	const struct px_members *m = world_members(w, w->sums_n);
	uint64_t sides = 0;

	for (int i = 0, n = 0; i < m->n; i++)
		if (m->list[i].voter && (n++ & 1) && !rng_chance(&w->rng, 100))
			sides |= 1u << (m->list[i].id - 1);
	return sides;
}

/* Two sides, often the master alone on one; now and then only one direction is cut. Who comes later
 * is on a side, too. */
static void
partition(struct world *w)
{
	uint64_t kind = below(w, 10);
	uint64_t sides = kind < 4 ? 1u << (master_or_anyone(w) - 1) :
	                 kind < 6 ? minority(w) : below(w, 1u << WORLD_NODES);

	split(w, sides, rng_chance(&w->rng, 300));
}

/* First somebody is cut off, so that it does not hear of the changes meanwhile; the next time it
 * meets a majority of the list that it knows, and nobody else. */
static void
outdate(struct world *w)
{
	const struct px_members *known = world_members(w, w->sums_n);
	uint8_t master = world_serving(w), id = w->outdated;
	uint64_t sides;
	int n = 1;

	if (id == 0)
		id = w->outdated = known->list[below(w, (uint64_t)known->n)].id;
	else
		w->outdated = 0;
	sides = 1u << (id - 1);
	if (world_node(w, id)->px)
		known = px_members(world_node(w, id)->px);
	for (int i = 0; w->outdated == 0 && i < known->n && !world_is_majority(known, n); i++) {
		uint8_t other = known->list[i].id;

		if (!known->list[i].voter || other == id || other == master)
			continue;
		sides |= 1u << (other - 1);
		n++;
	}
	split(w, sides, false);
}

static void
crash(struct world *w, uint8_t id)
{
	world_crash(w, id);
	if (world_node(w, id)->restart_at == 0)
		world_node(w, id)->restart_at = w->now + (int64_t)below(w, 1000) * MS;
}

static void
step_down(struct world *w, uint8_t id)
{
	struct node *node = world_node(w, id);

	if (node->px && w->now >= node->paused_until)
		world_step(w, id, (struct px_event){.kind = PX_STEP_DOWN});
}

/* One partition after the other, each for about the time of an election: so a list may change more
 * than once while some hear nothing of it. */
static void
roll(struct world *w)
{
	heal(w);
	if (w->outdated != 0 || rng_chance(&w->rng, 500))
		outdate(w);
	else
		partition(w);
	if (rng_chance(&w->rng, 200))
		crash(w, master_or_anyone(w));
}

/* A fault that outlasts the crash: restarted, the replica misses something. */
static void
disk_fault(struct world *w, uint8_t id)
{
	switch (below(w, 8)) {
	case 0:
		world_empty_disk(w, id);
		break;
	case 1: case 2:
		world_back_up_disk(w, id);
		break;
	case 3: case 4:
		world_restore_disk(w, id);
		break;
	case 5: case 6:
		world_rot(w, id);
		break;
	case 7:
		world_lose_state(w, id);
		break;
	}
	if (!world_node(w, id)->px && world_node(w, id)->restart_at == 0)
		world_node(w, id)->restart_at = w->now + (int64_t)below(w, 500) * MS;
}

static void
fault(struct world *w)
{
	if (w->rolling) {
		roll(w);
		return;
	}
	if (rng_chance(&w->rng, w->disk_faults)) {
		disk_fault(w, master_or_anyone(w));
		return;
	}
	switch (below(w, 12)) {
	case 0: case 1:
		crash(w, master_or_anyone(w));
		break;
	case 2:
		if (rng_chance(&w->rng, 300))
			for (int i = 0; i < w->n; i++)
				crash(w, (uint8_t)(i + 1));
		break;
	case 3: case 4:
		world_pause(w, master_or_anyone(w), (int64_t)below(w, 1500) * MS);
		break;
	case 5: case 6:
		partition(w);
		break;
	case 7: case 8: case 9:
		heal(w);
		break;
	case 10:
		step_down(w, master_or_anyone(w));
		break;
	case 11:
		world_node(w, master_or_anyone(w))->disk_stuck_until =
			w->now + (int64_t)below(w, 800) * MS;
		break;
	}
}

static void
restart_those_due(struct world *w, bool all)
{
	for (int i = 0; i < w->n; i++)
		if (!w->nodes[i].px && (all || w->nodes[i].restart_at <= w->now))
			world_boot(w, (uint8_t)(i + 1));
}

/* Goes on by a random while, and lets clients and state.db work. */
static void
work(struct world *w, uint64_t pace)
{
	world_run(w, w->now + (int64_t)below(w, pace) * MS / 10 + 1);
	for (uint64_t n = below(w, 4); n > 0; n--)
		world_propose(w, (unsigned)below(w, WORLD_CLIENTS));
	if (rng_chance(&w->rng, 100))
		world_save(w, anyone(w));
	if (rng_chance(&w->rng, w->change)) {
		world_change_members(w);
		if (!w->rolling && rng_chance(&w->rng, w->change / 2))
			fault(w); /* in the middle of it */
	}
}

/* Each seed has faults of its own kind and strength: what all have in common hides much. */
static void
choose_faults(struct world *w)
{
	static const unsigned changes[] = {0, 20, 100, 400};

	w->lose = (unsigned)below(w, 4) * 60;
	w->twice = (unsigned)below(w, 3) * 80;
	w->late = (unsigned)below(w, 3) * 20;
	w->delay = (1 + (int64_t)below(w, rng_chance(&w->rng, 400) ? 3 : 40)) * MS;
	w->late_delay = 1500 * MS;
	w->disk_delay = (1 + (int64_t)below(w, rng_chance(&w->rng, 400) ? 3 : 40)) * MS;
	w->drift_permille = rng_chance(&w->rng, 300) ? 500 : 20;
	w->large = rng_chance(&w->rng, 30) ? 30 : 0;
	w->in_order = rng_chance(&w->rng, 500);
	w->change = changes[below(w, 4)];
	w->rolling = w->change > 50 && rng_chance(&w->rng, 500);
	w->log_entries = rng_chance(&w->rng, 400) ? 1 + below(w, 60) : 0;
	w->disk_faults = w->change == 0 ? (unsigned)below(w, 3) * 150 : 0;
}

static void
stop_faults(struct world *w)
{
	heal(w);
	w->lose = w->twice = w->late = w->change = w->rolling = 0;
	w->delay = 5 * MS;
	w->disk_delay = 5 * MS;
	w->in_order = true;
	memset(w->arrived, 0, sizeof w->arrived);
	for (int i = 0; i < w->n; i++)
		w->nodes[i].paused_until = w->nodes[i].disk_stuck_until = w->now;
	restart_those_due(w, true);
}

static bool
everyone_knows_everything(struct world *w)
{
	const struct px_members *members = world_members(w, w->sums_n);

	for (int i = 0; i < members->n; i++)
		if (px_chosen(world_node(w, members->list[i].id)->px) < w->sums_n &&
		    !world_node(w, members->list[i].id)->lost)
			return false;
	return true;
}

static bool
all_applied(const struct world *w, const uint64_t *wanted)
{
	for (int i = 0; i < WORLD_CLIENTS; i++)
		if (w->clients[i].applied < wanted[i])
			return false;
	return true;
}

/* Within some leases of the end of the faults there is one master, and it stays; new commands of
 * every client are chosen, and everyone gets to know everything. */
static void
check_liveness(struct world *w)
{
	int64_t end = w->now + 8000 * MS;
	uint64_t wanted[WORLD_CLIENTS], masterships;

	while (w->now < end && world_serving(w) == 0)
		world_run(w, w->now + 10 * MS);
	world_check(w, world_serving(w) != 0, "without faults there is a master");
	world_run(w, w->now + 3000 * MS); /* what was late has arrived */
	masterships = w->masterships;
	for (int i = 0; i < WORLD_CLIENTS; i++)
		wanted[i] = w->clients[i].applied + 5;
	for (int i = 0; i < 200 || (i < 2000 && !all_applied(w, wanted)); i++)
		work(w, 40);
	world_run(w, w->now + 500 * MS);
	for (int i = 0; i < WORLD_CLIENTS; i++)
		world_check(w, w->clients[i].applied >= wanted[i],
		            "without faults commands take effect");
	world_check(w, everyone_knows_everything(w), "without faults everyone catches up");
	if (world_serving(w) != 0)
		world_check(w, world_votes(world_members(w, w->sums_n), world_serving(w)),
		            "without faults the master is a voter");
	world_check(w, w->masterships == masterships && world_serving(w) != 0,
	            "without faults the master stays");
}

static void
run_seed(uint64_t seed, bool sum, bool tell)
{
	static const int sizes[] = {3, 3, 5, 3, 5, 3, 1, 5};
	struct world w = {.rng = rng_seeded(seed), .tell = tell};
	uint64_t pace, fault_permille;

	choose_faults(&w);
	pace = 20 + below(&w, 200);
	fault_permille = w.rolling ? pace / 28 + 1 : below(&w, 30) * pace / 100 + 1;
	world_start(&w, seed, sizes[seed % 8]);
	while (w.now < (w.rolling ? 8000 : 4000) * MS) {
		work(&w, pace);
		if (rng_chance(&w.rng, (unsigned)fault_permille * 2))
			fault(&w);
		restart_those_due(&w, false);
	}
	stop_faults(&w);
	check_liveness(&w);
	if (sum)
		printf("seed %llu: %d replicas, %llu events, %llu chosen of %llu proposals, "
		       "%llu masterships, %llu crashes, %zu lists of %llu changes, "
		       "%llu copies of the state, %llu disks lost, %llu damaged, "
		       "%llu states lost\n",
		       (unsigned long long)seed, w.n, (unsigned long long)w.order,
		       (unsigned long long)w.sums_n, (unsigned long long)w.proposals,
		       (unsigned long long)w.masterships, (unsigned long long)w.crashes,
		       w.lists_n, (unsigned long long)w.changes, (unsigned long long)w.copies,
		       (unsigned long long)w.disks_lost, (unsigned long long)w.rotten,
		       (unsigned long long)w.states_lost);
	world_free(&w);
}

static volatile uint64_t running;

/* A broken guarantee inside paxos ends the program by a signal: the seed is told all the same. */
static void
tell_seed(int signal)
{
	char line[64];
	int n = snprintf(line, sizeof line, "rerun: tests/unit/test_px_sim %llu\n",
	                 (unsigned long long)running);

	if (write(STDERR_FILENO, line, (size_t)n) != n)
		_exit(2);
	_exit(128 + signal);
}

int
main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 200;

	signal(SIGABRT, tell_seed);
	for (uint64_t i = 0; i < count; i++) {
		running = first + i;
		run_seed(running, count <= 20, count == 1);
	}
	printf("%llu seeds hold\n", (unsigned long long)count);
	return 0;
}
