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
	w->chaos_ms = 5000 + (int64_t)rng_below(r, 20000);
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
		s->net.partitioned_until[m->id] = s->now + a_while(s);
		sim_trace(s, "fault: machine %d is cut off", m->id);
	}
}

static void
fault_node(struct sim *s, struct host *n)
{
	if (strikes(s, s->swarm.node_crash_rate))
		host_crash(s, n);
	if (n->up && n->paused_until <= s->now && strikes(s, s->swarm.node_pause_rate)) {
		n->paused_until = s->now + a_while(s);
		sim_trace(s, "fault: replica %d pauses", n->id);
	}
	if (strikes(s, s->swarm.node_stop_rate))
		host_stop(s, n);
	if (strikes(s, s->swarm.slow_disk_rate)) {
		n->disk.slow_until = s->now + a_while(s);
		sim_trace(s, "fault: the disk of replica %d is slow", n->id);
	}
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
	faults_start(s);
}

void
faults_start(struct sim *s)
{
	heap_push(&s->heap, (struct event){.at = s->now + 100 * MS, .run = run_faults});
}
