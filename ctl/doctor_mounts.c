/* The mounts of this machine. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/sys/local_lock.h"
#include "cell/sys/process.h"
#include "ctl/cell.h"
#include "ctl/doctor.h"

enum { PATIENCE_S = 5, STATUS_SIZE = 4096 };

struct visit {
	json_t *findings, *cells;
	const char *path;
	int n;
};

/* ---- asking a mount ---- */

/* In a process of its own: a mount whose daemon is stopped answers no call, and only a signal that
 * kills the process ends the wait. */
static void __attribute__((noreturn)) ask_as_child(const char *mountpoint, int to)
{
	char path[PATH_MAX + 16], text[STATUS_SIZE];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof path, "%s/.cell/status", mountpoint);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		n = read(fd, text, sizeof text);
	if (n >= 0 && write(to, text, (size_t)n) == n)
		_exit(0);
	_exit(errno > 0 && errno < 256 ? errno : EIO);
}

static int
wait_for(pid_t child)
{
	const int pidfd = (int)syscall(SYS_pidfd_open, child, 0);
	bool ended = pidfd >= 0 && process_wait(pidfd, PATIENCE_S);
	int status = 0;

	if (!ended)
		kill(child, SIGKILL);
	if (pidfd >= 0)
		close(pidfd);
	if (waitpid(child, &status, 0) < 0)
		return errno;
	if (!ended)
		return ETIMEDOUT;
	return WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
}

/* The text of the mount's .cell/status; 0 or a positive errno, ETIMEDOUT when there is no answer.
 */
static int
ask_mount(const char *mountpoint, char text[STATUS_SIZE + 1])
{
	int ends[2], error;
	ssize_t n;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return errno;
	child = fork();
	if (child == 0)
		ask_as_child(mountpoint, ends[1]);
	error = child < 0 ? errno : 0;
	close(ends[1]);
	if (child > 0)
		error = wait_for(child);
	n = error == 0 ? read(ends[0], text, STATUS_SIZE) : 0;
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	return error;
}

/* ---- findings ---- */

static void
add_unsafe(const struct visit *v, const struct mountinfo *info, char *text)
{
	char *state = strstr(text, "state: ");

	if (state == NULL)
		return;
	state += strlen("state: ");
	state[strcspn(state, "\n")] = '\0';
	if (strcmp(state, "safe") != 0)
		doctor_add(v->findings, info->path,
		           "see whether the replicas can be reached (lsctl status)",
		           "its session is not safe but: %s", state);
}

static void
add_silent(const struct visit *v, const struct mountinfo *info, int error)
{
	static struct run_record record;
	bool alive;

	if (error == ENOTCONN || error == ECONNABORTED)
		doctor_add(v->findings, info->path, "mount it again, or remove it with umount",
		           "a dead mount: its lsfs was killed");
	else if (error != ETIMEDOUT)
		doctor_add(v->findings, info->path, "see the log of its lsfs",
		           "cannot be asked: %s", strerror(error));
	else if (run_dir_read(info->path, &record, &alive) && alive)
		doctor_add(v->findings, info->path,
		           "see whether it is stopped; else end it and mount again",
		           "its lsfs, process %ld, does not answer", (long)record.pid);
	else
		doctor_add(v->findings, info->path, "end its lsfs and mount again",
		           "its lsfs does not answer");
}

struct lock_visit {
	json_t *findings;
	const struct mountinfo *info;
};

static void
add_lock(void *user, const struct local_lock *lock)
{
	const struct lock_visit *v = user;
	char name[PATH_MAX];

	local_lock_name(v->info, lock, name);
	doctor_add(v->findings, name, "lock it with the attribute user.ls.lock",
	           "process %ld has locked the directory for this machine only", (long)lock->pid);
}

/* ---- the mounts ---- */

static bool
is_topmost(const struct mountinfo *info)
{
	static struct mountinfo top;

	return mountinfo_at(info->path, &top) && top.id == info->id;
}

static bool
is_meant(const struct visit *v, const struct mountinfo *info)
{
	const size_t n = strlen(info->path);

	return v->path == NULL ||
	       (strncmp(v->path, info->path, n) == 0 && (v->path[n] == '\0' || v->path[n] == '/'));
}

static void
note_cell(const struct visit *v, const struct mountinfo *info)
{
	static struct run_record record;
	char file[PATH_MAX];
	const json_t *known;
	bool alive;
	size_t i;

	if (!run_dir_read(info->path, &record, &alive))
		return;
	cell_file_of_mount(&record, file);
	json_array_foreach(v->cells, i,
	                   known) if (strcmp(json_string_value(known), file) == 0) return;
	json_array_append_new(v->cells, json_string(file));
}

static void
look_at(void *user, const struct mountinfo *info)
{
	struct visit *v = user;
	struct lock_visit locks = {v->findings, info};
	char text[STATUS_SIZE + 1];
	int error;

	if (!is_topmost(info) || !is_meant(v, info))
		return;
	v->n++;
	error = ask_mount(info->path, text);
	if (error == 0)
		add_unsafe(v, info, text);
	else if (error != EACCES || info->user == (long)geteuid())
		add_silent(v, info, error); /* another user's mount answers only that user */
	local_lock_each(info, INT_MAX, add_lock, &locks);
	note_cell(v, info);
}

int
doctor_mounts(json_t *findings, const char *path, json_t *cells)
{
	struct visit v = {.findings = findings, .cells = cells, .path = path};

	mountinfo_each(MOUNTINFO_TYPE, look_at, &v);
	return v.n;
}
