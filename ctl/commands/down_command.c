/* down: unmounts a cell that runs on this machine and waits until it has stopped. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/sys/process.h"
#include "cell/sys/run_dir.h"
#include "ctl/cell.h"
#include "ctl/replicas.h"

enum { PATIENCE_S = 30 };

struct mounted {
	char path[PATH_MAX];
	bool dead;
	pid_t pid; /* 0: not known, since another user's run directory has it */
	int fd;    /* of the process; -1: none, or it has ended */
};

struct search {
	const struct cell_file *cell_file; /* NULL: look for a name */
	const char *name;
	struct mounted *found;
	size_t n;
	struct cell_file first;
	bool several;
};

/* ---- the mounts of one cell in this mount namespace, of all users and by all copies of the cell
 * file ---- */

/* A mount's source: a cell file, a cell's name, or the data directory of a cell in one process. */
static bool
read_source(const char *source, struct cell_file *cell_file)
{
	char file[PATH_MAX], why[512];
	struct stat st;

	if (stat(source, &st) == 0 && S_ISDIR(st.st_mode))
		snprintf(file, sizeof file, "%.*s/cell.conf", PATH_MAX - 16, source);
	else
		cell_file_locate(source, file, sizeof file);
	return cell_file_read(file, cell_file, why, sizeof why);
}

static void
add(struct search *s, const char *path)
{
	static struct run_record record;
	struct mounted *m;
	bool alive = false;
	const bool known = run_dir_read(path, &record, &alive);

	s->found = memory_grow(s->found, s->n + 1, sizeof *s->found);
	m = &s->found[s->n++];
	snprintf(m->path, sizeof m->path, "%s", path);
	m->dead = known && !alive;
	m->pid = alive ? record.pid : 0;
	/* Opened before the daemon can end, so that the pid can't belong to another process. */
	m->fd = alive ? pidfd_open(record.pid, 0) : -1;
}

static void
look_at(void *user, const struct mountinfo *info)
{
	struct search *s = user;
	static struct cell_file of;

	if (!read_source(info->source, &of))
		return;
	if (s->cell_file != NULL) {
		if (memcmp(of.id, s->cell_file->id, CELL_ID) == 0)
			add(s, info->path);
	} else if (strcmp(of.name, s->name) == 0) {
		s->several |= s->n > 0 && memcmp(of.id, s->first.id, CELL_ID) != 0;
		s->first = of;
		s->n++;
	}
}

/* Reads the cell file of the mounted cell of that name. 1; 0 if there is none; -1 after an error
 * message: there are several. */
static int
find_mounts(const char *name, struct cell_file *cell_file)
{
	struct search s = {.name = name};

	mountinfo_each(look_at, &s);
	if (s.several)
		log_error("%s: several cells of that name are mounted: unmount them one by one",
		          name);
	*cell_file = s.first;
	return s.several ? -1 : s.n > 0;
}

/* A dead mount is detached even if files on it are open: their requests can't be answered any
 * more. */
static bool
unmount(const struct mounted *m)
{
	if (umount2(m->path, UMOUNT_NOFOLLOW | (m->dead ? MNT_DETACH : 0)) == 0)
		return true;
	if (errno == EPERM && mountinfo_unmount_by_helper(m->path, m->dead ? "-uz" : "-u"))
		return true;
	return log_error("%s: cannot unmount: %s", m->path,
	                 errno == EBUSY ? "busy: a process has files open or works there"
	                                : strerror(errno));
}

/* A mount that lies on another mount goes first. */
static int
deepest_first(const void *a, const void *b)
{
	const size_t one = strlen(((const struct mounted *)a)->path);
	const size_t other = strlen(((const struct mounted *)b)->path);

	return (one < other) - (one > other);
}

/* Unmounts all mounts of the cell, and waits until their daemons have ended, each with the last of
 * its mounts: a part of it may be mounted elsewhere, too. False after an error message for each
 * that stays. */
static bool
end_mounts(const struct cell_file *cell_file)
{
	struct search s = {.cell_file = cell_file};
	bool ok = true;

	mountinfo_each(look_at, &s);
	if (s.n > 0)
		qsort(s.found, s.n, sizeof *s.found, deepest_first);
	for (size_t i = 0; i < s.n; i++)
		ok = unmount(&s.found[i]) && ok;
	for (size_t i = 0; ok && i < s.n; i++) {
		ok = s.found[i].fd < 0 || process_wait(s.found[i].fd, PATIENCE_S);
		if (!ok)
			log_error("%s: unmounted, but process %ld has not ended after %d s",
			          s.found[i].path, (long)s.found[i].pid, PATIENCE_S);
	}
	for (size_t i = 0; i < s.n; i++)
		if (s.found[i].fd >= 0)
			close(s.found[i].fd);
	free(s.found);
	return ok;
}

/* The replicas go on while a mount needs them. */
static int
down_at(const char *directory, const char *cell)
{
	static struct cell_file cell_file;
	char file[PATH_MAX];
	int lock = place_lock(directory), found, rc = CTL_OK;

	if (lock < 0)
		return CTL_FAILED;
	found = cell_in_directory(directory, cell, file, &cell_file);
	if (found < 0 || (found > 0 && !(end_mounts(&cell_file) && replicas_stop(directory))))
		rc = CTL_FAILED;
	if (found > 0 && rc == CTL_OK)
		place_forget_mountpoint(directory);
	close(lock);
	return rc;
}

/* ---- the command ---- */

static const char *given_directory;

/* A directory that does not exist holds no running cell, so that is a success. By its name a cell
 * may have mounts that were made in another way, for example by /etc/fstab. */
static int
run(const struct ctl *ctl, char **argv)
{
	static struct cell_file cell_file;
	const char *name = argv[0] != NULL ? argv[0] : "local";
	const bool by_name = !given_directory;
	char canonical[PATH_MAX];
	struct place place;
	int rc = CTL_OK, n;

	(void)ctl;
	if (!cell_file_cell_name_valid(name))
		return ctl_usage(name, "not a cell's name");
	if (by_name && !place_default(name, &place))
		return CTL_FAILED;
	if (mountinfo_canonical(by_name ? place.directory : given_directory, canonical) == 0 &&
	    access(canonical, F_OK) == 0)
		rc = down_at(canonical, by_name ? name : argv[0]);
	if (rc != CTL_OK || !by_name)
		return rc;
	n = find_mounts(name, &cell_file);
	return n == 0 || (n > 0 && end_mounts(&cell_file)) ? CTL_OK : CTL_FAILED;
}

static const struct ctl_option options[] = {{"dir", .value = "DIR", .to = &given_directory}, {0}};

const struct ctl_command down_command = {
    "down",
    "unmounts a cell wherever it is mounted, and stops it; its data stays",
    {{.words = {"[CELL]"}, .run = run}},
    options,
};
