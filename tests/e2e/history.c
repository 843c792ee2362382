/* history FILE: reads the calls that torture has recorded, judges them (tests/calls), and prints a
 * summary; exits with 0 if they can be explained. The file has a JSON object in each line:
 *   {"process": N, "type": "invoke" | "ok" | "fail" | "info", "operation": NAME, "path": TEXT,
 *    "value": TEXT, "expected": TEXT, "generation": N, "mtime": NANOSECONDS, "error": TEXT,
 *    "time": NANOSECONDS}
 * `info`, or no end at all: the outcome is open. */
#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "tests/calls/calls.h"

enum { PROCESSES = 100000, MOUNT_PROCESSES = 100, TORN_ONE_IN = 10000 };

static struct calls calls;
static size_t under_way[PROCESSES]; /* of each process the number of its call, from 1 */

static _Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The input is no history. */
static void
give_up(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "history: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(2);
}

/* ---- reading ---- */

static const char *
text_of(json_t *line, const char *name)
{
	const char *text = json_string_value(json_object_get(line, name));

	return calls_text(&calls, "%s", text != NULL ? text : "");
}

/* What was not known when it began replaces what was said then. */
static void
replace(struct bytes *value, json_t *line, const char *name)
{
	if (json_object_get(line, name) != NULL)
		*value = bytes_of(text_of(line, name));
}

static enum call_kind
kind_of(json_t *line, int number)
{
	const char *name = json_string_value(json_object_get(line, "operation"));

	for (int k = 0; name != NULL && k < CALL_KINDS; k++)
		if (strcmp(name, calls_kind_name((enum call_kind)k)) == 0)
			return (enum call_kind)k;
	give_up("line %d: no such operation: %s", number, name != NULL ? name : "none");
}

static void
begin(json_t *line, int process, int number, int64_t time)
{
	const enum call_kind kind = kind_of(line, number);

	calls_add(&calls, (struct call){
	                      .process = process,
	                      .source = (uint64_t)number,
	                      .kind = kind,
	                      .session = kind == CALL_SHARE ? process / MOUNT_PROCESSES : 0,
	                      .outcome = CALL_OPEN,
	                      .path = text_of(line, "path"),
	                      .value = bytes_of(text_of(line, "value")),
	                      .begin = time,
	                      .end = INT64_MAX,
	                  });
}

static void
end(struct call *call, json_t *line, const char *type, int number, int64_t time)
{
	if (kind_of(line, number) != call->kind)
		give_up("line %d: ends another operation than process %d began in line %d", number,
		        call->process, (int)call->source);
	if (strcmp(type, "ok") == 0)
		call->outcome = CALL_OK;
	else if (strcmp(type, "fail") == 0)
		call->outcome = CALL_FAILED;
	else if (strcmp(type, "info") != 0)
		give_up("line %d: no such type: %s", number, type);
	if (call->outcome != CALL_OPEN)
		call->end = time;
	replace(&call->value, line, "value");
	replace(&call->expected, line, "expected");
	call->error = text_of(line, "error");
	call->generation = (uint64_t)json_integer_value(json_object_get(line, "generation"));
	call->mtime = (uint64_t)json_integer_value(json_object_get(line, "mtime"));
}

static void
take(json_t *line, int number)
{
	const json_int_t process = json_integer_value(json_object_get(line, "process"));
	const char *type = json_string_value(json_object_get(line, "type"));
	const int64_t time = json_integer_value(json_object_get(line, "time"));

	if (type == NULL || process < 0 || process >= PROCESSES)
		give_up("line %d: no type, or no process", number);
	if (strcmp(type, "invoke") == 0) {
		begin(line, (int)process, number, time);
		under_way[process] = calls.n;
		return;
	}
	if (under_way[process] == 0)
		give_up("line %d: process %d ends what it has not begun", number, (int)process);
	end(&calls.list[under_way[process] - 1], line, type, number, time);
	under_way[process] = 0;
}

static void
load(const char *file)
{
	FILE *f = fopen(file, "r");
	char *text = NULL;
	size_t size = 0;

	if (f == NULL)
		give_up("%s: %s", file, strerror(errno));
	for (int number = 1; getline(&text, &size, f) > 0; number++) {
		json_error_t error;
		json_t *line = json_loads(text, 0, &error);

		if (line == NULL)
			give_up("line %d: %s", number, error.text);
		take(line, number);
		json_decref(line);
	}
	if (ferror(f))
		give_up("%s: %s", file, strerror(errno));
	fclose(f);
	free(text);
	if (calls.n == 0)
		give_up("%s: nothing in it", file);
}

/* ---- stats that the kernel has torn ---- */

static int
by_change(const void *a, const void *b)
{
	const struct call *const *x = a, *const *y = b;
	const int order = strcmp((*x)->path, (*y)->path);

	if (order != 0)
		return order;
	if ((*x)->mtime != (*y)->mtime)
		return (*x)->mtime < (*y)->mtime ? -1 : 1;
	return bytes_compare((*x)->value, (*y)->value);
}

static bool
is_torn(const struct call *stat, struct bytes size, struct call *const *list, size_t n)
{
	for (size_t i = 0; !bytes_equal(stat->value, size) && i < n; i++)
		if (bytes_equal(list[i]->value, size) && list[i]->begin < stat->end &&
		    stat->begin < list[i]->end &&
		    list[i]->process / MOUNT_PROCESSES == stat->process / MOUNT_PROCESSES)
			return true;
	return false;
}

/* Of stats that tell the same time most have told the size that the file had then. */
static struct bytes
usual_size(struct call *const *list, size_t n)
{
	size_t best = 0, most = 0, from = 0;

	for (size_t i = 1; i <= n; i++) {
		if (i < n && bytes_equal(list[i]->value, list[from]->value))
			continue;
		if (i - from > most) {
			most = i - from;
			best = from;
		}
		from = i;
	}
	return list[best]->value;
}

/* The kernel stores the attributes that a mount has told it, and reads them for a stat that it
 * answers itself, one after the other: of two processes that call stat at once on one mount, one
 * may get the time of this version with the size of an earlier one (docs/semantics.md, Caches). The
 * mount tells nothing of the kind, so such a stat says nothing of it. */
static size_t
drop_torn(size_t *stats)
{
	struct call **list = memory_zero(calls.n, sizeof *list);
	size_t n = 0, torn = 0;

	for (size_t i = 0; i < calls.n; i++)
		if (calls.list[i].kind == CALL_STAT && calls.list[i].outcome == CALL_OK)
			list[n++] = &calls.list[i];
	if (n > 0)
		qsort(list, n, sizeof *list, by_change);
	for (size_t from = 0, to; from < n; from = to) {
		struct bytes size;

		for (to = from + 1; to < n && list[to]->mtime == list[from]->mtime &&
		                    strcmp(list[to]->path, list[from]->path) == 0;)
			to++;
		size = usual_size(&list[from], to - from);
		for (size_t i = from; i < to; i++)
			if (is_torn(list[i], size, &list[from], to - from)) {
				list[i]->kind = CALL_OTHER;
				torn++;
			}
	}
	free(list);
	*stats = n;
	return torn;
}

/* ---- the summary ---- */

static void
print_violations(void)
{
	struct bytes rest = buffer_view(&calls.found);
	int shown = 0;

	for (const uint8_t *end; rest.len > 0; shown++) {
		end = memchr(rest.data, '\n', rest.len);
		printf("violation: %.*s\n", (int)(end - rest.data), (const char *)rest.data);
		rest.len -= (size_t)(end + 1 - rest.data);
		rest.data = end + 1;
	}
	if (calls.violations > shown)
		printf("violation: (more are not shown)\n");
}

static void
print_operations(void)
{
	size_t counts[CALL_KINDS][3] = {{0}}, all = 0;

	for (size_t i = 0; i < calls.n; i++)
		counts[calls.list[i].kind][calls.list[i].outcome]++;
	printf("%-10s %9s %9s %9s\n", "operation", "ok", "failed", "open");
	for (int k = 0; k < CALL_KINDS; k++) {
		const size_t n = counts[k][0] + counts[k][1] + counts[k][2];

		all += n;
		if (n > 0)
			printf("%-10s %9zu %9zu %9zu\n", calls_kind_name((enum call_kind)k),
			       counts[k][0], counts[k][1], counts[k][2]);
	}
	printf("%zu operations\n", all);
}

static int
by_end(const void *a, const void *b)
{
	const struct call *const *x = a, *const *y = b;

	return (*x)->end < (*y)->end ? -1 : (*x)->end > (*y)->end;
}

/* The longest time without any success on one mount, or on all together; from when on. */
static double
longest_pause(const struct call **done, size_t n, int mount, double *from)
{
	int64_t before = 0, longest = 0;

	for (size_t i = 0; i < n; i++) {
		if (mount >= 0 && done[i]->process / MOUNT_PROCESSES != mount)
			continue;
		if (before != 0 && done[i]->end - before > longest) {
			longest = done[i]->end - before;
			*from = (double)before / 1e9;
		}
		before = done[i]->end;
	}
	return (double)longest / 1e9;
}

/* A call that only needs the cell; it does not wait for other users, and is no part of the end. */
static bool
shows_service(const struct call *call)
{
	return call->outcome == CALL_OK && call->kind <= CALL_TAIL;
}

static void
print_pauses(void)
{
	const struct call **done = memory_zero(calls.n, sizeof(struct call *));
	bool mounts[PROCESSES / MOUNT_PROCESSES] = {false};
	double pause, from = 0;
	size_t n = 0;

	for (size_t i = 0; i < calls.n; i++) {
		if (!shows_service(&calls.list[i]))
			continue;
		mounts[calls.list[i].process / MOUNT_PROCESSES] = true;
		done[n++] = &calls.list[i];
	}
	if (n > 0)
		qsort(done, n, sizeof *done, by_end);
	pause = longest_pause(done, n, -1, &from);
	printf("longest time without a success: %.1f s from %.1f", pause, from);
	for (int m = 1; m < PROCESSES / MOUNT_PROCESSES; m++)
		if (mounts[m])
			printf(", on mount %d %.1f s", m, longest_pause(done, n, m, &from));
	printf("\n");
	free(done);
}

int
main(int argc, char **argv)
{
	int violations;
	size_t torn, stats;

	if (argc != 2) {
		fprintf(stderr, "usage: history FILE\n");
		return 2;
	}
	calls = CALLS;
	load(argv[1]);
	torn = drop_torn(&stats);
	calls_check(&calls);
	violations = calls.violations;
	print_violations();
	if (torn > 0)
		printf("torn: the kernel has mixed two versions in %zu of %zu stats\n", torn,
		       stats);
	if (torn > 1 + stats / TORN_ONE_IN) {
		printf("violation: these are too many to be the kernel's\n");
		violations++;
	}
	print_operations();
	print_pauses();
	printf("verdict: %s, %d violations\n", violations > 0 ? "NOT EXPLAINED" : "consistent",
	       violations);
	calls_free(&calls);
	return violations > 0 ? 1 : 0;
}
