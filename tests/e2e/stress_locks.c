/* Crowds at one lock. */
#include "tests/e2e/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

static int order_pipe[2];

static void
take_turn(const char *path, int i)
{
	int fd = open_file(path);

	check(flock(fd, LOCK_EX) == 0, "flock");
	check(write(order_pipe[1], &i, sizeof i) == sizeof i, "pipe");
	check(close(fd) == 0, "close");
}

/* The others must go on while a crowd is blocked: a file's whole life in the same directory. */
static void
others_go_on(const char *path)
{
	char other[512], text[8] = "";
	int fd;

	snprintf(other, sizeof other, "%s.other", path);
	for (int i = 0; i < 20; i++) {
		fd = open_file(other);
		check(flock(fd, LOCK_EX | LOCK_NB) == 0, "flock of another file");
		check(pwrite(fd, "alive", 5, 0) == 5, "write");
		check(close(fd) == 0, "close");
		fd = open_file(other);
		check(pread(fd, text, 5, 0) == 5 && strcmp(text, "alive") == 0, "read");
		check(close(fd) == 0, "close");
		check(unlink(other) == 0, "unlink");
	}
}

int
stress_waits(int argc, char **argv)
{
	int fd = open_file(argv[argc - 1]);

	check(flock(fd, LOCK_EX) == 0, "flock");
	return 0;
}

static pid_t *
block_crowd(const char *path, int n, bool one_by_one)
{
	pid_t *pids = calloc(n, sizeof *pids);

	check(pipe(order_pipe) == 0, "pipe");
	for (int i = 0; i < n; i++) {
		pids[i] = spawn(take_turn, path, i);
		if (one_by_one)
			await_flock(pids[i]);
	}
	for (int i = 0; i < n; i++)
		await_flock(pids[i]);
	return pids;
}

int
stress_crowd(int argc, char **argv)
{
	int fd = open_file(argv[0]), n = atoi(argv[argc - 1]);

	check(flock(fd, LOCK_EX) == 0, "flock");
	free(block_crowd(argv[0], n, false));
	others_go_on(argv[0]);
	check(flock(fd, LOCK_UN) == 0, "unlock");
	join(n);
	return 0;
}

int
stress_massacre(int argc, char **argv)
{
	int fd = open_file(argv[0]), n = atoi(argv[argc - 1]), status;
	pid_t *pids;

	check(flock(fd, LOCK_EX) == 0, "flock");
	pids = block_crowd(argv[0], n, false);
	for (int i = 0; i < n; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < n; i++)
		check(waitpid(pids[i], &status, 0) == pids[i] && WIFSIGNALED(status), "wait");
	free(pids);
	check(close(fd) == 0, "close");
	fd = open_file(argv[0]);
	check(flock(fd, LOCK_EX | LOCK_NB) == 0, "the lock is free");
	return 0;
}

static void
default_signals(const char *path, int i)
{
	signal(SIGINT, SIG_DFL);
	take_turn(path, i);
}

/* Somebody else holds the lock. */
int
stress_signals(int argc, char **argv)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGKILL};
	int status;

	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		pid_t pid = spawn(default_signals, argv[argc - 1], 0);

		await_flock(pid);
		check(kill(pid, signals[i]) == 0, "kill");
		check(waitpid(pid, &status, 0) == pid, "wait");
		check(WIFSIGNALED(status) && WTERMSIG(status) == signals[i], "status %x", status);
	}
	return 0;
}

int
stress_order(int argc, char **argv)
{
	int fd = open_file(argv[0]), n = atoi(argv[argc - 1]), who;

	check(flock(fd, LOCK_EX) == 0, "flock");
	free(block_crowd(argv[0], n, true));
	check(flock(fd, LOCK_UN) == 0, "unlock");
	for (int i = 0; i < n; i++) {
		check(read(order_pipe[0], &who, sizeof who) == sizeof who, "pipe");
		check(who == i, "number %d came in place %d", who, i);
	}
	join(n);
	return 0;
}

static void
nothing(int signal_number)
{
	(void)signal_number;
}

static void
take_turn_restarting(const char *path, int i)
{
	struct sigaction action = {.sa_handler = nothing, .sa_flags = SA_RESTART};

	check(sigaction(SIGUSR1, &action, NULL) == 0, "sigaction");
	take_turn(path, i);
}

/* The file is locked by somebody who lets go when `release` is removed. Two wait; the first is
 * interrupted again and again and still comes first. */
int
stress_restart(int argc, char **argv)
{
	pid_t first, second;
	int who;

	check(pipe(order_pipe) == 0, "pipe");
	first = spawn(take_turn_restarting, argv[0], 1);
	await_flock(first);
	second = spawn(take_turn, argv[0], 2);
	await_flock(second);
	for (int i = 0; i < 10; i++) {
		check(kill(first, SIGUSR1) == 0, "kill");
		await_flock(first);
	}
	check(unlink(argv[argc - 1]) == 0, "unlink %s", argv[argc - 1]);
	check(read(order_pipe[0], &who, sizeof who) == sizeof who && who == 1, "%d came first",
	      who);
	check(read(order_pipe[0], &who, sizeof who) == sizeof who && who == 2, "%d came second",
	      who);
	join(2);
	return 0;
}

static int upgrade_times;

static void
upgrade(const char *path, int i)
{
	int fd = open_file(path), n;
	char text[32];

	(void)i;
	for (n = 0; n < upgrade_times; n++) {
		check(flock(fd, LOCK_SH) == 0, "shared");
		check(flock(fd, LOCK_EX) == 0, "exclusive");
		memset(text, 0, sizeof text);
		check(pread(fd, text, sizeof text - 1, 0) >= 0, "pread");
		snprintf(text, sizeof text, "%d\n", atoi(text) + 1);
		check(pwrite(fd, text, strlen(text), 0) > 0, "pwrite");
		check(flock(fd, LOCK_UN) == 0, "unlock");
	}
	check(close(fd) == 0, "close");
}

int
stress_upgrade(int argc, char **argv)
{
	int processes = atoi(argv[1]), fd;
	char text[32] = "";

	upgrade_times = atoi(argv[argc - 1]);
	for (int i = 0; i < processes; i++)
		spawn(upgrade, argv[0], i);
	join(processes);
	fd = open_file(argv[0]);
	check(pread(fd, text, sizeof text - 1, 0) > 0, "pread");
	check(atoi(text) == processes * upgrade_times, "counted %s", text);
	return 0;
}
