/* A client that has much to write at once, and what must not happen for that: in a cell in which
 * nothing fails nobody else becomes master, however slow the uplinks are; and if the master dies
 * just then, there soon is another one. */
#include <stdio.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	SETTLE_SECONDS = 2, /* of calm before that */
	ELECTION_MS = 3000, /* from its start until somebody serves, with a lease of LEASE_MS */
	CHECK_MS = 50,
};

static bool
all_well(const struct sim *s)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];

		if (!host_exists(n) || !n->up || n->stopping || n->copying ||
		    n->paused_until > s->now || n->disk.stuck_until > s->now ||
		    replica_condition(n->replica) != CONDITION_VOTING)
			return false;
	}
	return true;
}

/* The master was killed: is there another one? */
static void
run_check_elected(struct sim *s, struct event *e)
{
	(void)e;
	if (sim_serving(s) == NULL)
		sim_fail(s, "the master died under load, and the election has not ended");
}

static void
kill_master(struct sim *s, struct host *master)
{
	const int64_t lease = s->swarm.lease_ms;
	int64_t by = s->now + (2 * lease + ELECTION_MS * lease / LEASE_MS) * MS +
	             4 * (s->swarm.disk_us + s->swarm.latency_us) * 1000;

	host_crash_for(s, master, LOSE_NOTHING, by - s->now + SECOND);
	heap_push(&s->heap, (struct event){.at = by, .run = run_check_elected});
}

/* e->a: the epoch that it began in; e->b: when, in virtual time. */
static void
run_check(struct sim *s, struct event *e)
{
	struct host *master = sim_serving(s);
	struct event again = *e;
	bool busy = !work_idle(s, &s->machines[0]);

	if (s->model.epoch != e->a)
		sim_fail(s, "nothing failed, and under load another one became master");
	if (!busy || !all_well(s))
		return;
	if (e->life != 0 && master != NULL && s->now >= (int64_t)e->life) {
		kill_master(s, master);
		return;
	}
	again.at = s->now + CHECK_MS * MS;
	heap_push(&s->heap, again);
}

static void
run_bulk(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[0];
	int64_t kill = rng_chance(&s->rng, 500) ? s->now + sim_between(s, 0, 4 * SECOND) : 0;

	(void)e;
	if (!all_well(s) || sim_serving(s) == NULL || !m->up || m->closing ||
	    m->paused_until > s->now ||
	    m->state != CLIENT_SAFE || s->hosts_n == 1)
		return;
	sim_trace(s, "client 1 has much to write");
	work_bulk(s, m);
	heap_push(&s->heap, (struct event){.at = s->now + CHECK_MS * MS,
	                                   .run = run_check,
	                                   .life = (uint64_t)kill,
	                                   .a = s->model.epoch});
}

/* Where operators are, the master may change for other reasons. */
void
bulk_start(struct sim *s, int64_t from)
{
	if (!s->swarm.bulk || s->swarm.operators > 0)
		return;
	s->bulk_at = from + SETTLE_SECONDS * SECOND;
	heap_push(&s->heap, (struct event){.at = s->bulk_at, .run = run_bulk});
}
