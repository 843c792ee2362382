#include "fs/mountpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

static bool
has_mount(const char *path)
{
	struct mountinfo info;

	return mountinfo_at(path, &info) && mountinfo_is_cell(&info);
}

bool
mountpoint_detach(const char *path)
{
	if (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
		return true;
	if (errno == EPERM && mountinfo_unmount_by_helper(path, "-uzq"))
		return true;
	return log_error("%s: cannot unmount: %s", path, strerror(errno));
}

/* Tests whether the daemon of the mount is dead. We own the run record, so no lsfs in our run
 * directory serves the mount, but an lsfs of another user may. statfs on a dead mount fails with
 * ENOTCONN at once; if the daemon is stopped, statfs blocks, so a child process calls it. */
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
		kill(child, SIGKILL); /* not reaped: it may block until the daemon continues */
	return answered && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 1;
}

static bool
clear_dead_mounts(const char *path)
{
	while (has_mount(path)) {
		if (!is_dead(path))
			return log_error("%s: busy: a cell is mounted there", path);
		log_info("%s: unmounting the dead mount of an earlier lsfs", path);
		if (!mountpoint_detach(path))
			return false;
	}
	return true;
}

static bool
check_directory(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return log_error("%s: %s", path, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return log_error("%s: %s", path, strerror(ENOTDIR));
	return true;
}

/* Waits for an owner of the record that was just unmounted and is closing its session and files;
 * false when the owner still serves a mount or does not end. */
static bool
owner_has_left(const char *path)
{
	struct run_record *owner = memory_zero(1, sizeof *owner);
	bool alive = false, left = true;
	int fd = -1;

	if (run_dir_read(path, owner, &alive) && alive)
		fd = pidfd_open(owner->pid, 0);
	/* Read again: if the owner is still alive, pidfd_open has opened the owner and not another
	 * process with a reused pid. */
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
		log_error("%s: cannot keep a run record in %s: %s", m->path, m->run.path,
		          strerror(-rc));
	return rc == 0;
}

bool
mountpoint_take(struct mountpoint *m, const char *path)
{
	int rc = mountinfo_canonical(path, m->path);

	if (rc < 0)
		return log_error("%s: %s", path, strerror(-rc));
	if (!take_record(m))
		return false;
	if (clear_dead_mounts(m->path) && check_directory(m->path))
		return true;
	mountpoint_release(m, m->earlier.session == 0);
	return false;
}

/* A process that serves a mount waits for itself if it writes to a file on it, or closes one: so
 * none of its standard descriptors may be one. */
bool
mountpoint_of_another(struct mountpoint *m, const char *path)
{
	int rc = mountinfo_canonical(path, m->path);
	struct mountinfo on;
	struct statx st;

	m->run.fd = -1;
	if (rc == 0)
		rc = run_dir_path(m->path, m->run.path);
	if (rc < 0)
		return log_error("%s: %s", path, strerror(-rc));
	if (!mountinfo_at(m->path, &on) || !mountinfo_is_cell(&on))
		return log_error("%s: no cell is mounted there", path);
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, 0, &st) == 0 &&
		    st.stx_dev_major == on.major && st.stx_dev_minor == on.minor)
			return log_error("%s: can't be replaced by a process whose standard input "
			                 "or output is a file on it: nothing has changed",
			                 path);
	return true;
}

void
mountpoint_release(struct mountpoint *m, bool in_order)
{
	if (in_order)
		run_dir_drop(&m->run);
	else
		run_dir_leave(&m->run);
}
