/* One run: a cell, machines, faults for a while, then calm until everything has come to an end. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum {
	CALM_SECONDS = 120,
	ELECTION_SECONDS = 5, /* until there is a master when nothing is in its way any more */
};

int64_t
sim_between(struct sim *s, int64_t low, int64_t high)
{
	return high <= low ? low : low + (int64_t)rng_below(&s->rng, (uint64_t)(high - low));
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

void
sim_trace(struct sim *s, const char *format, ...)
{
	va_list args;

	if (!s->trace)
		return;
	printf("[%12.6f] ", (double)s->now / 1e9);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

void
sim_trace_frame(struct sim *s, const char *way, uint64_t conn, struct bytes frame)
{
	struct buffer text = BUFFER(1 << 20);
	struct message m;

	if (!s->trace || wire_get_frame(frame, &m) != RC_OK)
		return;
	wire_print_message(&text, &m);
	sim_trace(s, "conn %lu %s %.*s", (unsigned long)conn, way, (int)text.len,
	          (char *)text.data);
	buffer_free(&text);
}

static void
start(struct sim *s, int replicas)
{
	swarm_draw(&s->swarm, &s->rng);
	s->hosts_n = replicas != 0 ? replicas : 1 + 2 * (int)rng_below(&s->rng, 3);
	s->machines_n = s->swarm.machines;
	model_init(s);
	for (int i = 0; i < s->hosts_n; i++)
		host_init(s, &s->hosts[i], i + 1);
	for (int i = 0; i < s->machines_n; i++)
		machine_init(s, &s->machines[i], i);
	for (int i = 0; i < s->hosts_n; i++)
		host_start(s, &s->hosts[i]);
	for (int i = 0; i < s->machines_n; i++)
		machine_start(s, &s->machines[i], 0);
	faults_start(s);
}

/* False when nothing is left to happen before `until`. */
static bool
step(struct sim *s, int64_t until)
{
	struct event e;

	if (s->heap.n == 0 || s->heap.events[0].at > until)
		return false;
	heap_pop(&s->heap, &e);
	must(e.at >= s->now);
	s->now = e.at;
	s->events++;
	e.run(s, &e);
	free((void *)e.data.data);
	return true;
}

static void
run_check_master(struct sim *s, struct event *e)
{
	(void)e;
	if (sim_serving(s) == NULL)
		sim_fail(s, "the replicas have no master");
}

/* Once all are there and awake and have written what they had to, a master is found soon. */
static void
expect_master(struct sim *s)
{
	int64_t at = s->now;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		int64_t there = n->up ? n->paused_until : n->back_at;

		at = there > at ? there : at;
		at = n->disk.log_busy > at ? n->disk.log_busy : at;
		if (n->stopping)
			at = at > s->now + 3 * SECOND ? at : s->now + 3 * SECOND;
	}
	heap_push(&s->heap, (struct event){.at = at + ELECTION_SECONDS * SECOND,
	                                   .run = run_check_master});
}

/* No new faults; all are connected. What is paused stays so for as long as it was meant to. */
static void
calm_down(struct sim *s)
{
	s->now = s->swarm.chaos_ms * MS;
	s->calm = true;
	sim_trace(s, "calm");
	for (int i = 0; i < s->hosts_n; i++)
		s->hosts[i].disk.slow_until = 0;
	for (size_t i = 0; i < s->net.n; i++)
		s->net.conns[i]->base = 0;
	net_heal(s);
	for (int a = 1; a <= s->hosts_n && !s->swarm.datagrams; a++)
		for (int b = 1; b <= s->hosts_n; b++)
			if (a != b)
				link_break(s, a, b);
	expect_master(s);
}

static bool
all_done(const struct sim *s)
{
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
check_empty(struct sim *s, const struct tree *t)
{
	for (size_t i = 0; i < s->model.items_n; i++) {
		const struct item *it = s->model.items[i];

		if (it->died == 0 && it->ephemeral && it->openers_n == 0)
			sim_fail(s, "%s is ephemeral and nobody has it open", it->name);
		if (it->died == 0 && it->holders_n > 0)
			sim_fail(s, "the lock of %s is still held", it->name);
	}
	if (tree_check(t) != NULL)
		sim_fail(s, "tree_check: %s", tree_check(t));
}

static void
finish(struct sim *s)
{
	struct host *n = sim_serving(s);
	int machine = 0;

	if (!all_done(s)) {
		const char *what = what_is_left(s, &machine);

		sim_fail(s, "machine %d %s", machine, what);
	}
	if (n == NULL)
		sim_fail(s, "no replica serves");
	host_check_end(s);
	history_finish(s);
	users_check(s);
	model_check_tree(s, replica_tree(n->replica));
	check_empty(s, replica_tree(n->replica));
}

static void
sim_free(struct sim *s)
{
	struct event e;

	while (heap_pop(&s->heap, &e))
		free((void *)e.data.data);
	free(s->heap.events);
	for (int i = 0; i < s->machines_n; i++)
		machine_free(&s->machines[i]);
	for (int i = 0; i < s->hosts_n; i++)
		host_free(&s->hosts[i]);
	history_free(&s->history);
	model_free(&s->model);
	net_free(&s->net);
	free(s->lines);
	free(s);
}

void
sim_run(uint64_t seed, bool trace, int replicas)
{
	struct sim *s = calloc(1, sizeof *s);
	int64_t end;

	if (s == NULL)
		abort();
	s->seed = seed;
	s->rng = rng_seeded(seed);
	s->trace = trace;
	start(s, replicas);
	while (step(s, s->swarm.chaos_ms * MS))
		;
	calm_down(s);
	end = s->now + CALM_SECONDS * SECOND;
	while (!all_done(s) && step(s, end))
		;
	/* What was sent twice or late still comes in, and must change nothing. */
	end = s->now + 30 * SECOND;
	while (step(s, end))
		;
	finish(s);
	sim_free(s);
}
