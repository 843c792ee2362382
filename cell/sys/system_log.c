#include "cell/sys/system_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/clock.h"

enum { MESSAGE_MAX = 2304 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *socket_path, *program_name;
static int fd = -1;
static unsigned lines; /* in this window */
static mono_t window_ends;

void
system_log_open(const char *path, const char *program)
{
	tzset(); /* reads the time zone file now: the first message must not wait for it */
	pthread_mutex_lock(&mutex);
	if (fd >= 0)
		close(fd);
	fd = -1;
	socket_path = path;
	program_name = program;
	window_ends = (mono_t){0};
	pthread_mutex_unlock(&mutex);
}

static bool
is_connected(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (fd >= 0)
		return true;
	snprintf(to.sun_path, sizeof to.sun_path, "%s", socket_path);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
		return true;
	if (fd >= 0)
		close(fd);
	fd = -1;
	return false;
}

/* Tries twice: a log daemon that was restarted has a new socket. */
static bool
send_message(const char *message, size_t len)
{
	for (int i = 0; i < 2 && is_connected(); i++) {
		if (send(fd, message, len, MSG_NOSIGNAL) == (ssize_t)len)
			return true;
		if (errno == EAGAIN || errno == ENOBUFS)
			return false;
		close(fd);
		fd = -1;
	}
	return false;
}

static bool
may_send(void)
{
	mono_t now = clock_now();

	if (mono_reached(now, window_ends)) {
		window_ends = mono_add(now, span_s(LIMIT_LOG_WINDOW_S));
		lines = 0;
	}
	return lines < LIMIT_LOG_LINES;
}

bool
system_log_send(int priority, const char *text, size_t len)
{
	char message[MESSAGE_MAX], stamp[32];
	time_t now = time(NULL);
	struct tm local;
	bool sent;
	int n;

	strftime(stamp, sizeof stamp, "%b %e %T", localtime_r(&now, &local));
	pthread_mutex_lock(&mutex);
	n = snprintf(message, sizeof message, "<%d>%s %s[%ld]: %.*s", LOG_DAEMON | priority, stamp,
	             program_name, (long)getpid(), (int)len, text);
	if (n >= (int)sizeof message)
		n = sizeof message - 1;
	sent = may_send() && send_message(message, (size_t)n);
	lines += sent;
	pthread_mutex_unlock(&mutex);
	return sent;
}
