/* Real networks heal a part. In some runs, before all heals, only a core does: some quorum whose
 * replicas reach each other both ways, with disks that do what they are asked. All other links,
 * replicas and disks stay as the faults have left them, or worse. Then there is a master soon,
 * which stays, and clients that reach it and the core get their answers.
 *
 * How soon follows from the master's lease L, with heartbeats each L / 5:
 *   4 L    a master that is heard and hears no majority gives up (PX_LEASELESS_MAX),
 *   1 L    and the last grant to it expires; or a replica that has just started votes;
 *   3.2 L  a follower stands, with 16 heartbeats of jitter at most (px_jitter, PX_ATTEMPTS_MAX);
 *   1.6 L  it repeats a Prepare that was refused or lost (send_prepares, PX_ASKS_MAX).
 *
 * That makes 10 leases, 5 s; besides, each of some eight messages and records takes its time. A
 * master outside the core may have a majority that grants the lease, and can have nothing chosen
 * (disks are stuck, only short messages arrive): it goes on for 11 leases after something was
 * proposed (PX_STALLED_LEASES, and one in which it leaves). */
#include "tests/sim/sim.h"

enum {
	READY_MS = 3000, /* so long a replica of the core may yet be paused, or down */
	STEPS = 8,       /* messages and records, one after the other */
	STAYS_SECONDS = 15,
	STALLED_LEASES = 11,
	STATE_SECONDS = 41,  /* until a master whose state is stuck hands over */
	COPY_SECONDS = 4,    /* until a copy that failed is tried again: one may need it to vote */
	BUSY_SECONDS = 20,   /* and until one leaves a source whose disk is stuck */
	CHANGE_SECONDS = 20, /* between changes of epoch: a master may have to outbid a minority */
	LOOK_MS = 50,
};

void
core_draw(struct sim *s)
{
	struct core *c = &s->core;

	*c = (struct core){.rng = rng_seeded(s->seed + 7)};
	c->drawn = s->hosts_n >= 3 && s->swarm.operators == 0 && !s->swarm.bulk &&
	           s->swarm.cost_ns == 0 && s->liar.id == 0 && sim_leases_hold(s) &&
	           rng_chance(&c->rng, 500);
	/* The core may work for minutes, and what the others copy after that is large. */
	if (c->drawn)
		s->swarm.limits.part += 8000;
}

bool
core_rests(const struct sim *s)
{
	return s->calm && s->now >= s->core.until;
}

/* ---- which ---- */

static int64_t
ready_at(const struct sim *s, const struct host *n)
{
	int64_t at = n->up ? n->paused_until : n->back_at;

	at = n->disk.log_under_way.busy > at ? n->disk.log_under_way.busy : at;
	at = n->disk.state_under_way.busy > at ? n->disk.state_under_way.busy : at;
	return at > s->now ? at : s->now;
}

static bool
is_fit(const struct sim *s, const struct host *n)
{
	return disk_is_whole(host_disk(n)) && !host_is_lost(n) && !n->boot.failed && !n->stopping &&
	       !n->downgraded && !n->disk.broken && ready_at(s, n) <= s->now + READY_MS * MS;
}

static bool
is_core(const struct sim *s, int id)
{
	return (s->core.members >> id & 1) != 0;
}

enum spoil { SPOIL_CRASH, SPOIL_STUCK, SPOIL_STATE, SPOIL_SLOW, SPOIL_PAUSE, SPOILS = 10 };

/* Does the old master keep a majority that grants it the lease, and has nothing chosen? One of the
 * core is in it, and either all other disks are stuck, or only short messages arrive. */
static bool
draw_leans_on(struct sim *s)
{
	struct core *c = &s->core;
	const int n = __builtin_popcount(c->members);
	int wanted = 1 + (int)rng_below(&c->rng, (uint64_t)n);

	c->narrow = rng_chance(&c->rng, 500);
	if (c->old_master == 0 || (!c->narrow && n > s->hosts_n - 2) || rng_chance(&c->rng, 500))
		return false;
	for (int id = 1; wanted > 0; id++)
		if (is_core(s, id) && --wanted == 0)
			c->leans_on = id;
	return true;
}

/* What the others suffer: half of them nothing new. */
static void
draw_spoils(struct sim *s)
{
	struct core *c = &s->core;
	const bool leans = draw_leans_on(s);

	for (int i = 0; i < s->hosts_n; i++) {
		c->spoils[i] = (uint8_t)rng_below(&c->rng, SPOILS);
		if (leans)
			c->spoils[i] = i + 1 == c->old_master || c->narrow ? SPOILS : SPOIL_STUCK;
		if (leans || (!is_core(s, i + 1) && (c->spoils[i] == SPOIL_STUCK ||
		                                     s->hosts[i].disk.stuck_until > s->now)))
			c->patience = STALLED_LEASES * s->swarm.lease_ms * MS;
	}
	for (int i = 0; i < s->hosts_n; i++)
		if (!is_core(s, i + 1) &&
		    (c->spoils[i] == SPOIL_STATE || s->hosts[i].disk.state_stuck_until > s->now))
			c->patience = STATE_SECONDS * SECOND;
	/* A late heartbeat may end the candidacy of the one to whom the mastership was handed. */
	if (s->swarm.datagrams)
		c->patience *= 2;
}

/* So long the others stay broken once there is a master: a client has to find it, and then a change
 * may have to wait for what clients that are out of reach have cached. */
static int64_t
stays(const struct sim *s)
{
	return STAYS_SECONDS * SECOND + 2 * s->swarm.session_lease_ms * MS + s->core.patience;
}

/* A majority of them, or more, but not all replicas; half the times not the master, if there are
 * enough others. */
static bool
choose(struct sim *s)
{
	struct core *c = &s->core;
	const struct host *master = sim_serving(s), *but = NULL;
	int fit = 0, wanted = s->hosts_n / 2 + 1;

	for (int i = 0; i < s->hosts_n; i++)
		fit += is_fit(s, &s->hosts[i]);
	if (master != NULL && is_fit(s, master) && fit > wanted && rng_chance(&c->rng, 500)) {
		but = master;
		c->old_master = master->id;
		fit--;
	}
	if (fit < wanted)
		return false;
	while (wanted < fit && wanted < s->hosts_n - 1 && rng_chance(&c->rng, 300))
		wanted++;
	for (int i = 0; i < s->hosts_n && wanted > 0; i++) {
		const struct host *n = &s->hosts[i];

		if (n == but || !is_fit(s, n))
			continue;
		if (rng_below(&c->rng, (uint64_t)fit--) < (uint64_t)wanted) {
			c->members |= 1u << n->id;
			wanted--;
		}
	}
	return true;
}

/* Does one of them lack entries that others have trimmed? */
static bool
one_copies(const struct sim *s)
{
	uint64_t least = UINT64_MAX, trimmed = 0;

	for (int id = 1; id <= s->hosts_n; id++) {
		const struct disk *d = host_disk(&s->hosts[id - 1]);
		const uint64_t last =
		    disk_last_slot(d) > d->applied ? disk_last_slot(d) : d->applied;

		if (!is_core(s, id))
			continue;
		least = last < least ? last : least;
		trimmed = d->trimmed > trimmed ? d->trimmed : trimmed;
	}
	return least < trimmed;
}

/* ---- the rest ---- */

enum style { STYLE_LEFT, STYLE_ONE_WAY, STYLE_BOTH_WAYS, STYLES };

/* What is cut stays cut, and more is. */
static void
cut_link(struct sim *s, int a, int b, enum style style)
{
	struct core *c = &s->core;
	const bool cut_there =
	    s->net.cut_until[a][b] > s->now || (style != STYLE_LEFT && rng_chance(&c->rng, 500));
	const bool cut_back = s->net.cut_until[b][a] > s->now ||
	                      (style == STYLE_ONE_WAY && rng_chance(&c->rng, 500)) ||
	                      (style == STYLE_BOTH_WAYS && cut_there);

	if (cut_there)
		net_cut(s, a, b, c->until);
	if (cut_back)
		net_cut(s, b, a, c->until);
}

/* The core hears it, and it hears nothing. */
static void
deafen(struct sim *s, int id)
{
	for (int other = 1; other <= s->hosts_n; other++) {
		if (!is_core(s, other))
			continue;
		link_heal(s, id, other);
		net_cut(s, end_of_host(other), end_of_host(id), s->core.until);
	}
}

static void
spoil(struct sim *s, struct host *n)
{
	const struct core *c = &s->core;

	switch (c->spoils[n->id - 1]) {
	case SPOIL_CRASH:
		host_crash_for(s, n, LOSE_NOTHING, c->until - s->now);
		return;
	case SPOIL_STUCK:
		n->disk.stuck_until = c->until;
		return;
	case SPOIL_STATE:
		n->disk.state_stuck_until = c->until;
		return;
	case SPOIL_SLOW:
		n->disk.slow_until = c->until;
		return;
	case SPOIL_PAUSE:
		if (n->up && n->paused_until <= s->now)
			host_pause(s, n, c->until);
		return;
	default:
		return;
	}
}

/* ---- the core ---- */

static void
heal(struct sim *s, struct host *n)
{
	host_calm_down(s, n);
	if (n->disk.stuck_until > s->now)
		host_disk_goes_on(s, n);
	for (int id = 1; id <= s->hosts_n; id++) {
		if (id == n->id || !is_core(s, id))
			continue;
		link_heal(s, n->id, id);
		if (!s->swarm.datagrams)
			link_break(s, n->id, id);
	}
}

static void
heal_client(struct sim *s, int machine)
{
	for (int id = 1; id <= s->hosts_n; id++) {
		if (!is_core(s, id))
			continue;
		s->net.cut_until[end_of_machine(machine)][end_of_host(id)] = 0;
		s->net.cut_until[end_of_host(id)][end_of_machine(machine)] = 0;
	}
}

/* The old master reaches only the one of the core, and those outside. */
static void
lean(struct sim *s)
{
	const struct core *c = &s->core;

	if (c->narrow)
		s->net.narrow_until[end_of_host(c->old_master)] = c->until;
	for (int id = 1; id <= s->hosts_n; id++) {
		if (id == c->old_master)
			continue;
		if (is_core(s, id) && id != c->leans_on && !(c->narrow && c->leans_on % 2)) {
			net_cut(s, end_of_host(id), end_of_host(c->old_master), c->until);
			net_cut(s, end_of_host(c->old_master), end_of_host(id), c->until);
			continue;
		}
		link_heal(s, c->old_master, id);
		link_heal(s, id, c->old_master);
	}
}

static void
part(struct sim *s)
{
	struct core *c = &s->core;
	const enum style style = (enum style)rng_below(&c->rng, STYLES);

	for (int a = 0; a < s->hosts_n; a++)
		for (int b = a + 1; b < s->hosts_n; b++)
			if (!is_core(s, a + 1) || !is_core(s, b + 1))
				cut_link(s, end_of_node(a), end_of_node(b), style);
	if (c->leans_on != 0)
		lean(s);
	else if (c->old_master != 0 && rng_chance(&c->rng, 500))
		deafen(s, c->old_master);
	for (int i = 0; i < s->machines_n; i++)
		for (int n = 0; n < s->hosts_n; n++)
			cut_link(s, end_of_machine(i), end_of_node(n), style);
	for (int i = 0; i < s->hosts_n; i++) {
		if (is_core(s, i + 1))
			heal(s, &s->hosts[i]);
		else
			spoil(s, &s->hosts[i]);
	}
	for (int i = 0; i < s->machines_n; i++)
		if (rng_chance(&c->rng, 700))
			heal_client(s, i);
}

/* ---- what is asked of it ---- */

static void
run_look(struct sim *s, struct event *e)
{
	struct core *c = &s->core;

	if (sim_serving(s) != NULL)
		c->served_at = s->now;
	else if (s->now > c->expected &&
	         s->now > c->served_at + CORE_LEASES * s->swarm.lease_ms * MS + c->patience)
		sim_fail(s, "a quorum is connected, and there is no master");
	if (c->epoch == 0 && s->now > c->expected && sim_serving(s) != NULL) {
		c->epoch = s->model.epoch;
		c->outside = !is_core(s, sim_serving(s)->id);
	}
	if (!core_rests(s))
		heap_again(&s->heap, e, s->now + LOOK_MS * MS);
}

static bool
reaches(const struct sim *s, int a, int b)
{
	return s->net.cut_until[a][b] < s->now && s->net.cut_until[b][a] < s->now;
}

/* Does it wait for an answer since then, or longer? (One that waits for a lock was answered.) */
static bool
waits_since(const struct sim *s, const struct machine *m, int64_t since)
{
	for (size_t i = 0; i < s->history.n; i++) {
		const struct record *r = s->history.records[i];

		if (r->machine == m->id && r->life == m->life && !r->own && !r->answered &&
		    !r->lost && r->made <= since)
			return true;
	}
	return false;
}

static void
check_client(struct sim *s, const struct machine *m)
{
	const int end = end_of_machine(m->id);
	const struct host *master = sim_serving(s);

	for (int id = 1; id <= s->hosts_n; id++)
		if ((is_core(s, id) || id == master->id) && !reaches(s, end, end_of_host(id)))
			return;
	if (!m->up || m->closing || m->paused_until > s->core.expected)
		return;
	if (m->conn != 0 && net_conn(s, m->conn)->base > 0)
		return; /* a way so slow that a short lease is over before its answer comes */
	if (m->state != CLIENT_SAFE)
		sim_fail(s, "client %d reaches a quorum, and has no lease", m->id + 1);
	if (waits_since(s, m, s->now - stays(s) + SECOND))
		sim_fail(s, "client %d reaches a quorum, and gets no answers", m->id + 1);
}

static void
check(struct sim *s)
{
	const struct core *c = &s->core;
	const int64_t most = (stays(s) + CHANGE_SECONDS * SECOND - 1) / (CHANGE_SECONDS * SECOND);

	if (sim_serving(s) == NULL && c->patience > 0)
		return; /* it may be about to have another one: see run_look */
	if (sim_serving(s) == NULL)
		sim_fail(s, "a quorum is connected, and has lost its master");
	if (s->model.epoch > c->epoch + (uint64_t)most + c->outside)
		sim_fail(s, "a quorum is connected, and its master changes %lu times in %ld s",
		         (unsigned long)(s->model.epoch - c->epoch),
		         (long)((s->now - c->expected) / SECOND));
	for (int i = 0; i < s->machines_n; i++)
		check_client(s, &s->machines[i]);
}

/* When the master is expected: a replica that lacks what others have trimmed has a copy of the
 * state first. */
static void
plan(struct sim *s)
{
	struct core *c = &s->core;

	c->expected = s->now;
	for (int id = 1; id <= s->hosts_n; id++)
		if (is_core(s, id) && ready_at(s, &s->hosts[id - 1]) > c->expected)
			c->expected = ready_at(s, &s->hosts[id - 1]);
	if (s->swarm.datagrams)
		c->expected += LINK_PATIENCE_MS * MS;
	if (one_copies(s))
		c->expected += (COPY_SECONDS + (c->patience > 0 ? BUSY_SECONDS : 0)) * SECOND;
	c->expected += CORE_LEASES * s->swarm.lease_ms * MS +
	               STEPS * (s->swarm.disk_us + s->swarm.latency_us) * 1000 + c->patience;
	c->until = c->expected + stays(s);
}

void
core_run(struct sim *s)
{
	struct core *c = &s->core;

	if (!c->drawn || !choose(s))
		return;
	s->calm = true;
	draw_spoils(s);
	plan(s);
	fault(s, FAULT_CORE, "no faults from here on; of the replicas only those of mask %x heal",
	      c->members);
	part(s);
	heap_push(&s->heap, (struct event){.at = s->now + LOOK_MS * MS, .run = run_look});
	sim_run_until(s, c->until);
	s->swarm.chaos_ms = s->now / MS;
	check(s);
}
