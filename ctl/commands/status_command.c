/* status: shows the state of a cell. */
#include <stdio.h>
#include "ctl/cell_status.h"

static int
status(const struct ctl *ctl, const char *path)
{
	json_t *all = cell_status(ctl, path);
	int code;

	if (!all)
		return CTL_FAILED;
	if (ctl->json) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		cell_status_print(all);
	}
	code = cell_status_is_good(all) ? CTL_OK : CTL_FAILED;
	json_decref(all);
	return code;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	if (!ctl_scan(ctl, argc, argv))
		return CTL_USAGE;
	if (ctl->help)
		return CTL_OK;
	if (argc - optind > 1)
		return ctl_usage(&status_command, argv[optind + 1], "unexpected argument");
	return status(ctl, argc > optind ? argv[optind] : NULL);
}

const struct ctl_command status_command = {
    "status",
    "[--cell FILE|NAME] [--json] [PATH]",
    "shows the state of a cell and its replicas; exit 1 if it has no master",
    run,
};
