/* The log names what a call was missing that was refused for want of a right: the node's path, the
 * user, the right, and the ACL that does not give it. */
#ifndef LSFS_FS_MOUNT_REFUSAL_H
#define LSFS_FS_MOUNT_REFUSAL_H

#include "fs/mount/call.h"

enum {
	REFUSAL_INTERVAL_S = 60,
	REFUSAL_LINES = 10, /* in each interval; the other refusals are counted */
};

struct refusals {
	mono_t until; /* the end of the interval */
	unsigned lines;
	uint64_t untold;
};

/* The call is refused with EACCES. If a right was missing, the cell is asked in the background for
 * what the line names, and the line is a notice of the trace. */
void refusal_of_call(struct mount *m, const struct call *c);
/* The cell has refused, for want of the right to write, what the mount did after its caller was
 * answered. */
void refusal_of_work(struct mount *m, const struct call *c);

#endif
