/* Facts about the process behind a request, from /proc. Each may be unknown: the process may have
 * ended, belong to another user, or live in another PID namespace. */
#ifndef LSFS_FS_FUSE_PROC_H
#define LSFS_FS_FUSE_PROC_H

#include "cell/sys/mountinfo.h"
#include "fs/mount/mount.h"

/* The process of a thread; `thread` itself where /proc does not show it. */
pid_t proc_of_thread(pid_t thread);

/* Whether the process is exiting, and whether a signal killed it. (An exiting process still sends a
 * FLUSH for each open file.) */
enum mount_fate proc_fate(pid_t pid);

/* The same for a thread that was interrupted: killed if a pending signal will end its process,
 * alive if its program will handle one, and undisturbed if it will notice nothing. */
enum mount_fate proc_fate_at_signal(pid_t thread);

/* The number of the process's descriptors that are open on inode `ino` of the mount `ours`; -1 if
 * unknown. The loop, and with it every other call, waits meanwhile; to keep that to about a
 * millisecond only the lowest 64 descriptors are read, among which are those that a shell
 * redirects. When the process has more, the number found among these is returned, and -1 if that is
 * 0. During a FLUSH the descriptor that is being closed is not counted. */
int proc_descriptors(pid_t pid, uint64_t ino, const struct mountinfo *ours);

/* True if the system call in which the thread waits names a file by a descriptor alone, as fstat(2)
 * does; false if it doesn't, or that is unknown. */
bool proc_by_descriptor(pid_t thread);

#endif
