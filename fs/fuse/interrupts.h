/* The interrupted callers of parked requests. The kernel reports once that a caller was woken, and
 * not why: by a signal, or because it was stopped, frozen or traced. So the caller's signals are
 * looked up in /proc and handed to the mount, again and again until the call is answered. */
#ifndef LSFS_FS_FUSE_INTERRUPTS_H
#define LSFS_FS_FUSE_INTERRUPTS_H

#include <uv.h>
#include "cell/base/mono.h"
#include "fs/engine.h"
#include "fs/fuse/reply.h"

struct interrupts {
	struct replies *replies;
	struct engine *engine;
	uv_timer_t timer;   /* of the next look */
	mono_t looks_until; /* end of the window in which `looks` is counted */
	unsigned looks;
};

/* Begins to look after the interrupted calls among `replies`. 0 or -errno. */
int interrupts_start(struct interrupts *i, uv_loop_t *loop, struct replies *replies,
                     struct engine *engine);
/* Hands in the calls that were interrupted since the last time. */
void interrupts_hand_in(struct interrupts *i);
/* Closes its handle on the loop. */
void interrupts_stop(struct interrupts *i);

#endif
