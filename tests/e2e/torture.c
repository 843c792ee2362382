/* torture begin MOUNT HISTORY PROCESS
 * torture run MOUNT HISTORY PROCESS WORKERS SEED RUNNING
 * torture final MOUNT HISTORY PROCESS
 *
 * Makes the files; starts workers (the processes PROCESS, PROCESS + 1, ... of the history) that go
 * on until the file RUNNING is removed; reads all files when everybody has ended. */
#include "tests/e2e/torture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The load: a call comes within PACE_US after the last one; AWAY_US if the mount is not there. */
enum { AWAY_US = 50000, PACE_US = 60000 };

void
give_up(const char *format, ...)
{
	int error = errno;
	va_list args;

	fprintf(stderr, "torture: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (errno %s)\n", strerror(error));
	exit(1);
}

static struct worker
worker_new(char **argv, uint64_t seed, int number)
{
	struct worker w = {
	    .process = atoi(argv[4]) + number,
	    .number = number,
	    .history = open(argv[3], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644),
	    .mount = argv[2],
	};

	if (w.history < 0)
		give_up("open %s", argv[3]);
	w.rng = rng_seeded(seed ^ ((uint64_t)w.process << 32));
	return w;
}

/* True if a process that was started has failed. */
static bool
any_failed(void)
{
	int status, bad = 0;

	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}

static _Noreturn void
work(struct worker *w, const char *running)
{
	while (access(running, F_OK) == 0)
		usleep(work_once(w) ? (useconds_t)rng_below(&w->rng, PACE_US) : AWAY_US);
	exit(any_failed());
}

static int
run(char **argv)
{
	int workers = atoi(argv[5]);

	for (int i = 0; i < workers; i++) {
		struct worker w = worker_new(argv, strtoull(argv[6], NULL, 10), i);
		pid_t pid = fork();

		if (pid < 0)
			give_up("fork");
		if (pid == 0)
			work(&w, argv[7]);
		close(w.history);
	}
	return any_failed();
}

int
main(int argc, char **argv)
{
	struct worker w;

	if (argc == 8 && !strcmp(argv[1], "run"))
		return run(argv);
	if (argc != 5 || (strcmp(argv[1], "begin") != 0 && strcmp(argv[1], "final") != 0)) {
		fprintf(stderr, "usage: see the beginning of torture.c\n");
		return 2;
	}
	w = worker_new(argv, 0, 0);
	if (argv[1][0] == 'b')
		work_begin(&w);
	else
		work_final(&w);
	close(w.history);
	return 0;
}
