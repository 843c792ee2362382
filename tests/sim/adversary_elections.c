/* Faults that wait for an election. */
#include "tests/sim/sim.h"

/* ---- two values of a slot ---- */

/* The replicas of such a race, by ids: the old master and the one that is to stand for election,
 * who both miss what is decided, as bytes of an event's `a`. */
static int
old_master(const struct event *e)
{
	return (int)(e->a & 0xff);
}

static int
next_candidate(const struct event *e)
{
	return (int)(e->a >> 8);
}

static void
isolate(struct sim *s, int id, int64_t until)
{
	for (int other = 1; other <= s->hosts_n; other++)
		if (other != id)
			net_cut_replicas(s, id, other, until);
}

static void
reconnect(struct sim *s, int a, int b)
{
	link_heal(s, a, b);
	link_heal(s, b, a);
}

/* Of those who know what was decided one is left. It and the old master stand still until the
 * candidate has asked them; then they don't reach each other, and the candidate does not reach the
 * former for long. */
static void
run_two_values(struct sim *s, struct event *e)
{
	const int64_t until = s->now + 4 * SECOND;
	struct host *master = sim_serving(s);
	int witness = 0;

	if (s->calm || master == NULL || master->id == old_master(e) ||
	    master->id == next_candidate(e))
		return;
	host_crash_for(s, master, LOSE_NOTHING, 4 * SECOND);
	for (int id = 1; id <= s->hosts_n; id++) {
		if (id == old_master(e) || id == next_candidate(e) || !s->hosts[id - 1].up)
			continue;
		if (witness != 0)
			isolate(s, id, until);
		witness = id;
	}
	if (witness == 0)
		return;
	fault(s, FAULT_TWO_VALUES, "replica %d may learn from %d and %d only", next_candidate(e),
	      witness, old_master(e));
	reconnect(s, next_candidate(e), old_master(e));
	reconnect(s, next_candidate(e), witness);
	net_cut_replicas(s, old_master(e), witness, until);
	host_pause(s, &s->hosts[witness - 1], s->now + sim_between(s, 700 * MS, 900 * MS));
	host_pause(s, &s->hosts[old_master(e) - 1], s->now + sim_between(s, 600 * MS, 800 * MS));
	s->spared_until = s->now + 4 * SECOND;
	s->swarm.rates[FAULT_AT_GATHER] = 8000;
}

static void
run_wait_for_master(struct sim *s, struct event *e)
{
	const struct host *master = sim_serving(s);
	struct event again = *e;

	if (s->calm || s->now >= (int64_t)e->b)
		return;
	again.at = s->now + 20 * MS;
	if (master != NULL && master->id != old_master(e)) {
		again.at = s->now + sim_between(s, 0, 400 * MS);
		again.run = run_two_values;
	}
	heap_push(&s->heap, again);
}

/* The master has just written an entry that nobody else gets. */
void
adversary_look_for_two_values(struct sim *s, struct host *master, const struct px_record *records,
                              size_t records_n)
{
	const int candidate = sim_random_host(s)->id;
	const int64_t until = s->now + 4 * SECOND;

	if (s->hosts_n < 5 || records_n == 0 || records[0].kind != PX_RECORD_ENTRY ||
	    candidate == master->id || master->role != PX_MASTER || s->now < s->spared_until ||
	    !fault_strikes(s, FAULT_TWO_VALUES))
		return;
	s->spared_until = until;
	isolate(s, master->id, until);
	isolate(s, candidate, until);
	heap_push(&s->heap, (struct event){.at = s->now + 20 * MS,
	                                   .run = run_wait_for_master,
	                                   .a = (uint64_t)candidate << 8 | (uint64_t)master->id,
	                                   .b = (uint64_t)until});
}

/* ---- an election ---- */

/* The promise is there, the values are not: they are asked for elsewhere. */
static void
at_gather(struct sim *s, int from, int to)
{
	const int64_t until = s->now + sim_between(s, 300 * MS, 3 * SECOND);

	if (!fault_strikes(s, FAULT_AT_GATHER))
		return;
	fault(s, FAULT_AT_GATHER, "replica %d does not reach replica %d, whose values it lacks",
	      from, to);
	net_cut(s, end_of_host(from), end_of_host(to), until);
	/* In a race of several steps the others do not stand before they were asked instead. */
	for (int id = 1; id <= s->hosts_n && s->now < s->spared_until; id++)
		if (id != from)
			host_pause(s, &s->hosts[id - 1],
			           s->now + s->swarm.lease_ms * MS * (id == to ? 8 : 5) / 4);
}

/* The next master and one other replica do not reach each other, and the rest hear of the master
 * before. */
static void
run_meet(struct sim *s, struct event *e)
{
	const struct host *master = sim_serving(s);
	int other = sim_random_host(s)->id;

	if (s->calm || master == NULL || master->id == e->who + 1 || other == master->id ||
	    other == e->who + 1)
		return;
	net_cut_replicas(s, master->id, other, s->now + sim_between(s, 800 * MS, 2 * SECOND));
}

static int64_t
at_hand_over(struct sim *s, int from, int to)
{
	const int64_t late = sim_between(s, 0, rng_chance(&s->rng, 300) ? SECOND : 4 * SECOND);

	if (s->swarm.datagrams || !fault_strikes(s, FAULT_AT_HAND_OVER))
		return 0;
	fault(s, FAULT_AT_HAND_OVER, "replica %d hears %.3f s late that replica %d hands over", to,
	      (double)late / 1e9, from);
	if (late > 700 * MS)
		heap_push(&s->heap, (struct event){.at = s->now + late - 700 * MS,
		                                   .run = run_meet,
		                                   .who = to - 1});
	return late;
}

int64_t
adversary_frame(struct sim *s, int from, int to, struct bytes frame)
{
	switch (wire_frame_code(frame)) {
	case MSG_gather:
		at_gather(s, from, to);
		return 0;
	case MSG_hand_over:
		return at_hand_over(s, from, to);
	default:
		return 0;
	}
}

/* ---- a candidate that lags ---- */

/* Has somebody accepted more than one promise tells of, and does not know yet that it is chosen? */
static bool
is_full_of_news(const struct sim *s, int laggard)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		const struct px *px = n->up ? replica_px(n->replica) : NULL;

		if (px != NULL && n->id != laggard && n->role == PX_FOLLOWER &&
		    px_last(px) > px_status(px)->chosen + s->swarm.batch_entries)
			return true;
	}
	return false;
}

/* The master goes. The others stand still until the laggard has asked them. */
static void
run_laggard(struct sim *s, struct event *e)
{
	struct host *master = sim_serving(s);
	const int laggard = e->who + 1;

	if (s->calm || master == NULL || master->id == laggard || s->now >= (int64_t)e->b)
		return;
	if (!is_full_of_news(s, laggard)) {
		heap_again(&s->heap, e, s->now + 2 * MS);
		return;
	}
	fault(s, FAULT_LAGGARD, "replica %d lags, and stands for election", laggard);
	host_crash_for(s, master, LOSE_NOTHING, 4 * SECOND);
	for (int id = 1; id <= s->hosts_n; id++) {
		if (id == laggard || id == master->id)
			continue;
		reconnect(s, laggard, id);
		host_pause(s, &s->hosts[id - 1], s->now + sim_between(s, 700 * MS, 900 * MS));
	}
}

void
adversary_laggard(struct sim *s, const struct host *master)
{
	const int laggard = sim_random_host(s)->id;
	const int64_t until = s->now + 4 * SECOND;

	if (laggard == master->id)
		return;
	isolate(s, laggard, until);
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 100 * MS, SECOND),
	                                   .run = run_laggard,
	                                   .who = laggard - 1,
	                                   .b = (uint64_t)until});
}

/* ---- races of ballots ---- */

static void
run_ballots(struct sim *s, struct event *e)
{
	int a = sim_random_host(s)->id, b = sim_random_host(s)->id;

	if (s->calm || s->now >= (int64_t)e->b)
		return;
	if (a != b)
		net_cut(s, end_of_host(a), end_of_host(b),
		        s->now + sim_between(s, 20 * MS, 600 * MS));
	if (rng_chance(&s->rng, 30))
		host_crash_for(s, &s->hosts[a - 1], LOSE_SOME, sim_between(s, 0, 50 * MS));
	heap_again(&s->heap, e, s->now + sim_between(s, 0, 60 * MS));
}

void
adversary_ballots(struct sim *s, struct host *master)
{
	const int64_t until = s->now + sim_between(s, SECOND, 6 * SECOND);

	fault(s, FAULT_BALLOTS, "replica %d goes, and the others reach each other now and then",
	      master->id);
	if (rng_chance(&s->rng, 500))
		host_crash_for(s, master, LOSE_NOTHING, sim_between(s, 0, SECOND));
	else
		for (int id = 1; id <= s->hosts_n; id++)
			if (id != master->id)
				net_cut_replicas(s, id, master->id,
				                 s->now + sim_between(s, 0, 2 * SECOND));
	heap_push(&s->heap, (struct event){.at = s->now, .run = run_ballots, .b = (uint64_t)until});
}

/* ---- masters one after the other ---- */

/* The one that was cut off comes back at this moment, and its successor goes. */
static void
run_succeed(struct sim *s, struct event *e)
{
	struct host *n = sim_serving(s);

	if (s->calm || n == NULL || n->id == e->who + 1)
		return;
	fault(s, FAULT_RELAY, "replica %d goes as replica %d, the master before, comes back", n->id,
	      e->who + 1);
	if (rng_chance(&s->rng, 700))
		host_crash(s, n, FAULT_CRASH);
	else
		host_pause(s, n, s->now + sim_between(s, 100 * MS, 3 * SECOND));
}

void
adversary_relay(struct sim *s, struct host *master)
{
	int64_t until = s->now + sim_between(s, 700 * MS, 2500 * MS);

	fault(s, FAULT_CUT_OFF, "replica %d is cut off from the other replicas for %.3f s",
	      master->id, (double)(until - s->now) / 1e9);
	for (int i = 1; i <= s->hosts_n; i++)
		if (i != master->id)
			net_cut_replicas(s, master->id, i, until);
	heap_push(&s->heap, (struct event){.at = until - sim_between(s, 0, 30 * MS),
	                                   .run = run_succeed,
	                                   .who = master->id - 1});
}
