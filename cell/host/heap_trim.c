#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/host/heap_trim.h"

enum { EVERY_MS = 1000, SPARE_MAX = 4 * 1024 * 1024 };

/* Bytes of memory that belongs to this process alone; 0: not known. */
static size_t
resident(int statm)
{
	unsigned long all, shared;
	char text[128];
	const ssize_t n = pread(statm, text, sizeof text - 1, 0);

	if (n <= 0)
		return 0;
	text[n] = '\0';
	if (sscanf(text, "%*u %lu %lu", &all, &shared) != 2)
		return 0;
	return (all - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

/* Bytes of the pages that this process has for memory that is not in use. */
static size_t
spare(const struct heap_trim *h, size_t *used)
{
	const struct mallinfo2 heap = mallinfo2();
	const size_t all = resident(h->statm);

	*used = heap.uordblks + heap.hblkhd;
	return all > *used ? all - *used : 0;
}

/* Blocks in use that are scattered over the pages keep them; those are not tried again. */
static void
on_timer(uv_timer_t *timer)
{
	struct heap_trim *h = timer->data;
	size_t used, now = spare(h, &used);

	if (now < h->kept)
		h->kept = now;
	if (now <= h->kept + SPARE_MAX + used / 4)
		return;
	malloc_trim(SPARE_MAX / 4);
	h->kept = spare(h, &used);
}

int
heap_trim_start(struct heap_trim *h, uv_loop_t *loop)
{
	int rc;

	h->kept = 0;
	h->statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (h->statm < 0)
		return -errno;
	rc = uv_timer_init(loop, &h->timer);
	if (rc < 0) {
		close(h->statm);
		return rc;
	}
	h->timer.data = h;
	must(uv_timer_start(&h->timer, on_timer, EVERY_MS, EVERY_MS) == 0);
	uv_unref((uv_handle_t *)&h->timer);
	return 0;
}

void
heap_trim_stop(struct heap_trim *h)
{
	uv_close((uv_handle_t *)&h->timer, NULL);
	close(h->statm);
}
