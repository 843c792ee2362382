/* state.db: the tree's rows with the applied index, written behind. The tables are those of
 * cell/tree/rows.h, each with a checksum column; `cell` names whose they are. To be read with
 * sqlite3(1); counters over 2^63 show as negative.
 *
 * Written with synchronous=FULL as well: batches are few (a fraction of a second's changes
 * each), so a sync for each costs little, and whatever was committed may be reported as durable
 * at once. */
#ifndef LSFS_IO_STATEDB_H
#define LSFS_IO_STATEDB_H

#include "cell/io/database.h"
#include "cell/io/marks.h"
#include "cell/tree/tree.h"

#define STATEDB_FILE "state.db"

struct statedb {
	struct database db;
	struct marks_file marks_file;
	struct marks marks; /* of its write-ahead log */
	sqlite3_stmt *put[ROW_TABLES], *delete[ROW_TABLES];
};

/* Opens an existing file and loads the tree from it, every row checked; a new one stays closed
 * until statedb_start, its tree is empty. Changes nothing on the disk. False with one line in
 * `why`; state->db.damaged tells that this is the reason. */
bool statedb_open(struct statedb *state, const char *directory, const char *cell,
                  struct tree **tree, char *why, size_t why_size);
/* Likewise a copy of one under another name, which is only read. */
bool statedb_check_copy(const char *directory, const char *name, const char *cell, char *why,
                        size_t why_size);
/* The index that the file of this name says it is applied to; false when it can't be read. */
bool statedb_applied(const char *directory, const char *name, uint64_t *applied);
bool statedb_start(struct statedb *state, const char *directory, const char *cell, char *why,
                   size_t why_size);
/* Whose it is: the cell's name, empty when there is no file yet. Changes nothing on the disk. False
 * with one line in `why`. */
bool statedb_owner(const char *directory, char *cell, size_t cell_size, char *why, size_t why_size);
/* WORK_FAILED when what was left to write could not be written. */
enum work statedb_close(struct statedb *state, bool untouched);

/* Between database_begin and database_end: writes lists of rows, the oldest first; of rows that
 * were changed several times only the last version. An SQLite result code. */
int statedb_write(struct statedb *state, const struct row_list *const *lists, size_t n);
/* After a commit. */
void statedb_written(struct statedb *state);

#endif
