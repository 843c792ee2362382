/* The cells of this machine: default places, run records and the daemons behind them. */
#include "ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"

static bool
fits(int n)
{
	if (n >= 0 && n < PATH_MAX)
		return true;
	log_error("the default place: %s", strerror(ENAMETOOLONG));
	return false;
}

static bool
place_for_user(const char *cell, struct place *place)
{
	const char *home = getenv("HOME"), *state = getenv("XDG_STATE_HOME");

	if (!home || home[0] != '/') {
		log_error("HOME: not set; use --dir and --mount");
		return false;
	}
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
	return fits(snprintf(place->directory, PATH_MAX, "/var/lib/lsfs/%s", cell)) &&
	       fits(snprintf(place->mountpoint, PATH_MAX, "/ls/%s", cell));
}

/* ---- searching the run records ---- */

struct search {
	const char *source, *path, *cell;
	struct run_record *found;
	bool alive;
	int n;
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

static bool
has_mount(const struct run_record *record)
{
	struct mountinfo info;

	return mountinfo_at(record->mountpoint, &info) && !strcmp(info.type, MOUNTINFO_TYPE);
}

static bool
match_cell(void *user, const struct run_record *record, bool alive)
{
	struct search *s = user;

	if (!strcmp(record->cell, s->cell) && has_mount(record))
		keep(s, record, alive);
	return true;
}

int
place_find_by_cell(const char *cell, struct run_record *record, bool *alive)
{
	struct search s = {.cell = cell, .found = record};

	run_dir_each(match_cell, &s);
	*alive = s.alive;
	return s.n;
}

static bool
lies_in(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return !strncmp(path, directory, n) && (path[n] == '\0' || path[n] == '/');
}

static bool
match_mount(void *user, const struct run_record *record, bool alive)
{
	struct search *s = user;

	if (!alive || (s->path && !lies_in(s->path, record->mountpoint)) ||
	    (s->cell && !s->path && strcmp(s->cell, record->cell) != 0))
		return true;
	if (has_mount(record))
		keep(s, record, alive);
	return true;
}

int
place_mounted_cells(const char *cell, struct run_record *record)
{
	struct search s = {.cell = cell, .found = record};

	run_dir_each(match_mount, &s);
	return s.sources;
}

/* Reports a path in an lsfs mount that no lsfs of ours serves; false when it is in none. */
static bool
report_mount(const char *path)
{
	static struct run_record record;
	static struct mountinfo info;
	char at[PATH_MAX], *slash;
	bool alive;

	snprintf(at, sizeof at, "%s", path);
	while (!mountinfo_at(at, &info) || strcmp(info.type, MOUNTINFO_TYPE) != 0) {
		slash = strrchr(at, '/');
		if (!slash || slash == at)
			return false;
		*slash = '\0';
	}
	if (info.user >= 0 && info.user != (long)geteuid())
		log_error("%s: mounted by the user with id %ld: only that user can ask it", at,
		          info.user);
	else if (run_dir_read(at, &record, &alive) && !alive)
		log_error("%s: a dead mount: its lsfs was killed; mount it again, or remove it "
		          "with umount",
		          at);
	else
		log_error("%s: mounted, but by no lsfs in the run directory of this user", at);
	return true;
}

bool
place_find_mount(const char *path, const char *cell, struct run_record *record)
{
	char canonical[PATH_MAX];
	struct search s = {.path = path ? canonical : NULL, .cell = cell, .found = record};
	int rc = path ? mountinfo_canonical(path, canonical) : 0;

	if (rc == 0)
		run_dir_each(match_mount, &s);
	if (s.n == 1)
		return true;
	if (rc < 0)
		log_error("%s: %s", path, strerror(-rc));
	else if (s.n > 1)
		log_error("several cells are mounted: give one, or its mount point");
	else if (!path || !report_mount(canonical))
		log_error("%s: %s", path ? path : cell ? cell : "no cell", "not mounted");
	return false;
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
