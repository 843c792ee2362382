/* Many runs, on all cores: forked workers take the next seed until none is left or one failed. What
 * they count stands in memory that all share. */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "tests/sim/sim.h"

enum {
	JOBS_MAX = 64,
	/* Of processor time: most seeds take a fraction of a second, busy ones a minute. */
	PATIENCE_S = 300,
	REPLAY_S = 20,
	LAST_EVENTS = 40, /* that are printed of a failure */
};

struct worker {
	pid_t pid;
	_Atomic uint64_t seed; /* the one under way */
	struct stats stats;    /* of those that are done */
};

struct shared {
	_Atomic uint64_t taken;
	_Atomic bool stop;
	struct worker workers[JOBS_MAX];
};

static double
seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- a worker ---- */

/* Ends the process when it has computed for so long, however busy the machine is. */
static void
limit_time(int seconds_left)
{
	const struct itimerval left = {.it_value.tv_sec = seconds_left};

	setitimer(ITIMER_PROF, &left, NULL);
}

static void
work(const struct soak *soak, struct shared *shared, struct worker *w, double start)
{
	const struct rlimit no_core = {0, 0}; /* who wants one runs the seed again */
	uint64_t i;

	setrlimit(RLIMIT_CORE, &no_core);
	while (!shared->stop && seconds(CLOCK_MONOTONIC) - start < soak->seconds &&
	       (i = shared->taken++) < soak->seeds) {
		w->seed = soak->from + i;
		limit_time(PATIENCE_S);
		sim_run(w->seed, &soak->options, &w->stats);
		w->stats.cpu_ns = (int64_t)(seconds(CLOCK_PROCESS_CPUTIME_ID) * 1e9);
	}
	_exit(0);
}

/* ---- what is said ---- */

static struct stats
total(const struct shared *shared, int jobs)
{
	struct stats all = {0};

	for (int i = 0; i < jobs; i++) {
		const struct stats *one = &shared->workers[i].stats;

		all.seeds += one->seeds;
		all.events += one->events;
		all.requests += one->requests;
		all.entries += one->entries;
		all.epochs += one->epochs;
		all.sessions += one->sessions;
		all.simulated_ns += one->simulated_ns;
		all.cpu_ns += one->cpu_ns;
		for (int f = 0; f < FAULTS; f++)
			all.faults[f] += one->faults[f];
	}
	return all;
}

/* Seeds of 60 simulated seconds in an hour of one core. */
static double
rate(const struct stats *all)
{
	return all->cpu_ns == 0 ? 0 : (double)all->simulated_ns / 60 / (double)all->cpu_ns * 3600;
}

static void
print_progress(const struct soak *soak, const struct shared *shared, int jobs, double start)
{
	const struct stats all = total(shared, jobs);

	fprintf(stderr, "sim: %" PRIu64 " of %" PRIu64 " seeds, %.0f s, %.0f an hour and core%s",
	        all.seeds, soak->seeds, seconds(CLOCK_MONOTONIC) - start, rate(&all),
	        isatty(STDERR_FILENO) ? "   \r" : "\n");
}

static void
print_summary(const struct soak *soak, const struct stats *all, double took)
{
	const char *between = "sim: faults: ";

	printf("sim: %" PRIu64 " seeds from %" PRIu64 " in %.0f s: %.1f hours simulated, %" PRIu64
	       " requests, %" PRIu64 " log entries, %" PRIu64 " epochs, %" PRIu64 " sessions\n",
	       all->seeds, soak->from, took, (double)all->simulated_ns / 3600e9, all->requests,
	       all->entries, all->epochs, all->sessions);
	for (int f = 0; f < FAULTS; f++) {
		printf("%s%" PRIu64 " %s", between, all->faults[f], fault_name((enum fault)f));
		between = ", ";
	}
	printf("\nsim: %.0f seeds of 60 s an hour and core, %.0f requests each\n", rate(all),
	       all->seeds == 0 ? 0 : (double)all->requests / (double)all->seeds);
}

/* Plays the seed to its failure again, and writes what happens to `out`. */
static _Noreturn void
replay(const struct soak *soak, uint64_t seed, int out)
{
	struct sim_options options = soak->options;
	struct stats stats = {0};
	const int nothing = open("/dev/null", O_WRONLY);

	options.trace = true;
	dup2(out, STDOUT_FILENO);
	dup2(nothing, STDERR_FILENO);
	setvbuf(stdout, NULL, _IOLBF, 0); /* it ends by a signal */
	limit_time(REPLAY_S);
	sim_run(seed, &options, &stats);
	fflush(stdout);
	_exit(0);
}

/* Prints the last events before the failure: verdicts of the replicas, faults, requests. */
static void
print_last_events(const struct soak *soak, uint64_t seed)
{
	static char lines[LAST_EVENTS][512];
	int ends[2];
	size_t n = 0;
	pid_t pid;
	FILE *in;

	fflush(NULL);
	if (pipe(ends) < 0 || (pid = fork()) < 0)
		return;
	if (pid == 0)
		replay(soak, seed, ends[1]);
	close(ends[1]);
	in = fdopen(ends[0], "r");
	while (in != NULL && fgets(lines[n % LAST_EVENTS], sizeof lines[0], in) != NULL)
		n++;
	for (size_t i = n > LAST_EVENTS ? n - LAST_EVENTS : 0; i < n; i++)
		printf("    %s", lines[i % LAST_EVENTS]);
	fclose(in);
	waitpid(pid, NULL, 0);
}

static void
print_failure(const struct soak *soak, uint64_t seed, int status)
{
	const struct sim_options *o = &soak->options;
	char replicas[32] = "", machines[32] = "";

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPROF)
		fprintf(stderr, "sim: it does not come to an end\n");
	if (o->replicas > 0)
		snprintf(replicas, sizeof replicas, " --replicas %d", o->replicas);
	if (o->machines > 0)
		snprintf(machines, sizeof machines, " --clients %d", o->machines);
	fprintf(stderr, "sim: rerun: tests/sim/sim --seed %" PRIu64 "%s%s --trace\n", seed,
	        replicas, machines);
	print_last_events(soak, seed);
}

/* ---- the parent ---- */

static void
start_workers(const struct soak *soak, struct shared *shared, int jobs, double start)
{
	fflush(NULL);
	for (int i = 0; i < jobs; i++) {
		pid_t pid = fork();

		if (pid < 0) {
			perror("sim: fork");
			exit(2);
		}
		if (pid == 0)
			work(soak, shared, &shared->workers[i], start);
		shared->workers[i].pid = pid;
	}
}

/* The workers that have ended; false when one failed. */
static bool
reap(const struct soak *soak, struct shared *shared, int jobs, int *left)
{
	bool good = true;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		--*left;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
			continue;
		for (int i = 0; i < jobs; i++)
			if (shared->workers[i].pid == pid && !shared->stop)
				print_failure(soak, shared->workers[i].seed, status);
		shared->stop = true;
		good = false;
	}
	return good;
}

static int
jobs_of(const struct soak *soak)
{
	long jobs = soak->jobs > 0 ? soak->jobs : sysconf(_SC_NPROCESSORS_ONLN);

	jobs = jobs > JOBS_MAX ? JOBS_MAX : jobs;
	return jobs < 1 ? 1 : (int)jobs;
}

bool
soak_run(const struct soak *soak)
{
	const struct timespec tick = {.tv_nsec = 100 * 1000 * 1000};
	struct shared *shared =
	    mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start = seconds(CLOCK_MONOTONIC), said = start;
	int jobs = jobs_of(soak), left = jobs;
	struct stats all;
	bool good = true;

	if (shared == MAP_FAILED) {
		perror("sim: mmap");
		exit(2);
	}
	start_workers(soak, shared, jobs, start);
	while (left > 0) {
		good = reap(soak, shared, jobs, &left) && good;
		if (left == 0)
			break;
		nanosleep(&tick, NULL);
		if (!soak->progress ||
		    seconds(CLOCK_MONOTONIC) - said < (isatty(STDERR_FILENO) ? 1 : 30))
			continue;
		said = seconds(CLOCK_MONOTONIC);
		print_progress(soak, shared, jobs, start);
	}
	all = total(shared, jobs);
	print_summary(soak, &all, seconds(CLOCK_MONOTONIC) - start);
	munmap(shared, sizeof *shared);
	return good;
}
