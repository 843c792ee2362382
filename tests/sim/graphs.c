/* graphs                     some worlds, drawn
 * graphs --all               each of them
 * graphs --world N --from BASE [--trace]
 *
 * Which five replicas reach each other: all 1,024 graphs of links that are up or cut, in each of
 * four worlds. The hub, which most others reach, has the whole log or lacks much of it; the master
 * until then, which is not the hub if that lacks anything, stays or dies. Wherever one replica
 * reaches a majority, counting itself, there is a master soon, as soon as tests/sim/core.c derives,
 * and it stays: nothing changes any more, so nobody has a reason to take its place. */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	REPLICAS = 5,
	LINKS_N = REPLICAS * (REPLICAS - 1) / 2,
	OLD_LOG = 1 << LINKS_N,
	MASTER_DIES = OLD_LOG << 1,
	WORLDS = MASTER_DIES << 1,
	SOME_WORLDS = 200,
	WRITES =
	    8, /* of BULK_BYTES: more than an acceptor lets a candidate lack (PX_AHEAD_BYTES) */
	SETTLE_MS = 2000,
	AWAY_MS = 1000, /* the hub, while that is written; a master that yields */
	ELECTION_MS = CORE_LEASES * LEASE_MS,
	STAYS_MS = 10000,
	LOOK_MS = 50,
};

static char world_text[100];

/* ---- a world ---- */

static bool
is_linked(unsigned world, int a, int b)
{
	int bit = 0;

	for (int i = 1; i <= REPLICAS; i++)
		for (int j = i + 1; j <= REPLICAS; j++, bit++)
			if ((i == a && j == b) || (i == b && j == a))
				return (world >> bit & 1) != 0;
	return true;
}

/* How many replicas it reaches, counting itself; `dead` 0: all live. */
static int
reach(unsigned world, int id, int dead)
{
	int n = 0;

	for (int other = 1; other <= REPLICAS; other++)
		n += other != dead && is_linked(world, id, other);
	return n;
}

static int
best_connected(unsigned world, int dead, int but)
{
	int best = 0;

	for (int id = 1; id <= REPLICAS; id++)
		if (id != dead && id != but &&
		    (best == 0 || reach(world, id, dead) > reach(world, best, dead)))
			best = id;
	return best;
}

/* ---- what happens in it ---- */

static void
on_said(void *user, int replica, enum log_level level, const char *line)
{
	(void)user, (void)replica, (void)level, (void)line;
}

static void
on_decided(void *user, uint64_t index, const struct op *op, const struct record *r,
           const struct outcome *want)
{
	(void)user, (void)index, (void)op, (void)r, (void)want;
}

static void
on_answered(void *user, const struct record *r)
{
	(void)user, (void)r;
}

static void
on_state(void *user, int machine)
{
	(void)user, (void)machine;
}

static void
on_granted(void *user, int machine, const struct client_grant *g)
{
	(void)user, (void)machine, (void)g;
}

static void
on_watched(void *user, int machine, const struct client_watched *w)
{
	(void)user, (void)machine, (void)w;
}

static const struct sim_script script = {
    .said = on_said,
    .decided = on_decided,
    .answered = on_answered,
    .granted = on_granted,
    .state = on_state,
    .watched = on_watched,
};

static void
ask(struct sim *s, struct op op)
{
	machine_request(s, &s->machines[0], PROCESS_SCRIPT, &op, true);
}

static void
write_much(struct sim *s)
{
	static uint8_t text[BULK_BYTES];
	const struct record *created;

	memset(text, 'x', sizeof text);
	ask(s, work_create("much", false, false));
	created = s->history.records[s->history.n - 1];
	sim_run_until(s, s->now + SECOND);
	must(created->answered && created->rc == RC_OK);
	for (int i = 0; i < WRITES; i++)
		ask(s, (struct op){.code = OP_set_contents,
		                   .set_contents = {.node = created->got.node,
		                                    .contents = {text, sizeof text}}});
}

static void
set_links(struct sim *s, unsigned world)
{
	for (int a = 1; a <= REPLICAS; a++)
		for (int b = a + 1; b <= REPLICAS; b++) {
			link_heal(s, a, b);
			link_heal(s, b, a);
			if (!is_linked(world, a, b))
				net_cut_replicas(s, a, b, INT64_MAX / 2);
		}
}

static void
cut_off(struct sim *s, int id)
{
	for (int other = 1; other <= REPLICAS; other++)
		if (other != id)
			net_cut_replicas(s, id, other, INT64_MAX / 2);
}

/* A master whose ballot a minority has outdone may yield to that once (yields in
 * cell/paxos/proposer.c), and is back at once. */
static void
judge(struct sim *s)
{
	int64_t served_at, until;
	uint64_t epoch;

	sim_run_until(s, s->now + ELECTION_MS * MS);
	epoch = s->model.epoch;
	served_at = s->now - AWAY_MS * MS;
	for (until = s->now + STAYS_MS * MS; s->now < until;
	     sim_run_until(s, s->now + LOOK_MS * MS)) {
		if (sim_serving(s) != NULL)
			served_at = s->now;
		if (s->now - served_at >= AWAY_MS * MS)
			sim_fail(s, "one replica reaches a majority, and there is no master");
	}
	if (s->model.epoch > epoch + 1)
		sim_fail(s, "one replica reaches a majority, and its master does not stay");
}

static void
play(unsigned world, uint64_t seed, bool trace)
{
	struct sim *s = sim_stage(&script, seed);
	int master, dead, hub;

	s->options.trace = trace;
	sim_stage_cell(s, REPLICAS);
	sim_stage_client(s, false);
	sim_run_until(s, SETTLE_MS * MS);
	must(sim_serving(s) != NULL);
	master = sim_serving(s)->id;
	dead = (world & MASTER_DIES) != 0 ? master : 0;
	hub = best_connected(world, dead, (world & OLD_LOG) != 0 ? master : 0);
	if ((world & OLD_LOG) != 0)
		cut_off(s, hub);
	write_much(s);
	sim_run_until(s, s->now + AWAY_MS * MS);
	sim_trace(s, "the links are those of world %u; the hub is replica %d", world, hub);
	set_links(s, world);
	if (dead != 0)
		host_crash_for(s, &s->hosts[dead - 1], LOSE_NOTHING, INT32_MAX * SECOND);
	if (reach(world, best_connected(world, dead, 0), dead) > REPLICAS / 2)
		judge(s);
	sim_free(s);
	free(s);
}

/* ---- the program ---- */

static void
on_abort(int signal)
{
	(void)signal;
	(void)!write(STDERR_FILENO, world_text, strlen(world_text));
	_exit(1);
}

static void
play_one(unsigned world, uint64_t base, bool trace)
{
	snprintf(world_text, sizeof world_text,
	         "graphs: rerun: tests/sim/graphs --world %u --from %" PRIu64 " --trace\n", world,
	         base);
	play(world, base + world, trace);
}

static uint64_t
drawn_base(void)
{
	uint64_t base;

	if (getrandom(&base, sizeof base, 0) != sizeof base)
		exit(2);
	return base % UINT64_C(1000000000000);
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"all", no_argument, NULL, 'a'},
	    {"world", required_argument, NULL, 'w'},
	    {"from", required_argument, NULL, 'f'},
	    {"trace", no_argument, NULL, 't'},
	    {0},
	};
	uint64_t base = drawn_base();
	bool all = false, trace = false;
	long world = -1;
	struct rng rng;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'a')
			all = true;
		else if (c == 'w')
			world = strtol(optarg, NULL, 10);
		else if (c == 'f')
			base = strtoull(optarg, NULL, 10);
		else if (c == 't')
			trace = true;
		else
			return 2;
	}
	signal(SIGABRT, on_abort);
	rng = rng_seeded(base);
	if (world >= 0)
		play_one((unsigned)world, base, trace);
	for (unsigned i = 0; world < 0 && i < (all ? WORLDS : SOME_WORLDS); i++)
		play_one(all ? i : (unsigned)rng_below(&rng, WORLDS), base, trace);
	printf("graphs: from %" PRIu64 ": every majority that is reached has its master\n", base);
	return 0;
}
