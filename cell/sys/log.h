/* Messages for people, on stderr: "PROGRAM: what: why", one line each; where stderr is the
 * journal's, "<PRIORITY>what: why" (sd-daemon(3)). */
#ifndef LSFS_SYS_LOG_H
#define LSFS_SYS_LOG_H

enum { LOG_LINE_MAX = 2048 }; /* bytes */

enum log_level { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO, LEVEL_DEBUG };

/* The program's name (kept, not copied) and the highest level that is printed. */
void log_start(const char *program, enum log_level level);
/* From here on no message is waited for, as a server must not: one that stderr does not take at
 * once is counted, and told with the next one that it takes. */
void log_never_block(void);
/* From here on messages go to the system's log (syslog, facility daemon) behind this socket: for a
 * process that has left its terminal. Nothing waits for the log: what it does not take is counted,
 * and told when it takes something again. */
void log_to_system(const char *socket);
void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
