/* Signals while calls are under way: in a cell that answers, none makes a call fail. */
#include "tests/e2e/stress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static int rounds;
static const char *end_file;
static volatile sig_atomic_t signals;

static void
count(int signal_number)
{
	(void)signal_number;
	signals++;
}

static void
tick_every_ms(bool restart)
{
	struct sigaction action = {.sa_handler = count, .sa_flags = restart ? SA_RESTART : 0};
	struct itimerval ms = {{0, 1000}, {0, 1000}};

	check(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
	check(setitimer(ITIMER_REAL, &ms, NULL) == 0, "setitimer");
}

#define works(call) check((call) >= 0, "round %d: %s", round, #call)

static void
open_and_lock(const char *path, int round)
{
	struct timespec times[2] = {{1000, 0}, {1000, 0}};
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0644);

	check(fd >= 0, "round %d: a new file", round);
	check(write(fd, "first\n", 6) == 6, "round %d: write", round);
	works(fsync(fd));
	works(flock(fd, LOCK_EX | LOCK_NB));
	works(flock(fd, LOCK_SH | LOCK_NB));
	works(flock(fd, LOCK_UN));
	works(flock(fd, LOCK_EX)); /* free: it does not wait */
	works(ftruncate(fd, 3));
	works(futimens(fd, times));
	works(close(fd));
	works(fd = open(path, O_WRONLY | O_TRUNC));
	check(write(fd, "second\n", 7) == 7, "round %d: write", round);
	works(close(fd));
}

static void
use_names(const char *path, int round)
{
	char other[300], text[64];
	struct stat st;
	DIR *d;
	int fd;

	snprintf(other, sizeof other, "%s.b", path);
	works(truncate(path, 4));
	works(utimensat(AT_FDCWD, path, NULL, 0));
	works(setxattr(path, "user.ls.lock", "exclusive", 9, 0));
	works(setxattr(path, "user.ls.lock", "free", 4, 0));
	works(getxattr(path, "user.ls.lock", text, sizeof text));
	works(rename(path, other));
	works(stat(other, &st));
	works(fd = open(other, O_RDONLY));
	check(read(fd, text, sizeof text) == 4, "round %d: read", round);
	works(close(fd));
	works(unlink(other));
	works(mkdir(path, 0755));
	d = opendir(path);
	check(d && readdir(d), "round %d: list", round);
	works(closedir(d));
	works(rmdir(path));
}

static void
work_under_signals(const char *directory, int i)
{
	char path[256];

	tick_every_ms(i % 2 == 0);
	for (int round = 0; round < rounds; round++) {
		snprintf(path, sizeof path, "%s/%d.%d", directory, i, round);
		open_and_lock(path, round);
		use_names(path, round);
	}
	check(signals > 0, "no signal came");
}

int
stress_timer(int argc, char **argv)
{
	int processes = atoi(argv[1]);

	rounds = atoi(argv[argc - 1]);
	for (int i = 0; i < processes; i++)
		spawn(work_under_signals, argv[0], i);
	join(processes);
	return 0;
}

/* Whatever stops this process and lets it go on: no call fails. */
static void
work_until(const char *directory, int i)
{
	char path[256];

	for (int round = 0; access(end_file, F_OK) != 0; round++) {
		snprintf(path, sizeof path, "%s/%d.%d", directory, i, round);
		open_and_lock(path, round);
		use_names(path, round);
	}
}

int
stress_busy(int argc, char **argv)
{
	int processes = atoi(argv[1]);

	end_file = argv[argc - 1];
	for (int i = 0; i < processes; i++)
		spawn(work_until, argv[0], i);
	join(processes);
	return 0;
}

int
stress_pester(int argc, char **argv)
{
	struct timespec ms = {0, 1000000};
	pid_t pid = atoi(argv[argc - 1]);

	while (kill(pid, SIGUSR1) == 0)
		nanosleep(&ms, NULL);
	return 0;
}
