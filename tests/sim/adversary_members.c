/* Faults that wait for a change of the members, or for a step of a new one. */
#include "tests/sim/sim.h"

/* Those on the one side reach those on the other no more. */
void
adversary_halve(struct sim *s, uint64_t side, int64_t until)
{
	for (int a = 1; a <= s->hosts_n; a++)
		for (int b = 1; b < a; b++)
			if (((side >> a) & 1) != ((side >> b) & 1))
				net_cut_replicas(s, a, b, until);
}

int64_t
adversary_moment(struct sim *s)
{
	int64_t most = rng_chance(&s->rng, 300) ? 8 * SECOND : 3 * SECOND;

	return s->now + sim_between(s, 300 * MS, most);
}

/* ---- a change of the members ---- */

static bool
holds_change(const struct px_record *records, size_t records_n)
{
	struct op_set_members change;

	for (size_t i = 0; i < records_n; i++)
		if (records[i].kind == PX_RECORD_ENTRY &&
		    wire_entry_members(records[i].payload, &change))
			return true;
	return false;
}

static void
run_at_change(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who], *master = sim_serving(s);

	if (s->calm || !n->up || n->life != e->life)
		return;
	fault(s, FAULT_AT_CHANGE, "replica %d accepts a change of the members", n->id);
	switch (rng_below(&s->rng, 5)) {
	case 0:
		adversary_halve(s, rng_next(&s->rng), adversary_moment(s));
		return;
	case 1:
		host_crash_for(s, n, rng_chance(&s->rng, 500) ? LOSE_ALL : LOSE_NOTHING,
		               sim_between(s, 0, 2 * SECOND));
		return;
	case 2:
		if (master != NULL)
			host_crash_for(s, master, LOSE_SOME, sim_between(s, 0, 3 * SECOND));
		return;
	case 3: /* nobody hears the master but this one */
		if (master != NULL)
			adversary_halve(s, 1u << master->id | 1u << n->id, adversary_moment(s));
		return;
	default:
		adversary_halve(s, 1u << n->id, adversary_moment(s));
		return;
	}
}

void
adversary_look_for_change(struct sim *s, struct host *n, const struct px_record *records,
                          size_t records_n)
{
	if (s->swarm.operators == 0 || !holds_change(records, records_n) ||
	    !fault_strikes(s, FAULT_AT_CHANGE))
		return;
	heap_push(&s->heap,
	          (struct event){.at = s->now + sim_between(s, 0, 3 * s->swarm.latency_us * 1000),
	                         .run = run_at_change,
	                         .who = n->id - 1,
	                         .life = n->life});
}

static void
run_forget(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (s->calm || !n->up || n->life != e->life)
		return;
	fault(s, FAULT_AT_CHANGE, "replica %d has just learned of a change of the members", n->id);
	host_crash_for(s, n, LOSE_ALL, sim_between(s, 0, SECOND));
}

/* Others hear of it, and it forgets it. */
void
adversary_in_force(struct sim *s, struct host *n)
{
	if (s->swarm.operators == 0 || !fault_strikes(s, FAULT_AT_CHANGE))
		return;
	heap_push(&s->heap,
	          (struct event){.at = s->now + sim_between(s, 0, 2 * s->swarm.disk_us * 1000),
	                         .run = run_forget,
	                         .who = n->id - 1,
	                         .life = n->life});
}

/* The master hears only those who have no vote. */
void
adversary_learners(struct sim *s)
{
	const struct host *master = sim_serving(s);
	uint64_t side = 0;

	for (int id = 1; id <= s->hosts_n; id++)
		if (members_role(s, id) == MEMBER_LEARNER && s->hosts[id - 1].up)
			side |= 1u << id;
	if (side == 0 || master == NULL || !fault_strikes(s, FAULT_AT_CHANGE))
		return;
	fault(s, FAULT_AT_CHANGE, "replica %d is left with the learners", master->id);
	adversary_halve(s, side | 1u << master->id, adversary_moment(s));
}

/* Who missed the change comes back as those who made it go. */
static void
run_come_back(struct sim *s, struct event *e)
{
	if (s->calm)
		return;
	adversary_halve(s, e->a, s->now + sim_between(s, 500 * MS, 4 * SECOND));
}

void
adversary_change(struct sim *s)
{
	struct host *behind = sim_random_host(s);
	int64_t until = s->now + sim_between(s, 100 * MS, 6 * SECOND);
	uint64_t side = rng_next(&s->rng) | 1u << behind->id;

	if (!fault_strikes(s, FAULT_LEFT_BEHIND))
		return;
	fault(s, FAULT_LEFT_BEHIND, "replica %d is cut off from the others for %.3f s", behind->id,
	      (double)(until - s->now) / 1e9);
	adversary_halve(s, 1u << behind->id, until);
	heap_push(&s->heap, (struct event){.at = until, .run = run_come_back, .a = side});
}

/* ---- the steps of joining ---- */

/* It goes, or its source does, or it does not reach the others. */
static void
run_at_joining(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who], *other = sim_random_host(s);

	if (s->calm || !n->up || n->life != e->life)
		return;
	fault(s, FAULT_AT_JOINING, "replica %d takes a step towards its vote", n->id);
	switch (rng_below(&s->rng, 4)) {
	case 0:
		host_crash_for(s, n, LOSE_SOME, sim_between(s, 0, 2 * SECOND));
		return;
	case 1:
		host_crash_for(s, other, LOSE_SOME, sim_between(s, 0, 3 * SECOND));
		return;
	case 2:
		if (other != n)
			net_cut_replicas(s, n->id, other->id, adversary_moment(s));
		return;
	default:
		adversary_halve(s, 1u << n->id, adversary_moment(s));
		return;
	}
}

void
adversary_joining(struct sim *s, struct host *n)
{
	const int64_t soon =
	    s->swarm.latency_us > s->swarm.disk_us ? s->swarm.latency_us : s->swarm.disk_us;

	if (!fault_strikes(s, FAULT_AT_JOINING))
		return;
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 3 * soon * 1000),
	                                   .run = run_at_joining,
	                                   .who = n->id - 1,
	                                   .life = n->life});
}
