/* The calls of a cell: their list, and the judgement of all of them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/calls/internal.h"

enum { SHOWN = 12, TEXT_MAX = 1024 };

static const char *const names[CALL_KINDS] = {
    "write", "rename", "cas",  "read",      "stat", "append", "tail",  "count",
    "lock",  "share",  "hold", "ephemeral", "left", "final",  "other",
};

const char *
calls_kind_name(enum call_kind kind)
{
	return names[kind];
}

void
calls_add(struct calls *c, struct call call)
{
	ARRAY_ROOM(c->list, c->n, c->room);
	c->list[c->n++] = call;
}

const char *
calls_text(struct calls *c, const char *format, ...)
{
	va_list args, again;
	char *text;
	int len;

	va_start(args, format);
	va_copy(again, args);
	len = vsnprintf(NULL, 0, format, args);
	must(len >= 0);
	text = memory_zero((size_t)len + 1, 1);
	vsnprintf(text, (size_t)len + 1, format, again);
	va_end(again);
	va_end(args);
	ARRAY_ROOM(c->texts, c->texts_n, c->texts_room);
	c->texts[c->texts_n] = text;
	return c->texts[c->texts_n++];
}

void
calls_free(struct calls *c)
{
	for (size_t i = 0; i < c->texts_n; i++)
		free(c->texts[i]);
	free(c->texts);
	free(c->list);
	buffer_free(&c->found);
}

/* ---- messages ---- */

void
calls_violation(struct calls *c, const char *format, ...)
{
	char text[TEXT_MAX];
	va_list args;

	if (c->violations++ >= SHOWN)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	buffer_printf(&c->found, "%s\n", text);
}

const char *
calls_value(struct bytes value)
{
	static char buffers[8][48];
	static int next;
	char *text = buffers[next++ % 8];

	snprintf(text, sizeof buffers[0], "'%.*s'", value.len < 40 ? (int)value.len : 40,
	         value.len > 0 ? (const char *)value.data : "");
	return text;
}

const char *
calls_told(const struct calls *c, const struct call *call)
{
	static char buffers[4][256];
	static int next;
	const double second = c->second != 0 ? (double)c->second : 1e9;
	char *text = buffers[next++ % 4];
	char end[32] = "open";

	if (call->end != INT64_MAX)
		snprintf(end, sizeof end, "%.6f", (double)call->end / second);
	snprintf(text, sizeof buffers[0], "%s %s by process %d (line %lu, %.6f to %s)",
	         names[call->kind], calls_value(call->value), call->process,
	         (unsigned long)call->source, (double)call->begin / second, end);
	return text;
}

uint64_t
calls_number(struct calls *c, const struct call *call, struct bytes value)
{
	uint64_t n = 0;
	size_t i = 0;

	for (; i < value.len && value.data[i] >= '0' && value.data[i] <= '9'; i++)
		n = 10 * n + value.data[i] - '0';
	if (i == 0)
		calls_violation(c, "%s: %s is no number: %s", call->path, calls_value(value),
		                calls_told(c, call));
	return n;
}

/* ---- the judgement ---- */

bool
calls_writes(const struct call *call)
{
	return call->kind == CALL_WRITE || call->kind == CALL_RENAME || call->kind == CALL_CAS;
}

bool
calls_reads(const struct call *call)
{
	return (call->kind == CALL_READ || call->kind == CALL_STAT || call->kind == CALL_FINAL) &&
	       call->outcome == CALL_OK;
}

static int
by_path(const void *a, const void *b)
{
	const struct call *x = a, *y = b;
	const int order = strcmp(x->path, y->path);

	if (order != 0)
		return order;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool
has(struct slice slice, enum call_kind kind)
{
	for (size_t i = 0; i < slice.n; i++)
		if (slice.list[i].kind == kind)
			return true;
	return false;
}

static bool
is_decided(struct slice slice)
{
	for (size_t i = 0; i < slice.n; i++)
		if (calls_writes(&slice.list[i]) && slice.list[i].place != 0)
			return true;
	return false;
}

/* All mounts saw the same at the end, and no ephemeral file; nothing shows a request that took
 * effect twice. */
static void
check_end(struct calls *c, struct slice slice)
{
	const struct call *first = NULL;

	for (size_t i = 0; i < slice.n; i++) {
		const struct call *call = &slice.list[i];
		const char *error = call->error != NULL ? call->error : "";

		if (call->kind == CALL_EPHEMERAL && strcmp(error, "EEXIST") == 0)
			calls_violation(c, "%s: a new name existed: %s", call->path,
			                calls_told(c, call));
		if (call->kind == CALL_RENAME && strcmp(error, "ENOENT") == 0)
			calls_violation(c, "%s: its source was gone: %s", call->path,
			                calls_told(c, call));
		if (call->kind == CALL_COUNT && strcmp(error, "ECANCELED") == 0)
			calls_violation(c, "%s: changed under a lock: %s", call->path,
			                calls_told(c, call));
		if (call->kind == CALL_LEFT && call->value.len > 0)
			calls_violation(c, "%s: ephemeral files are left: %s", call->path,
			                calls_value(call->value));
		if (call->kind != CALL_FINAL || call->outcome != CALL_OK)
			continue;
		if (first != NULL && !bytes_equal(first->value, call->value))
			calls_violation(c, "%s: two mounts differ at the end: %s; %s", call->path,
			                calls_told(c, first), calls_told(c, call));
		first = first != NULL ? first : call;
	}
}

static void
check_path(struct calls *c, struct slice slice)
{
	if (is_decided(slice))
		calls_check_versions(c, slice);
	else if (has(slice, CALL_WRITE) || has(slice, CALL_READ) || has(slice, CALL_CAS))
		calls_check_register(c, slice);
	if (has(slice, CALL_APPEND))
		calls_check_appends(c, slice);
	if (has(slice, CALL_COUNT))
		calls_check_counter(c, slice);
	if (has(slice, CALL_LOCK) || has(slice, CALL_SHARE))
		calls_check_lock(c, slice);
	check_end(c, slice);
}

/* What was answered agrees with the order of the decisions, over the whole cell. */
static void
check_places(struct calls *c)
{
	struct placed *placed = memory_zero(c->n + 1, sizeof *placed);
	size_t n = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct call *call = &c->list[i];

		if (call->place != 0 && (!calls_reads(call) || !c->stale_reads))
			placed[n++] = (struct placed){call->place, call};
	}
	calls_check_order(c, placed, n, "place");
	free(placed);
}

void
calls_check(struct calls *c)
{
	if (c->n > 0)
		qsort(c->list, c->n, sizeof *c->list, by_path);
	for (size_t from = 0, to; from < c->n; from = to) {
		for (to = from; to < c->n; to++)
			if (strcmp(c->list[to].path, c->list[from].path) != 0)
				break;
		check_path(c, (struct slice){c->list + from, to - from});
	}
	check_places(c);
	calls_check_fences(c);
}
