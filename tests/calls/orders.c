/* Appended lines and counters: an order was seen; does it agree with real time? */
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "tests/calls/internal.h"

static int
by_place(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->call->begin < y->call->begin ? -1 : x->call->begin > y->call->begin;
}

void
calls_check_order(struct calls *c, struct placed *placed, size_t n, const char *what)
{
	const struct placed *latest = NULL;

	qsort(placed, n, sizeof *placed, by_place);
	for (size_t i = 0; i < n; i++) {
		if (latest && placed[i].place > latest->place &&
		    placed[i].call->end < latest->call->begin)
			calls_violation(c, "%s: %s %lu had ended when %lu began: %s; %s",
			                placed[i].call->path, what, (unsigned long)placed[i].place,
			                (unsigned long)latest->place, calls_told(c, placed[i].call),
			                calls_told(c, latest->call));
		if (!latest || placed[i].call->begin > latest->call->begin)
			latest = &placed[i];
	}
}

static const struct call *
find_kind(struct slice slice, enum call_kind kind)
{
	for (size_t i = 0; i < slice.n; i++)
		if (slice.list[i].kind == kind && slice.list[i].outcome == CALL_OK)
			return &slice.list[i];
	return NULL;
}

/* ---- appends ---- */

struct line {
	const struct call *call;
	size_t times; /* how often it is there */
};

struct appends {
	struct calls *c;
	struct slice slice;
	struct line *lines; /* sorted by what they say */
	size_t n;
	struct placed *placed; /* by the offset of the line's end */
	size_t placed_n;
	uint64_t length;
};

static int
by_line(const void *a, const void *b)
{
	const struct line *x = a, *y = b;

	return bytes_compare(x->call->value, y->call->value);
}

static void
collect_lines(struct appends *a)
{
	a->lines = memory_zero(a->slice.n, sizeof *a->lines);
	a->placed = memory_zero(2 * a->slice.n, sizeof *a->placed);
	for (size_t i = 0; i < a->slice.n; i++)
		if (a->slice.list[i].kind == CALL_APPEND)
			a->lines[a->n++].call = &a->slice.list[i];
	qsort(a->lines, a->n, sizeof *a->lines, by_line);
	for (size_t i = 1; i < a->n; i++)
		if (by_line(&a->lines[i - 1], &a->lines[i]) == 0)
			calls_violation(a->c, "%s was appended by two calls",
			                calls_value(a->lines[i].call->value));
}

static void
place_line(struct appends *a, struct bytes text)
{
	const struct call call = {.value = text};
	struct line key = {.call = &call}, *line;

	line = bsearch(&key, a->lines, a->n, sizeof key, by_line);
	a->length += text.len + 1;
	if (!line) {
		calls_violation(a->c, "%s: nobody appended the line %s", a->slice.list[0].path,
		                calls_value(text));
		return;
	}
	if (line->call->outcome == CALL_FAILED)
		calls_violation(a->c, "%s: an append that failed is there: %s", line->call->path,
		                calls_told(a->c, line->call));
	if (line->times++ > 0)
		calls_violation(a->c, "%s: appended twice: %s", line->call->path,
		                calls_told(a->c, line->call));
	else
		a->placed[a->placed_n++] = (struct placed){a->length, line->call};
}

static void
place_lines(struct appends *a, struct bytes rest)
{
	while (rest.len > 0) {
		const uint8_t *end = memchr(rest.data, a->c->end_of_line, rest.len);
		const size_t len = end != NULL ? (size_t)(end - rest.data) : rest.len;

		place_line(a, (struct bytes){rest.data, len});
		if (end == NULL)
			calls_violation(a->c, "%s: the last line has no end",
			                a->slice.list[0].path);
		rest.data += len + (end != NULL);
		rest.len -= len + (end != NULL);
	}
}

/* The line that a tail ended with. */
static struct bytes
tail_line(const struct call *call)
{
	const uint8_t *space = memchr(call->value.data, ' ', call->value.len);

	if (space == NULL)
		return (struct bytes){NULL, 0};
	return (struct bytes){space + 1, (size_t)(call->value.data + call->value.len - space) - 1};
}

/* A read of all lines so far has its place after the last of them. */
static void
place_tails(struct appends *a)
{
	for (size_t i = 0; i < a->slice.n; i++) {
		const struct call *call = &a->slice.list[i];
		uint64_t length;
		size_t at;

		if (call->kind != CALL_TAIL || call->outcome != CALL_OK)
			continue;
		length = calls_number(a->c, call, call->value);
		for (at = 0; at < a->n && length > 0; at++)
			if (bytes_equal(a->lines[at].call->value, tail_line(call)))
				break;
		if (length > 0 && at == a->n)
			calls_violation(a->c, "%s: nobody appended what was read: %s", call->path,
			                calls_told(a->c, call));
		a->placed[a->placed_n++] = (struct placed){length, call};
	}
}

/* The line that each tail ended with is the one that ends there. */
static void
check_tails(struct appends *a)
{
	const struct call *line = NULL;

	for (size_t i = 0; i < a->placed_n; i++) {
		const struct placed *p = &a->placed[i];

		if (p->call->kind == CALL_APPEND)
			line = p->call;
		else if (p->place > 0 && (!line || !bytes_equal(tail_line(p->call), line->value)))
			calls_violation(a->c, "%s: it never ended so: %s", p->call->path,
			                calls_told(a->c, p->call));
	}
}

/* The order in the file: lines before the reads that ended with them. */
static int
lines_first(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->call->kind == CALL_TAIL) - (y->call->kind == CALL_TAIL);
}

void
calls_check_appends(struct calls *c, struct slice slice)
{
	struct appends a = {.c = c, .slice = slice};
	const struct call *final = find_kind(slice, CALL_FINAL);

	if (!final) {
		calls_violation(c, "%s: was not read at the end", slice.list[0].path);
		return;
	}
	collect_lines(&a);
	place_lines(&a, final->value);
	for (size_t i = 0; i < a.n; i++)
		if (a.lines[i].call->outcome == CALL_OK && a.lines[i].times == 0)
			calls_violation(c, "%s: an acknowledged line is lost: %s",
			                slice.list[0].path, calls_told(c, a.lines[i].call));
	place_tails(&a);
	qsort(a.placed, a.placed_n, sizeof *a.placed, lines_first);
	check_tails(&a);
	/* A line and the reads that end with it have one place: leave room between them. */
	for (size_t i = 0; i < a.placed_n; i++)
		a.placed[i].place = 2 * a.placed[i].place + (a.placed[i].call->kind == CALL_TAIL);
	calls_check_order(c, a.placed, a.placed_n, "byte 2 x");
	free(a.lines);
	free(a.placed);
}

/* ---- counters ---- */

void
calls_check_counter(struct calls *c, struct slice slice)
{
	struct placed *placed = memory_zero(slice.n, sizeof *placed);
	const struct call *final = find_kind(slice, CALL_FINAL);
	uint64_t open = 0, at_end;
	size_t n = 0;

	for (size_t i = 0; i < slice.n; i++) {
		if (slice.list[i].kind != CALL_COUNT)
			continue;
		if (slice.list[i].outcome == CALL_OK)
			placed[n++] =
			    (struct placed){calls_number(c, &slice.list[i], slice.list[i].value),
			                    &slice.list[i]};
		else if (slice.list[i].outcome == CALL_OPEN)
			open++;
	}
	calls_check_order(c, placed, n, "count");
	for (size_t i = 1; i < n; i++)
		if (placed[i].place == placed[i - 1].place)
			calls_violation(c, "%s: an increment is lost: %s; %s", slice.list[0].path,
			                calls_told(c, placed[i - 1].call),
			                calls_told(c, placed[i].call));
	at_end = final ? calls_number(c, final, final->value) : 0;
	if (!final || at_end < n || at_end > n + open || (n > 0 && at_end < placed[n - 1].place))
		calls_violation(c, "%s: counts %lu; %zu increments were acknowledged, %lu are open",
		                slice.list[0].path, (unsigned long)at_end, n, (unsigned long)open);
	free(placed);
}
