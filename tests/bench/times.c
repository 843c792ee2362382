#include "tests/bench/times.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1 << 22 };

static unsigned times[MOST];
static atomic_size_t added;

void
times_check(bool ok, const char *what, const char *name)
{
	if (ok)
		return;
	fprintf(stderr, "%s %s: %m\n", what, name);
	exit(1);
}

double
times_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

void
times_add(double us)
{
	times[atomic_fetch_add(&added, 1) % MOST] = (unsigned)us;
}

static int
by_time(const void *a, const void *b)
{
	const unsigned *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

void
times_report(double us, int each)
{
	size_t n = atomic_load(&added), kept = n < MOST ? n : MOST;

	qsort(times, kept, sizeof *times, by_time);
	printf("%.0f %u %u\n", (double)n * each / us * 1e6, times[kept / 2],
	       times[kept * 99 / 100]);
}
