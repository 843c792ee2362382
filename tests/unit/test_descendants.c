/* The descendants of a process, and what is read to find them. */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "ctl/command_group.h"

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

static unsigned opened, others;

/* The kernel makes the reader of stat, wchan, stack, syscall, mem, personality or io wait for a
 * process in execve(2), which may wait for a file system for ever. */
int
__wrap_open(const char *path, int flags, ...)
{
	const char *name = strrchr(path, '/');

	opened++;
	others += name == NULL || strcmp(name, "/status") != 0;
	return __real_open(path, flags);
}

static void
tell(int fd)
{
	const pid_t self = getpid();

	must(write(fd, &self, sizeof self) == sizeof self);
	for (;;)
		pause();
}

/* A child, its child, and one whose parent has ended; their numbers. */
static void
family(pid_t pids[3])
{
	int ends[2], status;
	pid_t between;

	must(pipe(ends) == 0);
	if (fork() == 0) {
		fork();
		tell(ends[1]);
	}
	between = fork();
	if (between == 0) {
		if (fork() == 0)
			tell(ends[1]);
		_exit(0);
	}
	must(waitpid(between, &status, 0) == between);
	for (int i = 0; i < 3; i++)
		must(read(ends[0], &pids[i], sizeof *pids) == sizeof *pids);
	close(ends[0]);
	close(ends[1]);
}

/* Kills and reaps all; afterwards there are none. */
static void
end_all(void)
{
	size_t n;
	int foreign;

	while (descendants_signal(SIGKILL, 0, &foreign) > 0)
		waitpid(-1, NULL, 0);
	while (waitpid(-1, NULL, 0) > 0)
		;
	assert_null(descendants_list(0, &n));
	assert_int_equal(n, 0);
}

static const struct descendant *
found(const struct descendant *list, size_t n, pid_t pid)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].pid == pid)
			return &list[i];
	return NULL;
}

TEST(test_all_generations)
{
	struct descendant *list;
	pid_t pids[3];
	size_t n;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	family(pids);
	opened = others = 0;
	list = descendants_list(0, &n);
	assert_true(opened >= 3);
	assert_int_equal(others, 0);
	assert_int_equal(n, 3);
	for (int i = 0; i < 3; i++)
		assert_non_null(found(list, n, pids[i]));
	free(list);
	list = descendants_list(pids[1], &n);
	assert_int_equal(n, 2);
	free(list);
	end_all();
}

TEST(test_a_stopped_one_and_a_zombie)
{
	const pid_t stopped = fork();
	struct descendant *list;
	siginfo_t info;
	pid_t zombie;
	size_t n;

	if (stopped == 0)
		for (;;)
			pause();
	zombie = fork();
	if (zombie == 0)
		_exit(0);
	kill(stopped, SIGSTOP);
	assert_int_equal(waitpid(stopped, NULL, WUNTRACED), stopped);
	assert_int_equal(waitid(P_PID, (id_t)zombie, &info, WEXITED | WNOWAIT), 0);
	list = descendants_list(0, &n);
	assert_int_equal(n, 1);
	assert_int_equal(list[0].pid, stopped);
	assert_true(list[0].stopped);
	free(list);
	end_all();
}

static void *
second_thread(void *fd)
{
	tell((int)(intptr_t)fd);
	return NULL;
}

/* A process lives as long as any of its threads does. */
TEST(test_the_first_thread_has_ended)
{
	struct descendant *list;
	pthread_t thread;
	int ends[2];
	pid_t child;
	size_t n;

	must(pipe(ends) == 0);
	child = fork();
	if (child == 0) {
		/* By value: the stack of the first thread may be gone when the second one reads. */
		must(pthread_create(&thread, NULL, second_thread, (void *)(intptr_t)ends[1]) == 0);
		pthread_exit(NULL);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &child, sizeof child), sizeof child);
	list = descendants_list(0, &n);
	assert_non_null(found(list, n, child));
	free(list);
	end_all();
}
