/* Going into the background: the process forks before any thread, lock or database exists, and the
 * parent exits when the mount answers. */
#ifndef LSFS_FS_DAEMON_H
#define LSFS_FS_DAEMON_H

#include <stdbool.h>

struct daemon {
	int ready;  /* the child's end of the pipe to its parent; -1: in the foreground */
	bool debug; /* the system log gets messages of LEVEL_DEBUG, too */
	bool stays; /* see daemon_stay */
};

/* Forks. In the child: true, with *daemon for daemon_ready. In the parent: waits until the child
 * calls daemon_ready or ends; in the first case calls stat on `mountpoint` once (a process must not
 * access its own mount, so the child can't); then false, with the exit status for the caller in
 * *status. The child gets a SIGTERM when the parent ends before that. The child keeps the parent's
 * stderr until it is ready, so that its messages are seen. */
bool daemon_fork(struct daemon *daemon, const char *mountpoint, int *status);

/* The child goes on if the parent is killed: it is about to have a mount that was there before. It
 * forks again, to be a child of the service manager, which learns of the end of its children. */
void daemon_stay(struct daemon *daemon);
/* After daemon_stay: lets the parent end with status 1. A message has said why. */
void daemon_failed(struct daemon *daemon);
/* Detaches from the terminal: messages go to the system log from here on. Nothing changes in the
 * foreground. */
void daemon_leave(struct daemon *daemon);
/* Leaves the terminal without a mount, and lets the parent end well. Nothing changes in the
 * foreground, or when this was done. */
void daemon_background(struct daemon *daemon);
/* Reports to the parent that the mount answers. Nothing changes in the foreground, or when the
 * parent was let go before. */
void daemon_ready(struct daemon *daemon);

#endif
