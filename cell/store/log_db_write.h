/* The writing half of log.db, for log_db.c, and the checksums with which rows are written, for its
 * reading half. */
#ifndef LSFS_STORE_LOG_DB_WRITE_H
#define LSFS_STORE_LOG_DB_WRITE_H

#include "cell/store/log_db.h"

/* Prepares the statements. False with one line in `why`. */
bool log_db_write_prepare(struct log_db *log, char *why, size_t why_size);
/* Writes all that was recovered from a damaged file; call it within a transaction. An SQLite result
 * code. */
int log_db_write_recovered(struct log_db *log, const struct px_recovered *r);

/* The checksum of a row: over n numbers, in the order of its columns. */
uint64_t log_db_sum(const uint64_t *numbers, size_t n);
/* That of a row of `entries`. */
uint64_t log_db_entry_sum(const struct log_entry *e);
/* That of a row of `marks`. */
uint64_t log_db_mark_sum(const struct mark *m);
/* That of the row of `replica`. */
uint64_t log_db_owner_sum(const char *cell, uint8_t replica);

enum { LOG_DB_SUM_MAX = 8 }; /* most numbers under one checksum */
/* The checksum over the given numbers. */
#define LOG_DB_SUM_OF(...)                          \
	log_db_sum((const uint64_t[]){__VA_ARGS__}, \
	           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#endif
