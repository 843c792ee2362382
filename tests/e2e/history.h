/* A history: what several processes asked of a mounted cell and what they were told, and whether
 * there is an order of all these calls that explains the answers.
 *
 * A file of JSON objects, one in a line, in any order:
 *   {"process": N, "type": "invoke" | "ok" | "fail" | "info", "operation": NAME, "path": TEXT,
 *    "value": TEXT, "expected": TEXT, "generation": N, "error": TEXT, "time": NANOSECONDS}
 * A process has one operation under way. `fail`: it has not taken effect and never will. `info`, or
 * no end at all: it may take effect at any time from its beginning on, once, or never.
 *
 *   write, rename   path gets `value`; no two writes of a history have the same value
 *   cas             path gets `value` if it still has `expected`
 *   read            path had `value`, at version `generation` (0: not known)
 *   append          `value`, a line, is added to path
 *   tail            path was so many bytes long and ended with that line: "BYTES LINE"
 *   count           the number in path was increased under its lock, to `value`
 *   lock, share     path was locked, with fencing token `value`
 *   hold            the lock of the process was still held when this began
 *   ephemeral       path was created, to go with its last close
 *   left            what is in the directory of ephemeral files at the end: nothing
 *   final           all contents of path at the end, once for each mount */
#ifndef LSFS_TESTS_HISTORY_H
#define LSFS_TESTS_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kind {
	KIND_WRITE,
	KIND_RENAME,
	KIND_CAS,
	KIND_READ,
	KIND_APPEND,
	KIND_TAIL,
	KIND_COUNT,
	KIND_LOCK,
	KIND_SHARE,
	KIND_HOLD,
	KIND_EPHEMERAL,
	KIND_LEFT,
	KIND_FINAL,
	KINDS
};

enum outcome { OUTCOME_OK, OUTCOME_FAIL, OUTCOME_INFO };

struct op {
	int process;
	int line; /* of its beginning in the file */
	enum kind kind;
	enum outcome outcome;
	char *path, *value, *expected, *error; /* its own; never NULL */
	uint64_t generation;
	int64_t begin, end; /* ns; end is INT64_MAX unless it was told its outcome */
};

/* Sorted by path, then by beginning. */
struct history {
	struct op *ops;
	size_t n;
	int violations;
};

/* One path's part of the history. */
struct slice {
	const struct op *ops;
	size_t n;
};

/* Reads a history; ends the process with a message when the file is not one. */
void history_load(struct history *h, const char *file);
/* Notes one violation and prints it. */
void violation(struct history *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the operation did, in words, for a message; one of a few static buffers. */
const char *told(const struct op *op);

/* The values of one path have one order that agrees with real time and with the generations. */
void check_register(struct history *h, struct slice slice);
/* Each acknowledged line is there once, in an order that agrees with real time. */
void check_appends(struct history *h, struct slice slice);
/* Each acknowledged increment counted once. */
void check_counter(struct history *h, struct slice slice);
/* No two holders at once. */
void check_lock(struct history *h, struct slice slice);
/* Fencing tokens grow in real time over all locks of the cell. */
void check_fences(struct history *h);
/* All mounts saw the same at the end, and no ephemeral file. */
void check_final(struct history *h, struct slice slice);

/* Something with a place in an order that was observed. */
struct placed {
	uint64_t place;
	const struct op *op;
};

/* Sorts by place and finds each operation that had ended before one of an earlier place began.
 * Operations of the same place are taken to be in the order of their beginnings. */
void check_order(struct history *h, struct placed *placed, size_t n, const char *what);

/* Memory, or the end. */
void *allocate(size_t n, size_t size);
/* Ends the process with a message: the input is no history. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
