/* The only readers of clocks, and the operating system's random source. */
#ifndef LSFS_SYS_CLOCK_H
#define LSFS_SYS_CLOCK_H

#include <stddef.h>
#include "cell/base/mono.h"

mono_t clock_now(void);       /* CLOCK_BOOTTIME */
int64_t clock_wall_ns(void);  /* CLOCK_REALTIME, for stamps only */
void random_fill(void *to, size_t len);

#endif
