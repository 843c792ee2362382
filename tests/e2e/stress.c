/* stress WHAT ARGUMENT...: one table of what it can do, and what the parts share. */
#include "tests/e2e/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	int arguments;
	const char *usage;
} parts[] = {
    {"count", stress_count, 3, "FILE PROCESSES TIMES: count under flock on one descriptor"},
    {"append", stress_append, 3, "FILE PROCESSES LINES: append lines and look at each of them"},
    {"crowd", stress_crowd, 2, "FILE N: N blocked lockers, others go on, all get it in turn"},
    {"waits", stress_waits, 1, "FILE: waits for its lock; nothing interrupts that"},
    {"massacre", stress_massacre, 2, "FILE N: N blocked lockers, all killed"},
    {"signals", stress_signals, 1, "FILE: SIGINT, SIGTERM and SIGKILL end a blocked locker"},
    {"order", stress_order, 2, "FILE N: N lockers are served as they came"},
    {"restart", stress_restart, 2, "FILE RELEASE: a wait that SA_RESTART repeats keeps its place"},
    {"upgrade", stress_upgrade, 3, "FILE PROCESSES TIMES: shared to exclusive, all at once"},
    {"timer", stress_timer, 3, "DIR PROCESSES ROUNDS: every changing call, a signal every ms"},
    {"busy", stress_busy, 3, "DIR PROCESSES END: every changing call, until END exists"},
    {"pester", stress_pester, 1, "PID: SIGUSR1 every ms, as long as the process lives"},
    {"records", stress_records, 1, "FILE: fcntl and OFD locks"},
    {"steady", stress_steady, 2, "FILE LOG: write, and log each success, until LOG is removed"},
    {"pauses", stress_pauses, 2, "LOG N: the median of the N longest pauses, in ms"},
    {"load", stress_load, 2, "DIR LOG: write until the mount dies, log what was acknowledged"},
    {"verify", stress_verify, 2, "DIR LOG: is everything acknowledged there?"},
};

void
fail(const char *file, int line, const char *format, ...)
{
	va_list args;
	int error = errno;

	va_start(args, format);
	fprintf(stderr, "%s:%d: ", file, line);
	vfprintf(stderr, format, args);
	fprintf(stderr, " (errno %s)\n", strerror(error));
	va_end(args);
	_exit(1);
}

pid_t
spawn(void (*work)(const char *argument, int i), const char *argument, int i)
{
	pid_t pid = fork();

	check(pid >= 0, "fork");
	if (pid == 0) {
		work(argument, i);
		_exit(0);
	}
	return pid;
}

void
join(int n)
{
	while (n-- > 0) {
		int status;
		pid_t pid = wait(&status);

		check(pid > 0, "wait");
		check(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d ended with %x",
		      pid, status);
	}
}

int
open_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	check(fd >= 0, "open %s", path);
	return fd;
}

void
await_flock(pid_t pid)
{
	char path[64], line[64];
	long call = -1;

	snprintf(path, sizeof path, "/proc/%d/syscall", pid);
	while (call != SYS_flock) {
		FILE *f = fopen(path, "r");

		check(f != NULL, "process %d has gone", pid);
		if (fgets(line, sizeof line, f) && line[0] != 'r')
			call = strtol(line, NULL, 10);
		fclose(f);
	}
}

int
main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		if (argc == parts[i].arguments + 2 && strcmp(argv[1], parts[i].name) == 0)
			return parts[i].run(argc - 2, argv + 2);
	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		fprintf(stderr, "stress %s %s\n", parts[i].name, parts[i].usage);
	return 2;
}
