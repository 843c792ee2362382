/* A newer list of a cell's replicas, found on this machine. A cell file names the replicas of the
 * day on which it was copied; each replica keeps the cell file in its data directory up to date. So
 * a machine with a replica knows the members even when all those in its cell file were replaced. */
#ifndef LSFS_CONFIG_NEWER_LIST_H
#define LSFS_CONFIG_NEWER_LIST_H

#include "cell/config/cell_file.h"

/* Of DIRECTORY/cell.conf and DIRECTORY/N/cell.conf, those of the same cell: if one has a newer list
 * than *cell_file, its replicas and version are put there, of several the newest. What is missing,
 * unreadable or a file of neither root nor this user is passed over. */
bool newer_list_in(const char *directory, struct cell_file *cell_file);
/* The same in the directory of the cell file `path`, and in /var/lib/lsfs/NAME. */
bool newer_list_around(const char *path, struct cell_file *cell_file);

#endif
