/* A stored state in which one row is missing, or has a wrong value in one column: the loader
 * refuses it, or loads a tree that is sound (tree_load_done checks it), and nothing crashes. */
#include "tests/sim/sim.h"

enum { TRIES_PERMILLE = 300, MISSING_PERMILLE = 300 };

struct rotten {
	struct rng rng; /* of its own: the runs stay as they are */
	struct tree *tree;
	size_t at; /* the position of the row */
	size_t seen;
	bool refused;
};

static int64_t
wrong_number(struct rng *rng, int64_t number)
{
	switch (rng_below(rng, 4)) {
	case 0:
		return (int64_t)rng_below(rng, 8);
	case 1:
		return number + 1;
	case 2:
		return number - 1;
	default:
		return (int64_t)(rng_next(rng) >> rng_below(rng, 64));
	}
}

static void
rot(struct rng *rng, struct row *row)
{
	const struct row_table_info *info = row_table_info(row->table);
	const uint64_t column = rng_below(rng, (uint64_t)info->columns);
	struct row_value *value = &row->values[column];

	if (info->column[column].kind == 'i')
		value->number = wrong_number(rng, value->number);
	else
		value->bytes.len = rng_below(rng, value->bytes.len + 1);
}

static void
load(void *user, const struct row *row)
{
	struct rotten *r = user;
	struct row rotten = *row;

	if (r->refused)
		return;
	if (r->seen++ == r->at) {
		if (rng_chance(&r->rng, MISSING_PERMILLE))
			return;
		rot(&r->rng, &rotten);
	}
	r->refused = tree_load_row(r->tree, &rotten) != RC_OK;
}

static void
count(void *user, const struct row *row)
{
	(void)row;
	++*(size_t *)user;
}

void
rot_try(struct sim *s, const struct disk *d)
{
	struct rotten r = {.rng = rng_seeded(s->seed ^ (uint64_t)s->now ^ d->applied)};
	char why[LIMIT_WHY] = "";
	size_t rows = 0;

	disk_each_row(d, count, &rows);
	if (rows == 0 || !rng_chance(&r.rng, TRIES_PERMILLE))
		return;
	r.tree = tree_new("sim");
	r.at = rng_below(&r.rng, rows);
	disk_each_row(d, load, &r);
	if (!r.refused)
		tree_load_done(r.tree, why, sizeof why);
	tree_free(r.tree);
}
