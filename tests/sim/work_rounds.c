/* The rounds of processes that ask the client themselves: on the contents of files, and on locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

struct op
work_create(const char *name, bool exclusive, bool ephemeral)
{
	return (struct op){.code = OP_create,
	                   .create = {.parent = NODE_ROOT,
	                              .name = bytes_of(name),
	                              .kind = NODE_FILE,
	                              .ephemeral = ephemeral,
	                              .exclusive = exclusive}};
}

static struct op
get_contents(uint64_t node)
{
	return (struct op){.code = OP_get_contents, .get_contents = {.node = node}};
}

static struct op
set_contents(uint64_t node, const char *text)
{
	return (struct op){.code = OP_set_contents,
	                   .set_contents = {.node = node, .contents = bytes_of(text)}};
}

struct op
work_acquire(struct sim *s, struct machine *m, struct process *proc, enum lock_mode mode,
             bool waits)
{
	int owner = (int)(proc - m->processes);

	proc->acquisition = ++m->owners;
	return (struct op){.code = OP_acquire,
	                   .acquire = {.acquire = {.node = proc->node,
	                                           .owner = 1000 * m->life + (uint64_t)owner,
	                                           .acquisition = proc->acquisition,
	                                           .mode = (uint8_t)mode,
	                                           .wait = waits,
	                                           .delay_s = -1,
	                                           .default_delay_s = s->swarm.lock_delay_s}}};
}

struct op
work_release(const struct machine *m, const struct process *proc)
{
	return (struct op){.code = OP_release,
	                   .release = {.node = proc->node,
	                               .owner = 1000 * m->life + (uint64_t)(proc - m->processes),
	                               .acquisition = proc->acquisition}};
}

/* ---- rounds ---- */

/* The role's file: found, or made, at the start of each life. */
static void
find_file(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"reg0", "log",  "counter0", "",     "lock0",
	                                    "",     "reg1", "",         "bulk", "guarded"};
	struct process *proc = &m->processes[p];

	proc->step = 1;
	work_ask(s, m, p, work_create(names[proc->role], false, false));
}

static void
unique(struct sim *s, char text[24])
{
	snprintf(text, 24, "v%lu;", (unsigned long)++s->values);
}

/* Changes what hangs on a file besides its contents. */
static struct op
touch(struct sim *s, uint64_t node)
{
	if (rng_chance(&s->rng, 500))
		return (struct op){.code = OP_set_mtime,
		                   .set_mtime = {.node = node,
		                                 .now = rng_chance(&s->rng, 500),
		                                 .mtime_ns = clock_draw_wall(&s->rng)}};
	return (struct op){.code = OP_set_lock_delay,
	                   .set_lock_delay = {.node = node, .seconds = sim_between(s, -1, 5)}};
}

/* Reads, writes, compares and swaps. */
static void
do_register(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	struct op op = {.code = OP_get_attr, .get_attr = {.node = proc->node}};
	char text[24];

	if (proc->step++ > 0) {
		if (work_answer(s, proc, 0)->rc == RC_OK)
			proc->generation = work_answer(s, proc, 0)->got.generation;
		work_next_round(s, m, p);
		return;
	}
	unique(s, text);
	switch (rng_below(&s->rng, 5)) {
	case 0:
		break;
	case 1:
		op = get_contents(proc->node);
		op.get_contents.generation = proc->generation;
		break;
	case 4:
		op = touch(s, proc->node);
		break;
	case 2:
		op = set_contents(proc->node, text);
		break;
	default:
		op = set_contents(proc->node, text);
		op.set_contents.guarded = 1;
		op.set_contents.generation = proc->generation;
		break;
	}
	work_ask(s, m, p, op);
}

static void
do_append(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	char text[24];

	if (proc->step++ > 0) {
		work_next_round(s, m, p);
		return;
	}
	unique(s, text);
	if (rng_chance(&s->rng, 200))
		work_ask(s, m, p, get_contents(proc->node));
	else
		work_ask(s, m, p,
		         (struct op){.code = OP_append,
		                     .append = {.node = proc->node, .data = bytes_of(text)}});
}

/* Where operators release locks, the write is under the guard of the lock. */
static void
increment(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct record *by = work_answer(s, proc, 0), *read = work_answer(s, proc, 1);
	char text[24] = "";
	struct op op;

	must(read->contents.len < sizeof text);
	if (read->contents.len > 0)
		memcpy(text, read->contents.data, read->contents.len);
	snprintf(text, sizeof text, "%lu", strtoul(text, NULL, 10) + 1);
	op = set_contents(proc->node, text);
	if (s->swarm.unlocks > 0 && by->want.fence != 0)
		work_ask_guarded(s, m, p, &op, by);
	else
		work_ask(s, m, p, op);
}

/* flock, read, write, unlock; the last two sometimes without waiting in between. */
static void
do_counter(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	struct op op;

	switch (proc->step++) {
	case 0:
		work_ask(s, m, p, work_acquire(s, m, proc, LOCK_EXCLUSIVE, true));
		return;
	case 1:
		work_ask(s, m, p, get_contents(proc->node));
		return;
	case 2:
		increment(s, m, p);
		if (rng_chance(&s->rng, 500))
			return;
		proc->step++;
		/* fall through */
	case 3:
		op = work_release(m, proc);
		work_ask_ordered(s, m, p, &op, rng_chance(&s->rng, 300));
		proc->step = 4;
		return;
	default:
		work_next_round(s, m, p);
	}
}

/* What is asked under the lock's guard takes effect before the release, and not after it. */
static void
release_guarded(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct record *by = work_answer(s, proc, 0);
	const bool guards = by->want.fence != 0 && rng_chance(&s->cached.rng, 500);
	const struct op op = {.code = OP_set_mtime, .set_mtime = {.node = proc->node, .now = 1}};

	if (guards)
		work_ask_guarded(s, m, p, &op, by);
	work_ask(s, m, p, work_release(m, proc));
	if (guards)
		work_ask_guarded(s, m, p, &op, by);
}

/* What it shows may be cached, but not whether the guard is stale. */
static void
read_guarded(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct record *by = work_answer(s, proc, 0);
	const struct op op = {.code = OP_get_attr, .get_attr = {.node = proc->node}};

	if (by->want.fence != 0)
		work_ask_guarded(s, m, p, &op, by);
	else
		work_next_round(s, m, p);
}

/* How many may share the lock: other files than those of ROLE_LOCKS have locks that do not count.
 */
static struct op
count_slots(struct sim *s, uint64_t node)
{
	return (struct op){.code = OP_set_lock_slots,
	                   .set_lock_slots = {.node = node,
	                                      .slots = (uint32_t)rng_below(&s->cached.rng, 4)}};
}

/* Locks in both modes, tried and waited for, converted, held for a while. */
static void
do_locks(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	enum lock_mode mode = rng_chance(&s->rng, s->swarm.shared) ? LOCK_SHARED : LOCK_EXCLUSIVE;
	struct op look = {.code = OP_get_sequencer, .get_sequencer = {.node = proc->node}};
	struct op state = {.code = OP_get_lock, .get_lock = {.node = proc->node}};
	uint64_t before = proc->acquisition;

	switch (proc->step++) {
	case 0:
		if (rng_chance(&s->rng, 100)) {
			work_ask(s, m, p,
			         rng_chance(&s->cached.rng, s->swarm.counting)
			             ? count_slots(s, proc->node)
			             : touch(s, proc->node));
			proc->step = 5;
			return;
		}
		work_ask(s, m, p, work_acquire(s, m, proc, mode, rng_chance(&s->rng, 700)));
		return;
	case 1:
		work_wake(s, m, p, sim_between(s, 0, 4 * s->swarm.think_ms * MS));
		return;
	case 2:
		if (rng_chance(&s->rng, 300)) {
			work_ask(s, m, p, work_acquire(s, m, proc, mode, false));
			proc->generation = before;
			return;
		}
		work_ask(s, m, p, rng_chance(&s->rng, 500) ? look : state);
		return;
	case 3: /* a conversion that failed keeps what was held */
		if (work_answer(s, proc, proc->records_n - 1)->rc == RC_BUSY_LOCK)
			proc->acquisition = proc->generation;
		release_guarded(s, m, p);
		return;
	case 4:
		read_guarded(s, m, p);
		return;
	default:
		work_next_round(s, m, p);
	}
}

/* Several requests on one node at once: they take effect in their order. */
static void
do_burst(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	uint64_t n = 2 + rng_below(&s->rng, BURST_MAX - 2);

	if (proc->step++ > 0) {
		work_next_round(s, m, p);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		char text[24];
		struct op op;

		unique(s, text);
		op = rng_chance(&s->rng, 500) ? get_contents(proc->node)
		                              : set_contents(proc->node, text);
		work_ask_ordered(s, m, p, &op, rng_chance(&s->rng, 100));
	}
}

/* Much is under way at once; in the first part of a run now and then, in the second when it is
 * told to. */
static void
do_bulk(struct sim *s, struct machine *m, int p)
{
	static char text[BULK_BYTES + 1];
	struct process *proc = &m->processes[p];

	if (proc->step++ > 0) {
		proc->idle = true;
		return;
	}
	memset(text, 'x', BULK_BYTES);
	for (int i = 0; i < BULK_WRITES; i++) {
		snprintf(text, 24, "%023lu", (unsigned long)++s->values);
		text[23] = 'x';
		work_ask(s, m, p, set_contents(proc->node, text));
	}
}

static bool
needs_file(enum role role)
{
	return role != ROLE_NAMES && role != ROLE_EPHEMERAL && role != ROLE_DIRECTORIES;
}

void
work_act(struct sim *s, struct machine *m, int p)
{
	static void (*const roles[])(struct sim *, struct machine *, int) = {
	    [ROLE_REGISTER] = do_register, [ROLE_APPEND] = do_append,
	    [ROLE_COUNTER] = do_counter,   [ROLE_NAMES] = work_names,
	    [ROLE_LOCKS] = do_locks,       [ROLE_EPHEMERAL] = work_ephemeral,
	    [ROLE_BURST] = do_burst,       [ROLE_DIRECTORIES] = work_directories,
	    [ROLE_BULK] = do_bulk,         [ROLE_RIGHTS] = work_rights,
	};
	struct process *proc = &m->processes[p];

	if (needs_file(proc->role) && proc->node == 0) {
		if (proc->step == 0) {
			find_file(s, m, p);
			return;
		}
		proc->node =
		    work_answer(s, proc, 0)->rc == RC_OK ? work_answer(s, proc, 0)->got.node : 0;
		work_next_round(s, m, p);
		return;
	}
	if (proc->role < ROLES && work_transactions(s, m, p))
		return;
	roles[proc->role](s, m, p);
}
