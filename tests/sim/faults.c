/* Which faults a seed has, and when they strike. Each seed leaves some kinds out: what never
 * happens in one run lets others go deeper. */
#include "tests/sim/sim.h"

static unsigned
maybe(struct rng *r, unsigned most)
{
	return rng_chance(r, 500) ? (unsigned)rng_below(r, most) + 1 : 0;
}

static int64_t
spread(struct rng *r, int64_t low, int64_t high)
{
	int64_t at = low;

	while (at < high && rng_chance(r, 600))
		at *= 2;
	return at < high ? at : high;
}

void
swarm_draw(struct swarm *w, struct rng *r)
{
	w->machines = 1 + (int)rng_below(r, 4);
	w->processes = 1 + (int)rng_below(r, PROCESSES_MAX);
	w->session_lease_ms = spread(r, 1500, 12000);
	w->grace_ms = spread(r, 1500, 45000);
	w->chaos_ms = 5000 + (int64_t)rng_below(r, 10000);
	w->latency_us = spread(r, 200, 50000);
	w->disk_us = spread(r, 200, 50000);
	w->break_rate = maybe(r, 300);
	w->stall_rate = maybe(r, 200);
	w->late_rate = maybe(r, 300);
	w->node_crash_rate = maybe(r, 150);
	w->node_pause_rate = maybe(r, 100);
	w->node_stop_rate = maybe(r, 60);
	w->machine_crash_rate = maybe(r, 100);
	w->machine_pause_rate = maybe(r, 100);
	w->machine_close_rate = maybe(r, 60);
	w->slow_disk_rate = maybe(r, 60);
	w->partition_rate = maybe(r, 100);
	w->blackout_rate = maybe(r, 20);
	w->master_rate = maybe(r, 800);
	w->split_rate = maybe(r, 200);
	w->link_rate = maybe(r, 300);
	w->datagrams = rng_chance(r, 300);
	w->peer_loss = maybe(r, 100);
	w->peer_double = maybe(r, 100);
	w->interrupt = maybe(r, 700);
	w->successor = (unsigned)rng_below(r, 1001);
	w->caching = maybe(r, 1000);
	w->roles = 1u << rng_below(r, ROLES);
	w->roles |= (unsigned)rng_below(r, 1u << ROLES);
	w->think_ms = spread(r, 50, 2000);
	w->lock_delay_s = (int)rng_below(r, 6);
	w->drift = rng_chance(r, 500);
	w->mounts = rng_chance(r, 400);
	w->keep_saved_back = rng_chance(r, 300);
}

static bool
strikes(struct sim *s, unsigned rate)
{
	return rng_below(&s->rng, 10000) < rate;
}

/* Mostly short, sometimes longer than a lease. */
static int64_t
a_while(struct sim *s)
{
	return sim_between(s, MS, rng_chance(&s->rng, 300) ? 20 * SECOND : 2 * SECOND);
}

static void
cut_both(struct sim *s, int a, int b, int64_t until)
{
	net_cut(s, a, b, until);
	net_cut(s, b, a, until);
}

static void
fault_conns(struct sim *s)
{
	struct conn *c;

	if (strikes(s, s->swarm.break_rate) && (c = net_random_open(s)) != NULL) {
		sim_trace(s, "fault: conn %lu breaks", (unsigned long)c->id);
		net_break(s, c);
	}
	if (strikes(s, s->swarm.stall_rate) && (c = net_random_open(s)) != NULL) {
		c->stalled_until = s->now + a_while(s);
		sim_trace(s, "fault: conn %lu stalls", (unsigned long)c->id);
	}
}

static void
fault_machine(struct sim *s, struct machine *m)
{
	if (strikes(s, s->swarm.machine_crash_rate))
		machine_crash(s, m);
	if (m->up && m->paused_until <= s->now && strikes(s, s->swarm.machine_pause_rate)) {
		m->paused_until = s->now + a_while(s);
		sim_trace(s, "fault: machine %d pauses", m->id);
	}
	if (strikes(s, s->swarm.machine_close_rate))
		machine_close(s, m);
	if (strikes(s, s->swarm.partition_rate)) {
		int64_t until = s->now + a_while(s);

		for (int i = 0; i < s->hosts_n; i++)
			cut_both(s, end_of_machine(m->id), end_of_node(i), until);
		sim_trace(s, "fault: machine %d is cut off", m->id);
	}
}

static void
fault_node(struct sim *s, struct host *n)
{
	if (strikes(s, s->swarm.node_crash_rate))
		host_crash(s, n);
	if (strikes(s, s->swarm.node_pause_rate))
		host_pause(s, n, s->now + a_while(s));
	if (strikes(s, s->swarm.node_stop_rate))
		host_stop(s, n);
	if (strikes(s, s->swarm.slow_disk_rate)) {
		n->disk.slow_until = s->now + a_while(s);
		sim_trace(s, "fault: the disk of replica %d is slow", n->id);
	}
}

/* ---- of the whole cell ---- */

enum split { SPLIT_ALONE, SPLIT_PEERS, SPLIT_DEAF, SPLIT_MUTE, SPLIT_PAIR, SPLIT_CLIENT, SPLITS };

/* A replica is cut off: from everybody, from the others of its kind, in one direction only; or one
 * link is cut, in one direction or both. */
static void
split(struct sim *s, enum split kind, int node, int64_t until)
{
	int other = (int)rng_below(&s->rng, (uint64_t)s->hosts_n);
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
	for (int i = 0; i < s->machines_n && kind == SPLIT_ALONE; i++)
		cut_both(s, end_of_node(node), end_of_machine(i), until);
	sim_trace(s, "fault: replica %d is cut off, in way %d", node + 1, kind);
}

/* Two sides that cannot reach each other. */
static void
halve(struct sim *s, int64_t until)
{
	uint64_t side = rng_next(&s->rng);

	for (int a = 0; a < s->hosts_n; a++)
		for (int b = 0; b < a; b++)
			if (((side >> a) & 1) != ((side >> b) & 1))
				cut_both(s, end_of_node(a), end_of_node(b), until);
	sim_trace(s, "fault: the replicas are halved");
}

static void
run_cut(struct sim *s, struct event *e)
{
	if (!s->calm)
		cut_both(s, e->who, (int)e->a, e->at + (int64_t)e->b);
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
	sim_trace(s, "fault: the links of replica %d are swizzled", node + 1);
}

static void
fault_master(struct sim *s)
{
	struct host *n = sim_serving(s);

	if (n == NULL || !strikes(s, s->swarm.master_rate))
		return;
	switch (rng_below(&s->rng, 5)) {
	case 0:
		host_crash(s, n);
		return;
	case 1:
		host_pause(s, n, s->now + sim_between(s, 400 * MS, 3 * SECOND));
		return;
	case 2:
		host_stop(s, n);
		return;
	case 3:
		split(s, SPLIT_PAIR, n->id - 1, s->now + a_while(s));
		return;
	default:
		split(s, SPLIT_PEERS, n->id - 1, s->now + a_while(s));
		return;
	}
}

static void
fault_cell(struct sim *s)
{
	int node = (int)rng_below(&s->rng, (uint64_t)s->hosts_n);
	int other = (int)rng_below(&s->rng, (uint64_t)s->hosts_n);

	if (strikes(s, s->swarm.blackout_rate)) {
		for (int i = 0; i < s->hosts_n; i++)
			host_crash(s, &s->hosts[i]);
	}
	if (s->hosts_n == 1)
		return;
	fault_master(s);
	if (strikes(s, s->swarm.split_rate)) {
		if (rng_chance(&s->rng, 150))
			halve(s, s->now + a_while(s));
		else if (rng_chance(&s->rng, 150))
			swizzle(s, node);
		else
			split(s, (enum split)rng_below(&s->rng, SPLITS), node, s->now + a_while(s));
	}
	if (!s->swarm.datagrams && other != node && strikes(s, s->swarm.link_rate))
		link_break(s, node + 1, other + 1);
}

/* What is paused, cut off or slow comes back by itself when its time is over. */
static void
run_faults(struct sim *s, struct event *e)
{
	(void)e;
	if (s->calm)
		return;
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
