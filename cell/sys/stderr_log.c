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

/* How a line is written. */
static enum way {
	WAY_WRITE,  /* blocking write: for tools, and for files, which never block for long */
	WAY_SEND,   /* non-blocking send: stderr is a socket, as systemd provides */
	WAY_OWN,    /* write to the same pipe or terminal, opened again as non-blocking */
	WAY_POLLED, /* write when poll() reports room: stderr could not be opened again */
} way;
static int out = STDERR_FILENO;
static bool torn; /* only the beginning of the last line was written, to a terminal */

/* The open file description of descriptor 2 is shared with other processes, for example the shell.
 * O_NONBLOCK would change it for them too, so the pipe or terminal is opened a second time. */
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
		out = STDERR_FILENO; /* for example a terminal of another user */
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
