/* restore: makes a new cell from a backup or from the data directory of a stopped replica. */
#include "cell/store/salvage.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/view/output.h"
#include "ctl/cell.h"

/* The state is made in this directory below the new cell's, so that the disk has space for it. */
#define WORK "restore.unfinished"

struct restoring {
	const char *source, *directory;
	struct addresses replicas;
	struct cell_file cell_file;
	struct restoration restored;
	char work[PATH_MAX];
};

/* ---- the directory ---- */

static bool
fail(const char *path, int error)
{
	return log_error("%s: %s", path, strerror(error));
}

/* Only an empty directory is used: any other may hold another replica's data, or unrelated
 * files. */
static bool
check_empty(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	bool ok = true;

	if (d == NULL)
		return fail(directory, errno);
	while (ok && (e = readdir(d)) != NULL)
		ok = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		     strcmp(e->d_name, WORK) == 0 || strcmp(e->d_name, "lost+found") == 0;
	if (!ok)
		log_error("%s: not empty: %s", directory, e->d_name);
	closedir(d);
	return ok;
}

/* Removes the files that an earlier attempt has left, then makes the working directory. */
static bool
make_work(struct restoring *r)
{
	int rc;

	if (r->replicas.n == 0 && !check_empty(r->directory))
		return false;
	rc = salvage_clean(r->work);
	if (rc < 0 && rc != -ENOENT)
		return fail(r->work, -rc);
	return mkdir(r->work, 0700) == 0 || fail(r->work, errno);
}

/* ---- restoring ---- */

static int
place(void *user, const char *path)
{
	return salvage_place(((struct restoring *)user)->work, path);
}

static bool
restore_in_work(struct restoring *r)
{
	const struct cell_state state = {place, r};
	char why[1024];

	if (!restoration_prepare(r->source, r->work, &r->restored, why, sizeof why))
		return log_error("%s", why);
	snprintf(r->cell_file.name, sizeof r->cell_file.name, "%s", r->restored.cell);
	addresses_to_cell_file(&r->replicas, &r->cell_file);
	return cell_make(r->directory, &r->cell_file, &state);
}

static bool
restore_in_directory(struct restoring *r)
{
	const int rc = file_make_directory(r->directory, r->replicas.n == 0 ? 0700 : 0755);
	int lock;
	bool ok;

	if (rc < 0 && rc != -EEXIST)
		return fail(r->directory, -rc);
	lock = place_lock(r->directory);
	ok = lock >= 0 && make_work(r) && restore_in_work(r);
	if (lock >= 0)
		salvage_clean(r->work);
	if (!ok && rc == 0)
		rmdir(r->directory);
	if (lock >= 0)
		close(lock);
	return ok;
}

/* A signal that arrives meanwhile ends the work at the next opportunity, and all files are
 * removed. */
static bool
restore(struct restoring *r)
{
	sigset_t all, before;
	bool ok;

	if (snprintf(r->work, sizeof r->work, "%s/" WORK, r->directory) >= PATH_MAX - 64)
		return fail(r->directory, ENAMETOOLONG);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	ok = restore_in_directory(r);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ok;
}

/* ---- the report ---- */

static void
print_text(const struct restoring *r)
{
	const struct restoration *s = &r->restored;
	char written[UTC_TEXT], age[AGE_TEXT];

	utc_text(s->written_s, written);
	utc_age(s->written_s, age);
	line_print("%-24s %s", "cell", s->cell);
	printf("%-24s %" PRIu64, "log index", s->applied);
	if (s->from_log > 0)
		printf(" (the last %" PRIu64 " entries from the log)", s->from_log);
	printf("\n%-24s %s, %s\n", "last written", written, age);
	printf("%-24s %" PRIu64 ", %" PRIu64 " bytes\n", "nodes", s->nodes, s->bytes);
	printf("%-24s %" PRIu64 "\n", "sessions ended", s->sessions);
	cell_print_made(r->directory, &r->cell_file);
}

static void
print_json(const struct restoring *r)
{
	const struct restoration *s = &r->restored;
	char written[UTC_TEXT], path[PATH_MAX];
	json_t *all;

	if (cell_file_is_standalone(&r->cell_file))
		snprintf(path, sizeof path, "%s/cell.conf", r->directory);
	else
		snprintf(path, sizeof path, "%s/%s.conf", r->directory, r->cell_file.name);
	all = cell_json(path, &r->cell_file);
	utc_text(s->written_s, written);
	json_object_set_new(all, "log_index", json_number(s->applied));
	json_object_set_new(all, "from_log", json_number(s->from_log));
	json_object_set_new(all, "last_written", json_string(written));
	json_object_set_new(all, "nodes", json_number(s->nodes));
	json_object_set_new(all, "bytes", json_number(s->bytes));
	json_object_set_new(all, "sessions_ended", json_number(s->sessions));
	json_text_print(all);
	json_decref(all);
}

/* ---- the command ---- */

static struct restoring restoring;

static int
run(const struct ctl *ctl, char **argv)
{
	struct restoring *r = &restoring;

	r->source = argv[0];
	if (!restore(r))
		return CTL_FAILED;
	if (r->restored.damaged > 0)
		log_warn("%s: log.db is damaged: its entries behind index %" PRIu64
		         ", up to %" PRIu64 ", are lost",
		         r->source, r->restored.applied, r->restored.damaged);
	if (ctl->json)
		print_json(r);
	else
		print_text(r);
	return CTL_OK;
}

static const struct ctl_option options[] = {
    {"dir", .value = "DIR", .to = &restoring.directory, .needed = true},
    {"replica", .value = "HOST:PORT", .to = &restoring.replicas, .take = addresses_take},
    {0},
};

const struct ctl_command restore_command = {
    "restore",
    "makes a new cell (--replica once for each replica) from a backup, or from the data of a"
    " stopped replica",
    {{.words = {"FILE|DATADIR"}, .run = run}},
    options,
};
