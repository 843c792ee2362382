/* One run of lsfs, from its options to its exit status. */
#ifndef LSFS_FS_LSFS_H
#define LSFS_FS_LSFS_H

#include "fs/daemon.h"
#include "fs/options.h"

/* Opens the session, mounts, serves until an unmount, SIGTERM or SIGINT, and cleans up. Calls
 * daemon_ready once the mount answers. Returns the exit status: 0, or 1 after a logged line. */
int lsfs_run(const struct options *options, struct daemon *daemon);

#endif
