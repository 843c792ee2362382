/* Human-readable messages on stderr, one line each: "PROGRAM: what: why", or, where stderr is
 * connected to the journal, "<PRIORITY>what: why" (sd-daemon(3)). Those of a service have the time
 * in front where nothing else adds it, or are JSON objects. */
#ifndef LSFS_SYS_LOG_H
#define LSFS_SYS_LOG_H

#include <stdbool.h>
#include "cell/base/clock_io.h"

enum { LOG_LINE_MAX = 2048 }; /* bytes */

/* Sets the program's name (kept, not copied) and the highest level that is printed. */
void log_start(const char *program, enum log_level level);

enum log_form {
	LOG_PLAIN,   /* at first */
	LOG_SERVICE, /* the time is in front, in UTC, but in the journal; a message that is the same
	              * as the one before is only counted, for LIMIT_LOG_WINDOW_S, and the count
	              * printed before the next message */
	LOG_JSON,    /* likewise counted; an object a line: time, level, program, message */
};

/* From here on messages have this form; JSON remains when a service begins. */
void log_as(enum log_form form);
/* JSON tells these, too: a cell's name and a replica's id (0: none). */
void log_about(const char *cell, unsigned replica);
/* True when messages of the level are printed. */
bool log_prints(enum log_level level);
/* From here on logging never blocks, as a server needs: a message that can't be written to stderr
 * at once is dropped and counted, and the count is printed before the next message that can. */
void log_never_block(void);
/* Closes what log_never_block has opened; for a process about to redirect its stderr. */
void log_end_never_blocking(void);
/* From here on messages go to the system's log (syslog, facility daemon) at the socket path
 * `socket` (kept, not copied): for a process that has left its terminal. Logging never blocks:
 * messages that the log does not accept are counted, and the count is sent before the next message
 * that it accepts. */
void log_to_system(const char *socket);
/* Prints a line of that level; the member of struct clock_io. Does not use `user`. */
void log_line(void *user, enum log_level level, const char *line);
/* Each of these prints one line of its level. Control characters in it (C1 ones included), and
 * bytes that are not UTF-8, become '?'; it is cut at LOG_LINE_MAX. Any thread; errno is kept. */

/* An error: a service fails, and people have to do something. Returns false, as functions do that
 * fail with it. */
bool log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A warning: something is not as it should be, and the program goes on. */
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* News of the normal course. */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Details, printed with --debug only. */
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
