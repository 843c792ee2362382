/* Faults that wait for their moment. What they do could happen by chance, once in a million seeds:
 * a promise is lost with the crash that follows it, while the old master comes back; a lease is
 * forgotten by the one replica that counts; the log that a fallen master had to itself meets the
 * next master's. */
#include "cell/base/must.h"
#include "tests/sim/sim.h"

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

/* Those on the one side reach those on the other no more. */
static void
halve(struct sim *s, uint64_t side, int64_t until)
{
	for (int a = 1; a <= s->hosts_n; a++)
		for (int b = 1; b < a; b++)
			if (((side >> a) & 1) != ((side >> b) & 1))
				net_cut_replicas(s, a, b, until);
}

static int64_t
a_moment(struct sim *s)
{
	int64_t most = rng_chance(&s->rng, 300) ? 8 * SECOND : 3 * SECOND;

	return s->now + sim_between(s, 300 * MS, most);
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
		halve(s, rng_next(&s->rng), a_moment(s));
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
			halve(s, 1u << master->id | 1u << n->id, a_moment(s));
		return;
	default:
		halve(s, 1u << n->id, a_moment(s));
		return;
	}
}

static void
look_for_change(struct sim *s, struct host *n, const struct px_record *records, size_t records_n)
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
	halve(s, side | 1u << master->id, a_moment(s));
}

/* Who missed the change comes back as those who made it go. */
static void
run_come_back(struct sim *s, struct event *e)
{
	if (s->calm)
		return;
	halve(s, e->a, s->now + sim_between(s, 500 * MS, 4 * SECOND));
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
	halve(s, 1u << behind->id, until);
	heap_push(&s->heap, (struct event){.at = until, .run = run_come_back, .a = side});
}

/* ---- the steps of joining ---- */

/* It goes, or its source does, or it does not reach the others. */
static void
run_at_joining(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who], *other = sim_random_host(s);

	if (s->calm || !host_runs(n) || n->life != e->life)
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
			net_cut_replicas(s, n->id, other->id, a_moment(s));
		return;
	default:
		halve(s, 1u << n->id, a_moment(s));
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

/* ---- another lease ---- */

static void
run_succeeded(struct sim *s, struct event *e)
{
	struct host *master = sim_serving(s);

	(void)e;
	if (!s->calm && master != NULL)
		host_crash(s, master, FAULT_CRASH);
}

/* Clients that were promised the longer one are not heard until it has ended; when the shorter one
 * has ended there is another master. */
static void
lease_lowered(struct sim *s, uint64_t before, uint64_t now)
{
	const int64_t until = s->now + (int64_t)before * MS;

	fault(s, FAULT_AT_SETTING, "all clients are cut off as their lease is made shorter");
	for (int i = 0; i < s->machines_n; i++)
		for (int id = 1; id <= s->hosts_n; id++)
			net_cut_both(s, end_of_machine(i), end_of_host(id), until);
	heap_push(&s->heap, (struct event){.at = s->now + (int64_t)now * MS / 100 * 103 +
	                                         sim_between(s, 100 * MS, 600 * MS),
	                                   .run = run_succeeded});
}

/* Of the longer one the others know nothing, and the master hears their answers. */
static void
lease_raised(struct sim *s)
{
	const struct host *master = sim_serving(s);

	if (master == NULL)
		return;
	fault(s, FAULT_AT_SETTING, "nobody hears replica %d as its lease is made longer",
	      master->id);
	for (int id = 1; id <= s->hosts_n; id++)
		if (id != master->id)
			net_cut(s, end_of_host(master->id), end_of_host(id),
			        s->now + sim_between(s, 500 * MS, 4 * SECOND));
}

void
adversary_setting(struct sim *s, enum setting which, uint64_t before, uint64_t now)
{
	if (which == SETTING_session_lease && now < before && fault_strikes(s, FAULT_AT_SETTING))
		lease_lowered(s, before, now);
	if (which == SETTING_master_lease && now > before && fault_strikes(s, FAULT_AT_SETTING))
		lease_raised(s);
}

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
static void
look_for_two_values(struct sim *s, struct host *master, const struct px_record *records,
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

/* ---- a crash around a promise ---- */

/* Whoever could not reach it can, but for the candidate that it has promised to. */
static void
run_reach(struct sim *s, struct event *e)
{
	for (int i = 1; i <= s->hosts_n && !s->calm; i++) {
		if (i == e->who + 1 || i == (int)e->a)
			continue;
		link_heal(s, i, e->who + 1);
		link_heal(s, e->who + 1, i);
	}
}

static void
run_crash(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	int64_t back = sim_between(s, 0, 20 * MS);

	if (s->calm || !n->up || n->life != e->life)
		return;
	fault(s, FAULT_AT_PROMISE, "replica %d crashes, having promised to replica %d", n->id,
	      (int)e->a);
	host_crash_for(s, n, rng_chance(&s->rng, 500) ? LOSE_ALL : LOSE_NOTHING, back);
	if ((int)e->a != n->id)
		net_cut_replicas(s, (int)e->a, n->id, s->now + sim_between(s, 0, 1500 * MS));
	heap_push(&s->heap, (struct event){.at = s->now + back + MS,
	                                   .run = run_reach,
	                                   .who = e->who,
	                                   .a = e->a});
}

void
adversary_recorded(struct sim *s, struct host *n, const struct px_record *records, size_t records_n)
{
	look_for_change(s, n, records, records_n);
	look_for_two_values(s, n, records, records_n);
	for (size_t i = 0; i < records_n; i++) {
		if (records[i].kind != PX_RECORD_PROMISE || s->hosts_n == 1 ||
		    !fault_strikes(s, FAULT_AT_PROMISE))
			continue;
		heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 3 * MS),
		                                   .run = run_crash,
		                                   .who = n->id - 1,
		                                   .life = n->life,
		                                   .a = records[i].ballot.replica});
		return;
	}
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

/* ---- races of ballots ---- */

static void
run_ballots(struct sim *s, struct event *e)
{
	struct event again = *e;
	int a = sim_random_host(s)->id, b = sim_random_host(s)->id;

	if (s->calm || s->now >= (int64_t)e->b)
		return;
	if (a != b)
		net_cut(s, end_of_host(a), end_of_host(b),
		        s->now + sim_between(s, 20 * MS, 600 * MS));
	if (rng_chance(&s->rng, 30))
		host_crash_for(s, &s->hosts[a - 1], LOSE_SOME, sim_between(s, 0, 50 * MS));
	again.at = s->now + sim_between(s, 0, 60 * MS);
	heap_push(&s->heap, again);
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

/* ---- leases that have to be remembered ---- */

static void
run_pinch(struct sim *s, struct event *e)
{
	for (int i = 1; i <= s->hosts_n && !s->calm; i++) {
		struct host *n = &s->hosts[i - 1];
		int64_t back = sim_between(s, 0, 20 * MS);

		if (i == (int)e->a || i == (int)e->b)
			continue;
		if (rng_chance(&s->rng, 300))
			host_stop(s, n, back);
		else
			host_crash_for(s, n, LOSE_SOME, back);
	}
}

void
adversary_pinch(struct sim *s, struct host *master)
{
	int candidate = sim_random_host(s)->id;
	int64_t at = s->now + 500 * MS;

	if (candidate == master->id)
		return;
	fault(s, FAULT_PINCH, "replica %d does not hear the master, and the others end often",
	      candidate);
	net_cut_replicas(s, master->id, candidate, s->now + 2 * SECOND);
	for (int i = 0; i < 6; i++) {
		at += sim_between(s, 50 * MS, 250 * MS);
		heap_push(&s->heap, (struct event){.at = at,
		                                   .run = run_pinch,
		                                   .a = (uint64_t)master->id,
		                                   .b = (uint64_t)candidate});
	}
}

/* ---- two delays of one lock ---- */

/* The end of the delay is under way, and nothing is decided, when the session of somebody who holds
 * the lock as well ends. */
static void
run_second_delay(struct sim *s, struct event *e)
{
	const struct item *it = model_item(&s->model, e->a);
	struct machine *victim = NULL;

	if (s->calm || it->died != 0 || it->holders_n == 0 || it->delay_mode == LOCK_NONE)
		return;
	for (int i = 0; i < s->machines_n; i++)
		if (s->machines[i].session == it->holders[0].session)
			victim = &s->machines[i];
	if (victim == NULL)
		return;
	fault(s, FAULT_AT_DELAY, "the lock-delay of %s ends soon", trace_path(s, it->node));
	for (int i = 0; i < s->hosts_n; i++)
		if (s->hosts[i].disk.stuck_until < e->at + (int64_t)e->b)
			s->hosts[i].disk.stuck_until = e->at + (int64_t)e->b;
	for (int i = 0; i < s->machines_n; i++)
		work_destroy(s, &s->machines[i], victim);
}

void
adversary_delay(struct sim *s, uint64_t node, int64_t length)
{
	int64_t before = sim_between(s, 0, 300 * MS);
	const struct item *it = model_item(&s->model, node);

	if (!fault_strikes(s, FAULT_AT_DELAY))
		return;
	/* So that whoever has the lock as well does not let it go before. */
	for (int i = 0; i < s->machines_n; i++)
		for (size_t h = 0; h < it->holders_n; h++)
			if (s->machines[i].session == it->holders[h].session)
				machine_pause(s, &s->machines[i], s->now + length);
	heap_push(&s->heap, (struct event){.at = s->now + length - before,
	                                   .run = run_second_delay,
	                                   .a = node,
	                                   .b = (uint64_t)(before + sim_between(s, 0, 300 * MS))});
}

/* ---- a copy that is put back when only it could tell ---- */

/* Is this one of the minority that misses what the replica behind it in the list forgets? */
static bool
misses(const struct sim *s, int id, int forgetful, int master)
{
	int turn = 0;

	for (int i = 1; i < id; i++)
		turn += i != forgetful && i != master;
	return id != forgetful && id != master && turn < (s->hosts_n - 1) / 2;
}

/* Those who know all that was decided go, those who missed it come back. */
static void
run_put_back(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (s->calm || !n->up || n->life != e->life)
		return;
	host_damage(s, n, FAULT_OLD_COPY);
	if (!n->disk.replaced)
		return;
	for (int i = 1; i <= s->hosts_n; i++) {
		if (i == n->id)
			continue;
		if (!misses(s, i, n->id, (int)e->a))
			host_crash_for(s, &s->hosts[i - 1], LOSE_NOTHING,
			               sim_between(s, SECOND, 4 * SECOND));
		link_heal(s, i, n->id);
		link_heal(s, n->id, i);
	}
}

static void
run_miss(struct sim *s, struct event *e)
{
	int64_t until = s->now + 1500 * MS;
	struct event next = *e;

	if (s->calm || !s->hosts[e->who].up || s->hosts[e->who].life != e->life)
		return;
	for (int i = 1; i <= s->hosts_n; i++)
		for (int j = 1; j <= s->hosts_n && misses(s, i, e->who + 1, (int)e->a); j++)
			if (j != i)
				net_cut_replicas(s, i, j, until);
	next.at = s->now + sim_between(s, 300 * MS, 900 * MS);
	next.run = run_put_back;
	heap_push(&s->heap, next);
}

void
adversary_forget(struct sim *s, struct host *master)
{
	struct host *n = &s->hosts[rng_below(&s->rng, (uint64_t)s->hosts_n)];

	if (s->swarm.rates[FAULT_OLD_COPY] == 0 || s->swarm.operators > 0 || n == master ||
	    !n->up || n->disk.replaced || n->boot.failed)
		return;
	disk_copy(&n->copy, &n->disk);
	heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 200 * MS, 600 * MS),
	                                   .run = run_miss,
	                                   .who = n->id - 1,
	                                   .life = n->life,
	                                   .a = (uint64_t)master->id});
}
