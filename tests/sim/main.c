/* sim [--seed N | --seeds N [--from BASE] | --seconds N] [--replicas N] [--trace] */
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "tests/sim/sim.h"

/* For `make check`: half a minute, in either kind of build. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { FIXED_SEEDS = 80 };
#else
enum { FIXED_SEEDS = 500 };
#endif

static struct {
	uint64_t seed;
	int replicas;
} running;

/* Every way to fail ends in an abort: must(), a checker, a sanitizer. */
static void
on_abort(int signal_number)
{
	char line[128];
	int len = snprintf(line, sizeof line,
	                   "sim: rerun: tests/sim/sim --seed %" PRIu64 "%s%.0d --trace\n",
	                   running.seed, running.replicas > 0 ? " --replicas " : "",
	                   running.replicas > 0 ? running.replicas : 0);

	if (write(STDERR_FILENO, line, (size_t)len) != len)
		_exit(2);
	signal(signal_number, SIG_DFL);
	raise(signal_number);
}

static double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static _Noreturn void
usage(void)
{
	fprintf(stderr, "usage: sim [--seed N | --seeds N [--from BASE] | --seconds N] "
	                "[--replicas N] [--trace]\n");
	exit(2);
}

static uint64_t
number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 0);

	if (*text == '\0' || *end != '\0')
		usage();
	return n;
}

int
main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"seed", required_argument, NULL, 's'},
	    {"seeds", required_argument, NULL, 'n'},
	    {"from", required_argument, NULL, 'f'},
	    {"seconds", required_argument, NULL, 't'},
	    {"replicas", required_argument, NULL, 'r'},
	    {"trace", no_argument, NULL, 'v'},
	    {NULL, 0, NULL, 0},
	};
	uint64_t first = 1, seeds = FIXED_SEEDS, done = 0;
	double start = seconds(), limit = 1e9;
	bool trace = false;
	int c;

		while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 's':
			first = number(optarg);
			seeds = 1;
			break;
		case 'n':
			seeds = number(optarg);
			break;
		case 'f':
			first = number(optarg);
			break;
		case 't':
			limit = (double)number(optarg);
			seeds = UINT64_MAX;
			break;
		case 'r':
			running.replicas = (int)number(optarg);
			break;
		case 'v':
			trace = true;
			break;
		default:
			usage();
		}
	}
	if (optind != argc || running.replicas < 0 || running.replicas > LIMIT_REPLICAS)
		usage();
	signal(SIGABRT, on_abort);
	while (done < seeds && seconds() - start < limit) {
		running.seed = first + done++;
		sim_run(running.seed, trace, running.replicas);
	}
	printf("sim: %" PRIu64 " seeds from %" PRIu64 ", %.1f a second\n", done, first,
	       (double)done / (seconds() - start));
	return 0;
}
