/* Facts about the process behind a request. Each may be unknown: the process may have
 * ended, belong to another user, or live in another PID namespace.
 *
 * Nothing here waits for the caller. Reading /proc/PID/stat does, as reading syscall, mem, io,
 * stack and others does: the kernel takes a lock for them that it holds itself while a process
 * executes another program, and closes its files, and waits for this mount to answer that. The
 * files that are read here are `status` and those in `fdinfo`. */
#ifndef LSFS_FS_FUSE_PROC_H
#define LSFS_FS_FUSE_PROC_H

#include "cell/sys/mountinfo.h"
#include "fs/mount/mount.h"

/* ---- by its pidfd: that takes no lock of the caller, and an eighth of the time that reading /proc
 * takes. The kernel names the process since 6.13, and tells of its memory since 6.16. ---- */

/* The callers that were asked of last; a process that writes again and again is opened once. */
struct pidfds {
	struct pidfd {
		pid_t thread; /* 0: none */
		int fd;
	} known[64];
};

enum pidfd_memory {
	PIDFD_UNKNOWN, /* the kernel can't report it, or there is no such thread */
	PIDFD_HAS_MEMORY,
	PIDFD_HAS_NONE,
	PIDFD_DUMPS, /* it has none, because it was killed, and its core dumped */
};

/* Closes them all. */
void pidfds_fini(struct pidfds *p);
/* The thread's process; 0: the kernel can't report it, or there is no such thread. */
pid_t pidfds_process(struct pidfds *p, pid_t thread);
/* Whether the thread's process has memory: one that exits has none any more. */
enum pidfd_memory pidfds_memory(struct pidfds *p, pid_t thread);

/* ---- from /proc, where the pidfd does not tell ---- */

/* The process of a thread; `thread` itself where /proc does not show it. */
pid_t proc_of_thread(struct pidfds *known, pid_t thread);

/* Whether the process of the thread is exiting, and whether a signal killed it. (An exiting process
 * still sends a FLUSH for each open file.) One that was killed by a signal that dumps core is not
 * told from one that exits, unless the kernel says so. /proc is read of one that exits, and where
 * the kernel does not tell whether it does. */
enum mount_fate proc_fate(struct pidfds *known, pid_t thread);

/* True if a signal has killed the process of the thread, which exits: by its file `status`. */
bool proc_was_killed(const char *status);

/* The fate of a thread that was interrupted: killed if a pending signal will end its process,
 * alive if its program will handle one, and undisturbed if it will notice nothing. */
enum mount_fate proc_fate_at_signal(pid_t thread);

/* Whether the process has a descriptor through which it can write, open on inode `ino` of the mount
 * `ours`; unknown is no. /proc shows the number that the kernel was last told for the inode, which
 * is `shown` once a renamed file was asked about. The loop, and with it every other call, waits
 * meanwhile; to keep that to about a millisecond only the lowest 64 descriptors are read, among
 * which are those that a shell redirects. During a FLUSH the descriptor that is being closed is not
 * one of them. */
bool proc_has_descriptor(pid_t pid, uint64_t ino, uint64_t shown, const struct mountinfo *ours);

#endif
