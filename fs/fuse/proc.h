/* What /proc tells of the process behind a request. Everything here may be unknown: the process may
 * have gone, belong to another user, or live in another name space. */
#ifndef LSFS_FS_FUSE_PROC_H
#define LSFS_FS_FUSE_PROC_H

#include "cell/sys/mountinfo.h"
#include "fs/mount/mount.h"

/* The process of a thread; `thread` itself where /proc does not tell. */
pid_t proc_of_thread(pid_t thread);

/* Is it exiting, and was it killed by a signal? (A dying process still sends its FLUSHes.) */
enum mount_fate proc_fate(pid_t pid);

/* The same for a thread that has a signal: killed if one is pending that ends its process. */
enum mount_fate proc_fate_at_signal(pid_t thread);

/* How many descriptors of the process are open on inode `ino` of the mount `ours`? -1 if that can't
 * be told within about a millisecond: the loop waits meanwhile, and so does every other call. The
 * lowest 64 descriptors are looked at, where a shell has what it redirects: if there are more, what
 * is found among these is told, and none is no answer. In a FLUSH the
 * descriptor being closed is out already. */
int proc_descriptors(pid_t pid, uint64_t ino, const struct mountinfo *ours);

#endif
