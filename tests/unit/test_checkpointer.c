/* The write-ahead log of log.db is moved into the file beside the commits, which wait for the last
 * few pages only, and begins again. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/store/internal.h"
#include "tests/unit/unit.h"

enum { MANY = 512, FEW = 64, TOO_MANY = 1536 };

int __real_sqlite3_wal_checkpoint_v2(sqlite3 *handle, const char *name, int mode, int *in_wal,
                                     int *moved);
int __wrap_sqlite3_wal_checkpoint_v2(sqlite3 *handle, const char *name, int mode, int *in_wal,
                                     int *moved);
int __real_writer_thread_start(struct writer_thread *w);
int __wrap_writer_thread_start(struct writer_thread *w);

static struct sqlite_db db;
static struct checkpointer c;
static atomic_bool broken, held, told; /* told: that a checkpoint has failed */
static atomic_int begun;               /* checkpoints beside the commits */
static atomic_int beside;              /* pages that they have moved */
static int waits, waited_for;          /* checkpoints by which commits are held up; their pages */
static int result = SQLITE_OK;         /* of those beside */
static bool no_thread;
static _Thread_local bool commits;
static char directory[64];

int
__wrap_sqlite3_wal_checkpoint_v2(sqlite3 *handle, const char *name, int mode, int *in_wal,
                                 int *moved)
{
	int rc;

	if (!commits)
		atomic_fetch_add(&begun, 1);
	rc = __real_sqlite3_wal_checkpoint_v2(handle, name, mode, in_wal, moved);
	if (commits) {
		waits++;
		waited_for = *moved - atomic_load(&beside);
		return rc;
	}
	atomic_store(&beside, *moved);
	while (atomic_load(&held))
		sched_yield();
	return result != SQLITE_OK ? result : rc;
}

int
__wrap_writer_thread_start(struct writer_thread *w)
{
	return no_thread ? -EAGAIN : __real_writer_thread_start(w);
}

static void
on_failure(void *user, const struct sqlite_db *failed)
{
	assert_ptr_equal(user, &c);
	assert_false(failed->damaged);
	atomic_store(&told, true);
}

static int
setup(void **state)
{
	static const struct sqlite_kind kind = {"log.db", .application_id = 7, .format = 1};
	char why[SQLITE_WHY];

	(void)state;
	snprintf(directory, sizeof directory, "/tmp/test_checkpointer.XXXXXX");
	assert_non_null(mkdtemp(directory));
	db = (struct sqlite_db){.kind = &kind, .wal_fd = -1};
	assert_true(sqlite_create(&db, directory, "CREATE TABLE t (a)", why, sizeof why));
	assert_true(sqlite_ready(&db, why, sizeof why));
	broken = held = told = false;
	begun = beside = waits = 0;
	no_thread = false;
	result = SQLITE_OK;
	commits = true;
	checkpointer_init(&c, &db, &broken, on_failure, &c);
	return 0;
}

static int
teardown(void **state)
{
	static const char *const files[] = {"log.db", "log.db-wal", "log.db-shm"};
	char path[96];

	(void)state;
	atomic_store(&held, false);
	checkpointer_finish(&c);
	checkpointer_fini(&c);
	sqlite_close(&db, true);
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", directory, files[i]);
		unlink(path);
	}
	return rmdir(directory);
}

#define CHECKPOINTER_TEST(test) TEST_WITH(test, setup, teardown)

/* Commits until so many pages are in the write-ahead log. */
static void
commit_up_to(int pages)
{
	do {
		assert_int_equal(sqlite_begin(&db), SQLITE_OK);
		assert_int_equal(sqlite3_exec(db.handle, "INSERT INTO t VALUES (zeroblob(30000))",
		                              NULL, NULL, NULL),
		                 SQLITE_OK);
		assert_int_equal(sqlite_end(&db, SQLITE_OK), WORK_DONE);
	} while (db.wal_pages < pages);
}

static void
tidy(void)
{
	assert_int_equal(checkpointer_tidy(&c, false), WORK_DONE);
}

static void
tidy_until_waited(void)
{
	while (waits == 0) {
		tidy();
		sched_yield();
	}
}

CHECKPOINTER_TEST(test_few_pages_are_left_alone)
{
	commit_up_to(MANY / 2);
	tidy();
	assert_int_equal(waits, 0);
	assert_false(c.started);
}

CHECKPOINTER_TEST(test_commits_wait_for_few_pages)
{
	held = true;
	commit_up_to(MANY);
	tidy();
	while (beside == 0)
		sched_yield();
	commit_up_to(db.wal_pages + FEW / 2);
	tidy();
	assert_int_equal(waits, 0);
	held = false;
	tidy_until_waited();
	assert_true(beside >= MANY);
	assert_in_range(waited_for, FEW / 2, FEW);
	assert_int_equal(begun, 1);
	commit_up_to(1);
	assert_true(db.wal_pages < FEW); /* it has begun anew */
}

/* Commits that are faster than the first checkpoint: there is a second one. */
CHECKPOINTER_TEST(test_more_than_few_are_moved_beside)
{
	held = true;
	commit_up_to(MANY);
	tidy();
	while (beside == 0)
		sched_yield();
	commit_up_to(db.wal_pages + MANY);
	held = false;
	tidy_until_waited();
	assert_int_equal(begun, 2);
	assert_int_equal(waited_for, 0);
}

CHECKPOINTER_TEST(test_it_gets_no_longer_than_the_reserve_allows)
{
	held = true;
	commit_up_to(MANY);
	tidy();
	while (beside == 0)
		sched_yield();
	commit_up_to(TOO_MANY);
	held = false;
	tidy_until_waited();
	assert_int_equal(begun, 1);
	assert_true(waited_for > FEW);
	commit_up_to(1);
	assert_true(db.wal_pages < FEW);
}

CHECKPOINTER_TEST(test_it_stays_short_on_a_full_disk)
{
	commit_up_to(FEW + 1);
	assert_int_equal(checkpointer_tidy(&c, true), WORK_DONE);
	assert_int_equal(waits, 1);
	assert_false(c.started);
}

CHECKPOINTER_TEST(test_without_a_thread_commits_wait)
{
	no_thread = true;
	commit_up_to(MANY);
	tidy();
	assert_int_equal(waits, 1);
	commit_up_to(1);
	assert_true(db.wal_pages < FEW);
}

/* Nothing is written after it. */
CHECKPOINTER_TEST(test_a_failure_is_told)
{
	result = SQLITE_IOERR_FSYNC;
	commit_up_to(MANY);
	tidy();
	while (!told)
		sched_yield();
	assert_true(broken);
	assert_int_equal(waits, 0);
}

/* Without space the next checkpoint is another attempt. */
CHECKPOINTER_TEST(test_no_room_is_no_failure)
{
	result = SQLITE_FULL;
	commit_up_to(MANY);
	tidy_until_waited();
	assert_false(broken);
	assert_false(told);
}
