/* locks: shows every lock that is held, awaited or delayed. A mount is asked, or the master. */
#include <stdio.h>
#include "ctl/lock_list.h"

static int
run(struct ctl *ctl, int argc, char **argv)
{
	json_t *locks;

	if (argc > 1)
		return ctl_usage(&locks_command, argv[1], "unexpected argument");
	locks = lock_list(ctl, argv[0]);
	if (!locks)
		return CTL_FAILED;
	if (ctl->json) {
		json_dumpf(locks, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		lock_list_print(locks);
	}
	json_decref(locks);
	return CTL_OK;
}

const struct ctl_command locks_command = {
    "locks",
    "[--cell FILE|NAME] [--json] [PATH]",
    "shows every lock that is held, awaited or delayed, and by whom",
    .run_plain = run,
};
