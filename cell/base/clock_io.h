/* The clock, random bytes and the log for people, as their owner hands them to a part that has none
 * of its own: cell/sys in a process, virtual time in the simulator. */
#ifndef LSFS_BASE_CLOCK_IO_H
#define LSFS_BASE_CLOCK_IO_H

#include <stddef.h>
#include "cell/base/mono.h"

enum log_level { LEVEL_ERROR, LEVEL_WARN, LEVEL_INFO, LEVEL_DEBUG };

struct clock_io {
	/* The clock for decisions; and in *wall_ns, unless it is NULL, the time of day, for
	 * time stamps. */
	mono_t (*now)(void *user, int64_t *wall_ns);
	void (*random)(void *user, void *to, size_t n);
	/* Logs a line, given without a newline; NULL: nothing is logged. */
	void (*log)(void *user, enum log_level level, const char *line);
	void *user;
};

/* The present instant. */
static inline mono_t
clock_io_now(const struct clock_io *io)
{
	return io->now(io->user, NULL);
}

/* Formats a line and logs it; formats nothing if `log` is NULL. */
void clock_io_log(const struct clock_io *io, enum log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
