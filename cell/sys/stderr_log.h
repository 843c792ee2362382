/* Lines on stderr, which may be a pipe without a reader or a stopped terminal. */
#ifndef LSFS_SYS_STDERR_LOG_H
#define LSFS_SYS_STDERR_LOG_H

#include <stdbool.h>
#include <stddef.h>

/* From here on a line that cannot be written at once is dropped. */
void stderr_log_never_block(void);
/* Closes the descriptor that stderr_log_never_block opened; for a process about to redirect its
 * stderr. */
void stderr_log_end(void);
/* Writes a line, which ends with a newline. False when it or its end was lost. Any thread; each
 * line is one write, so that lines of several threads or processes do not mix. */
bool stderr_log_put(const char *line, size_t len);

#endif
