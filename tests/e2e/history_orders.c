/* Appended lines, counters, locks: an order was seen; does it agree with real time? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/history.h"

static int
by_place(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->op->begin < y->op->begin ? -1 : x->op->begin > y->op->begin;
}

void
check_order(struct history *h, struct placed *placed, size_t n, const char *what)
{
	const struct placed *latest = NULL;

	qsort(placed, n, sizeof *placed, by_place);
	for (size_t i = 0; i < n; i++) {
		if (latest && placed[i].place > latest->place &&
		    placed[i].op->end < latest->op->begin)
			violation(h, "%s: %s %llu had ended when %llu began: %s; %s",
			          placed[i].op->path, what, (unsigned long long)placed[i].place,
			          (unsigned long long)latest->place, told(placed[i].op),
			          told(latest->op));
		if (!latest || placed[i].op->begin > latest->op->begin)
			latest = &placed[i];
	}
}

static uint64_t
number(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (end == text)
		give_up("'%s' is no number", text);
	return n;
}

static const struct op *
find_kind(struct slice slice, enum kind kind)
{
	for (size_t i = 0; i < slice.n; i++)
		if (slice.ops[i].kind == kind && slice.ops[i].outcome == OUTCOME_OK)
			return &slice.ops[i];
	return NULL;
}

/* ---- appends ---- */

struct line {
	const struct op *op;
	size_t times; /* how often it is there */
};

struct appends {
	struct history *h;
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

	return strcmp(x->op->value, y->op->value);
}

static void
collect_lines(struct appends *a)
{
	a->lines = allocate(a->slice.n, sizeof *a->lines);
	a->placed = allocate(2 * a->slice.n, sizeof *a->placed);
	for (size_t i = 0; i < a->slice.n; i++)
		if (a->slice.ops[i].kind == KIND_APPEND)
			a->lines[a->n++].op = &a->slice.ops[i];
	qsort(a->lines, a->n, sizeof *a->lines, by_line);
	for (size_t i = 1; i < a->n; i++)
		if (by_line(&a->lines[i - 1], &a->lines[i]) == 0)
			give_up("'%s' was appended twice", a->lines[i].op->value);
}

static void
place_line(struct appends *a, char *text)
{
	struct op op = {.value = text};
	struct line key = {.op = &op}, *line;

	line = bsearch(&key, a->lines, a->n, sizeof key, by_line);
	a->length += strlen(text) + 1;
	if (!line) {
		violation(a->h, "%s: nobody appended the line '%.60s'", a->slice.ops[0].path, text);
		return;
	}
	if (line->op->outcome == OUTCOME_FAIL)
		violation(a->h, "%s: an append that failed is there: %s", line->op->path,
		          told(line->op));
	if (line->times++ > 0)
		violation(a->h, "%s: appended twice: %s", line->op->path, told(line->op));
	else
		a->placed[a->placed_n++] = (struct placed){a->length, line->op};
}

static void
place_lines(struct appends *a, const char *contents)
{
	char *copy = strdup(contents), *next = copy, *text;

	if (!copy)
		give_up("no memory");
	if (*copy && copy[strlen(copy) - 1] != '\n')
		violation(a->h, "%s: the last line has no end", a->slice.ops[0].path);
	while ((text = strsep(&next, "\n")))
		if (next || *text)
			place_line(a, text);
	free(copy);
}

/* The line that a tail ended with. */
static const char *
tail_line(const struct op *op)
{
	const char *space = strchr(op->value, ' ');

	return space ? space + 1 : "";
}

/* A read of all lines so far has its place behind the last of them. */
static void
place_tails(struct appends *a)
{
	for (size_t i = 0; i < a->slice.n; i++) {
		const struct op *op = &a->slice.ops[i];
		uint64_t length;
		size_t at;

		if (op->kind != KIND_TAIL || op->outcome != OUTCOME_OK)
			continue;
		length = number(op->value);
		for (at = 0; at < a->n && length > 0; at++)
			if (!strcmp(a->lines[at].op->value, tail_line(op)))
				break;
		if (length > 0 && at == a->n)
			violation(a->h, "%s: nobody appended what was read: %s", op->path,
			          told(op));
		a->placed[a->placed_n++] = (struct placed){length, op};
	}
}

/* The line that each tail ended with is the one that ends there. */
static void
check_tails(struct appends *a)
{
	const struct op *line = NULL;

	for (size_t i = 0; i < a->placed_n; i++) {
		const struct placed *p = &a->placed[i];

		if (p->op->kind == KIND_APPEND)
			line = p->op;
		else if (p->place > 0 && (!line || strcmp(tail_line(p->op), line->value) != 0))
			violation(a->h, "%s: it never ended so: %s", p->op->path, told(p->op));
	}
}

/* The order in the file: lines before the reads that ended with them. */
static int
lines_first(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return (x->op->kind == KIND_TAIL) - (y->op->kind == KIND_TAIL);
}

void
check_appends(struct history *h, struct slice slice)
{
	struct appends a = {.h = h, .slice = slice};
	const struct op *final = find_kind(slice, KIND_FINAL);

	if (!final) {
		violation(h, "%s: was not read at the end", slice.ops[0].path);
		return;
	}
	collect_lines(&a);
	place_lines(&a, final->value);
	for (size_t i = 0; i < a.n; i++)
		if (a.lines[i].op->outcome == OUTCOME_OK && a.lines[i].times == 0)
			violation(h, "%s: an acknowledged line is lost: %s", slice.ops[0].path,
			          told(a.lines[i].op));
	place_tails(&a);
	qsort(a.placed, a.placed_n, sizeof *a.placed, lines_first);
	check_tails(&a);
	/* A line and the reads that end with it have one place: leave room between them. */
	for (size_t i = 0; i < a.placed_n; i++)
		a.placed[i].place = 2 * a.placed[i].place + (a.placed[i].op->kind == KIND_TAIL);
	check_order(h, a.placed, a.placed_n, "byte 2 x");
	free(a.lines);
	free(a.placed);
}

/* ---- counters ---- */

void
check_counter(struct history *h, struct slice slice)
{
	struct placed *placed = allocate(slice.n, sizeof *placed);
	const struct op *final = find_kind(slice, KIND_FINAL);
	uint64_t open = 0, at_end;
	size_t n = 0;

	for (size_t i = 0; i < slice.n; i++) {
		if (slice.ops[i].kind != KIND_COUNT)
			continue;
		if (slice.ops[i].outcome == OUTCOME_OK)
			placed[n++] = (struct placed){number(slice.ops[i].value), &slice.ops[i]};
		else if (slice.ops[i].outcome == OUTCOME_INFO)
			open++;
	}
	check_order(h, placed, n, "count");
	for (size_t i = 1; i < n; i++)
		if (placed[i].place == placed[i - 1].place)
			violation(h, "%s: an increment is lost: %s; %s", slice.ops[0].path,
			          told(placed[i - 1].op), told(placed[i].op));
	at_end = final ? number(final->value) : 0;
	if (!final || at_end < n || at_end > n + open || (n > 0 && at_end < placed[n - 1].place))
		violation(h, "%s: counts %llu; %zu increments were acknowledged, %llu are open",
		          slice.ops[0].path, (unsigned long long)at_end, n,
		          (unsigned long long)open);
	free(placed);
}

/* ---- locks ---- */

/* A time in which a lock was certainly held: from the answer to the lock call to the beginning of
 * the last call that proved it. */
struct section {
	const struct op *lock;
	int64_t from, to;
};

static int
by_start(const void *a, const void *b)
{
	const struct section *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* The proof that follows a lock in the same process, before its next lock. */
static const struct op *
proof(struct slice slice, size_t lock)
{
	const struct op *found = NULL;

	for (size_t i = lock + 1; i < slice.n; i++) {
		const struct op *op = &slice.ops[i];

		if (op->process != slice.ops[lock].process)
			continue;
		if (op->kind != KIND_HOLD)
			break;
		if (op->outcome == OUTCOME_OK)
			found = op;
	}
	return found;
}

void
check_lock(struct history *h, struct slice slice)
{
	struct section *sections = allocate(slice.n, sizeof *sections);
	const struct section *exclusive = NULL, *any = NULL;
	size_t n = 0;

	for (size_t i = 0; i < slice.n; i++) {
		const struct op *op = &slice.ops[i], *held;

		if ((op->kind != KIND_LOCK && op->kind != KIND_SHARE) || op->outcome != OUTCOME_OK)
			continue;
		held = proof(slice, i);
		if (held)
			sections[n++] = (struct section){op, op->end, held->begin};
	}
	qsort(sections, n, sizeof *sections, by_start);
	for (size_t i = 0; i < n; i++) {
		const struct section *s = &sections[i];
		const struct section *other = s->lock->kind == KIND_LOCK ? any : exclusive;

		if (other && other->to > s->from)
			violation(h, "%s: two holders at once: %s; %s", s->lock->path,
			          told(other->lock), told(s->lock));
		if (!any || s->to > any->to)
			any = s;
		if (s->lock->kind == KIND_LOCK && (!exclusive || s->to > exclusive->to))
			exclusive = s;
	}
	free(sections);
}

void
check_fences(struct history *h)
{
	struct placed *placed = allocate(h->n, sizeof *placed);
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		if (h->ops[i].kind == KIND_LOCK && h->ops[i].outcome == OUTCOME_OK)
			placed[n++] = (struct placed){number(h->ops[i].value), &h->ops[i]};
	check_order(h, placed, n, "fencing token");
	for (size_t i = 1; i < n; i++)
		if (placed[i].place == placed[i - 1].place)
			violation(h, "fencing token %llu was given twice: %s; %s",
			          (unsigned long long)placed[i].place, told(placed[i - 1].op),
			          told(placed[i].op));
	free(placed);
}

/* ---- the end ---- */

void
check_final(struct history *h, struct slice slice)
{
	const struct op *first = NULL;

	for (size_t i = 0; i < slice.n; i++) {
		const struct op *op = &slice.ops[i];

		if (op->kind == KIND_EPHEMERAL && !strcmp(op->error, "EEXIST"))
			violation(h, "%s: a new name existed: %s", op->path, told(op));
		if (op->kind == KIND_RENAME && !strcmp(op->error, "ENOENT"))
			violation(h, "%s: its source was gone: %s", op->path, told(op));
		if (op->kind == KIND_COUNT && !strcmp(op->error, "ECANCELED"))
			violation(h, "%s: changed under a lock: %s", op->path, told(op));
		if (op->kind == KIND_LEFT && *op->value)
			violation(h, "%s: ephemeral files are left: %s", op->path, op->value);
		if (op->kind != KIND_FINAL || op->outcome != OUTCOME_OK)
			continue;
		if (first && strcmp(first->value, op->value) != 0)
			violation(h, "%s: two mounts differ at the end: %s; %s", op->path,
			          told(first), told(op));
		first = first ? first : op;
	}
}
