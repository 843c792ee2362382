/* The writing half of log.db, for log_db.c only. */
#ifndef LSFS_STORE_LOG_DB_WRITE_H
#define LSFS_STORE_LOG_DB_WRITE_H

#include "cell/store/log_db.h"

/* Prepares the statements. False with one line in `why`. */
bool log_db_write_prepare(struct log_db *log, char *why, size_t why_size);
/* Writes all that was recovered from a damaged file; call it within a transaction. An SQLite result
 * code. */
int log_db_write_recovered(struct log_db *log, const struct px_recovered *r);

#endif
