/* top: shows replicas, sessions and locks of a cell, again and again. */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include "cell/view/output.h"
#include "ctl/cell.h"
#include "ctl/cell_status.h"

/* The sessions of the cell. NULL: it runs in one process, there is no key to ask it with, or it
 * can't be asked, after an error message. */
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

/* The lists are not asked for when the state is not known: each would wait for the cell. */
static bool
show(const struct ctl *ctl, const char *path)
{
	json_t *status = cell_status(ctl, path, false), *all = json_object();
	bool good = status && cell_status_is_good(status);
	json_t *sessions = good ? sessions_of(ctl, path) : NULL;
	json_t *locks = good ? lock_list(ctl, path) : NULL;

	json_object_set_new(all, "status", status ? status : json_null());
	json_object_set_new(all, "sessions", sessions ? sessions : json_null());
	json_object_set_new(all, "locks", locks ? locks : json_null());
	if (ctl->json) {
		json_text_print_line(all);
	} else {
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
	fflush(stdout);
	json_decref(all);
	return good;
}

/* ---- the command ---- */

static double pause_s = 1;
static uint64_t count; /* 0: without an end */

static int
run(const struct ctl *ctl, char **argv)
{
	bool good = show(ctl, argv[0]);

	for (uint64_t n = 1; n != count && !ferror(stdout); n++) {
		struct timespec left = {.tv_sec = (time_t)pause_s};

		left.tv_nsec = (long)((pause_s - (double)left.tv_sec) * 1e9);
		while (nanosleep(&left, &left) < 0 && errno == EINTR)
			;
		good = show(ctl, argv[0]);
	}
	return good ? CTL_OK : CTL_FAILED;
}

static const struct ctl_option options[] = {
    {"delay", 'd', "SECONDS", &pause_s, .least = 0.1, .most = 3600},
    {"count", 'n', "COUNT", &count, ctl_take_count, .wrong = "not a number"},
    {0},
};

const struct ctl_command top_command = {
    "top",
    "shows replicas, sessions and locks of a cell every second",
    {{.words = {"[PATH]"}, .run = run}},
    options,
};
