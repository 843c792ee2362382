/* state.db: the tree's rows with the applied index, written later than the log. The tables are
 * those of cell/tree/rows.h, each with a checksum column; the table `cell` holds the cell's name.
 * Readable with sqlite3(1); counters over 2^63 show as negative.
 *
 * Written with synchronous=FULL as well: batches are few (each holds the changes of a fraction of a
 * second), so a sync for each costs little, and every commit may be reported as durable at once. */
#ifndef LSFS_STORE_STATE_DB_H
#define LSFS_STORE_STATE_DB_H

#include "cell/store/sqlite.h"
#include "cell/store/watermark.h"
#include "cell/tree/tree.h"

#define STATE_DB_FILE "state.db"

struct state_db {
	struct sqlite_db db;
	struct watermark_file watermark_file;
	struct watermark watermark; /* of its write-ahead log */
	sqlite3_stmt *put[ROW_TABLES], *delete[ROW_TABLES];
	bool alone; /* of a damaged file: its rows of members are whole, and all but one removed */
};

/* Opens an existing file and loads the tree from it, checking every row; without a file, which
 * state_db_start then makes, the tree is empty. Changes nothing on the disk. False with one line in
 * `why`; state->db.damaged is set when the reason is damage. */
bool state_db_open(struct state_db *state, const char *directory, const char *cell,
                   struct tree **tree, char *why, size_t why_size);
/* Loads and checks a copy under another name, which is only read, and makes no file. False with one
 * line in `why`. */
bool state_db_load_copy(const char *directory, const char *name, const char *cell,
                        struct tree **tree, char *why, size_t why_size);
/* The name of the cell that such a copy belongs to; empty when there is nothing in it. False with
 * one line in `why`. */
bool state_db_owner(const char *directory, const char *name, char *cell, size_t cell_size,
                    char *why, size_t why_size);
/* Puts a copy fetched from another replica, if one waits, into the place of state.db, unless that
 * has advanced beyond the copy since, or can't be read at the moment. 0 or -errno. */
int state_db_swap_in(const char *directory);
/* Makes the opened database writable; creates the file of a new one. False with one line in
 * `why`. */
bool state_db_start(struct state_db *state, const char *directory, const char *cell, char *why,
                    size_t why_size);
/* Closes the database; with `untouched` without any write. WORK_FAILED when the closing checkpoint
 * could not be written; a second call does nothing. */
enum work state_db_close(struct state_db *state, bool untouched);

/* Writes lists of rows, the oldest first; of a row that was changed several times only the last
 * version. Call it between sqlite_begin and sqlite_end. An SQLite result code. */
int state_db_write(struct state_db *state, const struct row_list *const *lists, size_t n);
/* Call it after a commit: updates the watermark. */
void state_db_written(struct state_db *state);

#endif
