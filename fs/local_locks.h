/* Detects locks on our mount that exclude only this machine's processes (cell/sys/local_lock.h).
 * Each is logged once. */
#ifndef LSFS_FS_LOCAL_LOCKS_H
#define LSFS_FS_LOCAL_LOCKS_H

#include <uv.h>
#include "cell/sys/local_lock.h"

enum { LOCAL_LOCKS_REMEMBERED = 64 };

struct local_locks {
	uv_timer_t timer;
	const struct mountinfo *mounted;
	struct local_lock logged[LOCAL_LOCKS_REMEMBERED]; /* the latest logged ones, in a ring */
	unsigned logged_n;
};

/* Reads the table periodically from now on. `mounted` must outlive it. 0 or -errno. */
int local_locks_start(struct local_locks *l, uv_loop_t *loop, const struct mountinfo *mounted);
/* Closes its handle on the loop. */
void local_locks_stop(struct local_locks *l);

#endif
