/* The cells of this machine: default places, run records and their daemons. */
#include "ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "cell/config/cell_file.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "config.h"
#include "ctl/cell_status.h"

static bool
fits(int n)
{
	if (n >= 0 && n < PATH_MAX)
		return true;
	return log_error("the default place: %s", strerror(ENAMETOOLONG));
}

static bool
place_for_user(const char *cell, struct place *place)
{
	const char *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");

	if (!home || home[0] != '/')
		return log_error("HOME: not set; use --dir and --mount");
	if (!fits(snprintf(place->mountpoint, PATH_MAX, "%s/ls/%s", home, cell)))
		return false;
	if (state && state[0] == '/')
		return fits(snprintf(place->directory, PATH_MAX, "%s/lsfs/%s", state, cell));
	return fits(snprintf(place->directory, PATH_MAX, "%s/.local/state/lsfs/%s", home, cell));
}

bool
place_default(const char *cell, struct place *place)
{
	if (geteuid() != 0)
		return place_for_user(cell, place);
	return fits(snprintf(place->directory, PATH_MAX, LOCALSTATEDIR "/lib/lsfs/%s", cell)) &&
	       fits(snprintf(place->mountpoint, PATH_MAX, "/ls/%s", cell));
}

/* ---- searching the run records ---- */

struct search {
	const char *source, *path, *cell; /* NULL: not asked for */
	struct run_record *found;         /* the last one that matches */
	bool alive;                       /* its daemon runs */
	int n;                            /* of those that match */
	struct mountinfo device;          /* for match_device */
	int sources; /* changes of the source from one record to the next: at least the number of
	              * different sources, and 1 only if all are equal */
};

static void
keep(struct search *s, const struct run_record *record, bool alive)
{
	if (s->n == 0 || strcmp(s->found->source, record->source) != 0)
		s->sources++;
	*s->found = *record;
	s->alive = alive;
	s->n++;
}

static bool
match_source(void *user, const struct run_record *record, bool alive)
{
	struct search *s = user;

	if (strcmp(record->source, s->source) != 0 || (s->n && !alive))
		return true;
	keep(s, record, alive);
	return !alive; /* at most one record of a source is of a living daemon */
}

bool
place_find_by_source(const char *source, struct run_record *record, bool *alive)
{
	struct search s = {.source = source, .found = record};

	run_dir_each(match_source, &s);
	*alive = s.alive;
	return s.n > 0;
}

/* ---- mounts without a run record here: of a part of a cell, or with a /run of their own ---- */

static bool
match_device(void *user, const struct run_record *record, bool alive)
{
	static struct mountinfo info;
	struct search *s = user;

	if (!alive || !mountinfo_at(record->mountpoint, &info) || info.major != s->device.major ||
	    info.minor != s->device.minor)
		return true;
	keep(s, record, alive);
	return false;
}

/* The record of the mount at *info: that of its daemon, if there is one here, else as far as the
 * mount itself reports it. 0 or a positive errno. */
static int
record_of_mount(const struct mountinfo *info, struct run_record *record)
{
	struct search s = {.found = record, .device = *info};
	char text[MOUNT_TEXT_SIZE + 1], *cell;
	int error;

	run_dir_each(match_device, &s);
	if (s.n == 0) {
		error = mount_text(info->path, text);
		cell = error == 0 ? strstr(text, "\ncell: ") : NULL;
		if (cell == NULL)
			return error ? error : EPROTO;
		*record = (struct run_record){0};
		sscanf(cell, "\ncell: %64s", record->cell);
		if (info->source[0] == '/')
			snprintf(record->source, PATH_MAX, "%s", info->source);
		else
			cell_file_locate(info->source, record->source, PATH_MAX);
	}
	snprintf(record->mountpoint, PATH_MAX, "%s", info->path);
	return 0;
}

/* The record of the mount that contains a path. *reported: false if that is no mount of a cell. */
static bool
find_above(const char *path, struct run_record *record, bool *reported)
{
	static struct mountinfo info;
	int error;

	*reported = mountinfo_above(path, &info) && mountinfo_is_cell(&info);
	if (!*reported)
		return false;
	error = record_of_mount(&info, record);
	if (error == EACCES && info.user >= 0 && info.user != (long)geteuid())
		log_error("%s: mounted by the user with id %ld: only that user can ask it",
		          info.path, info.user);
	else if (error == ENOTCONN || error == ECONNABORTED)
		log_error("%s: a dead mount: its lsfs was killed; mount it again, or remove it "
		          "with umount",
		          info.path);
	else if (error != 0)
		log_error("%s: cannot be asked: %s", info.path, strerror(error));
	return error == 0;
}

static void
match_any(void *user, const struct mountinfo *info)
{
	static struct run_record record;
	struct search *s = user;

	if (record_of_mount(info, &record) == 0 &&
	    (s->cell == NULL || strcmp(s->cell, record.cell) == 0))
		keep(s, &record, true);
}

/* ---- the mount that is meant ---- */

static bool
match_mount(void *user, const struct run_record *record, bool alive)
{
	static struct mountinfo info;
	struct search *s = user;

	if (!alive || (s->path && !mountinfo_lies_in(s->path, record->mountpoint)) ||
	    (s->cell && !s->path && strcmp(s->cell, record->cell) != 0))
		return true;
	if (mountinfo_at(record->mountpoint, &info) && mountinfo_is_cell(&info))
		keep(s, record, alive);
	return true;
}

int
place_mounted_cells(const char *cell, struct run_record *record)
{
	struct search s = {.cell = cell, .found = record};

	run_dir_each(match_mount, &s);
	if (s.n == 0)
		mountinfo_each(match_any, &s);
	return s.sources;
}

bool
place_find_mount(const char *path, const char *cell, struct run_record *record)
{
	char canonical[PATH_MAX];
	struct search s = {.path = path ? canonical : NULL, .cell = cell, .found = record};
	int rc = path ? mountinfo_canonical(path, canonical) : 0;
	bool reported = false;

	if (rc == 0)
		run_dir_each(match_mount, &s);
	if (rc == 0 && s.n == 0 && !path)
		mountinfo_each(match_any, &s);
	if (s.n == 1 || (rc == 0 && path && s.n == 0 && find_above(canonical, record, &reported)))
		return true;
	if (rc < 0)
		log_error("%s: %s", path, strerror(-rc));
	else if (s.n > 1)
		log_error("several cells are mounted: give one, or its mount point");
	else if (!reported)
		log_error("%s: %s", path ? path : cell ? cell : "no cell", "not mounted");
	return false;
}

/* ---- where `up` has mounted a cell ---- */

static void
path_of_note(const char *directory, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%.*s/mountpoint", PATH_MAX - 16, directory);
}

bool
place_recall_mountpoint(const char *directory, char mountpoint[PATH_MAX])
{
	char path[PATH_MAX];
	FILE *f;
	bool known;

	path_of_note(directory, path);
	f = fopen(path, "re");
	known = f && fgets(mountpoint, PATH_MAX, f) && mountpoint[0] == '/';
	if (known)
		mountpoint[strcspn(mountpoint, "\n")] = '\0';
	if (f)
		fclose(f);
	return known;
}

void
place_note_mountpoint(const char *directory, const char *mountpoint)
{
	char path[PATH_MAX], line[PATH_MAX + 1];
	int rc;

	path_of_note(directory, path);
	snprintf(line, sizeof line, "%s\n", mountpoint);
	rc = file_replace(path, bytes_of(line), 0644);
	if (rc < 0)
		log_warn("%s: %s", path, strerror(-rc));
}

void
place_forget_mountpoint(const char *directory)
{
	char path[PATH_MAX];

	path_of_note(directory, path);
	unlink(path);
}

int
place_lock(const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX) == 0)
		return fd;
	log_error("%s: %s", directory, strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}
