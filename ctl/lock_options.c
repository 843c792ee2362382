#include "ctl/lock_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/limit.h"
#include "ctl/ctl.h"

enum { OPT_LOCK_DELAY = 256, OPT_JEOPARDY };

static bool
number(const struct ctl_command *command, const char *what, const char *text, double max,
       double *to)
{
	char *end;

	errno = 0;
	*to = strtod(text, &end);
	if (!errno && end != text && !*end && *to >= 0 && *to <= max)
		return true;
	ctl_usage(command, what, "not a number in range");
	return false;
}

static bool
jeopardy(const struct ctl_command *command, const char *text, bool *freeze)
{
	*freeze = strcmp(text, "freeze") == 0;
	if (*freeze || strcmp(text, "ignore") == 0)
		return true;
	ctl_usage(command, "--jeopardy", "neither freeze nor ignore");
	return false;
}

static bool
one_option(struct ctl *ctl, const struct ctl_command *command, struct lock_options *l, int letter)
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
		return number(command, "-w", optarg, 1e9, &l->wait_s);
	case 'E':
		if (!number(command, "-E", optarg, 255, &v))
			return false;
		l->busy_code = (int)v;
		return true;
	case OPT_LOCK_DELAY:
		l->delay = optarg;
		return number(command, "--lock-delay", optarg, LIMIT_LOCK_DELAY_S, &v);
	case OPT_JEOPARDY:
		return jeopardy(command, optarg, &l->freeze);
	default:
		return ctl_option(ctl, letter);
	}
}

static bool
scan(struct ctl *ctl, const struct ctl_command *command, struct lock_options *l, int argc,
     char **argv)
{
	static const struct option longs[] = {
	    {"shared", no_argument, NULL, 's'},
	    {"nonblock", no_argument, NULL, 'n'},
	    {"wait", required_argument, NULL, 'w'},
	    {"conflict-exit-code", required_argument, NULL, 'E'},
	    {"lock-delay", required_argument, NULL, OPT_LOCK_DELAY},
	    {"jeopardy", required_argument, NULL, OPT_JEOPARDY},
	    CTL_LONG_OPTIONS,
	};
	int letter;

	while ((letter = getopt_long(argc, argv, "+hsnw:E:", longs, NULL)) != -1)
		if (!one_option(ctl, command, l, letter))
			return false;
	return true;
}

bool
lock_options_scan(struct ctl *ctl, const struct ctl_command *command, struct lock_options *l,
                  int argc, char **argv)
{
	l->wait_s = -1;
	l->busy_code = CTL_FAILED;
	l->freeze = true;
	if (!scan(ctl, command, l, argc, argv) || ctl->help)
		return false;
	if (optind < argc)
		l->path = argv[optind++];
	else
		ctl_usage(command, "PATH", "needed");
	return l->path && scan(ctl, command, l, argc, argv) && !ctl->help;
}
