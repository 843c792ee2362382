/* The descendants of the calling process. If it is a subreaper (prctl(2)), they include processes
 * whose own parents have ended. */
#ifndef LSFS_CTL_DESCENDANTS_H
#define LSFS_CTL_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct descendant {
	pid_t pid;
	bool stopped; /* by a signal */
};

/* All living descendants of the calling process but `spared`: an array of *n, owned by the caller;
 * NULL when there are none. A process that is started meanwhile may be missed. */
struct descendant *descendants_list(pid_t spared, size_t *n);

/* Sends the signal `number` to every living descendant of the calling process but `spared`; returns
 * their number. A process that is started meanwhile may be missed: call it again until it returns
 * 0. */
int descendants_signal(int number, pid_t spared);

#endif
