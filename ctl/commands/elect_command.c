/* elect: primary election (Chubby, section 2.4). The process that gets the lock of a file writes
 * its own name into it for all others to read, and holds the lock as long as it is the primary. */
#include <string.h>
#include "ctl/ctl.h"
#include "ctl/lock_options.h"
#include "ctl/supervisor.h"

static int
usage(const char *what, const char *why)
{
	return ctl_usage(&elect_command, what, why);
}

static bool
is_end_of_options(const char *word)
{
	return strcmp(word, "--") == 0;
}

/* COMMAND begins behind "--", for its first word could not be told from VALUE. getopt has passed
 * over a "--" that follows PATH. */
static int
run(struct ctl *ctl, int argc, char **argv)
{
	struct lock_options l = {.elects = true};

	if (!lock_options_scan(ctl, &elect_command, &l, argc, argv))
		return ctl->help ? CTL_OK : CTL_USAGE;
	if (l.shared)
		return usage("-s", "there is one primary");
	if (!is_end_of_options(argv[optind - 1])) {
		if (optind < argc)
			l.value = argv[optind++];
		if (optind >= argc || !is_end_of_options(argv[optind++]))
			return usage("-- COMMAND", "needed");
	}
	if (optind >= argc)
		return usage("COMMAND", "needed");
	l.command = argv + optind;
	return supervisor_run(&l);
}

const struct ctl_command elect_command = {
    "elect",
    LOCK_OPTIONS_USAGE " PATH [VALUE] -- COMMAND...",
    "as lock, and writes VALUE (default: HOST:PID) into the file before COMMAND runs",
    .run = run,
};
