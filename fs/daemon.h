/* Going into the background: fork first, before any thread, lock or database exists, and let the
 * parent live until the mount answers. */
#ifndef LSFS_FS_DAEMON_H
#define LSFS_FS_DAEMON_H

#include <stdbool.h>

struct daemon {
	int ready; /* the child's end of the pipe to its parent; -1: in the foreground */
};

/* In the child: true, with *daemon for daemon_ready. In the parent: waits until the child calls
 * daemon_ready or ends; then, if it is ready, asks the mount at `mountpoint` for its root once (a
 * process must not touch its own mount, so only the parent can); false with the exit status for
 * the caller in *status. The child gets a SIGTERM when the parent ends before that; it keeps the
 * parent's stderr until it is ready: its messages are seen. */
bool daemon_fork(struct daemon *daemon, const char *mountpoint, int *status);

/* Tells the parent, and lets go of the terminal: messages go to the system log from here on.
 * False in the foreground: nothing changes. */
bool daemon_ready(struct daemon *daemon);

#endif
