/* Their rounds on names: files that come and go, ephemeral ones, directories. */
#include "tests/sim/sim.h"

/* The step of a process that touches a file as its time to live is over. */
enum { TOUCHES = 40 };

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
		const struct record *r = work_answer(s, proc, i);

		if (r->rc == RC_OK &&
		    ((r->op.code == OP_create && r->op.create.kind == NODE_FILE) ||
		     (r->op.code == OP_number && r->op.number.ephemeral)))
			work_ask(s, m, p, close_ephemeral(r->got.node));
	}
	if (proc->pending == 0)
		work_next_round(s, m, p);
}

/* The file that the process has created last, if it has, goes on its own in a while; it may be
 * touched as that is over. */
static bool
ask_ttl(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct record *r =
	    proc->records_n > 0 ? work_answer(s, proc, proc->records_n - 1) : NULL;
	struct op op = {.code = OP_set_ttl};

	if (r == NULL || r->rc != RC_OK || !rng_chance(&s->cached.rng, s->swarm.mortal))
		return false;
	if (r->op.code == OP_create) {
		op.set_ttl =
		    (struct op_set_ttl){r->got.node, (uint32_t)rng_below(&s->cached.rng, 6)};
		work_ask(s, m, p, op);
		return true;
	}
	if (r->op.code != OP_set_ttl || r->op.set_ttl.seconds == 0)
		return false;
	proc->node = r->op.set_ttl.node;
	proc->step = TOUCHES;
	work_wake(s, m, p, r->op.set_ttl.seconds * SECOND - sim_between(s, 0, 20 * MS));
	return true;
}

/* True if it did. */
static bool
touch_mortal(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];

	if (proc->step != TOUCHES)
		return false;
	proc->step = 5;
	work_ask(s, m, p,
	         (struct op){.code = OP_set_mtime, .set_mtime = {.node = proc->node, .now = 1}});
	return true;
}

/* Creates, deletes, renames among few names, and looks. */
void
work_names(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"a", "b", "c"};
	struct process *proc = &m->processes[p];
	struct bytes one = bytes_of(names[rng_below(&s->rng, 3)]);
	const char *two = names[rng_below(&s->rng, 3)];
	struct op op = {.code = OP_get_listing,
	                .get_listing = {.node = NODE_ROOT, .most = rng_chance(&s->rng, 500)}};

	if (touch_mortal(s, m, p))
		return;
	if (proc->step > 1) {
		end_round(s, m, p);
		return;
	}
	if (ask_ttl(s, m, p))
		return;
	proc->step++;
	switch (rng_below(&s->rng, 5)) {
	case 0:
		op = work_create((const char *)one.data, rng_chance(&s->rng, 800), false);
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
	work_ask(s, m, p, op);
}

void
work_ephemeral(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"e0", "e1"};
	struct process *proc = &m->processes[p];
	const char *name = names[rng_below(&s->rng, 2)];
	const char *other = names[name == names[0]];

	switch (proc->step++) {
	case 0:
		if (rng_chance(&s->rng, 50))
			work_ask(s, m, p, delete_file(NODE_ROOT, name));
		else if (rng_chance(&s->rng, 500))
			work_ask(s, m, p, work_create(name, true, rng_chance(&s->rng, 600)));
		else
			work_ask(s, m, p,
			         (struct op){.code = OP_lookup,
			                     .lookup = {.parent = NODE_ROOT,
			                                .name = bytes_of(name)}});
		return;
	case 1:
		if (work_answer(s, proc, 0)->rc != RC_OK) {
			work_next_round(s, m, p);
			return;
		}
		proc->node = work_answer(s, proc, 0)->got.node;
		if (rng_chance(&s->rng, 400))
			work_ask(s, m, p,
			         (struct op){.code = OP_make_ephemeral,
			                     .make_ephemeral = {.node = proc->node}});
		else
			work_ask(s, m, p,
			         (struct op){.code = OP_open_ephemeral,
			                     .open_ephemeral = {proc->node}});
		return;
	case 2:
		if (rng_chance(&s->rng, 300))
			work_ask(s, m, p,
			         rename_file(NODE_ROOT, name, other, rng_chance(&s->rng, 300)));
		else
			work_wake(s, m, p, sim_between(s, 0, 4 * s->swarm.think_ms * MS));
		return;
	case 3: /* by the number that was opened, whatever became of the file */
		work_ask(s, m, p, close_ephemeral(proc->node));
		return;
	default:
		work_next_round(s, m, p);
	}
}

/* A budget of few nodes, or of their bytes and a few more; or none any more. */
static struct op
bound(struct sim *s, uint64_t directory)
{
	const uint64_t nodes = rng_below(&s->cached.rng, 3);

	if (rng_chance(&s->cached.rng, 500))
		return (struct op){.code = OP_set_quota,
		                   .set_quota = {directory, QUOTA_NODES, nodes}};
	return (struct op){.code = OP_set_quota,
	                   .set_quota = {directory, QUOTA_BYTES,
	                                 256 * nodes + rng_below(&s->cached.rng, 3)}};
}

/* What the process does where there are budgets: the file that it has made grows, one gets another
 * name, another one comes in. */
static struct op
fill(struct sim *s, const struct record *last, uint64_t directory)
{
	struct op op = {.code = OP_rename,
	                .rename = {.parent = directory,
	                           .name = bytes_of("f"),
	                           .new_parent = directory,
	                           .new_name = bytes_of("g")}};

	if (last->op.code == OP_create && last->op.create.kind == NODE_FILE && last->rc == RC_OK)
		return (struct op){.code = OP_append,
		                   .append = {.node = last->got.node, .data = bytes_of("x")}};
	if (rng_chance(&s->cached.rng, 500)) {
		op.rename.parent = NODE_ROOT;
		op.rename.name = bytes_of("a");
	}
	return op;
}

static struct op
in_directory(struct sim *s, uint64_t directory)
{
	static const char *const names[] = {"f", "g"};
	struct bytes name = bytes_of(names[rng_below(&s->rng, 2)]);
	struct op op = {.code = OP_number};

	if (rng_chance(&s->cached.rng, s->swarm.numbers)) {
		op.number =
		    (struct op_number){directory, bytes_of("n"), rng_chance(&s->cached.rng, 500)};
		return op;
	}
	switch (rng_below(&s->rng, 6)) {
	case 0:
	case 1:
		op = work_create((const char *)name.data, rng_chance(&s->rng, 500),
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
void
work_directories(struct sim *s, struct machine *m, int p)
{
	static const char *const names[] = {"d0", "d1"};
	struct process *proc = &m->processes[p];
	const char *name = names[rng_below(&s->rng, 2)];
	struct op op = work_create(name, rng_chance(&s->rng, 300), rng_chance(&s->rng, 500));

	if (touch_mortal(s, m, p))
		return;
	switch (proc->step++) {
	case 0:
		op.create.kind = NODE_DIRECTORY;
		work_ask(s, m, p, op);
		return;
	case 1:
		if (work_answer(s, proc, 0)->rc != RC_OK) {
			work_next_round(s, m, p);
			return;
		}
		proc->node = work_answer(s, proc, 0)->got.node;
		if (rng_chance(&s->cached.rng, s->swarm.quotas)) {
			work_ask(s, m, p, bound(s, proc->node));
			return;
		}
		/* fall through */
	case 2:
	case 3:
		if (rng_chance(&s->cached.rng, s->swarm.quotas))
			work_ask(s, m, p,
			         fill(s, work_answer(s, proc, proc->records_n - 1), proc->node));
		else if (!ask_ttl(s, m, p))
			work_ask(s, m, p, in_directory(s, proc->node));
		return;
	case 4:
		work_ask(s, m, p,
		         (struct op){.code = OP_delete,
		                     .delete = {.parent = NODE_ROOT,
		                                .name = bytes_of(name),
		                                .kind = NODE_DIRECTORY}});
		return;
	default:
		end_round(s, m, p);
	}
}
