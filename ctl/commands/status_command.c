/* status: shows the state of a cell, how near its limits are, or a verdict for a monitor. */
#include <stdio.h>
#include "ctl/cell_status.h"
#include "ctl/limits.h"
#include "ctl/lock_list.h"
#include "ctl/verdict.h"

enum show { SHOW_STATE, SHOW_LIMITS, SHOW_VERDICT };

static void
print_json(const json_t *what)
{
	json_dumpf(what, stdout, JSON_INDENT(2));
	putchar('\n');
}

static int
show_state(const struct ctl *ctl, json_t *status)
{
	if (ctl->json)
		print_json(status);
	else
		cell_status_print(status);
	return cell_status_is_good(status) ? CTL_OK : CTL_FAILED;
}

/* The locks are not asked for without a master, because that would wait for one. */
static int
show_limits(const struct ctl *ctl, const char *path, const json_t *status)
{
	json_t *limits = json_object_get(status, "limits");
	const bool good = cell_status_is_good(status);
	json_t *locks = good ? lock_list(ctl, path) : NULL;

	if (locks != NULL)
		limits_add_locks(limits, locks);
	if (ctl->json)
		print_json(limits);
	else
		limits_print(limits);
	json_decref(locks);
	return good && locks == NULL ? CTL_FAILED : CTL_OK;
}

static int
show_verdict(const struct ctl *ctl, const json_t *status)
{
	json_t *reasons = json_array(), *all = json_object(), *reason;
	const enum verdict verdict = status ? verdict_of(status, reasons) : VERDICT_DOWN;
	size_t i;

	json_object_set_new(all, "verdict", json_string(verdict_name(verdict)));
	json_object_set(all, "reasons", reasons);
	if (ctl->json)
		print_json(all);
	else if (json_array_size(reasons) == 0)
		puts(verdict_name(verdict));
	else
		json_array_foreach(reasons, i, reason)
		    printf("%s: %s\n", verdict_name(verdict), json_string_value(reason));
	json_decref(reasons);
	json_decref(all);
	return (int)verdict;
}

static int
status(const struct ctl *ctl, const char *path, enum show what)
{
	json_t *all = cell_status(ctl, path);
	int code = CTL_FAILED;

	if (what == SHOW_VERDICT)
		code = show_verdict(ctl, all);
	else if (all != NULL && what == SHOW_LIMITS)
		code = show_limits(ctl, path, all);
	else if (all != NULL)
		code = show_state(ctl, all);
	json_decref(all);
	return code;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"check", no_argument, NULL, 'c'},
	    {"limits", no_argument, NULL, 'l'},
	    CTL_LONG_OPTIONS,
	};
	enum show what = SHOW_STATE;
	int letter;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter != 'c' && letter != 'l' && !ctl_option(ctl, letter))
			return CTL_USAGE;
		if ((letter == 'c' || letter == 'l') && what != SHOW_STATE)
			return ctl_usage(&status_command, "--check and --limits", "one of them");
		if (letter == 'c' || letter == 'l')
			what = letter == 'c' ? SHOW_VERDICT : SHOW_LIMITS;
	}
	if (ctl->help)
		return CTL_OK;
	if (argc - optind > 1)
		return ctl_usage(&status_command, argv[optind + 1], "unexpected argument");
	return status(ctl, argc > optind ? argv[optind] : NULL, what);
}

const struct ctl_command status_command = {
    "status",
    "[--check | --limits] [--cell FILE|NAME] [--json] [PATH]",
    "shows the state of a cell and its replicas; exit 1 if it has no master. --check: exit 0 good,"
    " 1 degraded, 2 down",
    .run = run,
};
