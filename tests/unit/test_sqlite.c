/* What a checkpoint of a database makes of SQLite's result: a disk that fails must be known, one
 * that is full or busy is tried again later. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "cell/store/sqlite.h"
#include "tests/unit/unit.h"

enum { MANY = 100000, MOVED = 7 };

int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *handle, const char *name, int mode, int *in_wal,
                                     int *moved);

static int result, calls;

int
__wrap_sqlite3_wal_checkpoint_v2(sqlite3 *handle, const char *name, int mode, int *in_wal,
                                 int *moved)
{
	(void)handle;
	(void)name;
	(void)mode;
	calls++;
	*in_wal = MOVED;
	*moved = MOVED;
	return result;
}

static const struct {
	int result;
	enum work checkpoint, close;
} cases[] = {
    {SQLITE_OK, WORK_DONE, WORK_DONE},
    {SQLITE_BUSY, WORK_DONE, WORK_BUSY},
    {SQLITE_FULL, WORK_DONE, WORK_LATER},
    {SQLITE_IOERR_FSYNC, WORK_FAILED, WORK_FAILED},
    {SQLITE_IOERR_WRITE, WORK_FAILED, WORK_FAILED},
    {SQLITE_CORRUPT, WORK_FAILED, WORK_FAILED},
};

enum { CASES = sizeof cases / sizeof cases[0] };

static void
create(struct sqlite_db *db)
{
	static const struct sqlite_kind kind = {"test.db", .application_id = 7, .format = 1};
	char directory[] = "/tmp/test_sqlite.XXXXXX", why[SQLITE_WHY], path[64];
	static const char *const files[] = {"test.db", "test.db-wal", "test.db-shm"};

	*db = (struct sqlite_db){.wal_fd = -1};
	db->kind = &kind;
	assert_non_null(mkdtemp(directory));
	assert_true(sqlite_create(db, directory, "CREATE TABLE t (a);", why, sizeof why));
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, files[i]);
		unlink(path); /* it stays open */
	}
	assert_int_equal(rmdir(directory), 0);
	calls = 0;
}

TEST(test_a_checkpoint_tells_of_a_failing_disk_only)
{
	struct sqlite_db db;

	for (size_t i = 0; i < CASES; i++) {
		create(&db);
		result = cases[i].result;
		db.wal_pages = MANY;
		assert_int_equal(sqlite_tidy(&db, false), cases[i].checkpoint);
		assert_int_equal(db.wal_pages, result == SQLITE_OK ? 0 : MANY);
		assert_int_equal(calls, 1);
		sqlite_close(&db, true);
	}
}

TEST(test_a_close_tells_whatever_the_checkpoint_did)
{
	struct sqlite_db db;

	for (size_t i = 0; i < CASES; i++) {
		create(&db);
		result = cases[i].result;
		assert_int_equal(sqlite_close(&db, false), cases[i].close);
		assert_int_equal(calls, 1);
	}
}

TEST(test_a_short_log_is_left_alone)
{
	struct sqlite_db db;

	create(&db);
	db.wal_pages = 1;
	assert_int_equal(sqlite_tidy(&db, true), WORK_DONE);
	assert_int_equal(sqlite_tidy(&db, false), WORK_DONE);
	assert_int_equal(sqlite_close(&db, true), WORK_DONE);
	assert_int_equal(calls, 0);
}
