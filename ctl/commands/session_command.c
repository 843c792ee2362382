/* session: lists the sessions of a cell, or ends one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ctl/session_list.h"

enum { OPT_KEEP_DELAY = 256 };

static int
list(const struct ctl *ctl, const struct cell_admin *o)
{
	json_t *sessions = session_list(o);

	if (!sessions)
		return CTL_FAILED;
	if (ctl->json) {
		json_dumpf(sessions, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		session_list_print(sessions);
	}
	json_decref(sessions);
	return CTL_OK;
}

static int
destroy(const struct cell_admin *o, uint64_t id, bool keep_delay)
{
	const struct msg_operate what = {
	    .what = OPERATION_DESTROY_SESSION,
	    .id = id,
	    .keep_delay = keep_delay,
	};

	return cell_admin_send(o, &what, NULL) == CELL_ADMIN_DONE ? CTL_OK : CTL_FAILED;
}

static int
usage(const char *what, const char *why)
{
	return ctl_usage(&session_command, what, why);
}

static int
check(int argc, char **argv, bool keep_delay, uint64_t *id)
{
	const bool is_destroy = argc > 0 && strcmp(argv[0], "destroy") == 0;

	if (argc == 0)
		return usage("list or destroy", "needed");
	if (!is_destroy && strcmp(argv[0], "list") != 0)
		return usage(argv[0], "neither list nor destroy");
	if (is_destroy && argc < 2)
		return usage("ID", "needed");
	if (argc > 1 + is_destroy)
		return usage(argv[1 + is_destroy], "unexpected argument");
	if (!is_destroy && keep_delay)
		return usage("--keep-delay", "only for destroy");
	if (is_destroy && (*id = cell_admin_number(argv[1], UINT64_MAX)) == 0)
		return usage(argv[1], "not a session's id");
	return 0;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"keep-delay", no_argument, NULL, OPT_KEEP_DELAY},
	    CTL_LONG_OPTIONS,
	};
	bool keep_delay = false;
	struct cell_admin o;
	uint64_t id = 0;
	int letter, rc;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_KEEP_DELAY)
			keep_delay = true;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	rc = check(argc - optind, argv + optind, keep_delay, &id);
	if (rc != 0)
		return rc;
	rc = CTL_FAILED;
	if (cell_admin_begin(ctl, &o))
		rc = id == 0 ? list(ctl, &o) : destroy(&o, id, keep_delay);
	cell_admin_end(&o);
	return rc;
}

const struct ctl_command session_command = {
    "session",
    "list | destroy ID [--keep-delay]",
    "lists the sessions of a cell; ends one and frees its locks",
    .run = run,
};
