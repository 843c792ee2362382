#include "fs/mountpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/sys/process.h"

enum { LEAVE_PATIENCE_S = 10, ANSWER_PATIENCE_S = 5 };

bool
path_lies_in(const char *path, const char *directory)
{
	size_t n = strlen(directory);

	return !strncmp(path, directory, n) &&
	       (path[n] == '\0' || path[n] == '/' || directory[n - 1] == '/');
}

static bool
has_mount(const char *path)
{
	struct mountinfo info;

	return mountinfo_at(path, &info) && !strcmp(info.type, MOUNTINFO_TYPE);
}

/* An unprivileged user's mounts are taken off by the set-user-id helper that made them. */
static bool
detach_by_helper(const char *path)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		execlp("fusermount3", "fusermount3", "-u", "-z", "-q", "--", path, (char *)NULL);
		_exit(127);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

static bool
detach(const char *path)
{
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return true;
	if (errno == EPERM && detach_by_helper(path))
		return true;
	log_error("%s: cannot take the dead mount off: %s", path, strerror(errno));
	return false;
}

/* We own the run record, so no lsfs of this user and run directory serves it; but one of another
 * may. A mount whose daemon is dead says ENOTCONN at once. A living one may be stopped, and whoever
 * asks it hangs: so a child does. */
static bool
is_dead(const char *path)
{
	struct statfs st;
	int status, fd = -1;
	pid_t child = fork();
	bool answered;

	if (child == 0)
		_exit(statfs(path, &st) < 0 && (errno == ENOTCONN || errno == ECONNABORTED));
	if (child > 0)
		fd = pidfd_open(child, 0);
	if (fd < 0)
		return false;
	answered = process_wait(fd, ANSWER_PATIENCE_S);
	close(fd);
	if (!answered)
		kill(child, SIGKILL); /* not waited for: it may hang as long as the mount */
	return answered && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 1;
}

static bool
clear_dead_mounts(const char *path)
{
	while (has_mount(path)) {
		if (!is_dead(path)) {
			log_error("%s: busy: a cell is mounted there", path);
			return false;
		}
		log_info("%s: taking off the mount of a dead lsfs", path);
		if (!detach(path))
			return false;
	}
	return true;
}

static bool
check_directory(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0) {
		log_error("%s: %s", path, strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode)) {
		log_error("%s: %s", path, strerror(ENOTDIR));
		return false;
	}
	return true;
}

/* The owner of the record has no mount any more: it was taken off a moment ago, and its daemon is
 * closing its session and files. */
static bool
owner_has_left(const char *path)
{
	struct run_record *owner = memory_zero(1, sizeof *owner);
	bool alive = false, left = true;
	int fd = -1;

	if (run_dir_read(path, owner, &alive) && alive)
		fd = pidfd_open(owner->pid, 0);
	/* Asked again, with the process held: the number is the owner's. */
	if (fd >= 0 && run_dir_read(path, owner, &alive) && alive)
		left = !has_mount(path) && process_wait(fd, LEAVE_PATIENCE_S);
	if (fd >= 0)
		close(fd);
	free(owner);
	return left;
}

static bool
take_record(struct mountpoint *m)
{
	int rc = run_dir_own(m->path, &m->run, &m->earlier);

	if (rc == -EBUSY && owner_has_left(m->path))
		rc = run_dir_own(m->path, &m->run, &m->earlier);
	if (rc == -EBUSY)
		log_error("%s: busy: another lsfs serves it", m->path);
	else if (rc < 0)
		log_error("%s: cannot keep a run record: %s", m->path, strerror(-rc));
	return rc == 0;
}

bool
mountpoint_take(struct mountpoint *m, const char *path)
{
	int rc = mountinfo_canonical(path, m->path);

	if (rc < 0) {
		log_error("%s: %s", path, strerror(-rc));
		return false;
	}
	if (!take_record(m))
		return false;
	if (clear_dead_mounts(m->path) && check_directory(m->path))
		return true;
	mountpoint_release(m, m->earlier.session == 0);
	return false;
}

void
mountpoint_release(struct mountpoint *m, bool in_order)
{
	if (in_order)
		run_dir_drop(&m->run);
	else
		run_dir_leave(&m->run);
}
