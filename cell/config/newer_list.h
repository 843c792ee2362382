/* A newer list of a cell's replicas, found on this machine. A cell file names the replicas of the
 * day on which it was copied, but each replica keeps the cell file in its data directory up to
 * date. So on a machine with a replica the members are known even when every replica in the given
 * cell file was replaced. */
#ifndef LSFS_CONFIG_NEWER_LIST_H
#define LSFS_CONFIG_NEWER_LIST_H

#include "cell/config/cell_file.h"

/* Looks at DIRECTORY/cell.conf and DIRECTORY/N/cell.conf and copies the newest list of replicas of
 * the same cell, with its version, into *cell_file. True when that list is newer than the one in
 * *cell_file. Files that are missing, unreadable, or owned by neither root nor this user are
 * ignored. */
bool newer_list_in(const char *directory, struct cell_file *cell_file);
/* The same for the directory of the cell file `path` and for LOCALSTATEDIR/lib/lsfs/NAME. */
bool newer_list_around(const char *path, struct cell_file *cell_file);

#endif
