#include "tests/unit/failing_checkpoint.h"

#include <sqlite3.h>

/* The linker puts this in the place of the real one. */
int __real_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *in_wal,
                                     int *moved);
int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *in_wal,
                                     int *moved);

bool checkpoints_fail;

int
__wrap_sqlite3_wal_checkpoint_v2(sqlite3 *db, const char *name, int mode, int *in_wal, int *moved)
{
	if (checkpoints_fail)
		return SQLITE_IOERR_FSYNC;
	return __real_sqlite3_wal_checkpoint_v2(db, name, mode, in_wal, moved);
}
