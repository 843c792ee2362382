/* sim                          a fixed set of seeds
 * sim --seed N [--trace]       one seed, in this process
 * sim --seeds N [--from BASE]  many; without a base from a random one, which is printed
 * sim --seconds N              as many as fit
 * sim --rate                   how fast it is: 3 replicas, 4 clients, one core
 *
 * --replicas N and --clients N fix what else the seed draws; --jobs N says how many cores to use;
 * --frames adds every message to the trace. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>
#include "tests/sim/sim.h"

/* For `make check`: half a minute, in either kind of build. */
#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { FIXED_SEEDS = 200 };
#else
enum { FIXED_SEEDS = 1000 };
#endif

enum { RATE_SEEDS = 200, RATE_REPLICAS = 3, RATE_CLIENTS = 4 };

#define BASES UINT64_C(1000000000000)

static _Noreturn void
usage(void)
{
	fprintf(stderr, "usage: sim [--seed N [--trace] [--frames] | --seeds N [--from BASE] | "
	                "--seconds N | --rate] [--replicas N] [--clients N] [--jobs N]\n");
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

static uint64_t
fresh_base(void)
{
	uint64_t base;

	if (getrandom(&base, sizeof base, 0) != sizeof base) {
		perror("sim: getrandom");
		exit(2);
	}
	return base % BASES;
}

static void
measure_rate(struct soak *soak)
{
	soak->from = 1;
	soak->seeds = RATE_SEEDS;
	soak->jobs = 1;
	soak->options.replicas = RATE_REPLICAS;
	soak->options.machines = RATE_CLIENTS;
}

static void
set(struct soak *soak, int option, uint64_t *seed, bool *from)
{
	switch (option) {
	case 's':
		*seed = number(optarg);
		soak->seeds = 0;
		return;
	case 'n':
		soak->seeds = number(optarg);
		soak->progress = true;
		return;
	case 'f':
		soak->from = number(optarg);
		*from = true;
		return;
	case 't':
		soak->seconds = (double)number(optarg);
		soak->seeds = UINT64_MAX;
		soak->progress = true;
		return;
	case 'r':
		soak->options.replicas = (int)number(optarg);
		return;
	case 'c':
		soak->options.machines = (int)number(optarg);
		return;
	case 'j':
		soak->jobs = (int)number(optarg);
		return;
	case 'm':
		measure_rate(soak);
		*from = true;
		return;
	case 'F':
		soak->options.frames = true;
		/* fall through */
	case 'v':
		soak->options.trace = true;
		return;
	default:
		usage();
	}
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
	    {"clients", required_argument, NULL, 'c'},
	    {"jobs", required_argument, NULL, 'j'},
	    {"rate", no_argument, NULL, 'm'},
	    {"trace", no_argument, NULL, 'v'},
	    {"frames", no_argument, NULL, 'F'},
	    {0},
	};
	struct soak soak = {.from = 1, .seeds = FIXED_SEEDS, .seconds = 1e9};
	uint64_t seed = 0;
	bool from = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
		set(&soak, c, &seed, &from);
	if (optind != argc || soak.options.replicas < 0 || soak.options.replicas > LIMIT_REPLICAS ||
	    soak.options.machines < 0 || soak.options.machines > MACHINES_MAX)
		usage();
	if (soak.seeds == 0) {
		struct stats stats = {0};

		sim_run(seed, &soak.options, &stats);
		printf("sim: seed %" PRIu64 " passes: %.0f s simulated, %" PRIu64 " requests\n",
		       seed, (double)stats.simulated_ns / 1e9, stats.requests);
		return 0;
	}
	if (soak.progress && !from)
		soak.from = fresh_base();
	if (soak.progress)
		printf("sim: seeds from %" PRIu64 "\n", soak.from);
	return soak_run(&soak) ? 0 : 1;
}
