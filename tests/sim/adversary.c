/* Faults that wait for their moment. What they do could happen by chance, once in a million seeds:
 * a promise is lost with the crash that follows it, while the old master comes back; a lease is
 * forgotten by the one replica that counts; the log that a fallen master had to itself meets the
 * next master's. */
#include "cell/base/must.h"
#include "tests/sim/sim.h"

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
	adversary_look_for_change(s, n, records, records_n);
	adversary_look_for_two_values(s, n, records, records_n);
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

/* Is this one of the minority that misses what the replica after it in the list forgets? */
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
	host_damage(s, n, FAULT_OLD_COPY, e->b != 0);
	if (!n->disk.replaced)
		return;
	for (int i = 1; i <= s->hosts_n; i++) {
		if (i == n->id)
			continue;
		if (!misses(s, i, n->id, (int)e->a))
			host_crash_for(s, &s->hosts[i - 1], LOSE_NOTHING,
			               sim_between(s, 2 * SECOND, 4 * SECOND));
		if (e->b != 0)
			continue;
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
	bool again;

	if (s->swarm.rates[FAULT_OLD_COPY] == 0 || s->swarm.operators > 0 || n == master ||
	    !n->up || n->disk.replaced || n->boot.failed)
		return;
	disk_copy(&n->copy, &n->disk);
	again = rng_chance(&s->rng, 500); /* only its incarnation tells of what it does then */
	if (again)
		host_crash_for(s, n, LOSE_NOTHING, 50 * MS);
	heap_push(&s->heap,
	          (struct event){.at = s->now + (again ? sim_between(s, 80 * MS, 200 * MS)
	                                               : sim_between(s, 200 * MS, 600 * MS)),
	                         .run = run_miss,
	                         .who = n->id - 1,
	                         .life = n->life + again,
	                         .a = (uint64_t)master->id,
	                         .b = again});
}
