#include "cell/sys/clock.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "cell/base/must.h"

static int64_t
read_clock(clockid_t id)
{
	struct timespec t;

	must(clock_gettime(id, &t) == 0);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

mono_t
clock_now(void)
{
	return (mono_t){read_clock(CLOCK_BOOTTIME)};
}

int64_t
clock_wall_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

mono_t
clock_read(void *user, int64_t *wall_ns)
{
	(void)user;
	if (wall_ns != NULL)
		*wall_ns = clock_wall_ns();
	return clock_now();
}

void
random_fill(void *to, size_t len)
{
	uint8_t *at = to;

	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);

		must(n > 0 || errno == EINTR);
		if (n > 0) {
			at += n;
			len -= (size_t)n;
		}
	}
}
