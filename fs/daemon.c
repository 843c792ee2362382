#include "fs/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>
#include "cell/sys/log.h"

/* The child's word to its parent. */
enum { MOUNTED = 1, TRIES_ON = 2, FAILED = 3 };

static int
child_status(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
		return WEXITSTATUS(status);
	log_error("the daemon ended before the mount answered%s%s", WIFSIGNALED(status) ? ": " : "",
	          WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "");
	return 1;
}

static int
parent_wait(int pipe_end, pid_t child, const char *mountpoint)
{
	struct stat st;
	char byte;
	ssize_t n;

	while ((n = read(pipe_end, &byte, 1)) < 0 && errno == EINTR)
		;
	if (n != 1)
		return child_status(child);
	if (byte == FAILED)
		return 1;
	if (byte == TRIES_ON)
		return 0;
	if (stat(mountpoint, &st) < 0) {
		log_error("%s: the mount does not answer: %s", mountpoint, strerror(errno));
		return 1;
	}
	return 0;
}

bool
daemon_fork(struct daemon *daemon, const char *mountpoint, int *status)
{
	const pid_t self = getpid();
	int ends[2];
	pid_t child;

	*status = 1;
	daemon->ready = -1;
	if (pipe2(ends, O_CLOEXEC) < 0 || (child = fork()) < 0)
		return log_error("fork: cannot go into the background: %s", strerror(errno));
	if (child > 0) {
		close(ends[1]);
		*status = parent_wait(ends[0], child, mountpoint);
		return false;
	}
	close(ends[0]);
	daemon->ready = ends[1];
	/* A user who kills the waiting parent has cancelled the mount. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != self)
		raise(SIGTERM);
	setsid();
	return true;
}

void
daemon_stay(struct daemon *daemon)
{
	daemon->stays = true;
	prctl(PR_SET_PDEATHSIG, 0);
	if (daemon->ready >= 0 && fork() > 0)
		_exit(0);
}

/* Before the parent exits: its caller may wait until these descriptors are closed. */
void
daemon_leave(struct daemon *daemon)
{
	int null;

	log_as(LOG_SERVICE);
	if (daemon->ready < 0)
		return;
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	log_start("lsfs", daemon->debug ? LEVEL_DEBUG : LEVEL_INFO);
	log_to_system(_PATH_LOG);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
	if (chdir("/") < 0)
		log_warn("chdir /: %s", strerror(errno));
}

static void
release_parent(struct daemon *daemon, char word)
{
	prctl(PR_SET_PDEATHSIG, 0);
	if (write(daemon->ready, &word, 1) != 1 && !daemon->stays)
		raise(SIGTERM); /* the parent was killed meanwhile: as in daemon_fork */
	close(daemon->ready);
	daemon->ready = -1;
}

void
daemon_background(struct daemon *daemon)
{
	daemon_leave(daemon);
	if (daemon->ready >= 0)
		release_parent(daemon, TRIES_ON);
}

void
daemon_ready(struct daemon *daemon)
{
	if (daemon->ready >= 0)
		release_parent(daemon, MOUNTED);
}

void
daemon_failed(struct daemon *daemon)
{
	if (daemon->ready >= 0)
		release_parent(daemon, FAILED);
}
