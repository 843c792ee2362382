/* The state of a new cell from what is left of an old one: from a backup, or from the data
 * directory of a replica that is stopped. Whatever the new cell counts begins far beyond what the
 * old one can have given out since (tree/restore.c). */
#ifndef LSFS_STORE_RESTORATION_H
#define LSFS_STORE_RESTORATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/limit.h"

struct restoration {
	char cell[LIMIT_CELL_NAME + 1];
	uint64_t applied;      /* log index of the state that was found */
	uint64_t from_log;     /* how many entries of that came from the log */
	uint64_t damaged;      /* the log held entries up to here, which are lost; 0: none are */
	int64_t written_s;     /* when the source was last written, since 1970 */
	uint64_t nodes, bytes; /* of the new cell */
	uint64_t sessions;     /* that ended */
};

/* Makes the new state as WORK/state.db; `work` is an empty directory. False with one line in `why`:
 * the source is missing, in use, damaged, or no such thing. What it leaves in `work` then is the
 * caller's to remove. With signals blocked, one that waits stops it. */
bool restoration_prepare(const char *source, const char *work, struct restoration *restored,
                         char *why, size_t why_size);

#endif
