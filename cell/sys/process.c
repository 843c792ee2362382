#include "cell/sys/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	EXITING = 0x4, /* PF_EXITING among the flags of proc_pid_stat(5) */
	PATIENCE_MS = 10000,
};

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

/* True for a process that is exiting, or a zombie that its parent has not reaped yet. */
static bool
exiting(pid_t pid)
{
	char path[64], text[512], *at;
	unsigned flags = 0;
	char state = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	text[n] = '\0';
	at = strrchr(text, ')'); /* the end of the program's name, which may contain ')' itself */
	return at && sscanf(at, ") %c %*d %*d %*d %*d %*d %u", &state, &flags) == 2 &&
	       (state == 'Z' || state == 'X' || (flags & EXITING));
}

/* True when SIGKILL is pending: the process will exit as soon as the kernel lets it run. */
static bool
killed(pid_t pid)
{
	char path[64], line[256];
	uint64_t pending = 0, mask;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "SigPnd: %" SCNx64, &mask) == 1 ||
		    sscanf(line, "ShdPnd: %" SCNx64, &mask) == 1)
			pending |= mask;
	fclose(f);
	return (pending & (UINT64_C(1) << (SIGKILL - 1))) != 0;
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
