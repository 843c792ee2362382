/* All processes that a process has started, and what those have started. Ours includes those whose
 * parents have ended, once we are their subreaper. */
#ifndef LSFS_CTL_DESCENDANTS_H
#define LSFS_CTL_DESCENDANTS_H

#include <sys/types.h>

/* Sends `number` to every living descendant of the calling process but `spared`; how many there
 * were. One that is started meanwhile may be missed: ask again until there is none. */
int descendants_signal(int number, pid_t spared);

#endif
