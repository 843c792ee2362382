/* Is one register linearizable?
 *
 * Gibbons and Korach, "Testing shared memories": no two writes wrote the same value, so each read
 * tells which write it saw. A write and all that read it stand next to each other in any order that
 * explains the history. Of such a cluster matter the earliest end (first) and the latest beginning
 * (last) of its operations: it has to come before another one if its first is before the other's
 * last. There is an order if and only if no two clusters have to come before each other. A
 * compare-and-swap that succeeded stands right behind the cluster of the value that it expected;
 * such a chain is treated as one cluster whose parts have a given order. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/history.h"

struct cluster {
	const struct op *write;
	int64_t first, last;
	uint64_t generation;  /* that a read told; 0: none did */
	bool seen;            /* read, or expected by a swap that took effect */
	struct cluster *next; /* the swap of this value */
	bool swapped;         /* is some cluster's next */
};

struct block {
	int64_t first, last;
	const struct cluster *cluster; /* the first one of a chain */
};

struct reg {
	struct history *h;
	struct slice slice;
	struct cluster *clusters; /* sorted by value */
	size_t n;
};

static bool
is_write(const struct op *op)
{
	return op->kind == KIND_WRITE || op->kind == KIND_RENAME || op->kind == KIND_CAS;
}

static bool
is_read(const struct op *op)
{
	return (op->kind == KIND_READ || op->kind == KIND_FINAL) && op->outcome == OUTCOME_OK;
}

static int
by_value(const void *a, const void *b)
{
	const struct cluster *x = a, *y = b;

	return strcmp(x->write->value, y->write->value);
}

static struct cluster *
find(const struct reg *r, const char *value)
{
	struct op write = {.value = (char *)value};
	struct cluster key = {.write = &write};

	return bsearch(&key, r->clusters, r->n, sizeof key, by_value);
}

static void
collect_writes(struct reg *r)
{
	r->clusters = allocate(r->slice.n, sizeof *r->clusters);
	for (size_t i = 0; i < r->slice.n; i++) {
		const struct op *op = &r->slice.ops[i];

		if (is_write(op))
			r->clusters[r->n++] =
			    (struct cluster){.write = op, .first = op->end, .last = op->begin};
	}
	qsort(r->clusters, r->n, sizeof *r->clusters, by_value);
	for (size_t i = 1; i < r->n; i++)
		if (by_value(&r->clusters[i - 1], &r->clusters[i]) == 0)
			give_up("'%s' was written twice: %s, %s", r->clusters[i].write->value,
			        told(r->clusters[i - 1].write), told(r->clusters[i].write));
}

static void
note_generation(struct reg *r, struct cluster *c, const struct op *read)
{
	if (read->generation == 0)
		return;
	if (c->generation != 0 && c->generation != read->generation)
		violation(r->h, "%s: '%s' was version %llu and %llu: %s", read->path, read->value,
		          (unsigned long long)c->generation, (unsigned long long)read->generation,
		          told(read));
	c->generation = read->generation;
}

static void
add_read(struct reg *r, const struct op *read)
{
	struct cluster *c = find(r, read->value);

	if (!c) {
		violation(r->h, "%s: nobody wrote what was seen: %s", read->path, told(read));
		return;
	}
	if (c->write->outcome == OUTCOME_FAIL)
		violation(r->h, "%s: a write that failed was seen: %s; %s", read->path,
		          told(c->write), told(read));
	if (read->end < c->write->begin)
		violation(r->h, "%s: seen before it was written: %s; %s", read->path, told(read),
		          told(c->write));
	note_generation(r, c, read);
	c->seen = true;
	if (read->end < c->first)
		c->first = read->end;
	if (read->begin > c->last)
		c->last = read->begin;
}

/* Did it certainly take effect? */
static bool
effective(const struct cluster *c)
{
	return c->write->outcome == OUTCOME_OK || c->seen;
}

/* A swap of open outcome took effect if its value was seen; by a swap, too, so until nothing is
 * found any more. */
static void
chain_swaps(struct reg *r)
{
	bool found = true;

	while (found) {
		found = false;
		for (size_t i = 0; i < r->n; i++) {
			struct cluster *c = &r->clusters[i], *before;

			if (c->write->kind != KIND_CAS || c->swapped || !effective(c))
				continue;
			found = c->swapped = true;
			before = find(r, c->write->expected);
			if (!before || before->write->outcome == OUTCOME_FAIL)
				violation(r->h, "%s: nobody wrote '%s', which was expected by %s",
				          c->write->path, c->write->expected, told(c->write));
			else if (before->next)
				violation(r->h, "%s: two swaps of '%s': %s; %s", c->write->path,
				          c->write->expected, told(before->next->write),
				          told(c->write));
			else
				before->next = c;
			if (before)
				before->seen = true;
		}
	}
}

/* In a chain each value stands behind the one before. */
static void
check_chain(struct reg *r, const struct cluster *c, struct block *b)
{
	int64_t last = c->last;
	const struct cluster *latest = c;
	size_t steps = 0;

	*b = (struct block){.first = c->first, .last = c->last, .cluster = c};
	for (c = c->next; c && steps++ < r->n; c = c->next) {
		if (c->first < last)
			violation(r->h,
			          "%s: '%s' was seen although '%s' had been swapped for it: "
			          "%s",
			          c->write->path, latest->write->value, c->write->value,
			          told(c->write));
		if (c->last > last) {
			last = c->last;
			latest = c;
		}
		if (c->first < b->first)
			b->first = c->first;
	}
	b->last = last;
}

static int
by_first(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return x->first < y->first ? -1 : x->first > y->first;
}

/* Of the blocks with an earlier first, the one with the latest last shows whether there is one that
 * both has to come before this one and behind it. */
static void
check_blocks(struct reg *r, struct block *blocks, size_t n)
{
	const struct block *latest = NULL;

	qsort(blocks, n, sizeof *blocks, by_first);
	for (size_t i = 0; i < n; i++) {
		const struct block *b = &blocks[i];

		if (latest && b->first < latest->last && latest->first < b->last)
			violation(r->h,
			          "%s: '%s' was still seen when '%s' had replaced it, and "
			          "the other way round: %s; %s",
			          b->cluster->write->path, latest->cluster->write->value,
			          b->cluster->write->value, told(latest->cluster->write),
			          told(b->cluster->write));
		if (!latest || b->last > latest->last)
			latest = b;
	}
}

static void
check_values(struct reg *r)
{
	struct block *blocks = allocate(r->n, sizeof *blocks);
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (effective(&r->clusters[i]) && !r->clusters[i].swapped)
			check_chain(r, &r->clusters[i], &blocks[n++]);
	check_blocks(r, blocks, n);
	free(blocks);
}

/* ---- generations ---- */

/* A swap's version follows the one that it expected. */
static void
check_swap_generations(struct reg *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct cluster *c = &r->clusters[i], *next = c->next;

		if (next && c->generation && next->generation &&
		    next->generation != c->generation + 1)
			violation(r->h, "%s: version %llu '%s' was swapped for version %llu '%s'",
			          c->write->path, (unsigned long long)c->generation,
			          c->write->value, (unsigned long long)next->generation,
			          next->write->value);
	}
}

static int
by_generation(const void *a, const void *b)
{
	const struct cluster *const *x = a, *const *y = b;

	return (*x)->generation < (*y)->generation ? -1 : (*x)->generation > (*y)->generation;
}

/* No version is two values. */
static void
check_versions(struct reg *r)
{
	struct cluster **sorted = allocate(r->n, sizeof *sorted);
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (r->clusters[i].generation)
			sorted[n++] = &r->clusters[i];
	qsort(sorted, n, sizeof *sorted, by_generation);
	for (size_t i = 1; i < n; i++)
		if (by_generation(&sorted[i - 1], &sorted[i]) == 0)
			violation(r->h, "%s: version %llu was '%s' and '%s'",
			          sorted[i]->write->path, (unsigned long long)sorted[i]->generation,
			          sorted[i - 1]->write->value, sorted[i]->write->value);
	free(sorted);
}

/* Generations grow with time. */
static void
check_growth(struct reg *r)
{
	struct placed *placed = allocate(r->slice.n, sizeof *placed);
	size_t n = 0;

	for (size_t i = 0; i < r->slice.n; i++)
		if (is_read(&r->slice.ops[i]) && r->slice.ops[i].generation)
			placed[n++] = (struct placed){r->slice.ops[i].generation, &r->slice.ops[i]};
	check_order(r->h, placed, n, "generation");
	free(placed);
}

/* Between the first and the last read each acknowledged write made one version, each open one at
 * most one, and nothing else did. */
static void
check_versions_made(struct reg *r)
{
	const struct op *first = NULL, *last = NULL;
	unsigned long long made, acknowledged = 0, open = 0;

	for (size_t i = 0; i < r->slice.n; i++) {
		const struct op *op = &r->slice.ops[i];

		if (!is_read(op) || !op->generation)
			continue;
		if (!first)
			first = op;
		last = op;
	}
	if (!first)
		return;
	for (size_t i = 0; i < r->slice.n; i++) {
		const struct op *op = &r->slice.ops[i];

		if (!is_write(op) || op->begin > last->end || op->end < first->begin)
			continue;
		if (op->outcome == OUTCOME_OK && op->begin > first->end && op->end < last->begin)
			acknowledged++;
		else if (op->outcome != OUTCOME_FAIL)
			open++;
	}
	made = last->generation - first->generation;
	if (last->generation < first->generation || made < acknowledged ||
	    made > acknowledged + open)
		violation(r->h,
		          "%s: %llu writes were acknowledged, %llu are open, but "
		          "%llu versions were made (up to line %d)",
		          first->path, acknowledged, open, made, last->line);
}

void
check_register(struct history *h, struct slice slice)
{
	struct reg r = {.h = h, .slice = slice};

	collect_writes(&r);
	for (size_t i = 0; i < slice.n; i++)
		if (is_read(&slice.ops[i]))
			add_read(&r, &slice.ops[i]);
	chain_swaps(&r);
	check_values(&r);
	check_versions(&r);
	check_swap_generations(&r);
	check_growth(&r);
	check_versions_made(&r);
	free(r.clusters);
}
