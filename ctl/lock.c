/* lock: runs a command under a node's lock. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/io/clock.h"
#include "cell/io/log.h"
#include "ctl/ctl.h"
#include "ctl/child.h"

enum { OPT_LOCK_DELAY = 256, RETRY_FIRST_MS = 10, RETRY_LONGEST_MS = 200 };

struct lock {
	const char *path;
	char **command;
	bool shared;
	double wait_s;     /* 0: not at all; negative: for ever */
	int busy_code;     /* exit code when it was not acquired */
	const char *delay; /* seconds, or NULL */
	int fd;
	bool directory; /* locked by attribute, too: the kernel keeps flock on it to this machine */
};

/* ---- opening ---- */

static bool
open_node(struct lock *l)
{
	struct stat st;

	l->fd = open(l->path, O_RDONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
	if (l->fd < 0 && errno == EISDIR)
		l->fd = open(l->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->fd < 0 || fstat(l->fd, &st) < 0) {
		log_error("%s: %s", l->path, strerror(errno));
		return false;
	}
	l->directory = S_ISDIR(st.st_mode);
	/* The command inherits the descriptor, as with flock(1): if we are killed, the lock lasts
	 * as long as the command. When it ends we unlock, whoever else has the descriptor. */
	fcntl(l->fd, F_SETFD, 0);
	if (fgetxattr(l->fd, "user.ls.lock_generation", NULL, 0) < 0) {
		log_error("%s: not on a mounted cell", l->path);
		return false;
	}
	return true;
}

static bool
set_delay(const struct lock *l)
{
	if (!l->delay ||
	    fsetxattr(l->fd, "user.ls.lock_delay", l->delay, strlen(l->delay), 0) == 0)
		return true;
	log_error("%s: cannot set the lock-delay: %s", l->path, strerror(errno));
	return false;
}

/* ---- acquiring; 0, EAGAIN when it was busy all the time, or another errno ---- */

static void
on_alarm(int number)
{
	(void)number;
}

/* The alarm comes again and again: one that came just before flock() slept is not the last. */
static void
start_alarm(double seconds)
{
	struct sigaction action = {.sa_handler =
	                               on_alarm}; /* no SA_RESTART: flock ends with EINTR */
	struct itimerval timer = {
		.it_interval = {.tv_usec = 50000},
		.it_value = {.tv_sec = (time_t)seconds,
		             .tv_usec = (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)},
	};

	if (timer.it_value.tv_sec == 0 && timer.it_value.tv_usec == 0)
		timer.it_value.tv_usec = 1;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void
stop_alarm(void)
{
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	signal(SIGALRM, SIG_DFL);
}

static int
acquire_by_flock(const struct lock *l)
{
	int how = (l->shared ? LOCK_SH : LOCK_EX) | (l->wait_s == 0 ? LOCK_NB : 0);
	int error;

	if (l->wait_s > 0)
		start_alarm(l->wait_s);
	error = flock(l->fd, how) < 0 ? errno : 0;
	if (l->wait_s > 0)
		stop_alarm();
	return error == EINTR && l->wait_s > 0 ? EAGAIN : error;
}

/* The attribute's lock is the user's, so flock has kept this user's other commands out before; this
 * keeps out everybody else. TryAcquire is all that it offers: try, wait a little longer each time,
 * try again. */
static int
acquire_by_attribute(const struct lock *l)
{
	const char *mode = l->shared ? "shared" : "exclusive";
	mono_t deadline = l->wait_s < 0
	                      ? MONO_NEVER
	                      : mono_add(clock_now(), (span_t){(int64_t)(l->wait_s * 1e9)});
	int pause_ms = RETRY_FIRST_MS;

	while (fsetxattr(l->fd, "user.ls.lock", mode, strlen(mode), 0) < 0) {
		if (errno != EBUSY)
			return errno;
		if (mono_reached(clock_now(), deadline))
			return EAGAIN;
		usleep((useconds_t)pause_ms * 1000);
		pause_ms = pause_ms * 2 < RETRY_LONGEST_MS ? pause_ms * 2 : RETRY_LONGEST_MS;
	}
	return 0;
}

static int
release(const struct lock *l)
{
	if (l->directory && fremovexattr(l->fd, "user.ls.lock") < 0)
		return errno;
	return flock(l->fd, LOCK_UN) < 0 ? errno : 0;
}

/* ---- running the command under it ---- */

static bool
export_attribute(const struct lock *l, const char *attribute, const char *variable)
{
	char value[LIMIT_SEQUENCER + 1];
	ssize_t n = fgetxattr(l->fd, attribute, value, sizeof value - 1);

	if (n < 0) {
		log_error("%s: cannot read %s: %s", l->path, attribute, strerror(errno));
		return false;
	}
	value[n] = '\0';
	return setenv(variable, value, 1) == 0;
}

static int
run_under(const struct lock *l)
{
	int code = CTL_FAILED, error;

	if (export_attribute(l, "user.ls.sequencer", "LS_SEQUENCER") &&
	    export_attribute(l, "user.ls.fence", "LS_FENCE"))
		code = child_run(l->command);
	error = release(l);
	if (error)
		log_error("%s: the lock was lost: %s", l->path, strerror(error));
	return code;
}

static int
lock(struct lock *l)
{
	int error;

	if (!open_node(l) || !set_delay(l))
		return CTL_FAILED;
	error = acquire_by_flock(l);
	if (error == 0 && l->directory)
		error = acquire_by_attribute(l);
	if (error == 0)
		return run_under(l);
	if (error != EAGAIN) {
		log_error("%s: cannot lock: %s", l->path, strerror(error));
		return CTL_FAILED;
	}
	return l->busy_code;
}

/* ---- the command ---- */

static bool
number(const char *what, const char *text, double max, double *to)
{
	char *end;

	errno = 0;
	*to = strtod(text, &end);
	if (!errno && end != text && !*end && *to >= 0 && *to <= max)
		return true;
	ctl_usage(&lock_command, what, "not a number in range");
	return false;
}

static bool
one_option(struct ctl *ctl, struct lock *l, int letter)
{
	double v;

	switch (letter) {
	case 's':
		l->shared = true;
		return true;
	case 'n':
		l->wait_s = 0;
		return true;
	case 'w':
		return number("-w", optarg, 1e9, &l->wait_s);
	case 'E':
		if (!number("-E", optarg, 255, &v))
			return false;
		l->busy_code = (int)v;
		return true;
	case OPT_LOCK_DELAY:
		l->delay = optarg;
		return number("--lock-delay", optarg, LIMIT_LOCK_DELAY_S, &v);
	default:
		return ctl_option(ctl, letter);
	}
}

static bool
scan(struct ctl *ctl, struct lock *l, int argc, char **argv)
{
	static const struct option longs[] = {
		{"shared", no_argument, NULL, 's'},
		{"nonblock", no_argument, NULL, 'n'},
		{"wait", required_argument, NULL, 'w'},
		{"conflict-exit-code", required_argument, NULL, 'E'},
		{"lock-delay", required_argument, NULL, OPT_LOCK_DELAY},
		CTL_LONG_OPTIONS,
	};
	int letter;

	while ((letter = getopt_long(argc, argv, "+hsnw:E:", longs, NULL)) != -1)
		if (!one_option(ctl, l, letter))
			return false;
	return true;
}

/* Options may stand before and behind PATH; behind "--" or at the first other word the command
 * begins, and its options are its own. */
static int
run(struct ctl *ctl, int argc, char **argv)
{
	struct lock l = {.wait_s = -1, .busy_code = CTL_FAILED};

	if (!scan(ctl, &l, argc, argv))
		return CTL_USAGE;
	if (ctl->help)
		return CTL_OK;
	if (optind < argc)
		l.path = argv[optind++];
	if (!l.path)
		return ctl_usage(&lock_command, "PATH", "needed");
	if (!scan(ctl, &l, argc, argv))
		return CTL_USAGE;
	if (optind >= argc)
		return ctl_usage(&lock_command, "COMMAND", "needed");
	l.command = argv + optind;
	return lock(&l);
}

const struct ctl_command lock_command = {
    "lock",
    "[-s] [-n|-w SECONDS] [-E CODE] [--lock-delay SECONDS] PATH -- COMMAND...",
    "runs COMMAND under the lock of PATH, with LS_SEQUENCER and LS_FENCE; exits with its status",
    run,
};
