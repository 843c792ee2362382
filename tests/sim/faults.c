/* When the faults of a seed strike, and what they do. */
#include "tests/sim/sim.h"

bool
fault_strikes(struct sim *s, enum fault f)
{
	return !s->calm && rng_below(&s->rng, 10000) < s->swarm.rates[f];
}

/* Mostly short, sometimes longer than a lease. */
static int64_t
a_while(struct sim *s)
{
	return sim_between(s, MS, rng_chance(&s->rng, 300) ? 20 * SECOND : 2 * SECOND);
}

static void
fault_conns(struct sim *s)
{
	struct conn *c;

	if (fault_strikes(s, FAULT_CONN_BREAKS) && (c = net_random_open(s)) != NULL) {
		fault(s, FAULT_CONN_BREAKS, "the connection of %s to replica %d breaks", net_who(c),
		      c->node + 1);
		net_break(s, c);
	}
	if (fault_strikes(s, FAULT_CONN_STALLS) && (c = net_random_open(s)) != NULL) {
		c->stalled_until = s->now + a_while(s);
		fault(s, FAULT_CONN_STALLS,
		      "the connection of %s to replica %d carries nothing for %.3f s", net_who(c),
		      c->node + 1, (double)(c->stalled_until - s->now) / 1e9);
	}
}

static void
fault_machine_clock(struct sim *s, struct machine *m)
{
	int64_t by = a_while(s);

	if (fault_strikes(s, FAULT_CLIENT_CLOCK_JUMPS)) {
		fault(s, FAULT_CLIENT_CLOCK_JUMPS, "the clock of client %d jumps %.3f s forward",
		      m->id + 1, (double)by / 1e9);
		m->clock.offset += by;
		machine_clock_changed(s, m);
	}
	if (fault_strikes(s, FAULT_CLOCK_RATE) && s->swarm.clocks != CLOCKS_ALIKE) {
		clock_set_rate(&m->clock, s->now, clock_draw_rate(&s->rng, s->swarm.clocks));
		fault(s, FAULT_CLOCK_RATE, "the clock of client %d now runs at %+.2f %%", m->id + 1,
		      (double)m->clock.ppm / 1e4);
		machine_clock_changed(s, m);
	}
}

static void
fault_machine(struct sim *s, struct machine *m)
{
	if (m->up && fault_strikes(s, FAULT_CLIENT_CRASHES)) {
		fault(s, FAULT_CLIENT_CRASHES, "client %d crashes", m->id + 1);
		machine_crash(s, m);
	}
	if (fault_strikes(s, FAULT_CLIENT_PAUSES))
		machine_pause(s, m, s->now + a_while(s));
	if (fault_strikes(s, FAULT_CLIENT_CLOSES))
		machine_close(s, m);
	if (fault_strikes(s, FAULT_CLIENT_CUT_OFF)) {
		int64_t until = s->now + a_while(s);

		for (int i = 0; i < s->hosts_n; i++)
			net_cut_both(s, end_of_machine(m->id), end_of_node(i), until);
		fault(s, FAULT_CLIENT_CUT_OFF, "client %d is cut off from all replicas for %.3f s",
		      m->id + 1, (double)(until - s->now) / 1e9);
	}
	if (fault_strikes(s, FAULT_DESTROY))
		work_destroy(s, m, &s->machines[rng_below(&s->rng, (uint64_t)s->machines_n)]);
	fault_machine_clock(s, m);
	if (m->up)
		ambush_holder(s, m);
	ambush_ephemeral(s, m);
	machine_strike_successor(s, m);
}

static void
run_room(struct sim *s, struct event *e)
{
	host_full(s, &s->hosts[e->who], false);
}

/* For a while there is no room but the reserve; half the times that is used up as well. */
static void
fill(struct sim *s, struct host *n)
{
	int64_t until = s->now + sim_between(s, SECOND, 15 * SECOND);

	fault(s, FAULT_DISK_FULL, "the disk of replica %d is full for %.3f s", n->id,
	      (double)(until - s->now) / 1e9);
	if (n->paused_until <= s->now)
		host_full(s, n, true);
	if (rng_chance(&s->rng, 500) && n->disk.stuck_until < until)
		n->disk.stuck_until = until;
	heap_push(&s->heap, (struct event){.at = until, .run = run_room, .who = n->id - 1});
}

/* What lies on a disk goes bad, or is exchanged. */
static void
fault_stored(struct sim *s, struct host *n)
{
	static const enum fault stored[] = {FAULT_ROT_LOG, FAULT_ROT_STATE, FAULT_WIPED,
	                                    FAULT_OLD_COPY};

	for (size_t i = 0; i < sizeof stored / sizeof *stored; i++)
		if (fault_strikes(s, stored[i]))
			host_damage(s, n, stored[i],
			            stored[i] == FAULT_OLD_COPY && rng_chance(&s->rng, 500));
	if ((s->swarm.rates[FAULT_OLD_COPY] > 0 || s->swarm.restore) && rng_chance(&s->rng, 5))
		disk_copy(&n->copy, &n->disk);
}

static void
fault_disk(struct sim *s, struct host *n)
{
	struct disk *d = &n->disk;

	if (fault_strikes(s, FAULT_DISK_SLOW)) {
		d->slow_until = s->now + a_while(s);
		fault(s, FAULT_DISK_SLOW, "the disk of replica %d is slow for %.3f s", n->id,
		      (double)(d->slow_until - s->now) / 1e9);
	}
	if (fault_strikes(s, FAULT_DISK_STUCK) && d->stuck_until <= s->now) {
		d->stuck_until = s->now + sim_between(s, 100 * MS, 12 * SECOND);
		fault(s, FAULT_DISK_STUCK, "the disk of replica %d is stuck for %.3f s", n->id,
		      (double)(d->stuck_until - s->now) / 1e9);
	}
	/* Seeds without that fault are what they were. */
	if (s->swarm.rates[FAULT_STATE_STUCK] > 0 && fault_strikes(s, FAULT_STATE_STUCK) &&
	    d->state_stuck_until <= s->now) {
		d->state_stuck_until = s->now + sim_between(s, SECOND, 60 * SECOND);
		fault(s, FAULT_STATE_STUCK, "the state of replica %d is stuck for %.3f s", n->id,
		      (double)(d->state_stuck_until - s->now) / 1e9);
	}
	if (fault_strikes(s, FAULT_DISK_FULL) && !n->full)
		fill(s, n);
	if (n->up && !n->boot.failed && fault_strikes(s, FAULT_FSYNC))
		d->broken = true;
}

/* A machine that is suspended and does not notice: its clock goes on from where it stood. A master
 * may go on then, too, until it hears of its successor. */
static void
stand_still(struct sim *s, struct host *n)
{
	bool deaf = rng_chance(&s->rng, 500);
	int64_t until = s->now + a_while(s);

	if (!n->up || n->paused_until > s->now)
		return;
	fault(s, FAULT_CLOCK_STANDS, "replica %d and its clock stand still for %.3f s", n->id,
	      (double)(until - s->now) / 1e9);
	clock_stand_still(&n->clock, s->now, until);
	n->paused_until = until;
	for (int id = 1; deaf && id <= s->hosts_n; id++)
		if (id != n->id)
			net_cut_replicas(s, n->id, id, until + a_while(s));
}

static void
jump_wall(struct sim *s, struct host *n)
{
	n->wall_off = clock_draw_wall(&s->rng);
	fault(s, FAULT_WALL_JUMPS, "the time of day of replica %d is now wrong by %.0f s", n->id,
	      (double)n->wall_off / 1e9);
}

static void
fault_node(struct sim *s, struct host *n)
{
	if (!host_exists(n))
		return;
	if (s->swarm.operators > 0 && fault_strikes(s, FAULT_MACHINE_LOST))
		host_damage(s, n, FAULT_MACHINE_LOST, false);
	if (fault_strikes(s, FAULT_CRASH))
		host_crash(s, n, FAULT_CRASH);
	if (fault_strikes(s, FAULT_PAUSE))
		host_pause(s, n, s->now + a_while(s));
	if (fault_strikes(s, FAULT_STOP))
		host_stop(s, n, -1);
	fault_disk(s, n);
	fault_stored(s, n);
	if (fault_strikes(s, FAULT_CLOCK_STANDS))
		stand_still(s, n);
	if (fault_strikes(s, FAULT_WALL_JUMPS))
		jump_wall(s, n);
	if (fault_strikes(s, FAULT_CLOCK_RATE) && s->swarm.clocks != CLOCKS_ALIKE &&
	    n->paused_until <= s->now) {
		clock_set_rate(&n->clock, s->now, clock_draw_rate(&s->rng, s->swarm.clocks));
		fault(s, FAULT_CLOCK_RATE, "the clock of replica %d now runs at %+.2f %%", n->id,
		      (double)n->clock.ppm / 1e4);
		host_clock_changed(s, n);
	}
}

/* ---- of the whole cell ---- */

enum split {
	SPLIT_ALONE,
	SPLIT_PEERS,
	SPLIT_DEAF,
	SPLIT_MUTE,
	SPLIT_PAIR,
	SPLIT_CLIENT,
	SPLIT_WITH_CLIENT,
	SPLITS
};

static const char *const split_names[SPLITS] = {
    [SPLIT_ALONE] = "from everybody",
    [SPLIT_PEERS] = "from the other replicas",
    [SPLIT_DEAF] = "from what the other replicas send",
    [SPLIT_MUTE] = "and the other replicas do not hear it",
    [SPLIT_PAIR] = "from one other replica",
    [SPLIT_CLIENT] = "from one client, in one direction",
    [SPLIT_WITH_CLIENT] = "from everybody, with one client",
};

/* A replica and one client reach each other, and nobody else. */
static void
isolate(struct sim *s, int node, int machine, int64_t until)
{
	ambush_watch(s, machine, until);
	for (int i = 0; i < s->hosts_n; i++) {
		if (i == node)
			continue;
		net_cut_both(s, end_of_node(node), end_of_node(i), until);
		net_cut_both(s, end_of_machine(machine), end_of_node(i), until);
	}
	for (int i = 0; i < s->machines_n; i++)
		if (i != machine)
			net_cut_both(s, end_of_node(node), end_of_machine(i), until);
}

/* A replica is cut off: from everybody, from the others of its kind, in one direction only; or one
 * link is cut, in one direction or both. */
static void
split(struct sim *s, enum split kind, int node, int64_t until)
{
	int other = sim_random_host(s)->id - 1;
	int machine = (int)rng_below(&s->rng, (uint64_t)s->machines_n);

	if (kind == SPLIT_PAIR && other != node)
		net_cut(s, end_of_node(node), end_of_node(other), until);
	if (kind == SPLIT_PAIR && other != node && rng_chance(&s->rng, 500))
		net_cut(s, end_of_node(other), end_of_node(node), until);
	if (kind == SPLIT_CLIENT && rng_chance(&s->rng, 500))
		net_cut(s, end_of_node(node), end_of_machine(machine), until);
	else if (kind == SPLIT_CLIENT)
		net_cut(s, end_of_machine(machine), end_of_node(node), until);
	for (int i = 0; i < s->hosts_n && kind <= SPLIT_MUTE; i++) {
		if (i != node && kind != SPLIT_DEAF)
			net_cut(s, end_of_node(node), end_of_node(i), until);
		if (i != node && kind != SPLIT_MUTE)
			net_cut(s, end_of_node(i), end_of_node(node), until);
	}
	if (kind == SPLIT_WITH_CLIENT)
		isolate(s, node, machine, until);
	for (int i = 0; i < s->machines_n && kind == SPLIT_ALONE; i++)
		net_cut_both(s, end_of_node(node), end_of_machine(i), until);
	fault(s, FAULT_CUT_OFF, "replica %d is cut off %s for %.3f s", node + 1, split_names[kind],
	      (double)(until - s->now) / 1e9);
}

/* Two sides that cannot reach each other. */
static void
halve(struct sim *s, int64_t until)
{
	uint64_t side = rng_next(&s->rng);

	for (int a = 0; a < s->hosts_n; a++)
		for (int b = 0; b < a; b++)
			if (((side >> a) & 1) != ((side >> b) & 1))
				net_cut_both(s, end_of_node(a), end_of_node(b), until);
	fault(s, FAULT_HALVES, "the replicas are halved for %.3f s",
	      (double)(until - s->now) / 1e9);
}

static void
run_cut(struct sim *s, struct event *e)
{
	if (!s->calm)
		net_cut_both(s, e->who, (int)e->a, e->at + (int64_t)e->b);
}

/* The links of a replica fail one after the other, and come back in any order. */
static void
swizzle(struct sim *s, int node)
{
	int64_t at = s->now;

	for (int i = 0; i < s->hosts_n + s->machines_n; i++) {
		int other = i < s->hosts_n ? end_of_node(i) : end_of_machine(i - s->hosts_n);

		if (other == end_of_node(node))
			continue;
		at += sim_between(s, 0, 300 * MS);
		heap_push(&s->heap, (struct event){.at = at,
		                                   .run = run_cut,
		                                   .who = end_of_node(node),
		                                   .a = (uint64_t)other,
		                                   .b = (uint64_t)sim_between(s, 0, 3 * SECOND)});
	}
	fault(s, FAULT_SWIZZLE, "the links of replica %d fail one by one", node + 1);
}

static void
fault_master(struct sim *s)
{
	struct host *n = sim_serving(s);

	if (n == NULL || !fault_strikes(s, FAULT_MASTER))
		return;
	fault(s, FAULT_MASTER, "it strikes the master, replica %d", n->id);
	if (s->swarm.batch_entries > 0 && rng_chance(&s->rng, 400)) {
		adversary_laggard(s, n);
		return;
	}
	switch (rng_below(&s->rng, 14)) {
	case 0:
		host_crash(s, n, FAULT_CRASH);
		return;
	case 1:
		host_pause(s, n, s->now + sim_between(s, 400 * MS, 3 * SECOND));
		return;
	case 2:
		host_stop(s, n, -1);
		return;
	case 3:
		split(s, SPLIT_PAIR, n->id - 1, s->now + a_while(s));
		return;
	case 4:
		split(s, SPLIT_DEAF, n->id - 1, s->now + a_while(s));
		return;
	case 5:
		adversary_relay(s, n);
		return;
	case 6:
		adversary_pinch(s, n);
		return;
	case 7:
		ambush_lease(s, n);
		return;
	case 8:
		adversary_forget(s, n);
		return;
	case 9:
	case 10:
		adversary_ballots(s, n);
		return;
	case 11:
	case 12:
		split(s, SPLIT_WITH_CLIENT, n->id - 1, s->now + a_while(s));
		return;
	default:
		split(s, SPLIT_PEERS, n->id - 1, s->now + a_while(s));
		return;
	}
}

void
faults_all_stuck(struct sim *s)
{
	int64_t until = s->now + sim_between(s, 50 * MS, 4 * SECOND);

	fault(s, FAULT_ALL_STUCK, "all disks are stuck for %.3f s", (double)(until - s->now) / 1e9);
	for (int i = 0; i < s->hosts_n; i++)
		if (s->hosts[i].disk.stuck_until < until)
			s->hosts[i].disk.stuck_until = until;
}

static void
freeze(struct sim *s)
{
	int64_t until = s->now + a_while(s);

	fault(s, FAULT_FREEZE, "everything pauses");
	for (int i = 0; i < s->hosts_n; i++)
		host_pause(s, &s->hosts[i], until);
	for (int i = 0; i < s->machines_n; i++)
		machine_pause(s, &s->machines[i], until);
}

static void
fault_cell(struct sim *s)
{
	int node = sim_random_host(s)->id - 1;
	int other = sim_random_host(s)->id - 1;

	if (fault_strikes(s, FAULT_BLACKOUT)) {
		for (int i = 0; i < s->hosts_n; i++)
			host_crash(s, &s->hosts[i], FAULT_BLACKOUT);
	}
	if (fault_strikes(s, FAULT_FREEZE))
		freeze(s);
	if (fault_strikes(s, FAULT_ALL_STUCK))
		faults_all_stuck(s);
	if (s->hosts_n == 1)
		return;
	fault_master(s);
	adversary_learners(s);
	if (fault_strikes(s, FAULT_CUT_OFF))
		split(s, (enum split)rng_below(&s->rng, SPLITS), node, s->now + a_while(s));
	if (fault_strikes(s, FAULT_HALVES))
		halve(s, s->now + a_while(s));
	if (fault_strikes(s, FAULT_SWIZZLE))
		swizzle(s, node);
	if (!s->swarm.datagrams && other != node && fault_strikes(s, FAULT_LINK_BREAKS)) {
		fault(s, FAULT_LINK_BREAKS, "the link from replica %d to replica %d breaks",
		      node + 1, other + 1);
		link_break(s, node + 1, other + 1);
	}
}

/* What is paused, cut off or slow comes back by itself when its time is over. */
static void
run_faults(struct sim *s, struct event *e)
{
	(void)e;
	if (s->calm)
		return;
	if (s->now < s->spared_until) {
		faults_start(s);
		return;
	}
	fault_conns(s);
	for (int i = 0; i < s->machines_n; i++)
		fault_machine(s, &s->machines[i]);
	for (int i = 0; i < s->hosts_n; i++)
		fault_node(s, &s->hosts[i]);
	fault_cell(s);
	faults_start(s);
}

void
faults_start(struct sim *s)
{
	heap_push(&s->heap, (struct event){.at = s->now + 100 * MS, .run = run_faults});
}
