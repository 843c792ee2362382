#include "cell/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "cell/sys/proc_file.h"

enum { PATIENCE_MS = 10000 };

/* open() returns the lowest free number, which the loop has reached. */
void
process_open_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			abort(); /* there is no stderr to report it on */
}

void
process_close_inherited(void)
{
	close_range(STDERR_FILENO + 1, ~0u, 0);
}

/* A pipe without a reader: what is missing there is missed by nobody. */
static bool
is_unread(int fd)
{
	struct pollfd one = {.fd = fd};

	return poll(&one, 1, 0) == 1 && (one.revents & POLLERR) != 0;
}

int
process_end_output(int status)
{
	errno = EIO; /* of an earlier failure */
	if ((fflush(stdout) == 0 && !ferror(stdout)) || is_unread(STDOUT_FILENO))
		return status;
	log_error("standard output: cannot be written: %s", strerror(errno));
	return status == EXIT_SUCCESS ? EXIT_FAILURE : status;
}

static bool
exiting(pid_t pid)
{
	struct proc_stat stat;

	return proc_file_stat(pid, &stat) && proc_stat_ended(&stat);
}

/* True when SIGKILL is pending: the process will exit as soon as the kernel lets it run. */
static bool
killed(pid_t pid)
{
	char status[4096];

	return proc_file_read(pid, "status", status, sizeof status) &&
	       (proc_status_pending(status) & (UINT64_C(1) << (SIGKILL - 1))) != 0;
}

bool
process_ended(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	bool ended;

	if (fd < 0)
		return errno == ESRCH;
	ended = poll(&wait, 1, 0) == 1;
	if (!ended && (exiting(pid) || killed(pid)))
		ended = poll(&wait, 1, PATIENCE_MS) == 1;
	close(fd);
	return ended;
}

bool
process_wait(int pidfd, int seconds)
{
	struct pollfd wait = {.fd = pidfd, .events = POLLIN};
	int n;

	while ((n = poll(&wait, 1, seconds * 1000)) < 0 && errno == EINTR)
		;
	return n == 1;
}
