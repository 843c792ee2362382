#include "cell/sys/stderr_log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/sys/log.h"

static_assert(LOG_LINE_MAX <= PIPE_BUF, "a pipe takes a line whole, or not at all");

static enum way {
	WAY_WRITE,  /* and wait: for a tool's reader; a file takes what it is given */
	WAY_SEND,   /* a socket, as systemd gives */
	WAY_OWN,    /* through a description of our own that does not block */
	WAY_POLLED, /* when it says that there is room */
} way;
static int out = STDERR_FILENO;
static bool torn; /* a terminal took only the beginning of the last line */

/* The description behind descriptor 2 is shared with other processes, a shell's among them: the
 * same pipe or terminal is opened once more rather than made non-blocking for all. */
void
stderr_log_never_block(void)
{
	struct stat st;

	if (way != WAY_WRITE || fstat(STDERR_FILENO, &st) < 0)
		return;
	if (S_ISSOCK(st.st_mode))
		way = WAY_SEND;
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	out = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	way = out < 0 ? WAY_POLLED : WAY_OWN;
	if (out < 0)
		out = STDERR_FILENO; /* it is somebody else's */
}

void
stderr_log_end(void)
{
	if (way == WAY_OWN)
		close(out);
	out = STDERR_FILENO;
	way = WAY_WRITE;
}

static bool
has_room(void)
{
	struct pollfd ready = {.fd = out, .events = POLLOUT};

	return poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

static ssize_t
put(const char *text, size_t len)
{
	ssize_t n;

	if (way == WAY_POLLED && !has_room())
		return -1;
	do
		n = way == WAY_SEND ? send(out, text, len, MSG_DONTWAIT | MSG_NOSIGNAL)
		                    : write(out, text, len);
	while (n < 0 && errno == EINTR);
	return n;
}

bool
stderr_log_put(const char *line, size_t len)
{
	ssize_t n;

	if (torn && put("\n", 1) != 1)
		return false;
	torn = false;
	n = put(line, len);
	torn = n > 0 && (size_t)n < len;
	return n == (ssize_t)len;
}
