/* The lines that a worker of the torture writes: each operation has one when it begins, and one
 * when it has ended. history.h describes them. */
#ifndef LSFS_TESTS_TORTURE_RECORD_H
#define LSFS_TESTS_TORTURE_RECORD_H

#include "tests/e2e/torture.h"

struct record {
	const char *operation;
	char path[64];
	const char *value, *expected; /* NULL: empty */
	unsigned long long generation, mtime;
};

void begin(struct worker *w, const struct record *r);
/* It has taken effect. */
void done(struct worker *w, const struct record *r);
/* It has not, and never will; errno says why. */
void refused(struct worker *w, const struct record *r);
/* A commit failed, by errno: perhaps it took effect. */
void uncommitted(struct worker *w, const struct record *r);

#endif
