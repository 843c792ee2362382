/* What /proc tells of a caller. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "fs/fuse/proc.h"

enum { MANY = 200 };

static struct mountinfo proc;

/* In another process, as it is told to: `extra` descriptors (-1: one on a file of /proc),
 * then one on that file. */
static int
look_at(int extra, bool has_open, uint64_t ino)
{
	int ready[2], found;
	pid_t child;
	char byte;

	must(pipe(ready) == 0);
	child = fork();
	if (child == 0) {
		if (extra < 0)
			must(open("/proc/version", O_RDONLY) >= 0);
		for (int i = 0; i < extra; i++)
			must(dup(ready[1]) >= 0);
		if (has_open)
			must(open("/proc/version", O_RDONLY) >= 0);
		must(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	must(read(ready[0], &byte, 1) == 1);
	found = proc_descriptors(child, ino, &proc);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	return found;
}

TEST(test_descriptors)
{
	struct stat st;

	assert_int_equal(stat("/proc/version", &st), 0);
	assert_int_equal(look_at(0, true, st.st_ino), 1);
	assert_int_equal(look_at(0, false, st.st_ino), 0);
	assert_int_equal(look_at(20, true, st.st_ino), 1);
	assert_int_equal(look_at(-1, true, st.st_ino), 2);
	assert_int_equal(look_at(MANY, true, st.st_ino), -1); /* not within its time */
	assert_int_equal(look_at(MANY, false, st.st_ino), -1);
	assert_int_equal(proc_descriptors(0, st.st_ino, &proc), -1);
}

/* The low numbers count, however many there are. */
TEST(test_low_descriptors_are_counted)
{
	struct stat st;
	int fds[MANY];

	for (int i = 0; i < MANY; i++)
		fds[i] = open("/proc/version", O_RDONLY);
	assert_int_equal(fstat(fds[0], &st), 0);
	assert_in_range(proc_descriptors(getpid(), st.st_ino, &proc), 50, 64);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
}

static void
handled(int number)
{
	(void)number;
}

static pid_t blocked_thread;
static atomic_bool leave;

/* A thread that takes no signals and is sent one. */
static void *
block_signals(void *stop)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	blocked_thread = gettid();
	pthread_kill(pthread_self(), SIGUSR1);
	must(write(*(int *)stop, "", 1) == 1);
	while (!leave)
		poll(NULL, 0, 1);
	return NULL;
}

TEST(test_signals_that_do_not_end)
{
	pthread_t thread;
	int ready[2];
	char byte;

	assert_int_equal(proc_fate_at_signal(getpid()), FATE_UNDISTURBED);
	assert_int_equal(proc_fate_at_signal(0), FATE_UNKNOWN);
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pthread_create(&thread, NULL, block_signals, &ready[1]), 0);
	must(read(ready[0], &byte, 1) == 1);
	assert_int_equal(proc_fate_at_signal(blocked_thread), FATE_UNDISTURBED);
	leave = true;
	pthread_join(thread, NULL);
	close(ready[0]);
	close(ready[1]);
}

/* A stopped process takes its signals only when it goes on, but SIGKILL. */
static enum mount_fate
fate_of_stopped(int number, void (*action)(int))
{
	enum mount_fate fate;
	pid_t child = fork();

	if (child == 0) {
		signal(number, action);
		raise(SIGSTOP);
		_exit(0);
	}
	must(waitpid(child, NULL, WUNTRACED) == child);
	must(kill(child, number) == 0);
	fate = proc_fate_at_signal(child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return fate;
}

TEST(test_signals_that_end)
{
	assert_int_equal(fate_of_stopped(SIGQUIT, SIG_DFL), FATE_KILLED);
	assert_int_equal(fate_of_stopped(SIGTERM, SIG_DFL), FATE_KILLED);
	assert_int_equal(fate_of_stopped(SIGTERM, handled), FATE_ALIVE);
	assert_int_equal(fate_of_stopped(SIGWINCH, handled), FATE_ALIVE);
	assert_int_equal(fate_of_stopped(SIGQUIT, SIG_IGN), FATE_UNDISTURBED);
	assert_int_equal(fate_of_stopped(SIGWINCH, SIG_DFL), FATE_UNDISTURBED);
	assert_int_equal(fate_of_stopped(SIGTSTP, SIG_DFL), FATE_UNDISTURBED);
}

/* ---- system calls ---- */

static struct stat result;

static void
fstat_it(void)
{
	fstat(0, &result);
}

static void
stat_it(void)
{
	must(stat("/", &result) == 0);
}

static void
statx_it(void)
{
	struct statx x;

	statx(0, "", AT_EMPTY_PATH, STATX_ALL, &x);
}

/* The flag allows an empty path, and here the path is none. */
static void
fstatat_it(void)
{
	must(fstatat(0, "/", &result, AT_EMPTY_PATH) == 0);
}

static void
fstatat_here(void)
{
	must(fstatat(AT_FDCWD, "", &result, AT_EMPTY_PATH) == 0);
}

/* In a process that stands at the beginning of the call. */
static bool
by_descriptor(void (*call)(void))
{
	pid_t child = fork();
	bool is;

	if (child == 0) {
		must(ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0);
		kill(getpid(), SIGSTOP);
		call();
		_exit(0);
	}
	must(waitpid(child, NULL, 0) == child);
	must(ptrace(PTRACE_SYSCALL, child, NULL, NULL) == 0);
	must(waitpid(child, NULL, 0) == child);
	is = proc_by_descriptor(child);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	return is;
}

TEST(test_calls_by_a_descriptor)
{
	assert_true(by_descriptor(fstat_it));
	assert_true(by_descriptor(statx_it));
	assert_false(by_descriptor(stat_it));
	assert_false(by_descriptor(fstatat_it));
	assert_false(by_descriptor(fstatat_here));
	assert_false(proc_by_descriptor(getpid()));
	assert_false(proc_by_descriptor(0));
}

int
main(void)
{
	must(mountinfo_at("/proc", &proc));
	return unit_run(NULL, NULL);
}
