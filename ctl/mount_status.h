/* The session of a mount, read from its .cell/status. A mount answers that without asking the cell;
 * but when its daemon is frozen, the call blocks. */
#ifndef LSFS_CTL_MOUNT_STATUS_H
#define LSFS_CTL_MOUNT_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include "cell/base/mono.h"

struct mount_status {
	uint64_t session; /* 0: none */
	bool lasting;     /* the session never expires */
	bool over;        /* the session expired or was closed: it holds no lock any more */
	mono_t asked;     /* when the read began */
	bool leased;      /* the local lease is valid */
	mono_t lease_end; /* if so its end, or a little earlier; else `asked` */
};

/* Opens the status of the mount with this device number (of stat(2)). Returns a descriptor that
 * stays with that mount, whatever is mounted over it later, or -errno: -ENOENT when the root of the
 * filesystem is mounted at no visible place. */
int mount_status_open(dev_t device);
/* Reads the status. 0, or -errno: the mount's daemon has ended. */
int mount_status_read(int fd, struct mount_status *status);

#endif
