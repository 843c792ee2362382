/* A cell in one process: the data directory, made at the first start, of its only replica. */
#ifndef LSFS_HOST_STANDALONE_H
#define LSFS_HOST_STANDALONE_H

#include "cell/config/cell_file.h"

/* Makes `directory` (mode 0700) a data directory if it is new or empty: with cell.conf, which lists
 * the only replica, 1, and signing.key, a new signing key. Does nothing if it is a data directory
 * already; refuses a directory with other files, and that of a replica of a larger cell. On
 * success the cell file is in *cell_file. False with one line in `why`. */
bool standalone_prepare(const char *directory, const char *cell, struct cell_file *cell_file,
                        char *why, size_t why_size);

#endif
