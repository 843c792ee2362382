/* What a mount says of its session, read from its .cell/status. The mount answers that without the
 * cell; but a daemon that is frozen answers nothing, and the caller waits. */
#ifndef LSFS_CTL_MOUNT_STATUS_H
#define LSFS_CTL_MOUNT_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "cell/base/mono.h"

struct mount_status {
	uint64_t session; /* 0: none */
	bool over;        /* expired or closed: no lock of it is held any more */
	mono_t asked;     /* when the question began */
	bool leased;      /* the local lease runs */
	mono_t lease_end; /* then its end, or a little earlier; else when it was asked */
};

/* Opens the status of the mount that has this device (of stat(2)); a descriptor that goes on
 * telling of the same mount whatever is mounted where, or -errno: -ENOENT when no place shows the
 * root of that mount. */
int mount_status_open(dev_t device);
/* 0, or -errno: the mount's daemon has ended. */
int mount_status_read(int fd, struct mount_status *status);

#endif
