/* The common base of log.db and state.db: SQLite in WAL mode, every commit synced, an application
 * id and a format number by which files of other programs and of newer versions are refused. */
#ifndef LSFS_STORE_SQLITE_H
#define LSFS_STORE_SQLITE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include "cell/store/watermark.h"
#include "cell/store/writer_thread.h"

/* ---- damage ---- */

/* The damage found when a database is opened: one line for each damaged row or file. The lines are
 * logged once it is decided that the replica starts in spite of them. */

enum { CORRUPTION_LINE = 192, CORRUPTION_LINES = 16 };

struct corruption {
	size_t n;                                      /* number of findings */
	char lines[CORRUPTION_LINES][CORRUPTION_LINE]; /* the first ones; refusals quote lines[0] */
};

/* Adds the line "FILE is damaged: WHAT". */
void corruption_add(struct corruption *d, const char *file, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the line WHAT. */
void corruption_add_line(struct corruption *d, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs the lines as warnings, each preceded by the directory. */
void corruption_log(const struct corruption *d, const char *directory);

enum { SQLITE_WHY = 256 };

struct sqlite_kind {
	const char *name; /* of the file */
	int application_id;
	int format;
};

struct sqlite_db {
	const struct sqlite_kind *kind;
	sqlite3 *handle; /* NULL: the file does not exist yet */
	sqlite3_stmt *begin, *commit, *rollback;
	int wal_pages;        /* pages in the write-ahead log that were not checkpointed yet */
	bool untidy;          /* after the last commit there are enough to move some */
	char why[SQLITE_WHY]; /* the reason of the last WORK_FAILED or WORK_LATER */
	bool io_failed; /* a read, write or sync failed, for another reason than a full disk */
	bool damaged;   /* the file does not hold what was written */
	bool mixed;     /* damaged, and it may combine pages of different ages */
	bool unused;    /* while it is checked: a page that can't be read is damage */
	struct wal_extent wal; /* as found at the opening, or as of the last commit */
	int wal_fd;
};

/* Opens the file if it exists, and checks its kind and that it is whole; `wal` is the synced extent
 * of its write-ahead log according to the watermark. Changes nothing on the disk. False with one
 * line in `why`; with `damaged` set, the file is open nevertheless, if possible, so that undamaged
 * rows can be read. */
bool sqlite_open(struct sqlite_db *db, const char *directory, const struct sqlite_kind *kind,
                 const struct wal_extent *wal, char *why, size_t why_size);
/* Opens an existing copy that no process writes to, for reading only; errors as above. */
bool sqlite_open_copy(struct sqlite_db *db, const char *directory, const struct sqlite_kind *kind,
                      char *why, size_t why_size);
/* Opens a second connection to a database that is open, for checkpoints in another thread. False
 * with the reason in db->why. */
bool sqlite_open_again(struct sqlite_db *db, const struct sqlite_kind *kind, const char *path);
/* Creates a new file with this schema (SQL statements), in one transaction. False with one line in
 * `why`. */
bool sqlite_create(struct sqlite_db *db, const char *directory, const char *schema, char *why,
                   size_t why_size);
/* Closes the file. The write-ahead log is checkpointed first, unless `untouched`: then nothing is
 * written. WORK_FAILED when a write or sync of the checkpoint failed. */
enum work sqlite_close(struct sqlite_db *db, bool untouched);

/* Makes an opened file writable (sqlite_open leaves it unchanged). A file in SQLite's rollback
 * mode, as copies are, gets a write-ahead log again. False with one line in `why`. */
bool sqlite_ready(struct sqlite_db *db, char *why, size_t why_size);

/* Puts the first column of the first row into *number. False without a row or on an error, with one
 * line in `why`. */
bool sqlite_number(struct sqlite_db *db, const char *sql, int64_t *number, char *why,
                   size_t why_size);
/* Compiles a statement, which the caller finalizes. False with one line in `why`. */
bool sqlite_prepare(struct sqlite_db *db, sqlite3_stmt **statement, const char *sql, char *why,
                    size_t why_size);
/* Runs a statement that returns no rows, and resets it. An SQLite result code. */
int sqlite_step(sqlite3_stmt *statement);

/* A transaction: sqlite_begin, steps, sqlite_end with the first result that was not SQLITE_OK, or
 * with SQLITE_OK to commit. Durable when sqlite_end returns WORK_DONE; rolled back whole
 * otherwise. */
int sqlite_begin(struct sqlite_db *db);
/* Commits with SQLITE_OK, else rolls back. */
enum work sqlite_end(struct sqlite_db *db, int rc);

/* Call it after a commit: `wal` then is the synced extent of the write-ahead log. */
void sqlite_update_wal(struct sqlite_db *db);

/* Checkpoints: moves pages from the write-ahead log into the file. WORK_FAILED when a write or sync
 * has failed; one that only has to wait is no failure. */
enum work sqlite_checkpoint(struct sqlite_db *db);
/* Checkpoints when there are enough pages: `early` already with few, as when nobody waits for a
 * commit, or when there is little room. */
enum work sqlite_tidy(struct sqlite_db *db, bool early);

/* After a file of the directory, or the directory itself (name: NULL), failed with this -errno:
 * sets *io_failed for an I/O error, puts "DIRECTORY/NAME: ERROR" into `why` and returns false. */
bool sqlite_file_error(bool *io_failed, int rc, const char *directory, const char *name, char *why,
                       size_t why_size);
/* Sets `damaged`, puts "log.db is damaged: WHAT" into `why` and returns false. */
bool sqlite_damaged(struct sqlite_db *db, char *why, size_t why_size, const char *what, ...)
    __attribute__((format(printf, 4, 5)));
/* Puts SQLite's last error into `why`, as "log.db: ERROR" or as damage, and returns false. */
bool sqlite_error(struct sqlite_db *db, char *why, size_t why_size);

#endif
