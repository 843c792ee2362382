#include "ctl/cell_status.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/sys/process.h"
#include "cell/sys/run_dir.h"
#include "cell/view/findings.h"

enum { PATIENCE_S = 5 };

/* In a process of its own: a mount whose daemon is stopped answers no call, and only a signal that
 * kills the process ends the wait. */
static void __attribute__((noreturn)) ask_as_child(const char *mountpoint, int to)
{
	char path[PATH_MAX + 16], text[MOUNT_TEXT_SIZE];
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof path, "%s/.cell:status", mountpoint);
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

int
mount_text(const char *mountpoint, char text[MOUNT_TEXT_SIZE + 1])
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
	n = error == 0 ? read(ends[0], text, MOUNT_TEXT_SIZE) : 0;
	text[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	return error;
}

/* ---- findings ---- */

static void
add_silent(json_t *findings, const char *mountpoint, int error)
{
	static struct run_record record;
	bool alive;

	if (error == ENOTCONN || error == ECONNABORTED)
		finding_add(findings, FINDING_mount_dead, mountpoint);
	else if (error != ETIMEDOUT)
		finding_add_detail(findings, FINDING_mount_broken, mountpoint, "%s",
		                   strerror(error));
	else if (run_dir_read(mountpoint, &record, &alive) && alive)
		finding_add_detail(findings, FINDING_mount_silent, mountpoint, "process %ld",
		                   (long)record.pid);
	else
		finding_add(findings, FINDING_mount_silent, mountpoint);
}

void
mount_text_findings(json_t *findings, const char *mountpoint, int error, const char *text)
{
	const char *state = error == 0 ? strstr(text, "state: ") : NULL;
	int n;

	if (error != 0) {
		add_silent(findings, mountpoint, error);
	} else if (state != NULL) {
		state += strlen("state: ");
		n = (int)strcspn(state, "\n");
		if (strncmp(state, "safe\n", 5) != 0)
			finding_add_detail(findings, FINDING_session_unsafe, mountpoint, "%.*s", n,
			                   state);
	}
}
