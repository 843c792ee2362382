/* log.db: what paxos promised and accepted. To be read with sqlite3(1):
 *
 *   replica      whose log this is
 *   incarnation  how often it was started
 *   ballots, ballots_again   the highest ballot promised, twice
 *   entries      what was accepted, by slot
 *   chosen       everything up to this slot is known to be chosen
 *   trimmed      the base: entries up to this slot are in state.db; rows that are left of them
 *                count no more
 *   leases       the longest master lease that an incarnation may have granted
 *   marks        what other replicas told of themselves
 *
 * Numbers over 2^63 show as negative. `checksum` covers a row's other columns; of an entry,
 * `payload_checksum` is that of its payload and part of what `checksum` covers. */
#ifndef LSFS_IO_LOGDB_H
#define LSFS_IO_LOGDB_H

#include "cell/io/database.h"
#include "cell/io/marks.h"
#include "cell/paxos/px.h"

#define LOGDB_FILE "log.db"

struct logdb {
	struct database db;
	struct marks_file marks_file;
	struct marks marks;      /* what the last transaction left behind */
	uint64_t trimmed, trim;  /* the base: in the file; to be written */
	bool to_delete, more_to_delete; /* rows below it; behind the transaction's step, too */
	uint64_t chosen_written, chosen_up_to; /* of the hint: in the file; to be written */
	sqlite3_stmt *ballot[2], *entry, *chosen, *lease, *mark,
	    *delete_entries, *trim_to;
};

/* Opens an existing log and checks all of it; a new one stays closed until logdb_start. Changes
 * nothing on the disk. False with one line in `why`. */
bool logdb_open(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
                struct px_recovered *recovered, char *why, size_t why_size);
/* The last slot that it ever held. */
uint64_t logdb_last(const struct px_recovered *recovered);
/* Begins an incarnation, durably; creates the log if it is new. */
bool logdb_start(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
                 struct px_recovered *recovered, char *why, size_t why_size);
void logdb_recovered_free(struct px_recovered *recovered);
/* WORK_FAILED when what was left to write could not be written. */
enum work logdb_close(struct logdb *log, bool untouched);

/* Between database_begin and database_end: writes one record. An SQLite result code. */
int logdb_write(struct logdb *log, const struct px_record *record);
/* Likewise, once behind the last record: the newest hint of what is chosen, and a part of what
 * may be deleted. */
int logdb_finish(struct logdb *log);
/* After a commit. */
void logdb_written(struct logdb *log);
enum work logdb_tidy(struct logdb *log, bool idle);

#endif
