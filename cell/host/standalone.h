/* A cell in one process: a data directory made at the first start, and a server for its one
 * replica. */
#ifndef LSFS_HOST_STANDALONE_H
#define LSFS_HOST_STANDALONE_H

#include "cell/config/cell_file.h"

/* Makes `directory` (mode 0700) a data directory if it is new or empty: cell.conf with a fresh
 * signing key and the one replica 1, signing.key. Does nothing if it is one already; refuses a
 * directory with other things in it. On success the cell file is in *conf. False with one line in
 * `why`. */
bool standalone_prepare(const char *directory, const char *cell, struct cell_file *cell_file,
                        char *why, size_t why_size);

#endif
