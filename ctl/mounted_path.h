/* Paths in mounted cells, which need not be there yet, and the events of their mounts. */
#ifndef LSFS_CTL_MOUNTED_PATH_H
#define LSFS_CTL_MOUNTED_PATH_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "cell/sys/mountinfo.h"

/* Opens the path, or the nearest directory above it that there is, and gives the canonical path, to
 * which the rest that is not there is added as it is named. *there: it is the path itself. The
 * mount watches it while it is open. Returns the descriptor, or -1 with errno. */
int mounted_path_open(const char *path, char canonical[PATH_MAX], bool *there);
/* The cell's mount that contains `canonical`; false after an error message, which names `path`. */
bool mounted_path_mount(const char *path, const char *canonical, struct mountinfo *info);
/* Opens the events of the mount, for reads that do not block; -1 after an error message. */
int mounted_path_events(const struct mountinfo *info);
/* Opens the changes of the cell that is mounted there, those above the log index `since`, for reads
 * that wait for more; -1 after an error message. */
int mounted_path_changes(const char *mountpoint, uint64_t since);

#endif
