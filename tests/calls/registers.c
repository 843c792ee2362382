/* Is one register linearizable, whose values are known from those who wrote and read them only?
 *
 * Gibbons and Korach, "Testing shared memories": no two writes wrote the same value, so each read
 * tells which write it saw. A write and all that read it stand next to each other in any order that
 * explains the history. Of such a cluster matter the earliest end (first) and the latest beginning
 * (last) of its operations: it has to come before another one if its first is before the other's
 * last. There is an order if and only if no two clusters have to come before each other. A
 * compare-and-swap that succeeded stands right after the cluster of the value that it expected;
 * such a chain is treated as one cluster whose parts have a given order. */
#include <stdlib.h>

#include "cell/base/memory.h"
#include "tests/calls/internal.h"

struct cluster {
	const struct call *write;
	int64_t first, last;
	uint64_t generation;  /* that a read told; 0: none did */
	uint64_t mtime;       /* likewise */
	bool seen;            /* read, or expected by a swap that took effect */
	struct cluster *next; /* the swap of this value */
	bool swapped;         /* is some cluster's next */
};

struct block {
	int64_t first, last;
	const struct cluster *cluster; /* the first one of a chain */
};

struct reg {
	struct calls *c;
	struct slice slice;
	struct cluster *clusters; /* sorted by value */
	size_t n;
};

static int
by_value(const void *a, const void *b)
{
	const struct cluster *x = a, *y = b;

	return bytes_compare(x->write->value, y->write->value);
}

static struct cluster *
find(const struct reg *r, struct bytes value)
{
	struct call write = {.value = value};
	struct cluster key = {.write = &write};

	return bsearch(&key, r->clusters, r->n, sizeof key, by_value);
}

static void
collect_writes(struct reg *r)
{
	r->clusters = memory_zero(r->slice.n, sizeof *r->clusters);
	for (size_t i = 0; i < r->slice.n; i++) {
		const struct call *call = &r->slice.list[i];

		if (calls_writes(call))
			r->clusters[r->n++] = (struct cluster){.write = call,
			                                       .first = call->end,
			                                       .last = call->begin};
	}
	qsort(r->clusters, r->n, sizeof *r->clusters, by_value);
	for (size_t i = 1; i < r->n; i++)
		if (by_value(&r->clusters[i - 1], &r->clusters[i]) == 0)
			calls_violation(r->c, "%s: %s was written twice: %s, %s",
			                r->slice.list[0].path,
			                calls_value(r->clusters[i].write->value),
			                calls_told(r->c, r->clusters[i - 1].write),
			                calls_told(r->c, r->clusters[i].write));
}

static void
note_generation(struct reg *r, struct cluster *c, const struct call *read)
{
	if (read->generation == 0)
		return;
	if (c->generation != 0 && c->generation != read->generation)
		calls_violation(r->c, "%s: %s was version %lu and %lu: %s", read->path,
		                calls_value(read->value), (unsigned long)c->generation,
		                (unsigned long)read->generation, calls_told(r->c, read));
	c->generation = read->generation;
}

static void
note_mtime(struct reg *r, struct cluster *c, const struct call *read)
{
	if (read->mtime == 0)
		return;
	if (c->mtime != 0 && c->mtime != read->mtime)
		calls_violation(r->c, "%s: %s was changed at %lu and %lu: %s", read->path,
		                calls_value(read->value), (unsigned long)c->mtime,
		                (unsigned long)read->mtime, calls_told(r->c, read));
	c->mtime = read->mtime;
}

static void
add_read(struct reg *r, const struct call *read)
{
	struct cluster *c = find(r, read->value);

	if (!c) {
		calls_violation(r->c, "%s: nobody wrote what was seen: %s", read->path,
		                calls_told(r->c, read));
		return;
	}
	if (c->write->outcome == CALL_FAILED)
		calls_violation(r->c, "%s: a write that failed was seen: %s; %s", read->path,
		                calls_told(r->c, c->write), calls_told(r->c, read));
	if (read->end < c->write->begin)
		calls_violation(r->c, "%s: seen before it was written: %s; %s", read->path,
		                calls_told(r->c, read), calls_told(r->c, c->write));
	note_generation(r, c, read);
	note_mtime(r, c, read);
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
	return c->write->outcome == CALL_OK || c->seen;
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

			if (c->write->kind != CALL_CAS || c->swapped || !effective(c))
				continue;
			found = c->swapped = true;
			before = find(r, c->write->expected);
			if (!before || before->write->outcome == CALL_FAILED)
				calls_violation(r->c,
				                "%s: nobody wrote %s, which was expected by %s",
				                c->write->path, calls_value(c->write->expected),
				                calls_told(r->c, c->write));
			else if (before->next)
				calls_violation(r->c, "%s: two swaps of %s: %s; %s", c->write->path,
				                calls_value(c->write->expected),
				                calls_told(r->c, before->next->write),
				                calls_told(r->c, c->write));
			else
				before->next = c;
			if (before)
				before->seen = true;
		}
	}
}

/* In a chain each value stands after the one before. */
static void
check_chain(struct reg *r, const struct cluster *c, struct block *b)
{
	int64_t last = c->last;
	const struct cluster *latest = c;
	size_t steps = 0;

	*b = (struct block){.first = c->first, .last = c->last, .cluster = c};
	for (c = c->next; c && steps++ < r->n; c = c->next) {
		if (c->first < last)
			calls_violation(r->c,
			                "%s: %s was seen although %s had been swapped for it: "
			                "%s",
			                c->write->path, calls_value(latest->write->value),
			                calls_value(c->write->value), calls_told(r->c, c->write));
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
 * both has to come before this one and after it. */
static void
check_blocks(struct reg *r, struct block *blocks, size_t n)
{
	const struct block *latest = NULL;

	qsort(blocks, n, sizeof *blocks, by_first);
	for (size_t i = 0; i < n; i++) {
		const struct block *b = &blocks[i];

		if (latest && b->first < latest->last && latest->first < b->last)
			calls_violation(r->c,
			                "%s: %s was still seen when %s had replaced it, and "
			                "the other way round: %s; %s",
			                b->cluster->write->path,
			                calls_value(latest->cluster->write->value),
			                calls_value(b->cluster->write->value),
			                calls_told(r->c, latest->cluster->write),
			                calls_told(r->c, b->cluster->write));
		if (!latest || b->last > latest->last)
			latest = b;
	}
}

static void
check_values(struct reg *r)
{
	struct block *blocks = memory_zero(r->n, sizeof *blocks);
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
			calls_violation(r->c, "%s: version %lu %s was swapped for version %lu %s",
			                c->write->path, (unsigned long)c->generation,
			                calls_value(c->write->value),
			                (unsigned long)next->generation,
			                calls_value(next->write->value));
	}
}

static int
by_generation(const void *a, const void *b)
{
	const struct cluster *const *x = a, *const *y = b;

	return (*x)->generation < (*y)->generation ? -1 : (*x)->generation > (*y)->generation;
}

/* The time of a file grows with its versions. */
static void
check_mtimes(struct reg *r, struct cluster **sorted, size_t n)
{
	const struct cluster *last = NULL;

	for (size_t i = 0; i < n; i++) {
		if (sorted[i]->mtime == 0)
			continue;
		if (last != NULL && sorted[i]->mtime <= last->mtime)
			calls_violation(r->c, "%s: version %lu is not later than version %lu: %s",
			                sorted[i]->write->path,
			                (unsigned long)sorted[i]->generation,
			                (unsigned long)last->generation,
			                calls_told(r->c, sorted[i]->write));
		last = sorted[i];
	}
}

/* No version is two values. */
static void
check_versions(struct reg *r)
{
	struct cluster **sorted = memory_zero(r->n, sizeof *sorted);
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++)
		if (r->clusters[i].generation)
			sorted[n++] = &r->clusters[i];
	qsort(sorted, n, sizeof *sorted, by_generation);
	for (size_t i = 1; i < n; i++)
		if (by_generation(&sorted[i - 1], &sorted[i]) == 0)
			calls_violation(r->c, "%s: version %lu was %s and %s",
			                sorted[i]->write->path,
			                (unsigned long)sorted[i]->generation,
			                calls_value(sorted[i - 1]->write->value),
			                calls_value(sorted[i]->write->value));
	check_mtimes(r, sorted, n);
	free(sorted);
}

/* Generations and the times of a file grow with time. */
static void
check_growth(struct reg *r)
{
	struct placed *generations = memory_zero(r->slice.n, sizeof *generations);
	struct placed *mtimes = memory_zero(r->slice.n, sizeof *mtimes);
	size_t n = 0, m = 0;

	for (size_t i = 0; i < r->slice.n; i++) {
		const struct call *call = &r->slice.list[i];

		if (calls_reads(call) && call->generation)
			generations[n++] = (struct placed){call->generation, call};
		if (calls_reads(call) && call->mtime)
			mtimes[m++] = (struct placed){call->mtime, call};
	}
	calls_check_order(r->c, generations, n, "generation");
	calls_check_order(r->c, mtimes, m, "mtime");
	free(generations);
	free(mtimes);
}

/* Between the first and the last read each acknowledged write made one version, each open one at
 * most one, and nothing else did. */
static void
check_versions_made(struct reg *r)
{
	const struct call *first = NULL, *last = NULL;
	unsigned long made, acknowledged = 0, open = 0;

	for (size_t i = 0; i < r->slice.n; i++) {
		const struct call *call = &r->slice.list[i];

		if (!calls_reads(call) || !call->generation)
			continue;
		if (!first)
			first = call;
		last = call;
	}
	if (!first)
		return;
	for (size_t i = 0; i < r->slice.n; i++) {
		const struct call *call = &r->slice.list[i];

		if (!calls_writes(call) || call->begin > last->end || call->end < first->begin)
			continue;
		if (call->outcome == CALL_OK && call->begin > first->end && call->end < last->begin)
			acknowledged++;
		else if (call->outcome != CALL_FAILED)
			open++;
	}
	made = last->generation - first->generation;
	if (last->generation < first->generation || made < acknowledged ||
	    made > acknowledged + open)
		calls_violation(r->c,
		                "%s: %lu writes were acknowledged, %lu are open, but "
		                "%lu versions were made (up to line %lu)",
		                first->path, acknowledged, open, made, (unsigned long)last->source);
}

void
calls_check_register(struct calls *c, struct slice slice)
{
	struct reg r = {.c = c, .slice = slice};

	collect_writes(&r);
	for (size_t i = 0; i < slice.n; i++)
		if (calls_reads(&slice.list[i]))
			add_read(&r, &slice.list[i]);
	chain_swaps(&r);
	check_values(&r);
	check_versions(&r);
	check_swap_generations(&r);
	check_growth(&r);
	check_versions_made(&r);
	free(r.clusters);
}
