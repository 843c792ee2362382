#include "cell/io/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

static const char *program_name = "lsfs";
static enum log_level highest = LEVEL_INFO;
static bool to_system;

void
log_start(const char *program, enum log_level level)
{
	program_name = program;
	highest = level;
}

void
log_to_system(void)
{
	to_system = true;
	openlog(program_name, LOG_PID, LOG_DAEMON);
}

static int
system_level(enum log_level level)
{
	static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};

	return levels[level];
}

/* Messages quote names that others chose: nothing in them may move a terminal's cursor or end the
 * line early. */
static void
make_printable(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			text[i] = '?';
	}
}

/* One write per line, so that lines of several threads or processes do not mix. What cannot be
 * written is lost: there is nobody left to tell. */
static void __attribute__((format(printf, 2, 0)))
put_line(enum log_level level, const char *format, va_list args)
{
	char line[LINE_MAX_BYTES];
	int saved_errno = errno;
	int len, more, prefix;
	ssize_t written;

	if (level > highest)
		return;
	len = snprintf(line, sizeof line - 1, "%s: ", program_name);
	if (len < 0 || (size_t)len >= sizeof line - 1)
		len = 0;
	prefix = len;
	more = vsnprintf(line + len, sizeof line - 1 - (size_t)len, format, args);
	if (more > 0)
		len = (int)strnlen(line, sizeof line - 2);
	make_printable(line, (size_t)len);
	if (to_system) {
		syslog(system_level(level), "%.*s", len - prefix, line + prefix);
		errno = saved_errno;
		return;
	}
	line[len++] = '\n';
	do
		written = write(STDERR_FILENO, line, (size_t)len);
	while (written < 0 && errno == EINTR);
	errno = saved_errno;
}

#define LOG_FUNCTION(name, level)                                                             \
	void name(const char *format, ...)                                                    \
	{                                                                                     \
		va_list args;                                                                 \
                                                                                              \
		va_start(args, format);                                                       \
		put_line(level, format, args);                                                \
		va_end(args);                                                                 \
	}

LOG_FUNCTION(log_error, LEVEL_ERROR)
LOG_FUNCTION(log_warn, LEVEL_WARN)
LOG_FUNCTION(log_info, LEVEL_INFO)
LOG_FUNCTION(log_debug, LEVEL_DEBUG)
