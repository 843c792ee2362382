/* state.db: the tree's rows with the applied index, written behind. The tables are those of
 * cell/tree/rows.h, each with a checksum column; `cell` names whose they are. To be read with
 * sqlite3(1); counters over 2^63 show as negative.
 *
 * Written with synchronous=FULL as well: batches are few (a fraction of a second's changes
 * each), so a sync for each costs little, and whatever was committed may be reported as durable
 * at once. */
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
};

/* Opens an existing file and loads the tree from it, every row checked; a new one stays closed
 * until state_db_start, its tree is empty. Changes nothing on the disk. False with one line in
 * `why`; state->db.damaged tells that this is the reason. */
bool state_db_open(struct state_db *state, const char *directory, const char *cell,
                   struct tree **tree, char *why, size_t why_size);
/* Likewise a copy of one under another name, which is only read. */
bool state_db_check_copy(const char *directory, const char *name, const char *cell, char *why,
                         size_t why_size);
/* The index that the file of this name says it is applied to; false when it can't be read. */
bool state_db_applied(const char *directory, const char *name, uint64_t *applied);
bool state_db_start(struct state_db *state, const char *directory, const char *cell, char *why,
                    size_t why_size);
/* Whose it is: the cell's name, empty when there is no file yet. Changes nothing on the disk. False
 * with one line in `why`. */
bool state_db_owner(const char *directory, char *cell, size_t cell_size, char *why,
                    size_t why_size);
/* WORK_FAILED when what was left to write could not be written. */
enum work state_db_close(struct state_db *state, bool untouched);

/* Between sqlite_begin and sqlite_end: writes lists of rows, the oldest first; of rows that
 * were changed several times only the last version. An SQLite result code. */
int state_db_write(struct state_db *state, const struct row_list *const *lists, size_t n);
/* After a commit. */
void state_db_written(struct state_db *state);

#endif
