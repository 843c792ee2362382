/* Locks that exclude only this machine's processes: the kernel handles flock(2) and fcntl(2) on
 * directories itself, and leases on files, and no option of a mount changes that. These locks are
 * in the kernel's table of local locks, /proc/locks, while those that a mount of ours answers are
 * not. */
#ifndef LSFS_SYS_LOCAL_LOCK_H
#define LSFS_SYS_LOCAL_LOCK_H

#include <stdint.h>
#include "cell/sys/mountinfo.h"

struct local_lock {
	uint64_t ino;
	pid_t pid;
	bool lease; /* of a file, by F_SETLEASE; else a lock of a directory */
};

/* Calls `each` for the granted locks of the table that are on the device of `mounted`; looks at
 * `lines` lines at most, at about 1 us each. */
void local_lock_each(const struct mountinfo *mounted, int lines,
                     void (*each)(void *user, const struct local_lock *lock), void *user);
/* Puts the path of the directory or file, as the locking process sees it, into `name`, or else its
 * inode. */
void local_lock_name(const struct mountinfo *mounted, const struct local_lock *lock,
                     char name[PATH_MAX]);
/* Parses a line of /proc/locks: true, with *lock, for a granted lock on the device of `mounted`. */
bool local_lock_parse(const char *line, const struct mountinfo *mounted, struct local_lock *lock);

#endif
