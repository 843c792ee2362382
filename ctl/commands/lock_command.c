/* lock: runs a command under a node's lock. elect: primary election (Chubby, section 2.4): the
 * process that gets the lock of a file writes its own name into it for all others to read, and
 * holds the lock as long as it is the primary. once: runs a command once in a period over all
 * hosts; the time of the last run stands in the locked file. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "ctl/ctl.h"
#include "ctl/supervisor.h"

static struct lock_options given = {.wait_s = -1, .busy_code = CTL_FAILED, .freeze = true};
static bool at_once;
static double busy_code = CTL_FAILED, slots;
static double check_every_s = 5, check_fails = 3;

static bool
take_delay(void *to, const char *text)
{
	*(const char **)to = text;
	return ctl_is_whole(text) && strtod(text, NULL) <= LIMIT_LOCK_DELAY_S;
}

static bool
take_jeopardy(void *to, const char *text)
{
	*(bool *)to = strcmp(text, "freeze") == 0;
	return *(bool *)to || strcmp(text, "ignore") == 0;
}

/* clang-format off */
#define LOCK_OPTIONS \
    {"nonblock", 'n', .to = &at_once}, \
    {"wait", 'w', "SECONDS", &given.wait_s, .most = 1e9}, \
    {"conflict-exit-code", 'E', "CODE", &busy_code, .most = 255, .whole = true}, \
    {"lock-delay", 0, "SECONDS", &given.delay, take_delay, \
     .wrong = "not a whole number from 0 to 60"}, \
    {"jeopardy", 0, "freeze|ignore", &given.freeze, take_jeopardy, \
     .wrong = "neither freeze nor ignore"}, \
    {"check", 0, "SHELL-COMMAND", .to = &given.check}, \
    {"check-every", 0, "SPAN", &check_every_s, ctl_take_span, \
     .wrong = "not a number with s, m, h, d or w"}, \
    {"check-fails", 0, "N", &check_fails, .least = 1, .most = 1000, .whole = true}
/* clang-format on */

static const struct ctl_option options[] = {
    {"shared", 's', .to = &given.shared},
    {"slots", 0, "N", &slots, .least = 1, .most = LIMIT_SLOTS, .whole = true},
    LOCK_OPTIONS,
    {0},
};

static int
run(const struct ctl *ctl, char **argv)
{
	if (check_every_s < 0.1)
		return ctl_usage("--check-every", "a tenth of a second at least");
	given.path = argv[0];
	given.command = ctl->command;
	given.busy_code = (int)busy_code;
	given.slots = (int)slots;
	given.check_every_s = check_every_s;
	given.check_fails = (int)check_fails;
	given.shared |= slots > 0;
	if (at_once)
		given.wait_s = 0;
	return supervisor_run(&given);
}

/* ---- who is the primary ---- */

enum {
	TRIES = 100, /* to read contents during which the lock did not change */
	ROOM = 32,   /* bytes of an attribute's value */
};

static bool
attribute(int fd, const char *name, char value[ROOM])
{
	const ssize_t n = fgetxattr(fd, name, value, ROOM - 1);

	value[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* Prints the contents if the lock is held, before and after they are read, and they were written
 * since: by the clock of the cell, which is that of both times. */
static int
show(int fd, const char *path)
{
	struct buffer contents = BUFFER(LIMIT_CONTENTS);
	char since[ROOM], after[ROOM];
	bool current = false;
	struct stat st;

	for (int tries = 0; tries < TRIES; tries++) {
		buffer_reset(&contents);
		if (!attribute(fd, "user.ls.lock_since", since) || fstat(fd, &st) < 0 ||
		    file_read(fd, LIMIT_CONTENTS, &contents) != 0)
			break;
		current = (st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec) >=
		              strtoll(since, NULL, 10) &&
		          contents.len > 0;
		if (attribute(fd, "user.ls.lock_since", after) && strcmp(since, after) == 0)
			break;
		current = false;
	}
	if (current)
		fwrite(contents.data, 1, contents.len, stdout);
	else
		log_warn("%s: there is no primary", path);
	buffer_free(&contents);
	return current ? CTL_OK : CTL_FAILED;
}

static int
run_show(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	char value[ROOM];
	int rc = CTL_FAILED;

	if (fd < 0)
		log_error("%s: %s", path, strerror(errno));
	else if (!attribute(fd, "user.ls.lock_generation", value))
		log_error("%s: not on a mounted cell", path);
	else
		rc = show(fd, path);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* ---- elect ---- */

static bool shows;

static const struct ctl_option elect_options[] = {
    {"show", 0, .to = &shows},
    {"clear", 0, .to = &given.clears},
    {"restart", 0, .to = &given.restarts},
    LOCK_OPTIONS,
    {0},
};

static int
run_elect(const struct ctl *ctl, char **argv)
{
	if (shows)
		return ctl->command[0] != NULL || argv[1] != NULL
		           ? ctl_usage("--show", "PATH alone is needed")
		           : run_show(argv[0]);
	given.elects = true;
	given.value = argv[1];
	return run(ctl, argv);
}

/* ---- once ---- */

static double every_s;

static int
run_once(const struct ctl *ctl, char **argv)
{
	if (every_s < 1)
		return ctl_usage("--every", "a second at least");
	given.every_s = (int64_t)every_s;
	return run(ctl, argv);
}

static const struct ctl_option once_options[] = {
    {"every", 0, "PERIOD", &every_s, ctl_take_span, .wrong = "not a number with s, m, h, d or w",
     .needed = true},
    {"nonblock", 'n', .to = &at_once},
    {"wait", 'w', "SECONDS", &given.wait_s, .most = 1e9},
    {"conflict-exit-code", 'E', "CODE", &busy_code, .most = 255, .whole = true},
    {"jeopardy", 0, "freeze|ignore", &given.freeze, take_jeopardy,
     .wrong = "neither freeze nor ignore"},
    {0},
};

const struct ctl_command once_command = {
    "once",
    "runs COMMAND once in a PERIOD, as 12h or 1d, over all hosts: PATH holds the time of the last"
    " run; exit 0 if it is not due",
    {{.words = {"PATH"}, .runs = true, .run = run_once}},
    once_options,
};

/* ---- lock and elect ---- */

const struct ctl_command lock_command = {
    "lock",
    "runs COMMAND under the lock of PATH; exits with its status, or 75 when the lock was lost, or"
    " 76 when it was given up because --check failed",
    {{.words = {"PATH"}, .runs = true, .run = run}},
    options,
};

const struct ctl_command elect_command = {
    "elect",
    "as lock, and writes VALUE (default: HOST:PID) into the file before COMMAND runs; with --show,"
    " prints that of the primary there is: exit 1 if there is none",
    {{.words = {"PATH", "[VALUE]"}, .runs = true, .alone = &shows, .run = run_elect}},
    elect_options,
};
