/* lock: runs a command under a node's lock. elect: primary election (Chubby, section 2.4): the
 * process that gets the lock of a file writes its own name into it for all others to read, and
 * holds the lock as long as it is the primary. once: runs a command once in a period over all
 * hosts; the time of the last run stands in the locked file. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/limit.h"
#include "ctl/ctl.h"
#include "ctl/supervisor.h"

static struct lock_options given = {.wait_s = -1, .busy_code = CTL_FAILED, .freeze = true};
static bool at_once;
static double busy_code = CTL_FAILED, slots;
static double check_every_s = 5, check_fails = 3;

static bool
take_delay(void *to, const char *text)
{
	char *end;
	const double seconds = strtod(text, &end);

	*(const char **)to = text;
	return end != text && *end == '\0' && seconds >= 0 && seconds <= LIMIT_LOCK_DELAY_S;
}

static bool
take_jeopardy(void *to, const char *text)
{
	*(bool *)to = strcmp(text, "freeze") == 0;
	return *(bool *)to || strcmp(text, "ignore") == 0;
}

static const struct ctl_option options[] = {
    {"shared", 's', .to = &given.shared},
    {"slots", 0, "N", &slots, .least = 1, .most = LIMIT_SLOTS},
    {"nonblock", 'n', .to = &at_once},
    {"wait", 'w', "SECONDS", &given.wait_s, .most = 1e9},
    {"conflict-exit-code", 'E', "CODE", &busy_code, .most = 255},
    {"lock-delay", 0, "SECONDS", &given.delay, take_delay, .wrong = "not a number from 0 to 60"},
    {"jeopardy", 0, "freeze|ignore", &given.freeze, take_jeopardy,
     .wrong = "neither freeze nor ignore"},
    {"check", 0, "SHELL-COMMAND", .to = &given.check},
    {"check-every", 0, "SPAN", &check_every_s, ctl_take_span,
     .wrong = "not a number with s, m, h, d or w"},
    {"check-fails", 0, "N", &check_fails, .least = 1, .most = 1000},
    {0},
};

static int
run(const struct ctl *ctl, int argc, char **argv)
{
	(void)argc;
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

static int
run_elect(const struct ctl *ctl, int argc, char **argv)
{
	if (given.shared || slots > 0)
		return ctl_usage(given.shared ? "-s" : "--slots", "there is one primary");
	given.elects = true;
	given.value = argv[1];
	return run(ctl, argc, argv);
}

/* ---- once ---- */

static double every_s;

static int
run_once(const struct ctl *ctl, int argc, char **argv)
{
	if (every_s < 1)
		return ctl_usage("--every", "a second at least");
	given.every_s = (int64_t)every_s;
	return run(ctl, argc, argv);
}

static const struct ctl_option once_options[] = {
    {"every", 0, "PERIOD", &every_s, ctl_take_span, .wrong = "not a number with s, m, h, d or w",
     .needed = true},
    {"nonblock", 'n', .to = &at_once},
    {"wait", 'w', "SECONDS", &given.wait_s, .most = 1e9},
    {"conflict-exit-code", 'E', "CODE", &busy_code, .most = 255},
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
    "as lock, and writes VALUE (default: HOST:PID) into the file before COMMAND runs",
    {{.words = {"PATH", "[VALUE]"}, .runs = true, .run = run_elect}},
    options,
};
