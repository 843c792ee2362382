#include "cell/sys/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>
#include "cell/sys/stderr_log.h"
#include "cell/sys/system_log.h"

static const char *program_name = "lsfs";
static enum log_level highest = LEVEL_INFO;
static bool to_system;
static bool to_journal; /* stderr is the journal: it adds the program's name and wants a priority */
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

bool
log_prints(enum log_level level)
{
	return level <= highest;
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

/* Messages quote names from messages and files: a control character in one must not move a
 * terminal's cursor or end the line early. */
static void
make_printable(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
			text[i] = '?';
	}
}

static int
put_prefix(char *line, size_t size, enum log_level level)
{
	int len = to_journal ? snprintf(line, size, "<%d>", system_level(level))
	                     : snprintf(line, size, "%s: ", program_name);

	return len < 0 || (size_t)len >= size ? 0 : len;
}

/* Writes "PROGRAM: what: why" with a newline; the system's log adds program and line end itself. */
static bool __attribute__((format(printf, 2, 0)))
put(enum log_level level, const char *format, va_list args)
{
	char line[LOG_LINE_MAX];
	int len, prefix;

	prefix = put_prefix(line, sizeof line - 1, level);
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

/* Reports how many lines were lost, before the next line; false when that does not succeed. */
static bool
report_lost(void)
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

	if (!log_prints(level))
		return;
	if (!report_lost() || !put(level, format, args))
		atomic_fetch_add(&lost, 1);
	errno = saved_errno;
}

#define LOG_FUNCTION(name, level)              \
	void name(const char *format, ...)     \
	{                                      \
		va_list args;                  \
                                               \
		va_start(args, format);        \
		put_line(level, format, args); \
		va_end(args);                  \
	}

LOG_FUNCTION(log_error, LEVEL_ERROR)
LOG_FUNCTION(log_warn, LEVEL_WARN)
LOG_FUNCTION(log_info, LEVEL_INFO)
LOG_FUNCTION(log_debug, LEVEL_DEBUG)
