/* What the processes of a machine do: each has a role, goes through its round step by step, thinks,
 * and begins again. A round waits for the answers to all that it asked for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static void wake(struct sim *s, struct machine *m, int p, int64_t delay);

/* ---- asking ---- */

static void
ask_ordered(struct sim *s, struct machine *m, int p, const struct op *op, bool ordered)
{
	struct process *proc = &m->processes[p];

	must(proc->records_n < BULK_WRITES);
	proc->pending++;
	proc->records[proc->records_n] = s->history.n + 1; /* it may be answered at once */
	proc->records_n++;
	machine_request(s, m, p, op, ordered);
}

static void
ask(struct sim *s, struct machine *m, int p, struct op op)
{
	ask_ordered(s, m, p, &op, false);
}

static const struct record *
answer(const struct sim *s, const struct process *proc, int i)
{
	must(i < proc->records_n);
	return s->history.records[proc->records[i] - 1];
}

static struct op
create(const char *name, bool exclusive, bool ephemeral)
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

static struct op
acquire(struct sim *s, struct machine *m, struct process *proc, enum lock_mode mode, bool waits)
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

static struct op
release(const struct machine *m, const struct process *proc)
{
	return (struct op){.code = OP_release,
	                   .release = {.node = proc->node,
	                               .owner = 1000 * m->life + (uint64_t)(proc - m->processes),
	                               .acquisition = proc->acquisition}};
}

/* ---- rounds ---- */

static void
next_round(struct sim *s, struct machine *m, int p)
{
	m->processes[p].step = 0;
	m->processes[p].records_n = 0;
	if (s->calm) {
		m->processes[p].idle = true;
		return;
	}
	wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
}

/* The role's file: found, or made, at the start of each life. */
static void
find_file(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"reg0", "log",  "counter0", "",    "lock0",
	                                    "",     "reg1", "",         "bulk"};
	struct process *proc = &m->processes[p];

	proc->step = 1;
	ask(s, m, p, create(names[proc->role], false, false));
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
		if (answer(s, proc, 0)->rc == RC_OK)
			proc->generation = answer(s, proc, 0)->got.generation;
		next_round(s, m, p);
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
	ask(s, m, p, op);
}

static void
do_append(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	char text[24];

	if (proc->step++ > 0) {
		next_round(s, m, p);
		return;
	}
	unique(s, text);
	if (rng_chance(&s->rng, 200))
		ask(s, m, p, get_contents(proc->node));
	else
		ask(s, m, p,
		    (struct op){.code = OP_append,
		                .append = {.node = proc->node, .data = bytes_of(text)}});
}

static void
increment(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct record *read = answer(s, proc, 1);
	char text[24] = "";

	must(read->contents.len < sizeof text);
	if (read->contents.len > 0)
		memcpy(text, read->contents.data, read->contents.len);
	snprintf(text, sizeof text, "%lu", strtoul(text, NULL, 10) + 1);
	ask(s, m, p, set_contents(proc->node, text));
}

/* flock, read, write, unlock; the last two sometimes without waiting in between. */
static void
do_counter(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	struct op op;

	switch (proc->step++) {
	case 0:
		ask(s, m, p, acquire(s, m, proc, LOCK_EXCLUSIVE, true));
		return;
	case 1:
		ask(s, m, p, get_contents(proc->node));
		return;
	case 2:
		increment(s, m, p);
		if (rng_chance(&s->rng, 500))
			return;
		proc->step++;
		/* fall through */
	case 3:
		op = release(m, proc);
		ask_ordered(s, m, p, &op, rng_chance(&s->rng, 300));
		proc->step = 4;
		return;
	default:
		next_round(s, m, p);
	}
}

static struct op
rename_file(uint64_t parent, const char *name, const char *new_name, bool no_replace)
{
	return (struct op){.code = OP_rename,
	                   .rename = {.parent = parent,
	                              .name = bytes_of(name),
	                              .new_parent = NODE_ROOT,
	                              .new_name = bytes_of(new_name),
	                              .no_replace = no_replace}};
}

static struct op
delete_file(uint64_t parent, const char *name)
{
	return (struct op){.code = OP_delete,
	                   .delete = {.parent = parent, .name = bytes_of(name), .kind = NODE_FILE}};
}

static struct op
close_ephemeral(uint64_t node)
{
	return (struct op){.code = OP_close_ephemeral, .close_ephemeral = {node}};
}

/* To create an ephemeral file, or one over it, is to open it: what the round has opened so is
 * closed at its end. */
static void
end_round(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	int n = proc->step < 50 ? proc->records_n : 0;

	proc->step = 50;
	for (int i = 0; i < n; i++) {
		const struct record *r = answer(s, proc, i);

		if (r->op.code == OP_create && r->op.create.kind == NODE_FILE && r->rc == RC_OK)
			ask(s, m, p, close_ephemeral(r->got.node));
	}
	if (proc->pending == 0)
		next_round(s, m, p);
}

/* Creates, deletes, renames among few names, and looks. */
static void
do_names(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"a", "b", "c"};
	struct process *proc = &m->processes[p];
	struct bytes one = bytes_of(names[rng_below(&s->rng, 3)]);
	const char *two = names[rng_below(&s->rng, 3)];
	struct op op = {.code = OP_get_listing,
	                .get_listing = {.node = NODE_ROOT, .most = rng_chance(&s->rng, 500)}};

	if (proc->step > 1) {
		end_round(s, m, p);
		return;
	}
	proc->step++;
	switch (rng_below(&s->rng, 5)) {
	case 0:
		op = create((const char *)one.data, rng_chance(&s->rng, 800), false);
		break;
	case 1:
		op = delete_file(NODE_ROOT, (const char *)one.data);
		break;
	case 2:
		op = rename_file(NODE_ROOT, (const char *)one.data, two, rng_chance(&s->rng, 300));
		break;
	case 3:
		op = (struct op){.code = OP_lookup, .lookup = {.parent = NODE_ROOT, .name = one}};
		break;
	default:
		break;
	}
	ask(s, m, p, op);
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
			ask(s, m, p, touch(s, proc->node));
			proc->step = 5;
			return;
		}
		ask(s, m, p, acquire(s, m, proc, mode, rng_chance(&s->rng, 700)));
		return;
	case 1:
		wake(s, m, p, sim_between(s, 0, 4 * s->swarm.think_ms * MS));
		return;
	case 2:
		if (rng_chance(&s->rng, 300)) {
			ask(s, m, p, acquire(s, m, proc, mode, false));
			proc->generation = before;
			return;
		}
		ask(s, m, p, rng_chance(&s->rng, 500) ? look : state);
		return;
	case 3: /* a conversion that failed keeps what was held */
		if (answer(s, proc, proc->records_n - 1)->rc == RC_BUSY_LOCK)
			proc->acquisition = proc->generation;
		ask(s, m, p, release(m, proc));
		return;
	default:
		next_round(s, m, p);
	}
}

static void
do_ephemeral(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"e0", "e1"};
	struct process *proc = &m->processes[p];
	const char *name = names[rng_below(&s->rng, 2)];
	const char *other = names[name == names[0]];

	switch (proc->step++) {
	case 0:
		if (rng_chance(&s->rng, 50))
			ask(s, m, p, delete_file(NODE_ROOT, name));
		else if (rng_chance(&s->rng, 500))
			ask(s, m, p, create(name, true, rng_chance(&s->rng, 600)));
		else
			ask(s, m, p,
			    (struct op){.code = OP_lookup,
			                .lookup = {.parent = NODE_ROOT, .name = bytes_of(name)}});
		return;
	case 1:
		if (answer(s, proc, 0)->rc != RC_OK) {
			next_round(s, m, p);
			return;
		}
		proc->node = answer(s, proc, 0)->got.node;
		if (rng_chance(&s->rng, 400))
			ask(s, m, p,
			    (struct op){.code = OP_make_ephemeral, .make_ephemeral = {proc->node}});
		else
			ask(s, m, p,
			    (struct op){.code = OP_open_ephemeral, .open_ephemeral = {proc->node}});
		return;
	case 2:
		if (rng_chance(&s->rng, 300))
			ask(s, m, p, rename_file(NODE_ROOT, name, other, rng_chance(&s->rng, 300)));
		else
			wake(s, m, p, sim_between(s, 0, 4 * s->swarm.think_ms * MS));
		return;
	case 3: /* by the number that was opened, whatever became of the file */
		ask(s, m, p, close_ephemeral(proc->node));
		return;
	default:
		next_round(s, m, p);
	}
}

static struct op
in_directory(struct sim *s, uint64_t directory)
{
	static const char *const names[] = {"f", "g"};
	struct bytes name = bytes_of(names[rng_below(&s->rng, 2)]);
	struct op op;

	switch (rng_below(&s->rng, 6)) {
	case 0:
	case 1:
		op = create((const char *)name.data, rng_chance(&s->rng, 500),
		            rng_chance(&s->rng, 500));
		op.create.parent = directory;
		return op;
	case 2:
		return delete_file(directory, (const char *)name.data);
	case 3:
		return rename_file(directory, (const char *)name.data, "a", false);
	case 4:
		return (struct op){.code = OP_lookup,
		                   .lookup = {.parent = directory, .name = name}};
	default:
		return (struct op){.code = OP_get_listing, .get_listing = {.node = directory}};
	}
}

/* Makes a directory, or enters one; works in it; removes it if it is empty. */
static void
do_directories(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"d0", "d1"};
	struct process *proc = &m->processes[p];
	const char *name = names[rng_below(&s->rng, 2)];
	struct op op = create(name, rng_chance(&s->rng, 300), rng_chance(&s->rng, 500));

	switch (proc->step++) {
	case 0:
		op.create.kind = NODE_DIRECTORY;
		ask(s, m, p, op);
		return;
	case 1:
		if (answer(s, proc, 0)->rc != RC_OK) {
			next_round(s, m, p);
			return;
		}
		proc->node = answer(s, proc, 0)->got.node;
		/* fall through */
	case 2:
	case 3:
		ask(s, m, p, in_directory(s, proc->node));
		return;
	case 4:
		ask(s, m, p,
		    (struct op){.code = OP_delete,
		                .delete = {.parent = NODE_ROOT,
		                           .name = bytes_of(name),
		                           .kind = NODE_DIRECTORY}});
		return;
	default:
		end_round(s, m, p);
	}
}

/* Several requests on one node at once: they take effect in their order. */
static void
do_burst(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	uint64_t n = 2 + rng_below(&s->rng, BURST_MAX - 2);

	if (proc->step++ > 0) {
		next_round(s, m, p);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		char text[24];
		struct op op;

		unique(s, text);
		op = rng_chance(&s->rng, 500) ? get_contents(proc->node)
		                              : set_contents(proc->node, text);
		ask_ordered(s, m, p, &op, rng_chance(&s->rng, 100));
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
		ask(s, m, p, set_contents(proc->node, text));
	}
}

static bool
needs_file(enum role role)
{
	return role != ROLE_NAMES && role != ROLE_EPHEMERAL && role != ROLE_DIRECTORIES;
}

static void
act(struct sim *s, struct machine *m, int p)
{
	static void (*const roles[])(struct sim *, struct machine *, int) = {
	    [ROLE_REGISTER] = do_register, [ROLE_APPEND] = do_append,
	    [ROLE_COUNTER] = do_counter,   [ROLE_NAMES] = do_names,
	    [ROLE_LOCKS] = do_locks,       [ROLE_EPHEMERAL] = do_ephemeral,
	    [ROLE_BURST] = do_burst,       [ROLE_DIRECTORIES] = do_directories,
	    [ROLE_BULK] = do_bulk,
	};
	struct process *proc = &m->processes[p];

	if (needs_file(proc->role) && proc->node == 0) {
		if (proc->step == 0) {
			find_file(s, m, p);
			return;
		}
		proc->node = answer(s, proc, 0)->rc == RC_OK ? answer(s, proc, 0)->got.node : 0;
		next_round(s, m, p);
		return;
	}
	roles[proc->role](s, m, p);
}

/* ---- events ---- */

static void
run_wake(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	int p = (int)e->a;

	if (!m->up || m->life != e->life || m->closing || m->processes[p].wakes != e->b)
		return;
	if (m->paused_until > s->now) {
		struct event again = *e;

		again.at = m->paused_until;
		heap_push(&s->heap, again);
		return;
	}
	if (s->calm && m->processes[p].step == 0) {
		m->processes[p].idle = true;
		return;
	}
	act(s, m, p);
}

static void
wake(struct sim *s, struct machine *m, int p, int64_t delay)
{
	m->processes[p].idle = false;
	heap_push(&s->heap, (struct event){.at = s->now + delay,
	                                   .run = run_wake,
	                                   .who = m->id,
	                                   .life = m->life,
	                                   .a = (uint64_t)p,
	                                   .b = ++m->processes[p].wakes});
}

/* A signal while the process waits for its lock. */
static void
run_interrupt(struct sim *s, struct event *e)
{
	struct machine *m = &s->machines[e->who];
	struct process *proc = &m->processes[e->a];
	struct op op = {.code = OP_cancel};

	if (!m->up || m->life != e->life || m->closing || proc->waits == 0 || proc->waits != e->b ||
	    m->paused_until > s->now)
		return;
	op.cancel.node = proc->node;
	op.cancel.owner = 1000 * m->life + e->a;
	op.cancel.acquisition = proc->waits;
	proc->waits = 0;
	proc->step = 99; /* only the end of the round is left */
	ask(s, m, (int)e->a, op);
}

static void
begin_waiting(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];

	proc->waits = proc->acquisition;
	if (rng_chance(&s->rng, s->swarm.interrupt))
		heap_push(&s->heap, (struct event){.at = s->now + sim_between(s, 0, 2 * SECOND),
		                                   .run = run_interrupt,
		                                   .who = m->id,
		                                   .life = m->life,
		                                   .a = (uint64_t)p,
		                                   .b = proc->waits});
}

/* A round of locking that did not get its lock is over. */
static bool
refused(const struct record *r)
{
	return r->op.code == OP_acquire && r->rc != RC_OK && r->rc != RC_QUEUED;
}

void
work_answered(struct sim *s, struct machine *m, const struct record *r)
{
	struct process *proc = &m->processes[r->process];

	must(proc->pending > 0);
	proc->pending--;
	if (r->rc == RC_QUEUED && proc->acquisition == r->op.acquire.acquire.acquisition &&
	    client_status(m->client).session == r->session)
		begin_waiting(s, m, r->process);
	if (proc->pending > 0 || proc->waits != 0)
		return;
	if (refused(r) && proc->step == 1)
		proc->step = 99;
	wake(s, m, r->process, 0);
}

void
work_granted(struct sim *s, struct machine *m, const struct client_grant *g)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		struct process *proc = &m->processes[p];

		if (proc->waits == 0 || proc->waits != g->acquisition)
			continue;
		proc->waits = 0;
		if (g->rc != RC_OK)
			proc->step = 99;
		if (proc->pending == 0)
			wake(s, m, p, 0);
	}
}

/* What was held is gone; who waited for a lock waits no more. */
void
work_destroy(struct sim *s, struct machine *m, struct machine *other)
{
	struct op op = {.code = OP_end_session,
	                .end_session = {.session = other->session,
	                                .cause = SESSION_EXPIRED,
	                                .nonce = {other->nonce, LIMIT_NONCE}}};

	if (!m->up || m->state != CLIENT_SAFE || m->closing || m->paused_until > s->now ||
	    other == m || other->session == 0)
		return;
	fault(s, FAULT_DESTROY, "an operator at client %d ends the session of client %d", m->id + 1,
	      other->id + 1);
	machine_request(s, m, PROCESS_OPERATOR, &op, false);
}

void
work_session_lost(struct sim *s, struct machine *m)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		struct process *proc = &m->processes[p];

		proc->waits = 0;
		if (proc->pending == 0 && !m->closing)
			next_round(s, m, p);
	}
}

/* The one that writes much is the last one of the first machine. */
static int
bulk_process(const struct sim *s)
{
	return s->swarm.processes - 1;
}

void
work_start(struct sim *s, struct machine *m)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		struct process *proc = &m->processes[p];
		uint64_t wakes = proc->wakes;

		*proc = (struct process){.wakes = wakes};
		do
			proc->role = (enum role)rng_below(&s->rng, ROLES);
		while (!(s->swarm.roles & (1u << proc->role)));
		if (s->swarm.bulk && m->id == 0 && p == bulk_process(s))
			proc->role = ROLE_BULK;
		if (m->mount != NULL)
			users_start(s, m, p);
		else
			wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
	}
}

void
work_bulk(struct sim *s, struct machine *m)
{
	struct process *proc = &m->processes[bulk_process(s)];

	must(proc->role == ROLE_BULK);
	if (!proc->idle || proc->node == 0)
		return;
	proc->step = 0;
	proc->records_n = 0;
	proc->idle = false;
	act(s, m, bulk_process(s));
}

bool
work_idle(const struct sim *s, const struct machine *m)
{
	for (int p = 0; p < s->swarm.processes; p++) {
		if (!m->processes[p].idle)
			return false;
	}
	return true;
}
