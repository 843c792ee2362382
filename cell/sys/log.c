#include "cell/sys/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/base/printable.h"
#include "cell/sys/clock.h"

static const char *program_name = "lsfs";

/* ---- stderr: it may be a pipe without a reader, or a stopped terminal ---- */

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
log_never_block(void)
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
log_end_never_blocking(void)
{
	if (way == WAY_OWN)
		close(out);
	out = STDERR_FILENO;
	way = WAY_WRITE;
}

static ssize_t
put_bytes(const char *text, size_t len)
{
	struct pollfd ready = {.fd = out, .events = POLLOUT};
	ssize_t n;

	if (way == WAY_POLLED && (poll(&ready, 1, 0) != 1 || (ready.revents & POLLOUT) == 0))
		return -1;
	do
		n = way == WAY_SEND ? send(out, text, len, MSG_DONTWAIT | MSG_NOSIGNAL)
		                    : write(out, text, len);
	while (n < 0 && errno == EINTR);
	return n;
}

/* Writes a line, which ends with a newline. False when it or its end was lost. Any thread; each
 * line is one write, so that lines of several threads or processes do not mix. */
static bool
stderr_log_put(const char *line, size_t len)
{
	ssize_t n;

	if (torn && put_bytes("\n", 1) != 1)
		return false;
	torn = false;
	n = put_bytes(line, len);
	torn = n > 0 && (size_t)n < len;
	return n == (ssize_t)len;
}

/* ---- the system's log: like syslog(3), but sending never blocks ---- */

enum { MESSAGE_MAX = 2304 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char *socket_path;
static int fd = -1;
static unsigned lines; /* in this window */
static mono_t window_ends;

/* True if there is a connection by now. */
static bool
connect_to_log(void)
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
	for (int i = 0; i < 2 && connect_to_log(); i++) {
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

/* Sends one line with a priority of syslog(3). False when it is lost: the log does not accept it,
 * or LIMIT_LOG_LINES were sent within the last LIMIT_LOG_WINDOW_S. Any thread. */
static bool
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

/* ---- both ---- */

static enum log_level highest = LEVEL_INFO;
static bool to_system;
static bool to_journal; /* stderr is the journal: it adds the program's name and wants a priority */
static enum log_form form;
static struct {
	char cell[LIMIT_CELL_NAME + 1]; /* empty: none */
	unsigned replica;
} about; /* of JSON */
static struct {
	char text[LOG_LINE_MAX];
	mono_t until; /* repetitions are counted */
	unsigned long repeated;
} last;                   /* the line that was printed last; under the mutex */
static atomic_ulong lost; /* lines that could not be written since the last successful one */

/* systemd.exec(5): stderr leads to the journal if it is the device and inode that the environment
 * variable names. The variable alone proves nothing: stderr may have been redirected since. */
static bool
is_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

void
log_start(const char *program, enum log_level level)
{
	program_name = program;
	highest = level;
	to_journal = is_journal();
}

void
log_as(enum log_form f)
{
	if (f != LOG_SERVICE || form != LOG_JSON)
		form = f;
}

void
log_about(const char *cell, unsigned replica)
{
	snprintf(about.cell, sizeof about.cell, "%s", cell);
	about.replica = replica;
}

bool
log_prints(enum log_level level)
{
	return level <= highest;
}

void
log_to_system(const char *socket)
{
	log_end_never_blocking();

	tzset(); /* reads the time zone file now: the first message must not wait for it */
	pthread_mutex_lock(&mutex);
	if (fd >= 0)
		close(fd);
	fd = -1;
	socket_path = socket;
	window_ends = (mono_t){0};
	pthread_mutex_unlock(&mutex);

	to_system = true;
}

static int
system_level(enum log_level level)
{
	static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

	return levels[level];
}

/* Appends to a line as snprintf; returns the new length, below `size`. */
static size_t __attribute__((format(printf, 4, 5)))
append(char *line, size_t size, size_t len, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + len, size - len, format, args);
	va_end(args);
	return n < 0 ? len : len + (size_t)n >= size ? size - 1 : len + (size_t)n;
}

/* "2026-11-26T19:20:57.123Z" */
static const char *
stamp(char text[static 32])
{
	struct timespec now;
	struct tm utc;
	size_t n;

	clock_gettime(CLOCK_REALTIME, &now);
	n = strftime(text, 32, "%FT%T", gmtime_r(&now.tv_sec, &utc));
	snprintf(text + n, 32 - n, ".%03ldZ", now.tv_nsec / 1000000);
	return text;
}

/* The head of a line: everything before its text. */
static size_t
put_head(enum log_level level, char *line, size_t size)
{
	static const char *const names[] = {"error", "warning", "info", "debug"};
	size_t len = 0;
	char time[32];

	line[0] = '\0';
	if (to_journal && !to_system)
		len = append(line, size, len, "<%d>", system_level(level));
	if (form == LOG_JSON) {
		len = append(line, size, len,
		             "{\"time\": \"%s\", \"level\": \"%s\", \"program\": \"%s\"",
		             stamp(time), names[level], program_name);
		if (about.cell[0] != '\0')
			len = append(line, size, len, ", \"cell\": \"%s\"", about.cell);
		if (about.replica)
			len = append(line, size, len, ", \"replica\": %u", about.replica);
		return append(line, size, len, ", \"message\": \"");
	}
	if (to_journal || to_system)
		return len;
	if (form == LOG_SERVICE)
		len = append(line, size, len, "%s ", stamp(time));
	return append(line, size, len, "%s: ", program_name);
}

/* Writes a line in its form; the system's log adds time, program and line end itself. Messages
 * quote names from messages and files: a control character in one must not move a terminal's cursor
 * or end the line early. */
static bool
put_line_of(enum log_level level, const char *text)
{
	char line[LOG_LINE_MAX];
	const size_t size = sizeof line - 3;
	size_t len = put_head(level, line, size);

	while (*text != '\0' && len + 5 < size) {
		bool shown;
		const size_t n = printable_next(text, &shown);

		if (form == LOG_JSON && shown && (*text == '"' || *text == '\\'))
			line[len++] = '\\';
		for (size_t i = 0; i < n; i++)
			line[len++] = shown ? text[i] : '?';
		text += n;
	}
	if (form == LOG_JSON)
		len = append(line, sizeof line - 1, len, "\"}");
	if (to_system)
		return system_log_send(system_level(level), line, len);
	line[len++] = '\n';
	return stderr_log_put(line, len);
}

/* True if a service's line repeats the one before: for a while it is only counted. Otherwise
 * `before` is the number of repetitions of the last line that were not reported. */
static bool
repeats(const char *text, unsigned long *before)
{
	const mono_t now = clock_now();
	bool same;

	*before = 0;
	if (form == LOG_PLAIN)
		return false;
	pthread_mutex_lock(&mutex);
	same = strncmp(text, last.text, sizeof last.text - 1) == 0 && mono_before(now, last.until);
	if (!same) {
		*before = last.repeated;
		snprintf(last.text, sizeof last.text, "%s", text);
		last.until = mono_add(now, span_s(LIMIT_LOG_WINDOW_S));
		last.repeated = 0;
	}
	last.repeated += same;
	pthread_mutex_unlock(&mutex);
	return same;
}

static bool
put(enum log_level level, const char *text)
{
	unsigned long before;
	char more[64];

	if (repeats(text, &before))
		return true;
	snprintf(more, sizeof more, "the message before was repeated %lu times", before);
	return (before == 0 || put_line_of(LEVEL_INFO, more)) && put_line_of(level, text);
}

/* Reports how many lines were lost, before the next line; false when that does not succeed. */
static bool
report_lost(void)
{
	unsigned long n = atomic_exchange(&lost, 0);
	char text[96];

	snprintf(text, sizeof text, "%lu messages were lost: the log did not take them", n);
	if (n == 0 || put(LEVEL_WARN, text))
		return true;
	atomic_fetch_add(&lost, n);
	return false;
}

void
log_line(void *user, enum log_level level, const char *line)
{
	const int saved_errno = errno;

	(void)user;
	if (log_prints(level) && (!report_lost() || !put(level, line)))
		atomic_fetch_add(&lost, 1);
	errno = saved_errno;
}

#define LOG_FUNCTION(type, name, level, result)                     \
	type name(const char *format, ...)                          \
	{                                                           \
		char text[LOG_LINE_MAX];                            \
		va_list args;                                       \
                                                                    \
		if (log_prints(level)) {                            \
			va_start(args, format);                     \
			vsnprintf(text, sizeof text, format, args); \
			va_end(args);                               \
			log_line(NULL, level, text);                \
		}                                                   \
		return result;                                      \
	}

LOG_FUNCTION(bool, log_error, LEVEL_ERROR, false)
LOG_FUNCTION(void, log_warn, LEVEL_WARN, )
LOG_FUNCTION(void, log_info, LEVEL_INFO, )
LOG_FUNCTION(void, log_debug, LEVEL_DEBUG, )
