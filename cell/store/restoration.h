/* Makes the state of a new cell from a backup of an old cell or from the data directory of one of
 * its stopped replicas. The counters of the new cell begin far beyond every number that the old
 * cell can have given out since (tree/restore.c). */
#ifndef LSFS_STORE_RESTORATION_H
#define LSFS_STORE_RESTORATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/limit.h"

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
