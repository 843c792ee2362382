/* Processes: the descriptors that this process inherits, its output, and the end of other
 * processes. A killed process holds its locks until its last thread is gone, which may wait for a
 * disk; a successor started at once must wait for that rather than fail because the lock is held.
 */
#ifndef LSFS_SYS_PROCESS_H
#define LSFS_SYS_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

/* Opens those of descriptors 0 to 2 that the caller left closed on /dev/null; aborts where that
 * fails. Every program calls it first: otherwise a database could get one of these numbers, and
 * messages for stderr would be written into the database. */
void process_open_standard(void);

/* Closes all descriptors above 2. A daemon calls it next: otherwise the descriptors that its caller
 * left open, and the caller's locks on them, would live as long as the daemon. */
void process_close_inherited(void);

/* The exit status of a program that ends with `status`, after its last output: another one, after
 * an error message, when something that was printed could not be written. */
int process_end_output(int status);

/* True when the process has ended. Waits, at most 10 s, for one that is exiting or killed; returns
 * false at once for any other. */
bool process_ended(pid_t pid);

/* Waits at most `seconds` until the process of the descriptor (pidfd_open(2)) has ended; false when
 * it has not. */
bool process_wait(int pidfd, int seconds);

#endif
