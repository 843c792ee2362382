/* A line for a person who waits for a lock. */
#ifndef LSFS_CTL_WAIT_NOTE_H
#define LSFS_CTL_WAIT_NOTE_H

#include <sys/types.h>

/* Says who holds the lock of `path`, since when, and how many are before process `waiter` of this
 * host. It asks the mount, which may take as long as the mount is silent. */
void wait_note_print(const char *path, pid_t waiter);

#endif
