/* The state that there is: in a backup (a copy of state.db), or in a data directory, whose log has
 * what came behind its state. It is copied into a directory to work in, and loaded there: what it
 * is copied from is not changed. */
#ifndef LSFS_STORE_SALVAGE_H
#define LSFS_STORE_SALVAGE_H

#include <limits.h>
#include "cell/base/limit.h"
#include "cell/store/state_db.h"

struct salvage {
	char work[PATH_MAX];       /* the directory to work in: nothing else is in it */
	char cell[LIMIT_CELL_NAME + 1];
	struct state_db state;
	struct tree *tree;
	uint64_t from_log;         /* entries that came from the log */
	uint64_t damaged;          /* the log held entries up to here, which are lost; 0: none */
	int64_t written_s;         /* when the source was last written, since 1970 */
	char why[1024];            /* of what failed, for people: one line */
};

/* Each is false with s->why: the source is missing, in use, damaged, or no such thing. With signals
 * blocked, one that waits stops it. Then or later: salvage_end. `work` is copied. */

/* A backup; with `source` NULL it lies in `work` as state.db already. */
bool salvage_backup(struct salvage *s, const char *source, const char *work);
/* The data directory of a replica that does not run. */
bool salvage_directory(struct salvage *s, const char *source, const char *work);
/* Likewise, of a cell in one process, which may run meanwhile: as it is at some moment during the
 * call. */
bool salvage_running(struct salvage *s, const char *source, const char *work);

/* Writes what has changed in the tree since: WORK/state.db is all of it then, and the only file.
 * False with s->why. */
bool salvage_write(struct salvage *s);
/* Closes what is open. */
void salvage_end(struct salvage *s);
/* Removes `work` with all files that the above may have left there, or an earlier attempt that was
 * killed. 0 or -errno. */
int salvage_clean(const char *work);

/* Puts a copy of WORK/state.db, synced, to `path`, which must not exist. 0 or -errno; -EINTR when a
 * blocked signal waits. */
int salvage_place(const char *work, const char *path);

#endif
