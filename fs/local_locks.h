/* Locks on our mount that only this machine knows of: the kernel keeps flock(2) and fcntl(2) on
 * directories to itself and cannot be told otherwise. They are in its table of local locks, where
 * those that we answer for are not; each is logged once. */
#ifndef LSFS_FS_LOCAL_LOCKS_H
#define LSFS_FS_LOCAL_LOCKS_H

#include <uv.h>
#include "cell/sys/mountinfo.h"

enum { LOCAL_LOCKS_REMEMBERED = 64 };

struct local_lock {
	uint64_t ino;
	pid_t pid;
};

struct local_locks {
	uv_timer_t timer;
	const struct mountinfo *mounted;
	struct local_lock told[LOCAL_LOCKS_REMEMBERED]; /* the latest, in a ring */
	unsigned told_n;
};

/* Looks from time to time. `mounted` must outlive it. 0 or -errno. */
int local_locks_start(struct local_locks *l, uv_loop_t *loop, const struct mountinfo *mounted);
/* Closes its handle on the loop. */
void local_locks_stop(struct local_locks *l);

/* One line of /proc/locks: true, with *lock, if it is a granted lock on the device of `mounted`. */
bool local_locks_parse(const char *line, const struct mountinfo *mounted, struct local_lock *lock);

#endif
