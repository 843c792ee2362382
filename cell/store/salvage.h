/* Loads the newest state from a backup (a copy of state.db) or from a data directory, whose log
 * holds the entries after its state.db. The files are copied into a working directory and loaded
 * there; the source is never changed. */
#ifndef LSFS_STORE_SALVAGE_H
#define LSFS_STORE_SALVAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/limit.h"
#include "cell/store/state_db.h"

struct salvage {
	char work[PATH_MAX]; /* the working directory; it holds nothing else */
	char cell[LIMIT_CELL_NAME + 1];
	struct state_db state;
	struct tree *tree;
	uint64_t from_log; /* number of entries that were applied from the log */
	uint64_t damaged;  /* entries up to this slot were damaged and are lost; 0: none */
	int64_t written_s; /* when the source was last written, in seconds since 1970 */
	char why[1024];    /* the human-readable error: one line */
};

/* The next four functions load a state. Each is false with s->why: the source is missing, in use,
 * damaged, or not of its kind. A pending blocked signal ends them with an error. salvage_end must
 * follow in every case. `work` is copied. */

/* Loads a backup; with `source` NULL it is already in `work`, as state.db. */
bool salvage_backup(struct salvage *s, const char *source, const char *work);
/* The same where it lies, to look into it: nothing is copied, or can be written. */
bool salvage_look(struct salvage *s, const char *source);
/* Loads the data directory of a replica that does not run. */
bool salvage_directory(struct salvage *s, const char *source, const char *work);
/* Loads the data directory of a cell in one process, which may be running: the state as of some
 * moment during the call. */
bool salvage_running(struct salvage *s, const char *source, const char *work);

/* Writes the tree's changes since then: WORK/state.db holds all of the state afterwards, without a
 * write-ahead log. False with s->why. */
bool salvage_write(struct salvage *s);
/* Closes and frees all but the files. */
void salvage_end(struct salvage *s);
/* Removes all files from `work` that these functions, or an earlier attempt that was killed, may
 * have left there. */
void salvage_empty(const char *work);
/* Removes `work`, too. 0 or -errno. */
int salvage_clean(const char *work);

/* Writes a synced copy of WORK/state.db to `path`, which must not exist. 0 or -errno; -EINTR when a
 * blocked signal is pending. */
int salvage_place(const char *work, const char *path);

/* ---- a new cell ---- */

/* Makes the state of a new cell from a backup of an old cell or from the data directory of one of
 * its stopped replicas. The counters of the new cell begin far beyond every number that the old
 * cell can have given out since (tree/restore.c). */

struct restoration {
	char cell[LIMIT_CELL_NAME + 1];
	uint64_t applied;      /* applied index of the old state */
	uint64_t from_log;     /* number of entries that were applied from the log */
	uint64_t damaged;      /* entries up to this slot were damaged and are lost; 0: none */
	int64_t written_s;     /* when the source was last written, in seconds since 1970 */
	uint64_t nodes, bytes; /* of the new cell */
	uint64_t sessions;     /* of the old cell, which the new one does not continue */
};

/* Makes the new state as WORK/state.db; `work` is an empty directory. False with one line in `why`:
 * the source is missing, in use, damaged, or neither a backup nor a data directory. The caller then
 * removes the files left in `work`. A pending blocked signal ends the call with an error. */
bool restoration_prepare(const char *source, const char *work, struct restoration *restored,
                         char *why, size_t why_size);

#endif
