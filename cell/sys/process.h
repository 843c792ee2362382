/* Processes: the descriptors that our own begins with, and others that are on their way out. A
 * killed process holds its locks until the last of its threads is gone, which may wait for a disk;
 * whoever starts a successor at once should not be told that the dead one is in the way. */
#ifndef LSFS_SYS_PROCESS_H
#define LSFS_SYS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* The first act of every program: descriptors 0 to 2 that its caller left closed are opened on
 * /dev/null. Else a database gets one of these numbers, and the next message goes into it. Ends the
 * process where that cannot be had. */
void process_open_standard(void);

/* The first act of a daemon after that: descriptors that its caller left open are closed. Else they
 * live as long as the daemon, and so do the caller's locks on them. */
void process_close_inherited(void);

/* True if the process has ended, after waiting for it (10 s at most) if it is exiting or killed.
 * False at once for one that lives. */
bool process_ended(pid_t pid);

/* Waits until the process behind the descriptor (of pidfd_open(2)) has ended, at most `seconds`;
 * false if it has not. */
bool process_wait(int pidfd, int seconds);

#endif
