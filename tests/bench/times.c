#include "tests/bench/times.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 1 << 22 };

static unsigned times[MOST];
static atomic_size_t added;
static atomic_bool ended;

struct loop {
	pthread_t thread;
	void (*run)(void *worker);
	void *worker;
};

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
	printf("%.0f %u %u %u\n", (double)n * each / us * 1e6, times[kept / 2],
	       times[kept * 99 / 100], times[kept > 0 ? kept - 1 : 0]);
}

static void *
work(void *argument)
{
	const struct loop *loop = argument;

	while (!atomic_load(&ended)) {
		double began = times_now();

		loop->run(loop->worker);
		times_add(times_now() - began);
	}
	return NULL;
}

void
times_run(int threads, double seconds, void (*run)(void *worker), void *workers, size_t size)
{
	struct loop loops[THREADS_MAX];
	double began = times_now();

	for (int i = 0; i < threads; i++) {
		loops[i] = (struct loop){.run = run, .worker = (char *)workers + (size_t)i * size};
		times_check(pthread_create(&loops[i].thread, NULL, work, &loops[i]) == 0, "thread",
		            "");
	}
	usleep((useconds_t)(seconds * 1e6));
	atomic_store(&ended, true);
	for (int i = 0; i < threads; i++)
		pthread_join(loops[i].thread, NULL);
	times_report(times_now() - began, 1);
}
