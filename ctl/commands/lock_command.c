/* lock: runs a command under a node's lock. */
#include "ctl/lock_options.h"

#include <errno.h>
#include <stdlib.h>
#include "cell/base/limit.h"
#include "ctl/ctl.h"
#include "ctl/supervisor.h"

enum { OPT_LOCK_DELAY = 256 };

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
one_option(struct ctl *ctl, struct lock_options *l, int letter)
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
scan(struct ctl *ctl, struct lock_options *l, int argc, char **argv)
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

/* Options of `lock` may come before and after PATH. The command begins after "--" or with the first
 * word behind PATH that is no option; from there on options are the command's. */
static int
run(struct ctl *ctl, int argc, char **argv)
{
	struct lock_options l = {.wait_s = -1, .busy_code = CTL_FAILED};

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
	return supervisor_run(&l);
}

const struct ctl_command lock_command = {
    "lock",
    "[-s] [-n|-w SECONDS] [-E CODE] [--lock-delay SECONDS] PATH -- COMMAND...",
    "runs COMMAND under the lock of PATH; exits with its status, or 75 when the lock was lost",
    run,
};
