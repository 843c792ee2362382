/* top: shows replicas, sessions and locks of a cell, again and again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "ctl/cell.h"
#include "ctl/cell_status.h"
#include "ctl/lock_list.h"
#include "ctl/session_list.h"

struct top {
	double pause_s;
	unsigned long count; /* 0: for ever */
	const char *path;
};

/* NULL where there is no list: of a cell in one process, without a key, or after an error
 * message. */
static json_t *
sessions_of(const struct ctl *ctl, const char *path)
{
	static struct run_record mount;
	static struct cell_file cell_file;
	struct ctl named = *ctl;
	char of_mount[PATH_MAX], file[PATH_MAX];
	struct cell_admin o;
	json_t *sessions = NULL;

	if (path && place_find_mount(path, NULL, &mount)) {
		cell_file_of_mount(&mount, of_mount);
		named.cell = of_mount;
	}
	if (!cell_find(&named, file, &cell_file) || cell_file_is_standalone(&cell_file) ||
	    !cell_has_key(&named, file))
		return NULL;
	if (cell_admin_begin(&named, &o))
		sessions = session_list(&o);
	cell_admin_end(&o);
	return sessions;
}

static void
print_json(json_t *status, json_t *sessions, json_t *locks)
{
	json_t *all = json_object();

	json_object_set(all, "status", status ? status : json_null());
	json_object_set(all, "sessions", sessions ? sessions : json_null());
	json_object_set(all, "locks", locks ? locks : json_null());
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(all);
}

static void
print_text(json_t *status, json_t *sessions, json_t *locks)
{
	if (isatty(STDOUT_FILENO))
		fputs("\033[H\033[J", stdout); /* an empty screen */
	if (status)
		cell_status_print(status);
	if (sessions) {
		putchar('\n');
		session_list_print(sessions);
	}
	if (locks) {
		putchar('\n');
		lock_list_print(locks);
	}
}

/* The lists are not asked for when the state is not known: each would wait for the cell. */
static bool
show(const struct ctl *ctl, const char *path)
{
	json_t *status = cell_status(ctl, path);
	bool good = status && cell_status_is_good(status);
	json_t *sessions = good ? sessions_of(ctl, path) : NULL;
	json_t *locks = good ? lock_list(ctl, path) : NULL;

	if (ctl->json)
		print_json(status, sessions, locks);
	else
		print_text(status, sessions, locks);
	fflush(stdout);
	json_decref(status);
	json_decref(sessions);
	json_decref(locks);
	return good;
}

static void
pause_for(double seconds)
{
	struct timespec left = {.tv_sec = (time_t)seconds};

	left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
	while (nanosleep(&left, &left) < 0 && errno == EINTR)
		;
}

static int
top(const struct ctl *ctl, const struct top *t)
{
	bool good = show(ctl, t->path);

	for (unsigned long n = 1; n != t->count && !ferror(stdout); n++) {
		pause_for(t->pause_s);
		good = show(ctl, t->path);
	}
	return good ? CTL_OK : CTL_FAILED;
}

static bool
pause_option(struct top *t)
{
	char *end;

	t->pause_s = strtod(optarg, &end);
	return *optarg != '\0' && *end == '\0' && t->pause_s >= 0.1 && t->pause_s <= 3600;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"delay", required_argument, NULL, 'd'},
	    {"count", required_argument, NULL, 'n'},
	    CTL_LONG_OPTIONS,
	};
	struct top t = {.pause_s = 1};
	int letter;

	while ((letter = getopt_long(argc, argv, "hd:n:", longs, NULL)) != -1) {
		if (letter == 'd' && !pause_option(&t))
			return ctl_usage(&top_command, optarg, "not a number of seconds");
		if (letter == 'n' && (t.count = cell_admin_number(optarg, 1000000000)) == 0)
			return ctl_usage(&top_command, optarg, "not a number");
		if (letter != 'd' && letter != 'n' && !ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	if (argc - optind > 1)
		return ctl_usage(&top_command, argv[optind + 1], "unexpected argument");
	t.path = argv[optind];
	return top(ctl, &t);
}

const struct ctl_command top_command = {
    "top",
    "[-d SECONDS] [-n COUNT] [--cell FILE|NAME] [--json] [PATH]",
    "shows replicas, sessions and locks of a cell every second",
    .run = run,
};
