/* One run of lsfs, from its options to its exit status. */
#ifndef LSFS_FS_LSFS_H
#define LSFS_FS_LSFS_H

#include "fs/daemon.h"
#include "fs/options.h"

/* Prepares everything, mounts, serves until the mount is taken off or a signal says so, and cleans
 * up. Calls daemon_ready once the mount answers. 0, or 1 after a logged line. */
int lsfs_run(const struct options *options, struct daemon *daemon);

#endif
