/* The parts of the judgement. Each is given one path's calls. */
#ifndef LSFS_TESTS_CALLS_INTERNAL_H
#define LSFS_TESTS_CALLS_INTERNAL_H

#include "tests/calls/calls.h"

/* One path's calls, by their beginnings. */
struct slice {
	const struct call *list;
	size_t n;
};

/* Notes one violation. */
void calls_violation(struct calls *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A call or a value in words, for a message; one of a few static buffers. */
const char *calls_told(const struct calls *c, const struct call *call);
const char *calls_value(struct bytes value);
/* The number that is the value; no number is a violation, and 0. */
uint64_t calls_number(struct calls *c, const struct call *call, struct bytes value);
/* Does it give the path a value; does it tell the value? */
bool calls_writes(const struct call *call);
bool calls_reads(const struct call *call);

/* versions.c: what the cell decided is known. */
void calls_check_versions(struct calls *c, struct slice slice);
/* registers.c: it is not known. The values have one order that agrees with real time and with the
 * generations. */
void calls_check_register(struct calls *c, struct slice slice);
/* orders.c: each acknowledged line is there once, in an order that agrees with real time; each
 * acknowledged increment counted once. */
void calls_check_appends(struct calls *c, struct slice slice);
void calls_check_counter(struct calls *c, struct slice slice);
/* holders.c: no two holders at once; fencing tokens grow in real time over all locks of the cell,
 * each is of one holder, and a lock has one exclusive holder in each of its generations. */
void calls_check_lock(struct calls *c, struct slice slice);
void calls_check_fences(struct calls *c);

/* Something with a place in an order that was observed. */
struct placed {
	uint64_t place;
	const struct call *call;
};

/* Sorts by place and finds each call that had ended before one of an earlier place began. Calls of
 * the same place are taken to be in the order of their beginnings. */
void calls_check_order(struct calls *c, struct placed *placed, size_t n, const char *what);

#endif
