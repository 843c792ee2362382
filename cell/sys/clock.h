/* The only functions that read clocks, and the operating system's random source. */
#ifndef LSFS_SYS_CLOCK_H
#define LSFS_SYS_CLOCK_H

#include <stddef.h>
#include "cell/base/mono.h"

/* The present instant of CLOCK_BOOTTIME. */
mono_t clock_now(void);
/* CLOCK_REALTIME in nanoseconds since 1970. For time stamps only: the clock may jump. */
int64_t clock_wall_ns(void);
/* Returns clock_now, and puts clock_wall_ns into *wall_ns, unless that is NULL: the clock of a
 * clock_io. Does not use `user`. */
mono_t clock_read(void *user, int64_t *wall_ns);
/* Fills `len` bytes with random bits fit for keys; waits, early after boot, until the kernel has
 * enough of them. */
void random_fill(void *to, size_t len);

#endif
