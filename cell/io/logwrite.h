/* What logdb.c needs of the writing half of log.db. */
#ifndef LSFS_IO_LOGWRITE_H
#define LSFS_IO_LOGWRITE_H

#include "cell/io/logdb.h"

/* False with one line in `why`. */
bool logwrite_prepare(struct logdb *log, char *why, size_t why_size);
/* All that was recovered of another file, within a transaction. An SQLite result code. */
int logwrite_recovered(struct logdb *log, const struct px_recovered *r);

#endif
