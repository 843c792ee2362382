#include "cell/io/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include "cell/io/stderr_log.h"
#include "cell/io/system_log.h"

static const char *program_name = "lsfs";
static enum log_level highest = LEVEL_INFO;
static bool to_system;
static atomic_ulong lost; /* lines that could not be written since the last one that could */

void
log_start(const char *program, enum log_level level)
{
	program_name = program;
	highest = level;
}

void
log_never_block(void)
{
	stderr_log_never_block();
}

void
log_to_system(const char *socket)
{
	stderr_log_end();
	system_log_open(socket, program_name);
	to_system = true;
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

/* "PROGRAM: what: why" and the end of a line; the system's log adds both itself. */
static bool __attribute__((format(printf, 2, 0)))
put(enum log_level level, const char *format, va_list args)
{
	char line[LOG_LINE_MAX];
	int len, prefix;

	prefix = snprintf(line, sizeof line - 1, "%s: ", program_name);
	if (prefix < 0 || (size_t)prefix >= sizeof line - 1)
		prefix = 0;
	line[prefix] = '\0';
	vsnprintf(line + prefix, sizeof line - 1 - (size_t)prefix, format, args);
	len = (int)strlen(line);
	make_printable(line, (size_t)len);
	if (to_system)
		return system_log_send(system_level(level), line + prefix, (size_t)(len - prefix));
	line[len++] = '\n';
	return stderr_log_put(line, (size_t)len);
}

static bool __attribute__((format(printf, 2, 3)))
put_text(enum log_level level, const char *format, ...)
{
	va_list args;
	bool done;

	va_start(args, format);
	done = put(level, format, args);
	va_end(args);
	return done;
}

/* Before the next message that can be written. */
static bool
tell_lost(void)
{
	unsigned long n = atomic_exchange(&lost, 0);

	if (n == 0 || put_text(LEVEL_WARN, "%lu messages were lost: the log did not take them", n))
		return true;
	atomic_fetch_add(&lost, n);
	return false;
}

static void __attribute__((format(printf, 2, 0)))
put_line(enum log_level level, const char *format, va_list args)
{
	int saved_errno = errno;

	if (level > highest)
		return;
	if (!tell_lost() || !put(level, format, args))
		atomic_fetch_add(&lost, 1);
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
