/* The clock of struct clock_io: it stands still until the test moves it. */
#ifndef LSFS_TESTS_STILL_CLOCK_H
#define LSFS_TESTS_STILL_CLOCK_H

#include "cell/base/mono.h"

static mono_t now;

static mono_t
io_now(void *user, int64_t *wall_ns)
{
	(void)user;
	(void)wall_ns;
	return now;
}

#endif
