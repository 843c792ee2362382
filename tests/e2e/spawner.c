/* Starts a child, or becomes another program, while it has a written file open whose descriptor is
 * closed by execve(2): the kernel then waits for the mount with locks of the task in its hands.
 *
 *	[HALT=yes] spawner WAY FILE
 *
 * The file has "xy" in it then, or "xyz" where a lock is taken. With HALT the process stops itself
 * when all is written, and starts the other program once it is continued. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *nothing[] = {"true", NULL};

static void
check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "spawner: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void
waited_for(pid_t child)
{
	int status;

	check(child > 0, "fork");
	check(waitpid(child, &status, 0) == child && status == 0, "child");
}

/* As Rust's standard library and glibc's system(3), popen(3) do it. */
static void
by_posix_spawn(void)
{
	pid_t child;

	check(posix_spawnp(&child, nothing[0], NULL, NULL, nothing, environ) == 0, "posix_spawn");
	waited_for(child);
}

static void
by_system(void)
{
	check(system("true") == 0, "system");
}

static void
by_fork(void)
{
	const pid_t child = fork();

	if (child == 0) {
		execvp(nothing[0], nothing);
		_exit(127);
	}
	waited_for(child);
}

static int
become_true(void *unused)
{
	(void)unused;
	execvp(nothing[0], nothing);
	_exit(127);
}

/* As Go does it: the child borrows the memory, and the parent stands still until it has another. */
static void
by_clone(void)
{
	static char stack[65536] __attribute__((aligned(16)));

	waited_for(
	    clone(become_true, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
}

static void
becomes_another(void)
{
	execvp(nothing[0], nothing);
}

/* On the whole file, so the mount knows of the lock. */
static void
lock_and_write(void)
{
	struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	check(fcntl(3, F_SETLK, &whole) == 0, "F_SETLK");
	check(write(3, "z", 1) == 1, "write");
}

static const struct way {
	const char *name;
	void (*go)(void);
	bool locked;
} ways[] = {
    {"posix_spawn", by_posix_spawn, false},
    {"system", by_system, false},
    {"fork", by_fork, false},
    {"clone", by_clone, false},
    {"holder", by_fork, true},
    {"exec", becomes_another, false},
    {"exec_holder", becomes_another, true},
};

int
main(int argc, char **argv)
{
	const struct way *way = ways;
	int fd;

	check(argc == 3, "usage");
	while (way < ways + sizeof ways / sizeof ways[0] && strcmp(way->name, argv[1]) != 0)
		way++;
	check(way < ways + sizeof ways / sizeof ways[0], argv[1]);
	fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	check(fd >= 0 && dup3(fd, 3, O_CLOEXEC) >= -1 && (fd == 3 || close(fd) == 0), argv[2]);
	check(write(3, "xy", 2) == 2, "write");
	if (way->locked)
		lock_and_write();
	check(getenv("HALT") == NULL || raise(SIGSTOP) == 0, "SIGSTOP");
	way->go();
	check(close(3) == 0, "close");
	return 0;
}
