/* The mount point before it is mounted: is it one, is it free, and what did an earlier daemon
 * leave. */
#ifndef LSFS_FS_MOUNTPOINT_H
#define LSFS_FS_MOUNTPOINT_H

#include <limits.h>
#include <stdbool.h>
#include "cell/sys/run_dir.h"

struct mountpoint {
	char path[PATH_MAX];       /* canonical */
	struct run_file run;       /* owned from here on */
	struct run_record earlier; /* of a daemon that was killed; session 0: none */
};

/* Checks the mount point, takes its run record and takes a dead mount of ours off it. False after
 * one logged line: missing, not a directory, or in use by a living lsfs. */
bool mountpoint_take(struct mountpoint *m, const char *path);
/* Gives it back. `in_order`: the session was closed, so nothing is left for the next daemon to
 * end. */
void mountpoint_release(struct mountpoint *m, bool in_order);

/* Does `path` lie in the directory `directory`, or is it that (both canonical)? */
bool path_lies_in(const char *path, const char *directory);

#endif
