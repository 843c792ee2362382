/* Gives freed memory back to the system. malloc does so at the end of its heap only, so that a
 * replica would stay as large as its largest moment: large writes, a log that a slow follower
 * holds up, a million files that are deleted. */
#ifndef LSFS_HOST_HEAP_TRIM_H
#define LSFS_HOST_HEAP_TRIM_H

#include <stddef.h>
#include <uv.h>

struct heap_trim {
	uv_timer_t timer;
	int statm;   /* /proc/self/statm */
	size_t kept; /* bytes of free memory that trimming could not give back */
};

/* Looks each second from now on, also after the process has confined itself. Does not keep the
 * loop running. A negative errno: there is nothing to stop. */
int heap_trim_start(struct heap_trim *h, uv_loop_t *loop);
/* Closes the timer, which takes one more turn of the loop. */
void heap_trim_stop(struct heap_trim *h);

#endif
