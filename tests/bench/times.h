/* What the programs of the benchmark share: the times that operations took, and a line of them. */
#ifndef LSFS_TESTS_BENCH_TIMES_H
#define LSFS_TESTS_BENCH_TIMES_H

#include <stdbool.h>

/* Ends the program if the call on this thing has failed. */
void times_check(bool ok, const char *what, const char *name);
/* The time, in us. */
double times_now(void);
/* An operation took so long, in us; called by any thread. */
void times_add(double us);
/* Prints OPERATIONS a second, and MEDIAN and P99 in us; each time stands for `each` operations. */
void times_report(double us, int each);

#endif
