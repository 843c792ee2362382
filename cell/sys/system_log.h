/* The system's log, like syslog(3), but sending never blocks: the log daemon may be stopped or
 * slow. */
#ifndef LSFS_SYS_SYSTEM_LOG_H
#define LSFS_SYS_SYSTEM_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* From here on messages go to the datagram socket at `path`, with the program's name `program`
 * (both kept, not copied). */
void system_log_open(const char *path, const char *program);
/* Sends one line with a priority of syslog(3). False when it is lost: the log does not accept it,
 * or LIMIT_LOG_LINES were sent within the last LIMIT_LOG_WINDOW_S. Any thread. */
bool system_log_send(int priority, const char *text, size_t len);

#endif
