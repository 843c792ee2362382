/* down: unmounts a cell that runs on this machine and waits until it has stopped. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/config/cell_file.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/sys/process.h"
#include "ctl/ctl.h"
#include "ctl/replicas.h"

enum { OPT_DIR = 256, PATIENCE_S = 30 };

static bool
is_mounted(const char *mountpoint)
{
	struct mountinfo info;

	return mountinfo_at(mountpoint, &info) && !strcmp(info.type, MOUNTINFO_TYPE);
}

/* The mounts of an unprivileged user are unmounted by the set-user-id helper that made them, which
 * prints its own errors. */
static bool
unmount_by_helper(const char *mountpoint, bool dead)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		execlp("fusermount3", "fusermount3", dead ? "-uz" : "-u", "--", mountpoint,
		       (char *)NULL);
		_exit(127);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* A dead mount is detached even if files on it are open: their requests can't be answered any
 * more. */
static bool
unmount(const char *mountpoint, bool dead)
{
	if (umount2(mountpoint, UMOUNT_NOFOLLOW | (dead ? MNT_DETACH : 0)) == 0)
		return true;
	if (errno == EPERM && unmount_by_helper(mountpoint, dead))
		return true;
	log_error("%s: cannot unmount: %s", mountpoint,
	          errno == EBUSY ? "busy: a process has files open or works there"
	                         : strerror(errno));
	return false;
}

static int
take_down(const struct run_record *r, bool alive)
{
	/* Opened before the daemon can end, so that the pid can't belong to another process. */
	int fd = alive ? pidfd_open(r->pid, 0) : -1;
	int rc = CTL_OK;

	if (is_mounted(r->mountpoint) && !unmount(r->mountpoint, !alive)) {
		rc = CTL_FAILED;
	} else if (fd >= 0 && !process_wait(fd, PATIENCE_S)) {
		log_error("%s: unmounted, but process %ld has not ended after %d s", r->source,
		          (long)r->pid, PATIENCE_S);
		rc = CTL_FAILED;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Unmounts a cell whose cell file is not in the directory, for example one in /etc/fstab. */
static int
down_by_name(const char *cell)
{
	static struct run_record record;
	bool alive;
	int n = place_find_by_cell(cell, &record, &alive);

	if (n <= 1)
		return n == 0 ? CTL_OK : take_down(&record, alive);
	log_error("%s: mounted more than once: unmount them one by one", cell);
	return CTL_FAILED;
}

/* The source of the mount is the data directory of a cell in one process, else the cell file. */
static int
down_mount(const char *directory, const char *cell)
{
	static struct run_record record;
	char file[PATH_MAX];
	bool alive;

	snprintf(file, sizeof file, "%.*s/%s.conf", PATH_MAX - 128, directory, cell);
	if (place_find_by_source(directory, &record, &alive) ||
	    place_find_by_source(file, &record, &alive))
		return take_down(&record, alive);
	return CTL_OK;
}

static int
down_at(const char *directory, const char *cell)
{
	int lock = place_lock(directory), rc;

	if (lock < 0)
		return CTL_FAILED;
	rc = down_mount(directory, cell);
	if (rc == CTL_OK && !replicas_stop(directory))
		rc = CTL_FAILED;
	close(lock);
	return rc;
}

/* A directory that does not exist holds no running cell, so that is a success. */
static int
down(const char *directory, const char *cell)
{
	struct place place;
	char canonical[PATH_MAX];
	const bool by_name = !directory;
	int rc = CTL_OK;

	if (by_name && !place_default(cell, &place))
		return CTL_FAILED;
	if (mountinfo_canonical(by_name ? place.directory : directory, canonical) == 0 &&
	    access(canonical, F_OK) == 0)
		rc = down_at(canonical, cell);
	return rc == CTL_OK && by_name ? down_by_name(cell) : rc;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"dir", required_argument, NULL, OPT_DIR},
	    CTL_LONG_OPTIONS,
	};
	const char *directory = NULL, *cell = "local";
	int letter;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_DIR)
			directory = optarg;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	if (optind < argc)
		cell = argv[optind++];
	if (optind < argc)
		return ctl_usage(&down_command, argv[optind], "unexpected argument");
	if (!cell_file_cell_name_valid(cell))
		return ctl_usage(&down_command, cell, "not a cell's name");
	return down(directory, cell);
}

const struct ctl_command down_command = {
    "down",
    "[--dir DIR] [CELL]",
    "unmounts a cell and stops it; its data stays",
    .run = run,
};
