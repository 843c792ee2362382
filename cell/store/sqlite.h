/* What log.db and state.db have in common: SQLite in WAL mode, every commit synced, an
 * application id and a format number by which foreign and newer files are known and refused. */
#ifndef LSFS_STORE_SQLITE_H
#define LSFS_STORE_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include "cell/store/wal_check.h"
#include "cell/store/writer_thread.h"

enum { SQLITE_WHY = 256 };

struct sqlite_kind {
	const char *name;   /* of the file */
	int application_id;
	int format;
};

struct sqlite_db {
	const struct sqlite_kind *kind;
	sqlite3 *handle;     /* NULL: the file is new, nothing is there yet */
	sqlite3_stmt *begin, *commit, *rollback;
	int wal_pages;       /* in the write-ahead log, not yet moved into the file */
	char why[SQLITE_WHY];   /* of the last WORK_FAILED or WORK_LATER */
	bool io_failed; /* a read, write or sync failed, for another reason than want of room */
	bool damaged;   /* what it holds is not what was written */
	bool mixed;     /* likewise, and pages of different ages may have come together */
	struct wal_extent wal; /* as it was found, or as the last commit left it */
	int wal_fd;
};

/* Opens the file if there is one, and checks that it is ours and whole; `wal` is what is known of
 * its write-ahead log. Changes nothing on the disk. False with one line in `why`; `damaged` tells
 * that this is the reason: then it is open as far as it can be, to read what is left. */
bool sqlite_open(struct sqlite_db *db, const char *directory, const struct sqlite_kind *kind,
                 const struct wal_extent *wal, char *why, size_t why_size);
/* Likewise a copy that nobody writes to, which is there: only to be read. */
bool sqlite_open_copy(struct sqlite_db *db, const char *directory, const struct sqlite_kind *kind,
                      char *why, size_t why_size);
/* Creates a new one with this schema (SQL statements), in one transaction. */
bool sqlite_create(struct sqlite_db *db, const char *directory, const char *schema, char *why,
                   size_t why_size);
/* Closes it. What only the write-ahead log holds is moved into the file first, unless `untouched`:
 * then nothing is written. WORK_FAILED when a write or sync of that failed. */
enum work sqlite_close(struct sqlite_db *db, bool untouched);

/* The connection may write from here on (sqlite_open leaves it so that nothing is changed). A
 * file that is in SQLite's rollback mode, as copies are, gets a write-ahead log again. */
bool sqlite_ready(struct sqlite_db *db, char *why, size_t why_size);

bool sqlite_prepare(struct sqlite_db *db, sqlite3_stmt **statement, const char *sql, char *why,
                    size_t why_size);
/* Runs a statement that returns no rows, and resets it. An SQLite result code. */
int sqlite_step(sqlite3_stmt *statement);

/* A transaction: begin, steps, and then end with the first result that was not SQLITE_OK, or
 * SQLITE_OK to commit. Durable when the answer is WORK_DONE; rolled back whole otherwise. */
int sqlite_begin(struct sqlite_db *db);
enum work sqlite_end(struct sqlite_db *db, int rc);

/* After a commit: `wal` tells what has been synced. */
void sqlite_look_at_wal(struct sqlite_db *db);

/* Moves pages from the write-ahead log into the file when there are enough of them: sooner when
 * idle, so that no commit has to wait for much of it. */
enum work sqlite_checkpoint(struct sqlite_db *db, bool idle);

/* "log.db is damaged: WHAT", false: for returns. Sets `damaged`, as sqlite_error does. */
bool sqlite_damaged(struct sqlite_db *db, char *why, size_t why_size, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* "log.db: what SQLite says", or that it is damaged; false. */
bool sqlite_error(struct sqlite_db *db, char *why, size_t why_size);

#endif
