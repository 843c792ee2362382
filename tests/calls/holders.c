/* Locks: were two held at once that exclude each other, and do fencing tokens grow? */
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "tests/calls/internal.h"

/* A time in which a lock was certainly held: from the answer to the lock call to the beginning of
 * the last call that proved it. */
struct section {
	const struct call *lock;
	int64_t from, to;
};

static int
by_start(const void *a, const void *b)
{
	const struct section *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

/* The proof that follows a lock in the same process, before its next lock. */
static const struct call *
proof(struct slice slice, size_t lock)
{
	const struct call *found = NULL;

	for (size_t i = lock + 1; i < slice.n; i++) {
		const struct call *call = &slice.list[i];

		if (call->process != slice.list[lock].process)
			continue;
		if (call->kind != CALL_HOLD)
			break;
		if (call->outcome == CALL_OK)
			found = call;
	}
	return found;
}

static int
by_generation(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

/* In each generation of a lock that is held exclusively there is one token. */
static void
check_tenures(struct calls *c, struct slice slice)
{
	struct placed *placed = memory_zero(slice.n, sizeof *placed);
	size_t n = 0;

	for (size_t i = 0; i < slice.n; i++) {
		const struct call *call = &slice.list[i];

		if (call->kind == CALL_LOCK && call->outcome == CALL_OK && call->generation != 0)
			placed[n++] = (struct placed){call->generation, call};
	}
	qsort(placed, n, sizeof *placed, by_generation);
	for (size_t i = 1; i < n; i++)
		if (placed[i].place == placed[i - 1].place &&
		    !bytes_equal(placed[i].call->value, placed[i - 1].call->value))
			calls_violation(c, "%s: lock generation %lu is exclusive twice: %s; %s",
			                placed[i].call->path, (unsigned long)placed[i].place,
			                calls_told(c, placed[i - 1].call),
			                calls_told(c, placed[i].call));
	free(placed);
}

void
calls_check_lock(struct calls *c, struct slice slice)
{
	struct section *sections = memory_zero(slice.n, sizeof *sections);
	const struct section *exclusive = NULL, *any = NULL;
	size_t n = 0;

	for (size_t i = 0; i < slice.n; i++) {
		const struct call *call = &slice.list[i], *held;

		if ((call->kind != CALL_LOCK && call->kind != CALL_SHARE) ||
		    call->outcome != CALL_OK)
			continue;
		held = proof(slice, i);
		if (held)
			sections[n++] = (struct section){call, call->end, held->begin};
	}
	qsort(sections, n, sizeof *sections, by_start);
	for (size_t i = 0; i < n; i++) {
		const struct section *s = &sections[i];
		const struct section *other = s->lock->kind == CALL_LOCK ? any : exclusive;

		if (other && other->to > s->from)
			calls_violation(c, "%s: two holders at once: %s; %s", s->lock->path,
			                calls_told(c, other->lock), calls_told(c, s->lock));
		if (!any || s->to > any->to)
			any = s;
		if (s->lock->kind == CALL_LOCK && (!exclusive || s->to > exclusive->to))
			exclusive = s;
	}
	free(sections);
	check_tenures(c, slice);
}

/* Tokens of locks that were taken exclusively; of shared ones where they are known. */
static uint64_t
token_of(struct calls *c, const struct call *call)
{
	if ((call->kind != CALL_LOCK && call->kind != CALL_SHARE) || call->outcome != CALL_OK)
		return 0;
	return calls_number(c, call, call->value);
}

static bool
is_same_holder(const struct call *a, const struct call *b)
{
	const bool same_session = a->session != 0 && a->session == b->session;

	return strcmp(a->path, b->path) == 0 &&
	       (same_session || (a->process == b->process && a->again));
}

static int
by_token(const void *a, const void *b)
{
	const struct placed *x = a, *y = b;

	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	return x->call->end < y->call->end ? -1 : x->call->end > y->call->end;
}

/* A token is of one holder; when it was told first counts. */
static size_t
keep_first(struct calls *c, struct placed *placed, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		const struct placed *first = kept > 0 ? &placed[kept - 1] : NULL;

		if (first == NULL || first->place != placed[i].place)
			placed[kept++] = placed[i];
		else if (!is_same_holder(placed[i].call, first->call))
			calls_violation(c, "fencing token %lu was given twice: %s; %s",
			                (unsigned long)first->place, calls_told(c, first->call),
			                calls_told(c, placed[i].call));
	}
	return kept;
}

void
calls_check_fences(struct calls *c)
{
	struct placed *placed = memory_zero(c->n + 1, sizeof *placed);
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		const uint64_t token = token_of(c, &c->list[i]);

		if (token != 0)
			placed[n++] = (struct placed){token, &c->list[i]};
	}
	qsort(placed, n, sizeof *placed, by_token);
	calls_check_order(c, placed, keep_first(c, placed, n), "fencing token");
	free(placed);
}
