/* The descendants of the calling process. If it is a subreaper (prctl(2)), they include processes
 * whose own parents have ended. */
#ifndef LSFS_CTL_DESCENDANTS_H
#define LSFS_CTL_DESCENDANTS_H

#include <sys/types.h>

/* Sends the signal `number` to every living descendant of the calling process but `spared`; returns
 * their number. A process that is started meanwhile may be missed: call it again until it returns
 * 0. */
int descendants_signal(int number, pid_t spared);

#endif
