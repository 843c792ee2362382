/* Detects locks on our mount that exclude only this machine's processes: the kernel handles
 * flock(2) and fcntl(2) on directories itself, and no option changes that. These locks are in the
 * kernel's table of local locks, /proc/locks, while those that the mount answers are not. Each is
 * logged once. */
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
	struct local_lock logged[LOCAL_LOCKS_REMEMBERED]; /* the latest logged ones, in a ring */
	unsigned logged_n;
};

/* Reads the table periodically from now on. `mounted` must outlive it. 0 or -errno. */
int local_locks_start(struct local_locks *l, uv_loop_t *loop, const struct mountinfo *mounted);
/* Closes its handle on the loop. */
void local_locks_stop(struct local_locks *l);

/* Parses a line of /proc/locks: true, with *lock, for a granted lock on the device of `mounted`. */
bool local_locks_parse(const char *line, const struct mountinfo *mounted, struct local_lock *lock);

#endif
