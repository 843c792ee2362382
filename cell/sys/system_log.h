/* The system's log, as syslog(3) reaches it, but never waited for: its reader may be stopped or
 * slow. */
#ifndef LSFS_SYS_SYSTEM_LOG_H
#define LSFS_SYS_SYSTEM_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* Messages go to the datagram socket at `path` (kept, not copied), in the name of `program`. */
void system_log_open(const char *path, const char *program);
/* Sends one line of a priority of syslog(3). False: it is lost, because nobody takes it, or because
 * there were LIMIT_LOG_LINES lately. Any thread. */
bool system_log_send(int priority, const char *text, size_t len);

#endif
