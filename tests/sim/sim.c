/* One run: a cell, machines, faults for a while, then calm until everything has come to an end. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	CALM_SECONDS = 120,
	RUN_SECONDS = 60,  /* at least */
	QUIET_SECONDS = 5, /* after that, at the end of a run */
	LATE_SECONDS = 25, /* longer than a session that nobody wants any more */
	EVENTS_MAX = 20 * 1000 * 1000,
};

int64_t
sim_between(struct sim *s, int64_t low, int64_t high)
{
	if (high <= low || s->script != NULL)
		return low;
	return low + (int64_t)rng_below(&s->rng, (uint64_t)(high - low));
}

void
sim_fail(struct sim *s, const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fprintf(stderr, "sim: at %.6f s: ", (double)s->now / 1e9);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	abort(); /* main says how to run it again */
}

struct settings
sim_settings(const struct sim *s)
{
	const uint64_t session = (uint64_t)s->swarm.session_lease_ms;
	const uint64_t lease = (uint64_t)s->swarm.lease_ms;
	struct settings settings = {.value = {[SETTING_session_lease] = session,
	                                      [SETTING_master_lease] = lease,
	                                      [SETTING_heartbeat] = lease / 5,
	                                      [SETTING_grace] = (uint64_t)s->swarm.grace_ms}};

	if (session < settings_value(&settings, SETTING_cache_lease))
		settings.value[SETTING_cache_lease] = session;
	/* so that there is room below the others */
	if (s->swarm.settings > 0 || s->swarm.short_leave)
		settings.value[SETTING_cache_lease] = setting_info(SETTING_cache_lease)->lowest;
	return settings;
}

bool
sim_leases_hold(const struct sim *s)
{
	return s->swarm.clocks != CLOCKS_WILD;
}

static void
run_inspect(struct sim *s, struct event *e)
{
	(void)e;
	for (int i = 0; i < s->hosts_n; i++)
		host_inspect(s, &s->hosts[i]);
	for (int i = 0; i < s->machines_n; i++)
		machine_check_conf(s, &s->machines[i]);
	heap_push(&s->heap, (struct event){.at = s->now + SECOND, .run = run_inspect});
}

static int
draw_replicas(struct sim *s)
{
	if (s->options.replicas > 0)
		return s->options.replicas;
	return rng_chance(&s->rng, 100) ? 1 : rng_chance(&s->rng, 600) ? 3 : 5;
}

/* Those that the cell begins with. */
static void
create_hosts(struct sim *s)
{
	struct seats first = {.n = s->hosts_n};

	for (int i = 0; i < s->hosts_n; i++)
		first.list[i] = (struct seat){(uint8_t)(i + 1), MEMBER_VOTER, ++s->bodies};
	for (int i = 0; i < s->hosts_n; i++)
		host_create(s, &s->hosts[i], first.list[i].body, &first);
}

static void
start(struct sim *s)
{
	swarm_draw(&s->swarm, &s->rng, s->options.machines);
	uplinks_init(s);
	watches_init(s);
	swarm_draw_servers(&s->swarm, s->seed);
	swarm_draw_upgrades(&s->swarm, s->seed);
	s->cached.rng = rng_seeded(s->seed + 3);
	s->rights.rng = rng_seeded(s->seed + 4);
	s->handles.rng = rng_seeded(s->seed + 8);
	s->rights.on = rng_chance(&s->rights.rng, 300);
	s->hosts_n = draw_replicas(s);
	liar_draw(s);
	hub_draw(s);
	core_draw(s);
	stolen_key_draw(s);
	s->machines_n = s->swarm.machines;
	guest_draw(s);
	trace_seed(s);
	history_init(&s->history);
	model_init(s);
	for (int i = 0; i < HOSTS_MAX; i++)
		host_init(s, &s->hosts[i], i + 1);
	create_hosts(s);
	for (int i = 0; i < s->machines_n; i++)
		machine_init(s, &s->machines[i], i);
	for (int i = 0; i < s->hosts_n; i++)
		host_start(s, &s->hosts[i]);
	for (int i = 0; i < s->machines_n; i++)
		machine_start(s, &s->machines[i], 0);
	faults_start(s);
	operators_start(s);
	heap_push(&s->heap, (struct event){.at = SECOND, .run = run_inspect});
}

/* False when nothing is left to happen before `until`. */
static bool
step(struct sim *s, int64_t until)
{
	struct event e;

	if (s->heap.n == 0 || s->heap.events[0].at > until)
		return false;
	heap_pop(&s->heap, &e);
	must(e.at >= s->now && e.at >= e.sent);
	s->now = e.at;
	if (++s->stats.events > EVENTS_MAX)
		sim_fail(s, "there is no end to what happens");
	e.run(s, &e);
	free((void *)e.data.data);
	return true;
}

/* No new faults; all are connected. What is paused stays so for as long as it was meant to. */
static void
calm_down(struct sim *s)
{
	int64_t from;

	s->calm = true;
	sim_trace(s, "CALM: no faults from here on; everything must get going again");
	for (int i = 0; i < s->hosts_n; i++)
		host_calm_down(s, &s->hosts[i]);
	for (int i = 0; i < s->machines_n; i++)
		machine_calm_down(s, &s->machines[i]);
	for (size_t i = 0; i < s->net.n; i++)
		s->net.conns[i]->base = 0;
	net_heal(s);
	for (int a = 1; a <= s->hosts_n && !s->swarm.datagrams; a++)
		for (int b = 1; b <= s->hosts_n; b++)
			if (a != b)
				link_break(s, a, b);
	from = election_expect(s);
	if (s->hub.on)
		hub_start(s, from);
	else
		bulk_start(s, from);
	stolen_key_start(s, from);
}

/* One has ended, and still has something. */
static bool
session_ends(struct sim *s)
{
	const struct host *n = sim_serving(s);
	enum end_cause cause;
	uint64_t session;

	return n != NULL && tree_ending(replica_tree(n->replica), &session, &cause);
}

static bool
all_done(struct sim *s)
{
	if (operators_wait_for(s) != NULL || s->now <= s->bulk_at ||
	    s->now <= s->stolen_key.until || session_ends(s))
		return false;
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		if (!m->up || m->closing || m->state != CLIENT_SAFE || !work_idle(s, m))
			return false;
	}
	return true;
}

static const char *
what_is_left(const struct sim *s, int *machine)
{
	for (int i = 0; i < s->machines_n; i++) {
		const struct machine *m = &s->machines[i];

		*machine = i;
		if (!m->up || m->closing || m->state != CLIENT_SAFE)
			return "has no safe session";
		if (!work_idle(s, m))
			return "has processes that wait";
	}
	return "is done";
}

/* Then every process closes what it has, in good order: nothing ephemeral and no lock may be left.
 */
static void
check_empty(struct sim *s)
{
	for (size_t i = 0; i < s->model.items_n; i++) {
		const struct item *it = s->model.items[i];

		if (it->died == 0 && it->kind == NODE_FILE && it->ephemeral)
			sim_fail(s, "%s is ephemeral, and was closed by all", it->name);
		if (it->died == 0 && it->holders_n > 0)
			sim_fail(s, "the lock of %s is still held", it->name);
	}
}

static void
finish(struct sim *s)
{
	struct host *n = sim_serving(s);
	int machine = 0;

	operators_check_end(s);
	if (operators_wait_for(s) != NULL)
		sim_fail(s, "at the end %s", operators_wait_for(s));
	if (session_ends(s))
		sim_fail(s, "at the end a session that has ended still has something");
	if (!all_done(s)) {
		const char *what = what_is_left(s, &machine);

		sim_fail(s, "at the end client %d %s", machine + 1, what);
	}
	if (n == NULL)
		sim_fail(s, "at the end no replica serves");
	members_check_end(s);
	setting_changes_check_end(s);
	net_check_end(s);
	quiet_check(s);
	outstanding_check_end(s);
	host_check_minor(s);
	host_check_end(s);
	model_check_end(s);
	history_finish(s);
	judgement_check(s);
	watches_check_end(s);
	unlocks_check_end(s);
	event_readers_check_end(s);
	model_check_tree(s, replica_tree(n->replica));
	check_empty(s);
	restored_check(s);
}

void
sim_free(struct sim *s)
{
	struct event e;

	while (heap_pop(&s->heap, &e))
		free((void *)e.data.data);
	free(s->heap.events);
	for (int i = 0; i < s->machines_n; i++)
		machine_free(&s->machines[i]);
	for (int i = 0; i < HOSTS_MAX; i++)
		host_free(&s->hosts[i]);
	members_free(&s->members);
	history_free(&s->history);
	model_free(&s->model);
	net_free(s);
	liar_free(&s->liar);
}

static void
count(const struct sim *s, struct stats *to)
{
	to->seeds++;
	to->events += s->stats.events;
	to->requests += s->history.n;
	to->entries += s->model.applied;
	to->epochs += s->model.epoch;
	to->sessions += s->model.sessions_n;
	to->simulated_ns += s->now;
	for (int f = 0; f < FAULTS; f++)
		to->faults[f] += s->stats.faults[f];
}

/* What was sent twice or late still comes in, and must change nothing; and the last master ends the
 * sessions of those who have not come back. */
static int64_t
end_of_run(const struct sim *s, int64_t done)
{
	const int64_t lease = setting_changes_greatest(s, SETTING_session_lease);
	const int64_t late = done + LATE_SECONDS * SECOND;
	const int64_t expired = s->model.epoch_from + 2 * lease + QUIET_SECONDS * SECOND;
	const int64_t end = late > expired ? late : expired;

	return end > RUN_SECONDS * SECOND ? end : RUN_SECONDS * SECOND;
}

/* Without an order between replicas one that lacks much catches up slowly. */
static bool
catches_up(const struct sim *s)
{
	return s->swarm.datagrams && !quiet_all_have_everything(s);
}

/* Where a faulty replica has driven up the rounds of some, the others catch up step by step, and
 * the last master may go as the run ends: then it ends under the next one. */
static int64_t
end_without_master(struct sim *s, int64_t end, int64_t done)
{
	if (s->quiet.since != 0 || (sim_serving(s) != NULL && !catches_up(s)))
		return end;
	while ((sim_serving(s) == NULL || catches_up(s)) && step(s, end + LATE_SECONDS * SECOND))
		;
	while (step(s, (end = end_of_run(s, done))))
		;
	return end > s->now ? end : s->now;
}

void
sim_run(uint64_t seed, const struct sim_options *options, struct stats *stats)
{
	struct sim *s = memory_zero(1, sizeof *s);
	const long blocks = blocks_count();
	int64_t done, end;

	s->seed = seed;
	s->rng = rng_seeded(seed);
	s->options = *options;
	start(s);
	sim_run_until(s, s->swarm.chaos_ms * MS);
	core_run(s);
	calm_down(s);
	end = s->now + CALM_SECONDS * SECOND;
	while (!all_done(s) && step(s, end))
		;
	done = s->now;
	while (step(s, (end = end_of_run(s, done)) - QUIET_SECONDS * SECOND))
		;
	quiet_begin(s);
	while (step(s, end))
		;
	end = end_without_master(s, end, done);
	s->now = end;
	finish(s);
	count(s, stats);
	sim_free(s);
	if (blocks_count() != blocks)
		sim_fail(s, "%ld blocks of memory are left", blocks_count() - blocks);
	free(s);
}

/* ---- scripts ---- */

struct sim *
sim_stage(const struct sim_script *script, uint64_t seed)
{
	struct sim *s = memory_zero(1, sizeof *s);

	s->seed = seed;
	s->rng = rng_seeded(seed);
	s->script = script;
	s->swarm = (struct swarm){
	    .session_lease_ms = 12000,
	    .grace_ms = 45000,
	    .chaos_ms = INT64_MAX / MS,
	    .lock_delay_s = DEFAULT_LOCK_DELAY_S,
	    .clocks = CLOCKS_ALIKE,
	    .lease_ms = LEASE_MS,
	    .ending = LIMIT_ENDING,
	    .limits.budget = UINT_MAX,
	};
	history_init(&s->history);
	model_init(s);
	for (int i = 0; i < HOSTS_MAX; i++)
		host_init(s, &s->hosts[i], i + 1);
	heap_push(&s->heap, (struct event){.at = SECOND, .run = run_inspect});
	return s;
}

void
sim_stage_cell(struct sim *s, int replicas)
{
	s->hosts_n = replicas;
	create_hosts(s);
	for (int i = 0; i < s->hosts_n; i++)
		host_start(s, &s->hosts[i]);
}

int
sim_stage_client(struct sim *s, bool caching)
{
	struct machine *m = &s->machines[s->machines_n];

	must(s->machines_n < MACHINES_MAX);
	s->swarm.caching = caching ? 1000 : 0;
	machine_init(s, m, s->machines_n++);
	machine_start(s, m, 0);
	return m->id;
}

void
sim_run_until(struct sim *s, int64_t until)
{
	while (step(s, until))
		;
	s->now = until > s->now ? until : s->now;
}

void
sim_settle(struct sim *s, int64_t pause)
{
	while (step(s, s->now + pause))
		;
}
