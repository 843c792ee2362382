/* log.db: what paxos promised and accepted. To be read with sqlite3(1):
 *
 *   replica      whose log this is
 *   incarnation  how often it was started
 *   ballots, ballots_again   the highest ballot promised, twice
 *   entries      what was accepted, by slot
 *   chosen       everything up to this slot is known to be chosen
 *   trimmed      the base: entries up to this slot are in state.db; rows that are left of them
 *                count no more
 *   missing      entries up to this slot were damaged, and are not all there again; 0: none
 *   leases       the longest master lease that an incarnation may have granted
 *   marks        what other replicas told of themselves
 *
 * Numbers over 2^63 show as negative. `checksum` covers a row's other columns; of an entry,
 * `payload_checksum` is that of its payload and part of what `checksum` covers. */
#ifndef LSFS_IO_LOGDB_H
#define LSFS_IO_LOGDB_H

#include "cell/io/database.h"
#include "cell/io/logread.h"
#include "cell/io/marks.h"
#include "cell/paxos/px.h"

#define LOGDB_FILE "log.db"
/* A new one, while it is made to take the place of a damaged one. */
#define LOGDB_FRESH "log.db.new"

enum log_statement {
	LOG_BALLOT,
	LOG_BALLOT_AGAIN,
	LOG_ENTRY,
	LOG_CHOSEN,
	LOG_LEASE,
	LOG_OLD_LEASES,
	LOG_MARK,
	LOG_DELETE_ENTRIES,
	LOG_TRIMMED,
	LOG_MISSING,
	LOG_STATEMENTS
};

struct logdb {
	struct database db;
	struct log_found found;  /* until logdb_start */
	struct marks_file marks_file;
	struct marks marks;      /* with what is being written */
	struct marks durable;    /* as the last commit left them */
	bool marks_lost;         /* their file was damaged */
	bool older;              /* than its marks */
	uint64_t trimmed, trim;  /* the base: in the file; to be written */
	bool to_delete, more_to_delete; /* rows below it; behind the transaction's step, too */
	uint64_t chosen_written, chosen_up_to; /* of the hint: in the file; to be written */
	uint64_t written;        /* the last entry's slot */
	uint64_t lost;           /* entries up to here were damaged and are not all back yet */
	bool found_again;        /* with this transaction they are */
	bool old_leases, leases_forgotten; /* of earlier incarnations; with this transaction */
	mono_t old_leases_end;   /* from here on none of them can be standing */
	sqlite3_stmt *statements[LOG_STATEMENTS];
};

/* Opens an existing log and reads all of it, also what is left of a damaged one; a new one stays
 * closed until logdb_start. Changes nothing on the disk. False with one line in `why`. */
bool logdb_open(struct logdb *log, const char *directory, const char *cell, uint8_t replica,
                char *why, size_t why_size);
enum logdb_reader {
	LOGDB_MEMBER,  /* a replica that the others can repair */
	LOGDB_ALONE,   /* the replica of a cell of one */
	LOGDB_ENTRIES, /* somebody who never votes: only the entries are wanted */
};

/* What is to be made of it, with a state that has applied slots up to `applied`: entries without a
 * hole, behind `trimmed`. What is wrong with it is in log->found.damage. False with one line in
 * `why` when the reader can't go on: alone there is nobody to repair it from; and who votes has to
 * know what it had promised. */
bool logdb_recover(struct logdb *log, uint64_t applied, enum logdb_reader reader,
                   struct px_recovered *recovered, char *why, size_t why_size);
/* The last slot that it has. */
uint64_t logdb_last(const struct px_recovered *recovered);
/* Begins an incarnation, durably; creates the log if it is new. A damaged one becomes
 * log.db.damaged, and a fresh one with what was recovered takes its place. */
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
