/* Checkpoints of SQLite that fail on demand, in programs that are linked with
 * --wrap=sqlite3_wal_checkpoint_v2. */
#ifndef LSFS_TESTS_UNIT_FAILING_CHECKPOINT_H
#define LSFS_TESTS_UNIT_FAILING_CHECKPOINT_H

#include <stdbool.h>

/* While it is true they fail, as by a failed sync. */
extern bool checkpoints_fail;

#endif
