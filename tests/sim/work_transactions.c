/* The transactions of processes: conditions, operations on a few files, and others for the case
 * that a condition does not hold. A lock that one has taken is a condition of the next, and is
 * released. */
#include <stdio.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* The steps of a process after a transaction, after one with a lock, and after the release. */
enum { DONE = 60, HELD, RELEASED };

/* One that comes and goes, or that stays. */
static const char *
any_path(struct sim *s, bool stays)
{
	static const char *const paths[] = {"/a", "/b", "/c", "/reg0", "/log"};

	return paths[rng_below(&s->cached.rng, stays ? 5 : 3)];
}

static void
put(struct buffer *to, uint32_t *n, struct step step, const char *path, const char *new_path,
    const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);

	if (op != NULL)
		wire_put_op(&encoded, op);
	step.path = bytes_of(path);
	step.new_path = bytes_of(new_path);
	step.op = buffer_view(&encoded);
	wire_put_step(to, &step);
	++*n;
	buffer_free(&encoded);
}

static void
put_condition(struct sim *s, struct buffer *to, uint32_t *n)
{
	const char *path = any_path(s, true);
	const struct item *it = model_child(&s->model, NODE_ROOT, bytes_of(path + 1));
	struct step step = {.kind = it == NULL ? STEP_ABSENT : STEP_GENERATION};

	if (it != NULL)
		step.generation = model_latest(it)->generation;
	if (rng_chance(&s->cached.rng, 200)) /* as it is not */
		step = (struct step){.kind = STEP_GENERATION, .generation = step.generation + 1};
	put(to, n, step, path, "", NULL);
}

static void
put_operation(struct sim *s, struct buffer *to, uint32_t *n)
{
	struct op op = {.code = OP_append};
	const char *path, *new_path = "";
	char text[24];

	snprintf(text, sizeof text, "v%lu;", (unsigned long)++s->values);
	switch (rng_below(&s->cached.rng, 7)) {
	case 0:
	case 1:
		op = (struct op){.code = OP_create, .create = {.kind = NODE_FILE}};
		break;
	case 2:
	case 3:
		op = (struct op){.code = OP_set_contents,
		                 .set_contents = {.contents = bytes_of(text)}};
		break;
	case 4:
		op = (struct op){.code = OP_delete};
		break;
	case 5:
		op = (struct op){.code = OP_rename};
		new_path = any_path(s, false);
		break;
	default:
		op.append.data = bytes_of(text);
		break;
	}
	path = any_path(s, op.code == OP_set_contents || op.code == OP_append);
	if (model_child(&s->model, NODE_ROOT, bytes_of(path + 1)) == NULL &&
	    rng_chance(&s->cached.rng, 600)) {
		op = (struct op){.code = OP_create, .create = {.kind = NODE_FILE}};
		new_path = "";
	}
	put(to, n, (struct step){.kind = STEP_DO}, path, new_path, &op);
}

static void
put_acquire(struct sim *s, struct machine *m, struct process *proc, struct buffer *to, uint32_t *n)
{
	const struct op op = work_acquire(s, m, proc, LOCK_EXCLUSIVE, false);

	put(to, n, (struct step){.kind = STEP_DO}, "/lock0", "", &op);
}

static void
put_mixture(struct sim *s, struct machine *m, struct process *proc, const struct record *held,
            struct buffer *to, uint32_t *n)
{
	struct rng *r = &s->cached.rng;

	for (uint64_t i = rng_below(r, 3); i > 0; i--)
		put_condition(s, to, n);
	for (uint64_t i = rng_below(r, 3); i > 0; i--)
		put_operation(s, to, n);
	if (held == NULL && rng_chance(r, 300))
		put_acquire(s, m, proc, to, n);
	for (uint64_t i = rng_below(r, 3); i > 0; i--)
		put_operation(s, to, n);
	if (rng_chance(r, 500)) {
		put(to, n, (struct step){.kind = STEP_ELSE}, "/", "", NULL);
		for (uint64_t i = 1 + rng_below(r, 2); i > 0; i--)
			put_operation(s, to, n);
	}
}

static void
ask(struct sim *s, struct machine *m, int p, const struct record *held)
{
	struct process *proc = &m->processes[p];
	struct buffer steps = BUFFER(LIMIT_ENTRY);
	uint32_t n = 0;

	if (held != NULL)
		put(&steps, &n,
		    (struct step){.kind = STEP_HELD,
		                  .guard = {held->got.node, held->got.lock_generation,
		                            LOCK_EXCLUSIVE, held->got.fence}},
		    "/lock0", "", NULL);
	if (held == NULL && rng_chance(&s->cached.rng, 300)) /* and nothing that could prevent it */
		put_acquire(s, m, proc, &steps, &n);
	else
		put_mixture(s, m, proc, held, &steps, &n);
	must(!steps.failed);
	work_ask(s, m, p,
	         (struct op){.code = OP_transaction, .transaction = {{buffer_view(&steps), n}}});
	buffer_free(&steps);
}

void
work_try_lock(struct sim *s, struct machine *m, const char *name)
{
	const uint64_t number = (UINT64_C(1) << 40) + ++m->owners; /* no mount gives such ones */
	const struct op absent = {.code = OP_delete};
	struct op acquire = {.code = OP_acquire};
	struct buffer steps = BUFFER(LIMIT_ENTRY);
	char path[NAME_ROOM + 1];
	uint32_t n = 0;

	acquire.acquire.acquire = (struct acquire){.owner = number,
	                                           .acquisition = number,
	                                           .mode = LOCK_EXCLUSIVE,
	                                           .delay_s = -1};
	snprintf(path, sizeof path, "/%s", name);
	put(&steps, &n, (struct step){.kind = STEP_DO}, path, "", &acquire);
	put(&steps, &n, (struct step){.kind = STEP_DO}, "/nowhere", "", &absent);
	machine_request(s, m, PROCESS_OPERATOR,
	                &(struct op){.code = OP_transaction,
	                             .transaction = {{buffer_view(&steps), n}}},
	                false);
	buffer_free(&steps);
}

bool
work_transactions(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct record *first = proc->step >= DONE ? work_answer(s, proc, 0) : NULL;
	struct op release;

	switch (proc->step) {
	case 0:
		if (!rng_chance(&s->cached.rng, s->swarm.transactions))
			return false;
		proc->step = DONE;
		ask(s, m, p, NULL);
		return true;
	case DONE:
		proc->step = first->rc == RC_OK && first->got.fence != 0 ? HELD : RELEASED;
		if (proc->step == RELEASED)
			work_next_round(s, m, p);
		else
			ask(s, m, p, first);
		return true;
	case HELD:
		proc->step = RELEASED;
		release = work_release(m, proc);
		release.release.node = first->got.node;
		work_ask(s, m, p, release);
		return true;
	case RELEASED:
		work_next_round(s, m, p);
		return true;
	default:
		return false;
	}
}
