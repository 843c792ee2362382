/* up: starts a cell in the background and mounts it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/config/cell_file_edit.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/sys/process.h"
#include "ctl/cell.h"
#include "ctl/replicas.h"

enum { LEAVE_PATIENCE_S = 20 };

struct up {
	const struct ctl *ctl;
	const char *directory, *mountpoint;
	/* The cell's name as given; NULL: that of an existing cell, else local. */
	const char *named;
	const char *cell;
	int replicas; /* number given; 0: that of an existing cell, else 1 */
	struct place place;
	struct cell_file cell_file;
	char source[PATH_MAX]; /* of the mount: the cell file, or the data directory */
	bool newer;            /* the replicas have a newer list of members than the cell file */
};

/* ---- preparing ---- */

/* Makes the directory and those above it, as far as they are missing. */
static bool
make_directories(const char *path)
{
	char part[PATH_MAX];
	size_t n = strlen(path);

	for (size_t i = 1; i <= n && n < sizeof part; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			return log_error("%s: cannot make the directory: %s", part,
			                 strerror(errno));
	}
	return true;
}

static bool
make_parent(const char *path)
{
	char parent[PATH_MAX], *slash;

	snprintf(parent, sizeof parent, "%s", path);
	slash = strrchr(parent, '/');
	if (!slash || slash == parent)
		return true;
	*slash = '\0';
	return make_directories(parent);
}

static bool
canonical(const char *path, char to[PATH_MAX])
{
	char copy[PATH_MAX];
	int rc;

	snprintf(copy, sizeof copy, "%s", path);
	rc = mountinfo_canonical(copy, to);
	if (rc < 0)
		log_error("%s: %s", copy, strerror(-rc));
	return rc == 0;
}

static bool
prepare_places(struct up *u)
{
	struct place *p = &u->place;

	if (!u->directory && !place_default(u->cell, p))
		return false;
	if (u->directory)
		snprintf(p->directory, sizeof p->directory, "%s", u->directory);
	return make_parent(p->directory) && canonical(p->directory, p->directory);
}

/* The given one, else the one before, else the default. */
static bool
prepare_mountpoint(struct up *u)
{
	struct place *p = &u->place;
	static struct place standard;
	struct mountinfo info;

	if (u->mountpoint) {
		snprintf(p->mountpoint, PATH_MAX, "%s", u->mountpoint);
	} else if (!place_recall_mountpoint(p->directory, p->mountpoint)) {
		if (!place_default(u->cell, &standard))
			return false;
		strcpy(p->mountpoint, standard.mountpoint);
	}
	if (!make_parent(p->mountpoint) || !canonical(p->mountpoint, p->mountpoint))
		return false;
	/* Where something is mounted there is a directory; a dead mount is not accessed. */
	return mountinfo_at(p->mountpoint, &info) || make_directories(p->mountpoint);
}

/* ---- mounting ---- */

static int
mount_standalone(struct up *u)
{
	char name[] = "lsfs", standalone[] = "--standalone", cell[] = "--cell";
	char cell_name[LIMIT_CELL_NAME + 1];
	char *const argv[] = {name,      standalone,         cell,
	                      cell_name, u->place.directory, u->place.mountpoint,
	                      NULL};

	snprintf(cell_name, sizeof cell_name, "%s", u->cell);
	return program_run(argv, NULL);
}

/* Runs lsfs in the directory, with relative paths: mount options are separated by commas, which the
 * directory's name may contain. */
static int
mount_network(struct up *u)
{
	char name[] = "lsfs", option[] = "-o", key[] = "key=admin.key";
	char *const argv[] = {name, option, key, u->source, u->place.mountpoint, NULL};

	return program_run(argv, u->place.directory);
}

/* Waits for a daemon that was just unmounted and is still closing its files. */
static bool
wait_for_leaving(const struct run_record *r)
{
	int fd = pidfd_open(r->pid, 0);
	bool gone = fd < 0 || process_wait(fd, LEAVE_PATIENCE_S);

	if (fd >= 0)
		close(fd);
	if (!gone)
		log_error("%s: process %ld was unmounted but does not end", r->source,
		          (long)r->pid);
	return gone;
}

/* Its record: of a cell in one process the only mount that there can be, else the one that `up` has
 * made. */
static bool
own_mount(const struct up *u, struct run_record *r)
{
	char mountpoint[PATH_MAX];
	bool alive;

	if (!cell_file_is_standalone(&u->cell_file) &&
	    place_recall_mountpoint(u->place.directory, mountpoint))
		return run_dir_read(mountpoint, r, &alive) && alive &&
		       strcmp(r->source, u->source) == 0;
	return place_find_by_source(u->source, r, &alive) && alive;
}

/* 1: the cell is up already, as in the record; 0: it is not; -1 after an error message. */
static int
already_up(struct up *u, struct run_record *r)
{
	struct mountinfo info;

	if (!own_mount(u, r))
		return 0;
	if (!mountinfo_at(r->mountpoint, &info) || !mountinfo_is_cell(&info))
		return wait_for_leaving(r) ? 0 : -1;
	if (u->mountpoint && (!canonical(u->mountpoint, u->place.mountpoint) ||
	                      strcmp(u->place.mountpoint, r->mountpoint) != 0)) {
		log_error("%s: in use: it is mounted on %s", u->place.directory, r->mountpoint);
		return -1;
	}
	return 1;
}

static int
up_mount(struct up *u)
{
	static struct run_record record;
	int is_up = already_up(u, &record), rc;

	if (is_up < 0)
		return CTL_FAILED;
	if (is_up) {
		puts(record.mountpoint);
		return CTL_OK;
	}
	if (!prepare_mountpoint(u))
		return CTL_FAILED;
	rc = cell_file_is_standalone(&u->cell_file) ? mount_standalone(u) : mount_network(u);
	if (rc != CTL_OK)
		return rc;
	if (!cell_file_is_standalone(&u->cell_file))
		place_note_mountpoint(u->place.directory, u->place.mountpoint);
	puts(u->place.mountpoint);
	return CTL_OK;
}

/* ---- the cell in the directory ---- */

static bool
read_existing(struct up *u, bool *exists)
{
	const char *directory = u->place.directory;
	const int found = cell_in_directory(directory, u->named, u->source, &u->cell_file);

	*exists = found > 0;
	if (found > 0) {
		u->cell = u->cell_file.name;
		if (!cell_file_is_standalone(&u->cell_file))
			u->newer = cell_file_renew_in(directory, &u->cell_file);
	}
	return found >= 0;
}

/* Brings the cell file up to date. Where it cannot be written it stays as it is: clients can use it
 * as long as one of its replicas is still a member, which sends them the current list. */
static void
refresh(struct up *u)
{
	char why[PATH_MAX + 128];

	if (u->newer && !cell_file_refresh(u->source, &u->cell_file, why, sizeof why))
		log_warn("%s: the cell file stays as it is", why);
}

static bool
check_number(const struct up *u)
{
	if (u->replicas == 0 || u->replicas == u->cell_file.replicas_n)
		return true;
	return log_error("%s: holds a cell of %d replica%s, not %d", u->place.directory,
	                 u->cell_file.replicas_n, u->cell_file.replicas_n == 1 ? "" : "s",
	                 u->replicas);
}

static bool
make_network(struct up *u)
{
	snprintf(u->cell_file.name, sizeof u->cell_file.name, "%s", u->cell);
	u->cell_file.replicas_n = u->replicas;
	for (int i = 0; i < u->replicas; i++) {
		u->cell_file.replicas[i].id = (uint8_t)(i + 1);
		u->cell_file.replicas[i].role = MEMBER_VOTER;
	}
	return replicas_addresses(&u->cell_file) &&
	       cell_make(u->place.directory, &u->cell_file, NULL);
}

/* When the mount fails, the replicas that this call has started are stopped again. */
static int
start_and_mount(struct up *u)
{
	struct started started = {0};
	struct noise_pair key;
	int rc = CTL_FAILED;

	if (cell_key(u->ctl, u->source, &key) &&
	    replicas_start(u->place.directory, &u->cell_file, &key, &started))
		rc = up_mount(u);
	replicas_let_go(&started, rc == CTL_OK);
	explicit_bzero(&key, sizeof key);
	return rc;
}

static int
up_network(struct up *u, bool exists)
{
	int lock, rc = CTL_FAILED;

	if (!make_directories(u->place.directory) || (lock = place_lock(u->place.directory)) < 0)
		return CTL_FAILED;
	/* Another `up` may have made the cell before we got the lock. */
	if (read_existing(u, &exists) && (exists ? check_number(u) : make_network(u))) {
		refresh(u);
		snprintf(u->source, sizeof u->source, "%.*s/%s.conf", PATH_MAX - 128,
		         u->place.directory, u->cell);
		rc = start_and_mount(u);
	}
	close(lock);
	return rc;
}

/* As far as the directory is missing it is made here, private: `up` and `down` wait at it. */
static int
up_standalone(struct up *u)
{
	const char *directory = u->place.directory;
	const bool made = mkdir(directory, 0700) == 0;
	int lock, rc = CTL_FAILED;
	bool exists;

	if (!made && errno != EEXIST)
		return CTL_FAIL("%s: cannot make the directory: %s", directory, strerror(errno));
	if ((lock = place_lock(directory)) < 0)
		return CTL_FAILED;
	u->replicas = 1;
	if (read_existing(u, &exists) && (!exists || check_number(u))) {
		snprintf(u->source, sizeof u->source, "%s", directory);
		u->cell_file.replicas_n = 1;
		rc = up_mount(u);
	}
	if (rc != CTL_OK && made)
		rmdir(directory);
	close(lock);
	return rc;
}

/* ---- the command ---- */

static struct up given;

/* The number must be odd: one more replica would enlarge the majority without tolerating another
 * failure. */
static bool
take_replicas(void *to, const char *text)
{
	const int n = text[0] - '0';

	*(int *)to = n;
	return text[0] != '\0' && text[1] == '\0' && n >= 1 && n <= LIMIT_REPLICAS && n % 2 == 1;
}

static int
run(const struct ctl *ctl, char **argv)
{
	struct up *u = &given;
	bool exists;

	u->ctl = ctl;
	u->named = argv[0];
	u->cell = u->named ? u->named : "local";
	if (!cell_file_cell_name_valid(u->cell))
		return ctl_usage(u->cell, "not a cell's name");
	if (!u->directory)
		u->named = u->cell; /* the default directory is that of its name */
	if (!prepare_places(u) || !read_existing(u, &exists) || (exists && !check_number(u)))
		return CTL_FAILED;
	if (exists ? !cell_file_is_standalone(&u->cell_file) : u->replicas > 1)
		return up_network(u, exists);
	return up_standalone(u);
}

static const struct ctl_option options[] = {
    {"replicas", 0, "1|3|5|7", &given.replicas, take_replicas, .wrong = "not 1, 3, 5 or 7"},
    {"dir", .value = "DIR", .to = &given.directory},
    {"mount", .value = "MOUNTPOINT", .to = &given.mountpoint},
    {0},
};

const struct ctl_command up_command = {
    "up",
    "starts a cell in the background, mounts it, prints the mount point",
    {{.words = {"[CELL]"}, .run = run}},
    options,
};
