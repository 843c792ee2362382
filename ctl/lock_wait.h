/* The note for a person who waits for a lock: who holds it, since when, and how many are ahead. */
#ifndef LSFS_CTL_LOCK_WAIT_H
#define LSFS_CTL_LOCK_WAIT_H

#include <sys/types.h>

/* Starts a child that prints the note about the lock for which the process `waiter` waits, and
 * ends. The child calls into the mount, which may block it. */
void lock_wait_tell(const char *path, pid_t waiter);

#endif
