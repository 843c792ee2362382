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
#ifndef LSFS_STORE_LOG_DB_H
#define LSFS_STORE_LOG_DB_H

#include "cell/store/sqlite.h"
#include "cell/store/log_db_read.h"
#include "cell/store/watermark.h"
#include "cell/paxos/px.h"

#define LOG_DB_FILE "log.db"
/* A new one, while it is made to take the place of a damaged one. */
#define LOG_DB_FRESH "log.db.new"

enum log_db_statement {
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

struct log_db {
	struct sqlite_db db;
	struct log_db_found found; /* until log_db_start */
	struct watermark_file watermark_file;
	struct watermark watermark; /* with what is being written */
	struct watermark durable;   /* as the last commit left it */
	bool watermark_lost;     /* its file was damaged */
	bool older;              /* than its watermark */
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
 * closed until log_db_start. Changes nothing on the disk. False with one line in `why`. */
bool log_db_open(struct log_db *log, const char *directory, const char *cell, uint8_t replica,
                 char *why, size_t why_size);
enum log_db_reader {
	LOG_DB_MEMBER,  /* a replica that the others can repair */
	LOG_DB_ALONE,   /* the replica of a cell of one */
	LOG_DB_ENTRIES, /* somebody who never votes: only the entries are wanted */
};

/* What is to be made of it, with a state that has applied slots up to `applied`: entries without a
 * hole, behind `trimmed`. What is wrong with it is in log->found.corruption. False with one line in
 * `why` when the reader can't go on: alone there is nobody to repair it from; and who votes has to
 * know what it had promised. */
bool log_db_recover(struct log_db *log, uint64_t applied, enum log_db_reader reader,
                    struct px_recovered *recovered, char *why, size_t why_size);
/* The last slot that it has. */
uint64_t log_db_last(const struct px_recovered *recovered);
/* Begins an incarnation, durably; creates the log if it is new. A damaged one becomes
 * log.db.damaged, and a fresh one with what was recovered takes its place. */
bool log_db_start(struct log_db *log, const char *directory, const char *cell, uint8_t replica,
                  struct px_recovered *recovered, char *why, size_t why_size);
void log_db_recovered_free(struct px_recovered *recovered);
/* WORK_FAILED when what was left to write could not be written. */
enum work log_db_close(struct log_db *log, bool untouched);

/* Between sqlite_begin and sqlite_end: writes one record. An SQLite result code. */
int log_db_write(struct log_db *log, const struct px_record *record);
/* Likewise, once behind the last record: the newest hint of what is chosen, and a part of what
 * may be deleted. */
int log_db_finish(struct log_db *log);
/* After a commit. */
void log_db_written(struct log_db *log);
enum work log_db_tidy(struct log_db *log, bool idle);

#endif
