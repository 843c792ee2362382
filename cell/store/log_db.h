/* log.db: the promises and accepted entries of one replica. Readable with sqlite3(1):
 *
 *   replica      cell and id of the replica that the log belongs to
 *   incarnation  number of the replica's starts
 *   ballots, ballots_again   the highest ballot promised, stored twice
 *   entries      accepted entries, by slot
 *   chosen       every entry up to this slot is known to be chosen
 *   trimmed      the base: the effects of entries up to this slot are in state.db; rows that are
 *                left of such entries are ignored
 *   missing      entries up to this slot were damaged, and not all are replaced yet; 0: none
 *   leases       the longest master lease that each incarnation may have granted
 *   marks        for each other replica the highest incarnation, ballot and slot it has reported
 *
 * Numbers over 2^63 show as negative. `checksum` covers a row's other columns; in an entry's row
 * `payload_checksum` covers the payload, and `checksum` covers `payload_checksum` in its place. */
#ifndef LSFS_STORE_LOG_DB_H
#define LSFS_STORE_LOG_DB_H

#include "cell/paxos/px.h"
#include "cell/store/sqlite.h"
#include "cell/store/watermark.h"

/* ---- log_db_read.c ---- */

/* Reading log.db, whole or damaged: finds all rows whose checksums are correct. */

struct log_db_found {
	struct corruption corruption;
	/* Pages may be missing, or older than other pages: a row with a correct checksum need not
	 * be its newest version. */
	bool torn;
	uint64_t incarnation;   /* 0: not readable */
	struct ballot promised; /* the higher of the undamaged copies */
	bool ballots_lost;      /* no copy is undamaged */
	uint64_t chosen, trimmed;
	bool trimmed_lost;
	uint64_t missing;   /* an earlier start lost entries up to this slot */
	int64_t longest_ns; /* the longest lease, in ns */
	bool leases;        /* there are rows of leases */
	bool leases_lost;
	bool none_left; /* no lease granted by the last incarnation can be valid */
	struct mark *marks;
	size_t marks_n, marks_room;
	struct log_entry *entries; /* undamaged, above `trimmed`, by slot, possibly with gaps */
	size_t entries_n, entries_room;
	uint64_t *bad; /* slots of damaged rows, ascending, as the rows give them */
	size_t bad_n, bad_room;
	uint64_t last; /* the highest slot that the file has held, as far as known */
};

/* Reads the whole file into *found. False with one line in `why`: the file belongs to another
 * replica, or the disk fails. */
bool log_db_read(struct sqlite_db *db, const char *cell, uint8_t replica,
                 struct log_db_found *found, char *why, size_t why_size);
/* Frees the contents of *found. */
void log_db_found_free(struct log_db_found *found);

#define LOG_DB_FILE "log.db"
/* The fresh file that is about to replace a damaged log.db. */
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
	struct log_db_found found; /* valid until log_db_start */
	uint8_t replica;           /* whose log it is */
	struct watermark_file watermark_file;
	struct watermark watermark;            /* includes the open transaction */
	struct watermark durable;              /* as of the last commit */
	bool watermark_lost;                   /* the watermark's file was damaged */
	bool older;                            /* the log holds less than its watermark */
	uint64_t trimmed, trim;                /* the base: in the file; to be written */
	bool to_delete;                        /* rows below the base remain */
	bool more_to_delete;                   /* this transaction leaves some of them */
	uint64_t chosen_written, chosen_up_to; /* the chosen slot: in the file; to be written */
	uint64_t written;                      /* the last entry's slot */
	uint64_t lost;         /* damaged entries up to this slot are not all replaced yet */
	bool found_again;      /* after this transaction none of them is missing */
	bool old_leases;       /* the file has rows of leases of earlier incarnations */
	bool leases_forgotten; /* this transaction deletes those rows */
	mono_t old_leases_end; /* from here on no lease of an earlier incarnation can be valid */
	sqlite3_stmt *statements[LOG_STATEMENTS];
};

/* Opens an existing log and reads all of it, of a damaged one all that is readable; the file of a
 * new log is made by log_db_start. Changes nothing on the disk. False with one line in `why`. */
bool log_db_open(struct log_db *log, const char *directory, const char *cell, uint8_t replica,
                 char *why, size_t why_size);

enum log_db_reader {
	LOG_DB_MEMBER,  /* a replica that the others can repair */
	LOG_DB_ALONE,   /* the replica of a cell of one */
	LOG_DB_ENTRIES, /* a reader that never votes: it needs the entries only */
};

/* Puts into *recovered the part of an opened log that follows a state with the applied index
 * `applied`: entries without a gap, after `trimmed`. Damage is described in log->found.corruption.
 * False with one line in `why` when this reader can't start with it: in a cell of one there is no
 * replica to repair it from, and a voter must know the ballot that it has promised. */
bool log_db_recover(struct log_db *log, uint64_t applied, enum log_db_reader reader,
                    struct px_recovered *recovered, char *why, size_t why_size);
/* The last slot that was recovered. */
uint64_t log_db_last(const struct px_recovered *recovered);
/* Begins an incarnation, durably; creates the file of a new log. A damaged file becomes
 * log.db.damaged, and a fresh one with the recovered rows replaces it. False with one line in
 * `why`. */
bool log_db_start(struct log_db *log, const char *directory, const char *cell, uint8_t replica,
                  struct px_recovered *recovered, char *why, size_t why_size);
/* Frees the contents of *recovered. */
void log_db_recovered_free(struct px_recovered *recovered);
/* Closes the log; with `untouched` without any write. WORK_FAILED when rows that were left to write
 * could not be written. */
enum work log_db_close(struct log_db *log, bool untouched);

/* Writes one record; call it between sqlite_begin and sqlite_end. An SQLite result code. */
int log_db_write(struct log_db *log, const struct px_record *record);
/* Call it once after the last record of a transaction: writes the newest chosen slot, and deletes
 * some of the rows below the base. An SQLite result code. */
int log_db_finish(struct log_db *log);
/* Call it after a commit: updates the watermark. */
void log_db_written(struct log_db *log);
/* Upkeep while no record waits: deletes rows below the base. */
enum work log_db_tidy(struct log_db *log);

/* ---- log_db_write.c ---- */

/* The writing half of log.db, for log_db.c, and the checksums with which rows are written, for its
 * reading half. */

/* Prepares the statements. False with one line in `why`. */
bool log_db_write_prepare(struct log_db *log, char *why, size_t why_size);
/* Writes all that was recovered from a damaged file; call it within a transaction. An SQLite result
 * code. */
int log_db_write_recovered(struct log_db *log, const struct px_recovered *r);
/* The watermark has the own mark, too. */
void log_db_note_mark(struct log_db *log, const struct mark *m);

/* The checksum of a row: over n numbers, in the order of its columns. */
uint64_t log_db_sum(const uint64_t *numbers, size_t n);
/* The checksum of the row of `replica`. */
uint64_t log_db_owner_sum(const char *cell, uint8_t replica);

enum { LOG_DB_SUM_MAX = 8 }; /* most numbers under one checksum */
/* The checksum over the given numbers. */
#define LOG_DB_SUM_OF(...)                          \
	log_db_sum((const uint64_t[]){__VA_ARGS__}, \
	           sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

#endif
