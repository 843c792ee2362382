/* The model's budgets of directories: what is below one is counted each time, node by node. */
#include "tests/sim/sim.h"

enum { NODE_BYTES = 256 }; /* that a node counts beyond its contents */

static bool
is_below(struct model *m, const struct item *it, const struct item *directory)
{
	while (it != NULL && it->node != directory->node)
		it = model_item(m, it->parent);
	return it != NULL;
}

static size_t
length(const struct item *it)
{
	return it->versions_n > 0 ? model_latest(it)->contents.len : 0;
}

static void
count(struct model *m, const struct item *directory, uint64_t below[QUOTA_KINDS])
{
	below[QUOTA_NODES] = below[QUOTA_BYTES] = 0;
	for (size_t i = 0; i < m->items_n; i++) {
		const struct item *it = m->items[i];

		if (it->died != 0 || it == directory || !is_below(m, it, directory))
			continue;
		below[QUOTA_NODES]++;
		below[QUOTA_BYTES] += NODE_BYTES + length(it);
	}
}

static bool
exceeds(uint64_t below, uint64_t more, uint64_t budget)
{
	return budget != 0 && more > 0 && below + more > budget;
}

bool
model_budgets_allow(struct model *m, const struct item *directory, const struct item *from,
                    uint64_t nodes, size_t bytes)
{
	for (; directory != NULL; directory = model_item(m, directory->parent)) {
		const uint64_t *budget = directory->budget;
		uint64_t below[QUOTA_KINDS];

		if ((budget[QUOTA_NODES] == 0 && budget[QUOTA_BYTES] == 0) ||
		    (from != NULL && is_below(m, from, directory)))
			continue;
		count(m, directory, below);
		if (exceeds(below[QUOTA_NODES], nodes, budget[QUOTA_NODES]) ||
		    exceeds(below[QUOTA_BYTES], nodes * NODE_BYTES + bytes, budget[QUOTA_BYTES]))
			return false;
	}
	return true;
}

bool
model_budgets_allow_length(struct model *m, const struct item *it, const struct item *from,
                           size_t len)
{
	const size_t former = length(it);

	return model_budgets_allow(m, model_item(m, it->parent), from, 0,
	                           len > former ? len - former : 0);
}

/* The index of the last change of the directory or below it, also of what is gone. */
static uint64_t
last_change(struct model *m, const struct item *directory)
{
	uint64_t last = 0;

	for (size_t i = 0; i < m->items_n; i++) {
		const struct item *it = m->items[i];

		if (!is_below(m, it, directory))
			continue;
		last = it->born > last ? it->born : last;
		last = it->died > last ? it->died : last;
		last = it->ctime_changed > last ? it->ctime_changed : last;
	}
	return last;
}

void
model_check_usage(struct sim *s, const struct tree *t, uint64_t session)
{
	struct buffer none = BUFFER(1);

	for (size_t i = 0; i < s->model.items_n; i++) {
		const struct item *it = s->model.items[i];
		const struct op op = {.code = OP_get_usage, .get_usage = {it->node}};
		uint64_t below[QUOTA_KINDS];
		struct result r;

		if (it->died != 0 || it->kind != NODE_DIRECTORY)
			continue;
		count(&s->model, it, below);
		if (tree_read(t, &(struct requester){.session = session}, 0, &op, &r, &none) !=
		        RC_OK ||
		    r.usage.below_nodes != below[QUOTA_NODES] ||
		    r.usage.below_bytes != below[QUOTA_BYTES] ||
		    r.usage.budget_nodes != it->budget[QUOTA_NODES] ||
		    r.usage.budget_bytes != it->budget[QUOTA_BYTES] ||
		    r.usage.index < last_change(&s->model, it))
			sim_fail(s, "at the end %lu nodes are below %s, of %lu, and not %lu of %lu",
			         (unsigned long)r.usage.below_nodes, trace_path(s, it->node),
			         (unsigned long)r.usage.budget_nodes,
			         (unsigned long)below[QUOTA_NODES],
			         (unsigned long)it->budget[QUOTA_NODES]);
	}
}
