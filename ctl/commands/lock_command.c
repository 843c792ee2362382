/* lock: runs a command under a node's lock. */
#include "ctl/ctl.h"
#include "ctl/lock_options.h"
#include "ctl/supervisor.h"

/* The command begins after "--" or with the first word behind PATH that is no option; from there on
 * options are the command's. */
static int
run(struct ctl *ctl, int argc, char **argv)
{
	struct lock_options l = {0};

	if (!lock_options_scan(ctl, &lock_command, &l, argc, argv))
		return ctl->help ? CTL_OK : CTL_USAGE;
	if (optind >= argc)
		return ctl_usage(&lock_command, "COMMAND", "needed");
	l.command = argv + optind;
	return supervisor_run(&l);
}

const struct ctl_command lock_command = {
    "lock",
    LOCK_OPTIONS_USAGE " PATH -- COMMAND...",
    "runs COMMAND under the lock of PATH; exits with its status, or 75 when the lock was lost",
    .run = run,
};
