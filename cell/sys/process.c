#include "cell/sys/process.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "cell/base/principal.h"
#include "cell/sys/log.h"

enum { PATIENCE_MS = 10000 };

void
process_host(char name[LIMIT_HOST + 1])
{
	memset(name, 0, LIMIT_HOST + 1);
	gethostname(name, LIMIT_HOST);
	for (char *c = name; *c != '\0'; c++)
		if (!principal_host_valid((struct bytes){(const uint8_t *)c, 1}))
			*c = '-';
}

/* open() returns the lowest free number, which the loop has reached. An input that was closed
 * cannot be read: it is not an empty one, which would become the contents of a file. */
void
process_open_standard(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDWR) != fd)
			abort(); /* there is no stderr to report it on */
}

void
process_close_inherited(void)
{
	close_range(STDERR_FILENO + 1, ~0u, 0);
}

/* A pipe without a reader: output that is lost there does not matter. */
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

bool
process_ended(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd wait = {.fd = fd, .events = POLLIN};
	struct proc_status status;
	bool ended;

	if (fd < 0)
		return errno == ESRCH;
	ended = poll(&wait, 1, 0) == 1;
	if (!ended && proc_file_status(pid, &status) && (status.ended || status.killed))
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

/* ---- notify ---- */

/* An abstract name is written with an @ for its NUL. */
void
notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	socklen_t len;
	int fd;

	if (path == NULL || (path[0] != '/' && path[0] != '@') ||
	    strlen(path) >= sizeof to.sun_path)
		return;
	memcpy(to.sun_path, path, strlen(path));
	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT,
	                     (struct sockaddr *)&to, len) < 0)
		log_warn("%s: cannot report %s: %s", path, state, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static uint64_t
number_of(const char *name)
{
	const char *text = getenv(name);

	return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* $WATCHDOG_PID may be another process, whose variables this one has inherited. */
uint64_t
notify_watchdog_ms(void)
{
	const uint64_t pid = number_of("WATCHDOG_PID");

	return pid == 0 || pid == (uint64_t)getpid() ? number_of("WATCHDOG_USEC") / 3000 : 0;
}

/* ---- the files of /proc ---- */

bool
proc_file_read(pid_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
	fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	n = fd < 0 ? -1 : read(fd, text, room - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n > 0;
}

/* The number after the name of a line; 0: there is no such line. */
static uint64_t
line_number(const char *text, const char *name, int base)
{
	const char *at = strstr(text, name);

	return at ? strtoull(at + strlen(name), NULL, base) : 0;
}

bool
proc_file_descriptor(pid_t pid, const char *number, struct proc_descriptor *descriptor)
{
	char name[32], text[512];

	snprintf(name, sizeof name, "fdinfo/%s", number);
	if (!proc_file_read(pid, name, text, sizeof text))
		return false;
	descriptor->mount = (int)line_number(text, "\nmnt_id:", 10);
	descriptor->ino = line_number(text, "\nino:", 10);
	descriptor->flags = (int)line_number(text, "\nflags:", 8);
	return true;
}

uint64_t
proc_status_signals(const char *status, const char *key)
{
	return line_number(status, key, 16);
}

uint64_t
proc_status_pending(const char *status)
{
	return proc_status_signals(status, "\nSigPnd:") | proc_status_signals(status, "\nShdPnd:");
}

/* A process that exits gives up its memory first of all. Its first thread may end before the
 * others. Of a process with thousands of groups only the beginning is read: it has not ended. */
static bool
has_ended(const char *text)
{
	return strstr(text, "\nThreads:") != NULL && strstr(text, "\nVmSize:") == NULL &&
	       line_number(text, "\nThreads:", 10) <= 1;
}

bool
proc_file_status(pid_t pid, struct proc_status *status)
{
	char text[16384];
	const char *state;

	*status = (struct proc_status){0};
	if (!proc_file_read(pid, "status", text, sizeof text) ||
	    !(state = strstr(text, "\nState:\t")))
		return false;
	status->parent = (pid_t)line_number(text, "\nPPid:", 10);
	status->stopped = state[strlen("\nState:\t")] == 'T';
	status->ended = has_ended(text);
	status->killed = (proc_status_pending(text) & (UINT64_C(1) << (SIGKILL - 1))) != 0;
	return true;
}
