/* What /proc tells of a caller. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "fs/fuse/proc.h"

enum { MANY = 200 };

static struct mountinfo devices;
static struct pidfds known;

/* In another process: `extra` descriptors, then one on /dev/null, as these flags say; -1: none. */
static bool
is_seen(int extra, int flags)
{
	int ready[2];
	struct stat st;
	bool seen;
	pid_t child;
	char byte;

	must(pipe(ready) == 0 && stat("/dev/null", &st) == 0);
	child = fork();
	if (child == 0) {
		for (int fd = 0; fd < 3; fd++)
			must(dup2(ready[1], fd) == fd);
		for (int i = 0; i < extra; i++)
			must(dup(ready[1]) >= 0);
		if (flags >= 0)
			must(open("/dev/null", flags) >= 0);
		must(write(ready[1], "", 1) == 1);
		for (;;)
			pause();
	}
	must(read(ready[0], &byte, 1) == 1);
	seen = proc_has_descriptor(child, st.st_ino, 0, &devices);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(ready[0]);
	close(ready[1]);
	return seen;
}

TEST(test_descriptors)
{
	assert_true(is_seen(0, O_WRONLY));
	assert_true(is_seen(20, O_RDWR));
	assert_false(is_seen(0, O_RDONLY));
	assert_false(is_seen(0, -1));
	assert_false(is_seen(MANY, O_WRONLY)); /* not within its time */
	assert_false(proc_has_descriptor(0, 1, 1, &devices));
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

/* A zombie is what a process is while it closes its files: without memory. */
static enum mount_fate
fate_of_ended(int number, bool told)
{
	enum mount_fate fate;
	siginfo_t end;
	pid_t child = fork();

	if (child == 0) {
		prctl(PR_SET_DUMPABLE, 0); /* no core file */
		if (number && !told)
			kill(getpid(), number); /* one of a thread is gone once that is a zombie */
		while (told)
			pause();
		_exit(0);
	}
	if (told)
		must(kill(child, number) == 0);
	must(waitid(P_PID, (id_t)child, &end, WEXITED | WNOWAIT) == 0);
	fate = proc_fate(&known, child);
	waitpid(child, NULL, 0);
	return fate;
}

/* A descriptor that is kept is that of the thread, not of its number. */
TEST(test_memory)
{
	enum pidfd_memory memory = pidfds_memory(&known, getpid());
	struct pidfds one = {0};
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	assert_int_equal(pidfds_memory(&one, 0), PIDFD_UNKNOWN);
	assert_int_equal(pidfds_memory(&one, child), memory);
	kill(child, SIGKILL);
	must(waitid(P_PID, (id_t)child, &(siginfo_t){0}, WEXITED | WNOWAIT) == 0);
	assert_int_equal(pidfds_memory(&one, child), memory ? PIDFD_HAS_NONE : PIDFD_UNKNOWN);
	waitpid(child, NULL, 0);
	assert_int_equal(pidfds_memory(&one, child), PIDFD_UNKNOWN);
	pidfds_fini(&one);
}

TEST(test_the_fate_of_those_that_close)
{
	assert_int_equal(proc_fate(&known, getpid()), FATE_ALIVE);
	assert_int_equal(proc_fate(&known, 0), FATE_UNKNOWN);
	assert_int_equal(fate_of_ended(0, false), FATE_EXITING);
	assert_int_equal(fate_of_ended(SIGKILL, true), FATE_KILLED);
	assert_int_equal(fate_of_ended(SIGINT, true), FATE_KILLED);
	assert_int_equal(fate_of_ended(SIGTERM, false), FATE_KILLED);
	assert_int_equal(fate_of_ended(SIGABRT, false), FATE_EXITING); /* it cannot be told */
}

/* Threads that exit together: the last one has a SIGKILL of its own, by its process. */
TEST(test_the_signals_of_those_that_close)
{
	assert_false(proc_was_killed("\nSigPnd:\t0100\nShdPnd:\t0\nSigBlk:\t0"));
	assert_true(proc_was_killed("\nSigPnd:\t0100\nShdPnd:\t0100\nSigBlk:\t0"));
	assert_true(proc_was_killed("\nSigPnd:\t0\nShdPnd:\t0100\nSigBlk:\t0"));
	assert_true(proc_was_killed("\nSigPnd:\t4000\nShdPnd:\t0\nSigBlk:\t0"));
	assert_false(proc_was_killed("\nSigPnd:\t0\nShdPnd:\t4000\nSigBlk:\t4000"));
}

/* ---- threads ---- */

static void *
find_process(void *found)
{
	*(pid_t *)found = proc_of_thread(&known, gettid());
	return NULL;
}

TEST(test_the_process_of_a_thread)
{
	pthread_t thread;
	pid_t found = 0;

	assert_int_equal(proc_of_thread(&known, getpid()), getpid());
	assert_int_equal(proc_of_thread(&known, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, find_process, &found), 0);
	pthread_join(thread, NULL);
	assert_int_equal(found, getpid());
	found = pidfds_process(&known, getpid());
	assert_true(found == getpid() ||
	            (found == 0 && pidfds_memory(&known, getpid()) == PIDFD_UNKNOWN));
	assert_int_equal(pidfds_process(&known, 0), 0);
}

int
main(void)
{
	int failed;

	must(mountinfo_at("/dev", &devices));
	failed = unit_run(NULL, NULL);
	pidfds_fini(&known);
	return failed;
}
