/* history FILE: reads a history, checks it, prints a summary; exits with 0 if it can be explained.
 * What is checked stands in history.h. */
#include "tests/e2e/history.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 12, PROCESSES = 100000, MOUNT_PROCESSES = 100 };

static const char *const names[KINDS] = {
    "write", "rename", "cas",  "read",      "append", "tail",  "count",
    "lock",  "share",  "hold", "ephemeral", "left",   "final",
};

void
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

void *
allocate(size_t n, size_t size)
{
	void *memory = calloc(n ? n : 1, size);

	if (!memory)
		give_up("no memory");
	return memory;
}

void
violation(struct history *h, const char *format, ...)
{
	va_list args;

	if (h->violations++ == SHOWN)
		printf("violation: (more are not shown)\n");
	if (h->violations > SHOWN)
		return;
	printf("violation: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

const char *
told(const struct op *op)
{
	static char buffers[4][256];
	static int next;
	char *text = buffers[next++ % 4];
	char end[32] = "open";

	if (op->end != INT64_MAX)
		snprintf(end, sizeof end, "%.6f", (double)op->end / 1e9);
	snprintf(text, sizeof buffers[0], "%s '%.40s' by process %d (line %d, %.6f to %s)",
	         names[op->kind], op->value, op->process, op->line, (double)op->begin / 1e9, end);
	return text;
}

/* ---- reading ---- */

static char *
text_of(json_t *line, const char *name)
{
	const char *text = json_string_value(json_object_get(line, name));
	char *copy = strdup(text ? text : "");

	if (!copy)
		give_up("no memory");
	return copy;
}

/* What was not known when it began replaces what was said then. */
static void
replace(char **text, json_t *line, const char *name)
{
	if (json_object_get(line, name)) {
		free(*text);
		*text = text_of(line, name);
	}
}

static enum kind
kind_of(json_t *line, int number)
{
	const char *name = json_string_value(json_object_get(line, "operation"));

	for (int k = 0; name && k < KINDS; k++)
		if (!strcmp(name, names[k]))
			return (enum kind)k;
	give_up("line %d: no such operation: %s", number, name ? name : "none");
}

static void
begin(struct op *op, json_t *line, int process, int number, int64_t time)
{
	*op = (struct op){
	    .process = process,
	    .line = number,
	    .kind = kind_of(line, number),
	    .outcome = OUTCOME_INFO,
	    .path = text_of(line, "path"),
	    .value = text_of(line, "value"),
	    .expected = text_of(line, "expected"),
	    .error = text_of(line, "error"),
	    .begin = time,
	    .end = INT64_MAX,
	};
}

static void
end(struct op *op, json_t *line, const char *type, int number, int64_t time)
{
	if (kind_of(line, number) != op->kind)
		give_up("line %d: ends another operation than process %d began in line %d", number,
		        op->process, op->line);
	if (!strcmp(type, "ok"))
		op->outcome = OUTCOME_OK;
	else if (!strcmp(type, "fail"))
		op->outcome = OUTCOME_FAIL;
	else if (strcmp(type, "info") != 0)
		give_up("line %d: no such type: %s", number, type);
	if (op->outcome != OUTCOME_INFO)
		op->end = time;
	replace(&op->value, line, "value");
	replace(&op->expected, line, "expected");
	replace(&op->error, line, "error");
	op->generation = (uint64_t)json_integer_value(json_object_get(line, "generation"));
}

/* One line of the file. `under_way`: for each process the number of its operation, from 1. */
static void
take(struct history *h, size_t *under_way, json_t *line, int number)
{
	json_int_t process = json_integer_value(json_object_get(line, "process"));
	const char *type = json_string_value(json_object_get(line, "type"));
	int64_t time = json_integer_value(json_object_get(line, "time"));

	if (!type || process < 0 || process >= PROCESSES)
		give_up("line %d: no type, or no process", number);
	if (!strcmp(type, "invoke")) {
		begin(&h->ops[h->n++], line, (int)process, number, time);
		under_way[process] = h->n;
		return;
	}
	if (under_way[process] == 0)
		give_up("line %d: process %d ends what it has not begun", number, (int)process);
	end(&h->ops[under_way[process] - 1], line, type, number, time);
	under_way[process] = 0;
}

static int
by_path(const void *a, const void *b)
{
	const struct op *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	if (order != 0)
		return order;
	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void
history_load(struct history *h, const char *file)
{
	size_t *under_way = allocate(PROCESSES, sizeof *under_way), room = 0, size = 0;
	FILE *f = fopen(file, "r");
	char *text = NULL;

	*h = (struct history){0};
	if (!f)
		give_up("%s: %s", file, strerror(errno));
	for (int number = 1; getline(&text, &size, f) > 0; number++) {
		json_error_t error;
		json_t *line = json_loads(text, 0, &error);

		if (!line)
			give_up("line %d: %s", number, error.text);
		if (h->n == room) {
			room = room ? room * 2 : 1024;
			h->ops = realloc(h->ops, room * sizeof *h->ops);
			if (!h->ops)
				give_up("no memory");
		}
		take(h, under_way, line, number);
		json_decref(line);
	}
	if (ferror(f))
		give_up("%s: %s", file, strerror(errno));
	fclose(f);
	free(text);
	free(under_way);
	if (h->n == 0)
		give_up("%s: nothing in it", file);
	qsort(h->ops, h->n, sizeof *h->ops, by_path);
}

static void
history_free(struct history *h)
{
	for (size_t i = 0; i < h->n; i++) {
		free(h->ops[i].path);
		free(h->ops[i].value);
		free(h->ops[i].expected);
		free(h->ops[i].error);
	}
	free(h->ops);
}

/* ---- checking ---- */

static bool
has(struct slice slice, enum kind kind)
{
	for (size_t i = 0; i < slice.n; i++)
		if (slice.ops[i].kind == kind)
			return true;
	return false;
}

static void
check_path(struct history *h, struct slice slice)
{
	if (has(slice, KIND_WRITE) || has(slice, KIND_READ) || has(slice, KIND_CAS))
		check_register(h, slice);
	if (has(slice, KIND_APPEND))
		check_appends(h, slice);
	if (has(slice, KIND_COUNT))
		check_counter(h, slice);
	if (has(slice, KIND_LOCK) || has(slice, KIND_SHARE))
		check_lock(h, slice);
	check_final(h, slice);
}

static void
check_all(struct history *h)
{
	for (size_t from = 0, to; from < h->n; from = to) {
		for (to = from; to < h->n; to++)
			if (strcmp(h->ops[to].path, h->ops[from].path) != 0)
				break;
		check_path(h, (struct slice){h->ops + from, to - from});
	}
	check_fences(h);
}

/* ---- the summary ---- */

static void
print_operations(const struct history *h)
{
	size_t counts[KINDS][3] = {{0}}, all = 0;

	for (size_t i = 0; i < h->n; i++)
		counts[h->ops[i].kind][h->ops[i].outcome]++;
	printf("%-10s %9s %9s %9s\n", "operation", "ok", "failed", "open");
	for (int k = 0; k < KINDS; k++) {
		size_t n = counts[k][0] + counts[k][1] + counts[k][2];

		all += n;
		if (n > 0)
			printf("%-10s %9zu %9zu %9zu\n", names[k], counts[k][0], counts[k][1],
			       counts[k][2]);
	}
	printf("%zu operations\n", all);
}

static int
by_end(const void *a, const void *b)
{
	const struct op *const *x = a, *const *y = b;

	return (*x)->end < (*y)->end ? -1 : (*x)->end > (*y)->end;
}

/* The longest time without any success on one mount, or on all together; from when on. */
static double
longest_pause(const struct op **done, size_t n, int mount, double *from)
{
	int64_t before = 0, longest = 0;

	for (size_t i = 0; i < n; i++) {
		if (mount >= 0 && done[i]->process / MOUNT_PROCESSES != mount)
			continue;
		if (before && done[i]->end - before > longest) {
			longest = done[i]->end - before;
			*from = (double)before / 1e9;
		}
		before = done[i]->end;
	}
	return (double)longest / 1e9;
}

/* A call that only needs the cell; it does not wait for other users, and is no part of the end. */
static bool
shows_service(const struct op *op)
{
	return op->outcome == OUTCOME_OK && op->kind <= KIND_TAIL;
}

static void
print_pauses(const struct history *h)
{
	const struct op **done = allocate(h->n, sizeof(struct op *));
	bool mounts[PROCESSES / MOUNT_PROCESSES] = {false};
	double pause, from = 0;
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++) {
		if (!shows_service(&h->ops[i]))
			continue;
		mounts[h->ops[i].process / MOUNT_PROCESSES] = true;
		done[n++] = &h->ops[i];
	}
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
	struct history h;

	if (argc != 2) {
		fprintf(stderr, "usage: history FILE\n");
		return 2;
	}
	history_load(&h, argv[1]);
	check_all(&h);
	print_operations(&h);
	print_pauses(&h);
	printf("verdict: %s, %d violations\n", h.violations ? "NOT EXPLAINED" : "consistent",
	       h.violations);
	history_free(&h);
	return h.violations ? 1 : 0;
}
