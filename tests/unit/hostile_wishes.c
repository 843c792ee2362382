#include "tests/unit/hostile_wishes.h"

#include "tests/unit/bare_world.h"

static uint64_t
below(struct wishes *w, uint64_t bound)
{
	return rng_below(&w->rng, bound);
}

static bool
one_in(struct wishes *w, uint64_t n)
{
	return below(w, n) == 0;
}

static uint64_t
some_node(struct wishes *w)
{
	return one_in(w, 4) ? below(w, 24) : w->files[below(w, WISHES_FILES)];
}

static struct bytes
some_name(struct wishes *w)
{
	static const char *const names[] = {"a", "b", "acl", ".cell", "good", "lock0", "", "a/b"};

	return bytes_of(names[below(w, sizeof names / sizeof *names)]);
}

static struct acquire
some_acquire(struct wishes *w)
{
	struct acquire a = {
	    .node = some_node(w),
	    .owner = below(w, 2),
	    .acquisition = below(w, 3),
	    .mode = (uint8_t)(one_in(w, 30) ? below(w, 256) : 1 + below(w, 2)),
	    .wait = !one_in(w, 3),
	    .delay_s = one_in(w, 30) ? (int64_t)below(w, 100) - 20 : (int64_t)below(w, 3) - 1,
	    .default_delay_s = (int64_t)below(w, 2),
	};

	if (one_in(w, 4))
		a = w->last;
	if (w->tickets_n > 0 && one_in(w, 4))
		a = w->tickets[below(w, w->tickets_n < WISHES_TICKETS ? w->tickets_n
		                                                      : WISHES_TICKETS)];
	if (one_in(w, 20))
		a.acquisition = below(w, 4);
	if (one_in(w, 20))
		a.owner = below(w, 2);
	if (one_in(w, 20))
		a.ticket.place += 1 - below(w, 3);
	if (one_in(w, 40))
		a.ticket.epoch = below(w, 4);
	w->last = a;
	return a;
}

static struct op
some_lock_op(struct wishes *w)
{
	struct acquire a = some_acquire(w);

	switch (below(w, 5)) {
	case 0:
		return op_of_release(a.node, a.owner, a.acquisition);
	case 1:
		return op_of_cancel(a.node, a.owner, a.acquisition);
	default:
		return (struct op){.code = OP_acquire, .acquire = {.acquire = a}};
	}
}

static struct op
some_file_op(struct wishes *w)
{
	switch (below(w, 6)) {
	case 0:
		return (struct op){.code = OP_create,
		                   .create = {.parent = one_in(w, 3) ? some_node(w) : NODE_ROOT,
		                              .name = some_name(w),
		                              .kind = (uint8_t)(1 + below(w, 2)),
		                              .ephemeral = (uint8_t)below(w, 2),
		                              .exclusive = (uint8_t)below(w, 2)}};
	case 1:
		return (struct op){.code = OP_delete,
		                   .delete = {.parent = NODE_ROOT,
		                              .name = some_name(w),
		                              .kind = (uint8_t)(1 + below(w, 2))}};
	case 2:
		return (struct op){.code = OP_rename,
		                   .rename = {.parent = NODE_ROOT,
		                              .name = some_name(w),
		                              .new_parent = one_in(w, 3) ? some_node(w) : NODE_ROOT,
		                              .new_name = some_name(w)}};
	case 3:
		return (struct op){.code = OP_make_ephemeral,
		                   .make_ephemeral = {.node = some_node(w)}};
	case 4:
		return (struct op){.code = OP_open_ephemeral,
		                   .open_ephemeral = {.node = some_node(w)}};
	default:
		return op_of_get_lock(some_node(w));
	}
}

struct op
wishes_op(struct wishes *w)
{
	struct op op = {.code = OP_get_usage};

	if (!one_in(w, 3))
		return some_lock_op(w);
	if (!one_in(w, 3))
		return some_file_op(w);
	if (one_in(w, 6))
		return (
		    struct op){.code = OP_end_session,
		               .end_session = {.session = w->sessions[below(w, WISHES_SESSIONS)],
		                               .cause = (uint8_t)(1 + below(w, 3))}};
	values_op(&w->values, 1 + (unsigned)below(w, 75), &op);
	return op;
}

void
wishes_learn(struct wishes *w, const struct acquire *queued)
{
	w->tickets[w->tickets_n++ % WISHES_TICKETS] = *queued;
}
