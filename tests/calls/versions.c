/* One path, all of whose values are known, in the order in which the cell decided them: does each
 * read show one of them, at a time at which it may? */
#include <stdlib.h>

#include "cell/base/memory.h"
#include "tests/calls/internal.h"

struct version {
	const struct call *write;
	int64_t known; /* from then on somebody knew of it, or of a later one */
};

struct versions {
	struct calls *c;
	struct slice slice;
	struct version *list;
	size_t n;
};

static int
by_place(const void *a, const void *b)
{
	const struct version *x = a, *y = b;

	return x->write->place < y->write->place ? -1 : x->write->place > y->write->place;
}

static void
collect(struct versions *v)
{
	v->list = memory_zero(v->slice.n, sizeof *v->list);
	for (size_t i = 0; i < v->slice.n; i++) {
		const struct call *call = &v->slice.list[i];

		if (calls_writes(call) && call->place != 0)
			v->list[v->n++] = (struct version){call, call->end};
		else if (calls_writes(call) && call->outcome == CALL_OK)
			calls_violation(v->c, "%s: acknowledged, and never decided: %s", call->path,
			                calls_told(v->c, call));
	}
	qsort(v->list, v->n, sizeof *v->list, by_place);
}

/* Each write makes the next generation. */
static void
check_generations(const struct versions *v)
{
	for (size_t i = 1; i < v->n; i++) {
		const struct call *before = v->list[i - 1].write, *write = v->list[i].write;

		if (write->generation != 0 && before->generation != 0 &&
		    write->generation != before->generation + 1)
			calls_violation(v->c, "%s: version %lu follows version %lu: %s",
			                write->path, (unsigned long)write->generation,
			                (unsigned long)before->generation, calls_told(v->c, write));
	}
}

/* ---- which version a read shows ---- */

static bool
is_shown(const struct call *read, const struct call *write)
{
	if (read->unseen)
		return read->generation == write->generation;
	if (read->generation != 0 && write->generation != 0 &&
	    read->generation != write->generation)
		return false;
	return bytes_equal(read->value, write->value);
}

/* The last version that was decided by then; n: none was. */
static size_t
version_at(const struct versions *v, uint64_t place)
{
	size_t low = 0, high = v->n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (v->list[middle].write->place <= place)
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 ? low - 1 : v->n;
}

/* Values may repeat: of those that a cached answer may show it shows the newest that was asked for
 * when it was given. */
static size_t
version_like(const struct versions *v, const struct call *read)
{
	size_t found = v->n;

	for (size_t i = 0; i < v->n; i++)
		if (is_shown(read, v->list[i].write) &&
		    (found == v->n || v->list[i].write->begin <= read->end))
			found = i;
	return found;
}

static size_t
version_shown(const struct versions *v, const struct call *read)
{
	const size_t i = read->place != 0 ? version_at(v, read->place) : version_like(v, read);

	if (i < v->n && is_shown(read, v->list[i].write))
		return i;
	if (i < v->n)
		calls_violation(v->c, "%s: shows another value than was there: %s; %s", read->path,
		                calls_told(v->c, read), calls_told(v->c, v->list[i].write));
	else
		calls_violation(v->c, "%s: nobody wrote what was seen: %s", read->path,
		                calls_told(v->c, read));
	return v->n;
}

/* ---- when it may be shown ---- */

/* Whoever has heard of a version knows that all before it are replaced. */
static void
spread(const struct versions *v)
{
	for (size_t i = v->n; i-- > 1;)
		if (v->list[i].known < v->list[i - 1].known)
			v->list[i - 1].known = v->list[i].known;
}

static void
check_time(const struct versions *v, const struct call *call, size_t i)
{
	const struct call *write = v->list[i].write;

	if (call->end < write->begin)
		calls_violation(v->c, "%s: seen before it was written: %s; %s", call->path,
		                calls_told(v->c, call), calls_told(v->c, write));
	if (i + 1 < v->n && v->list[i + 1].known < call->begin)
		calls_violation(v->c, "%s: %s was still seen when %s had replaced it: %s",
		                call->path, calls_value(write->value),
		                calls_value(v->list[i + 1].write->value), calls_told(v->c, call));
}

void
calls_check_versions(struct calls *c, struct slice slice)
{
	struct versions v = {.c = c, .slice = slice};
	size_t *shown = memory_zero(slice.n, sizeof *shown);

	collect(&v);
	check_generations(&v);
	for (size_t i = 0; i < slice.n; i++) {
		const struct call *read = &slice.list[i];

		if (!calls_reads(read))
			continue;
		shown[i] = version_shown(&v, read);
		if (shown[i] < v.n && !c->stale_reads && read->end < v.list[shown[i]].known)
			v.list[shown[i]].known = read->end;
	}
	spread(&v);
	for (size_t i = 0; i < v.n; i++)
		check_time(&v, v.list[i].write, i);
	for (size_t i = 0; i < slice.n && !c->stale_reads; i++)
		if (calls_reads(&slice.list[i]) && shown[i] < v.n)
			check_time(&v, &slice.list[i], shown[i]);
	free(shown);
	free(v.list);
}
