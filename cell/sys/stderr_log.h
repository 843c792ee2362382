/* Lines on stderr, which may be a pipe that nobody reads or a terminal that was stopped. */
#ifndef LSFS_SYS_STDERR_LOG_H
#define LSFS_SYS_STDERR_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* From here on a line that cannot be written at once is lost. */
void stderr_log_never_block(void);
/* Gives up what that has opened: stderr is about to be something else. */
void stderr_log_end(void);
/* A whole line, with its end. False: it is lost, or a part of it. Any thread, one write a line, so
 * that lines of several threads or processes do not mix. */
bool stderr_log_put(const char *line, size_t len);

#endif
