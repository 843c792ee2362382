/* What the programs of the benchmark share: the times that operations took, and a line of them. */
#ifndef LSFS_TESTS_BENCH_TIMES_H
#define LSFS_TESTS_BENCH_TIMES_H

#include <stdbool.h>
#include <stddef.h>

enum { THREADS_MAX = 64 };

/* Ends the program if the call on this thing has failed. */
void times_check(bool ok, const char *what, const char *name);
/* The time, in us. */
double times_now(void);
/* An operation took so long, in us; called by any thread. */
void times_add(double us);
/* Prints OPERATIONS a second, and MEDIAN, P99 and LONGEST in us; each time stands for `each`
 * operations. */
void times_report(double us, int each);
/* So many threads, each of which calls `run` with its own of `workers`, of `size` bytes each, again
 * and again for so many seconds; then the report. */
void times_run(int threads, double seconds, void (*run)(void *worker), void *workers, size_t size);

#endif
