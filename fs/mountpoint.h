/* Prepares the mount point: checks that it is a free directory, and finds the session of an earlier
 * daemon that was killed. */
#ifndef LSFS_FS_MOUNTPOINT_H
#define LSFS_FS_MOUNTPOINT_H

#include <limits.h>
#include <stdbool.h>
#include "cell/sys/run_dir.h"

struct mountpoint {
	char path[PATH_MAX];       /* canonical */
	struct run_file run;       /* our own run record */
	struct run_record earlier; /* of a daemon that was killed; session 0: none */
};

/* Checks the mount point, takes ownership of its run record and unmounts a dead mount of ours
 * there. False after one logged line: missing, not a directory, or in use by a living lsfs. */
bool mountpoint_take(struct mountpoint *m, const char *path);
/* The same for `lsfs --replace`, without ownership: only finds the path and that of the record.
 * False after one logged line. */
bool mountpoint_of_another(struct mountpoint *m, const char *path);
/* Unmounts what is mounted there. False after one logged line. */
bool mountpoint_detach(const char *path);
/* Releases the ownership. `in_order`: the session was closed, so the run record is removed;
 * otherwise it stays, and the next daemon ends the session. */
void mountpoint_release(struct mountpoint *m, bool in_order);

#endif
