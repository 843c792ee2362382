/* Preloaded into a daemon: its clocks jump as a test says, the time of day as when somebody sets
 * it, CLOCK_BOOTTIME as when its machine was suspended. $CLOCK_SHIM names a file of two 64-bit
 * numbers, the nanoseconds that are added to CLOCK_BOOTTIME and to CLOCK_REALTIME. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { BOOT, REAL, CLOCKS };

static const int64_t none[CLOCKS];
static const volatile int64_t *ahead;
static int (*read_clock)(clockid_t, struct timespec *);

/* Before the daemon confines itself: it opens no such file later. */
__attribute__((constructor)) static void
find_clocks(void)
{
	const char *path = getenv("CLOCK_SHIM");
	const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0) {
		at = mmap(NULL, sizeof none, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	*(void **)&read_clock = dlsym(RTLD_NEXT, "clock_gettime");
	ahead = at != MAP_FAILED ? at : none;
}

int
clock_gettime(clockid_t id, struct timespec *t)
{
	int64_t ns;

	if (ahead == NULL)
		find_clocks();
	if (read_clock(id, t) != 0)
		return -1;
	if (id != CLOCK_BOOTTIME && id != CLOCK_REALTIME)
		return 0;
	ns = t->tv_nsec + ahead[id == CLOCK_BOOTTIME ? BOOT : REAL];
	t->tv_sec += ns / 1000000000;
	t->tv_nsec = ns % 1000000000;
	if (t->tv_nsec < 0) {
		t->tv_sec--;
		t->tv_nsec += 1000000000;
	}
	return 0;
}
