/* What happens to the files of a running store: the disk gets full, another program holds or
 * removes them, a page changes. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/store/sqlite.h"
#include "cell/sys/log.h"
#include "cell/store/internal.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

static struct fixture f;

/* The linker puts these in the place of the real ones. */
mono_t __real_clock_now(void);
mono_t __wrap_clock_now(void);
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __real_sqlite3_busy_timeout(sqlite3 *handle, int ms);
int __wrap_sqlite3_busy_timeout(sqlite3 *handle, int ms);
enum work __real_sqlite_end(struct sqlite_db *db, int rc);
enum work __wrap_sqlite_end(struct sqlite_db *db, int rc);
enum work __real_sqlite_checkpoint(struct sqlite_db *db);
enum work __wrap_sqlite_checkpoint(struct sqlite_db *db);
void __real_uv_sem_wait(uv_sem_t *sem);
void __wrap_uv_sem_wait(uv_sem_t *sem);

int __real_posix_fallocate(int fd, off_t at, off_t n);
int __wrap_posix_fallocate(int fd, off_t at, off_t n);
int __real_stat(const char *path, struct stat *to);
int __wrap_stat(const char *path, struct stat *to);

static int interruptions; /* of the next allocations */
static int stat_error;    /* of each call, unless 0 */
static int64_t later_s;   /* that the clock is ahead */
static int upkeep_factor; /* how much more often than it should the store looks after its files */

/* In how many transactions in a row the log, and the state, had no room or were locked. A thread
 * of the store counts, and wakes the loop. */
static atomic_int refused[2];
static uv_async_t wake;

/* When set, the state's writer waits at each end of a transaction until another job is queued. */
static atomic_bool feeds, hungry;
static uv_sem_t fed;
static uint64_t fed_up_to;

/* When set, the next checkpoint of another thread than that of the commits lasts until one of them
 * waits for it, or the test goes on. */
static atomic_bool holds_checkpoint;
static uv_sem_t checkpoint_may_go_on;

enum work
__wrap_sqlite_checkpoint(struct sqlite_db *db)
{
	char thread[16];

	must(pthread_getname_np(pthread_self(), thread, sizeof thread) == 0);
	if (strcmp(thread, "log.db-wal") == 0 && atomic_load(&holds_checkpoint))
		__real_uv_sem_wait(&checkpoint_may_go_on);
	return __real_sqlite_checkpoint(db);
}

static void
let_checkpoint_go_on(void)
{
	if (atomic_exchange(&holds_checkpoint, false))
		uv_sem_post(&checkpoint_may_go_on);
}

void
__wrap_uv_sem_wait(uv_sem_t *sem)
{
	let_checkpoint_go_on();
	__real_uv_sem_wait(sem);
}

int
__wrap_posix_fallocate(int fd, off_t at, off_t n)
{
	return interruptions > 0 && interruptions-- > 0 ? EINTR : __real_posix_fallocate(fd, at, n);
}

int
__wrap_stat(const char *path, struct stat *to)
{
	errno = stat_error;
	return stat_error != 0 ? -1 : __real_stat(path, to);
}

mono_t
__wrap_clock_now(void)
{
	return mono_add(__real_clock_now(), span_ms(later_s * 1000));
}

int
__wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	uint64_t factor = (uint64_t)upkeep_factor;

	return __real_uv_timer_start(timer, cb, timeout / factor, repeat / factor);
}

int
__wrap_sqlite3_busy_timeout(sqlite3 *handle, int ms)
{
	return __real_sqlite3_busy_timeout(handle, ms / 50);
}

enum work
__wrap_sqlite_end(struct sqlite_db *db, int rc)
{
	enum work work = __real_sqlite_end(db, rc);
	atomic_int *n = &refused[strcmp(db->kind->name, "state.db") == 0];

	if (n == &refused[1] && atomic_load(&feeds)) {
		atomic_store(&hungry, true);
		must(uv_async_send(&wake) == 0);
		uv_sem_wait(&fed);
	}
	if (work == WORK_LATER || work == WORK_BUSY) {
		atomic_fetch_add(n, 1);
		must(uv_async_send(&wake) == 0);
	} else {
		atomic_store(n, 0);
	}
	return work;
}

enum { CHUNK = 64 * 1024, BIG = 200 * 1024, FEEDINGS = 16 };

/* Changes four large files. */
static void
feed(void)
{
	struct row_list rows = {0};
	uint8_t *bytes = memory_zero(BIG, 1);
	struct row row = fake_meta(++fed_up_to);

	row_list_add(&rows, &row);
	for (int64_t node = 2; node < 6; node++) {
		row = fake_node(node, "n", (struct bytes){bytes, BIG});
		row_list_add(&rows, &row);
	}
	free(bytes);
	store_state(f.store, fed_up_to, &rows);
}

static void
on_wake(uv_async_t *handle)
{
	(void)handle;
	if (!atomic_exchange(&hungry, false))
		return;
	if (fed_up_to < FEEDINGS)
		feed();
	else
		atomic_store(&feeds, false);
	uv_sem_post(&fed);
}

static int
setup(void **state)
{
	(void)state;
	fixture_make(&f);
	upkeep_factor = 1;
	interruptions = stat_error = 0;
	atomic_store(&refused[0], 0);
	atomic_store(&refused[1], 0);
	return uv_async_init(&f.loop, &wake, on_wake);
}

static int
teardown(void **state)
{
	(void)state;
	if (f.store != NULL)
		fixture_close(&f); /* of a test that has failed: its threads use `wake` */
	uv_close((uv_handle_t *)&wake, NULL);
	later_s = 0;
	(void)umount2(f.directory, MNT_DETACH);
	fixture_remove(&f);
	return 0;
}

#define DISK_TEST(test) TEST_WITH(test, setup, teardown)

/* ---- no room ---- */

static void
fill_disk(void)
{
	char *chunk = memory_zero(CHUNK, 1);
	int fd = open(fixture_path(&f, "filler"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	size_t n = CHUNK;

	assert_true(fd >= 0);
	while (n > 0) {
		if (write(fd, chunk, n) < 0) {
			assert_int_equal(errno, ENOSPC);
			n /= 2;
		}
	}
	close(fd);
	free(chunk);
}

static int64_t
blocks_of(const char *name)
{
	struct stat st;

	return stat(fixture_path(&f, name), &st) == 0 ? (int64_t)st.st_blocks * 512 : -1;
}

/* Logs large entries until one finds no room in several attempts; its slot. */
static uint64_t
log_until_stuck(uint64_t slot)
{
	uint8_t *bytes = memory_zero(BIG, 1);

	for (;; slot++) {
		fixture_log(&f, slot, (struct bytes){bytes, BIG});
		while (f.persisted < slot && atomic_load(&refused[0]) < 3)
			uv_run(&f.loop, UV_RUN_ONCE);
		if (f.persisted < slot)
			break;
	}
	free(bytes);
	return slot;
}

/* The data directory lies on a disk of its own of that size. */
static void
on_small_disk(const char *size)
{
	if (geteuid() != 0 || mount("test_store", f.directory, "tmpfs", 0, size) < 0)
		skip();
}

DISK_TEST(test_reserve)
{
	uint64_t first, stuck;

	on_small_disk("size=24m");
	fixture_open_started(&f);
	assert_true(blocks_of(RESERVE_FILE) >= RESERVE_SIZE);
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
	assert_false(f.full);
	fill_disk();
	first = log_until_stuck(2);
	/* More than one went into the reserve, and it was told before it was used up. */
	assert_true(first > 4);
	assert_true(f.full);
	assert_int_equal(f.fulls, 1);
	assert_false(f.failed);
	assert_true(blocks_of(RESERVE_FILE) < RESERVE_SIZE);
	assert_int_equal(f.persisted, first - 1);
	/* Room: what waited is written, and the reserve is made again. */
	fixture_remove_file(&f, "filler");
	fixture_wait_persisted(&f, first);
	fixture_wait_full(&f, false);
	assert_true(blocks_of(RESERVE_FILE) >= RESERVE_SIZE);
	fill_disk();
	stuck = log_until_stuck(first + 1);
	fixture_close(&f); /* gives up what has no room */
	assert_int_equal(f.fulls, 2);
	assert_int_equal(f.persisted, stuck - 1);
	fixture_remove_file(&f, "filler");
	fixture_open_started(&f);
	assert_int_equal(f.recovered.entries_n, stuck - 1);
	assert_int_equal(f.recovered.damaged, 0);
	fixture_close(&f);
}

DISK_TEST(test_interrupted_reserve)
{
	interruptions = 3;
	fixture_open_started(&f);
	assert_int_equal(interruptions, 0);
	assert_true(blocks_of(RESERVE_FILE) >= RESERVE_SIZE);
	fixture_close(&f);
}

/* The write-ahead log, which was long when the disk became full, does not use the reserve up: it is
 * moved and begins again, again and again. */
DISK_TEST(test_small_writes_in_the_reserve)
{
	enum { BEFORE = 400, ALL = 2000 };
	uint8_t bytes[200] = {0};

	on_small_disk("size=24m");
	fixture_open_started(&f);
	for (uint64_t slot = 1; slot <= ALL; slot++) {
		fixture_log(&f, slot, (struct bytes){bytes, sizeof bytes});
		fixture_wait_persisted(&f, slot);
		if (slot == BEFORE)
			fill_disk();
	}
	assert_true(f.full);
	assert_false(f.failed);
	assert_true(blocks_of("log.db-wal") + blocks_of("log.db") < RESERVE_SIZE);
	fixture_close(&f);
}

/* Not even while a checkpoint takes long: the commits wait for it. */
DISK_TEST(test_slow_checkpoint)
{
	enum { ALL = 2000 };
	uint8_t bytes[200] = {0};
	bool waited;

	must(uv_sem_init(&checkpoint_may_go_on, 0) == 0);
	on_small_disk("size=32m");
	fixture_open_started(&f);
	atomic_store(&holds_checkpoint, true);
	for (uint64_t slot = 1; slot <= ALL; slot++) {
		fixture_log(&f, slot, (struct bytes){bytes, sizeof bytes});
		fixture_wait_persisted(&f, slot);
	}
	waited = !atomic_load(&holds_checkpoint);
	let_checkpoint_go_on();
	assert_true(waited);
	assert_true(blocks_of("log.db-wal") < RESERVE_SIZE);
	fixture_close(&f);
	uv_sem_destroy(&checkpoint_may_go_on);
}

/* Nor does that of the state, though its writer is never idle. */
DISK_TEST(test_states_in_the_reserve)
{
	uint64_t slot = 0;

	on_small_disk("size=24m");
	assert_int_equal(uv_sem_init(&fed, 0), 0);
	fixture_open_started(&f);
	for (fed_up_to = 0; fed_up_to < 2;) {
		feed();
		fixture_wait_saved(&f, fed_up_to);
	}
	fill_disk();
	while (!f.full) {
		fixture_log(&f, ++slot, bytes_of("x"));
		fixture_wait_persisted(&f, slot);
	}
	atomic_store(&feeds, true);
	feed();
	while (f.saved < FEEDINGS && atomic_load(&refused[1]) < 6)
		uv_run(&f.loop, UV_RUN_ONCE);
	atomic_store(&feeds, false);
	uv_sem_post(&fed);
	assert_int_equal(f.saved, FEEDINGS);
	assert_true(f.full);
	assert_false(f.failed);
	assert_true(blocks_of("state.db-wal") < RESERVE_SIZE / 2);
	fixture_close(&f);
	uv_sem_destroy(&fed);
}

/* What a start writes goes into the reserve. */
DISK_TEST(test_start_on_a_full_disk)
{
	on_small_disk("size=24m");
	fixture_open_started(&f);
	fixture_log(&f, 1, bytes_of("x"));
	fixture_close(&f);
	fill_disk();
	fixture_open_started(&f);
	assert_int_equal(f.recovered.entries_n, 1);
	fixture_wait_full(&f, true);
	fixture_log(&f, 2, bytes_of("x"));
	fixture_wait_persisted(&f, 2);
	fixture_remove_file(&f, "filler");
	fixture_wait_full(&f, false);
	fixture_close(&f);
}

/* It starts without a reserve, and says so. */
DISK_TEST(test_no_room_for_reserve)
{
	on_small_disk("size=7m");
	fixture_open_started(&f);
	fixture_wait_full(&f, true);
	assert_true(blocks_of(RESERVE_FILE) < RESERVE_SIZE);
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
	assert_int_equal(mount(NULL, f.directory, NULL, MS_REMOUNT, "size=24m"), 0);
	fixture_wait_full(&f, false);
	assert_true(blocks_of(RESERVE_FILE) >= RESERVE_SIZE);
	fixture_close(&f);
}

/* ---- other programs ---- */

static sqlite3 *
hold(const char *name)
{
	sqlite3 *handle;

	assert_int_equal(sqlite3_open(fixture_path(&f, name), &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	return handle;
}

static void
let_go(sqlite3 *handle)
{
	assert_int_equal(sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

/* Somebody who looks into the files for longer than SQLite waits. */
DISK_TEST(test_busy_is_not_full)
{
	sqlite3 *log, *rows;

	fixture_open_started(&f);
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
	log = hold("log.db");
	rows = hold("state.db");
	fixture_log(&f, 2, bytes_of("x"));
	fixture_save(&f, 2, bytes_of("x"));
	while (atomic_load(&refused[0]) < 2 || atomic_load(&refused[1]) < 2)
		uv_run(&f.loop, UV_RUN_ONCE);
	assert_int_equal(f.persisted, 1);
	assert_int_equal(f.saved, 0);
	assert_int_equal(f.fulls, 0);
	let_go(log);
	let_go(rows);
	fixture_wait_persisted(&f, 2);
	fixture_wait_saved(&f, 2);
	assert_int_equal(f.fulls, 0);
	assert_false(f.failed);
	fixture_close(&f);
}

/* Stops with that reason, and says nothing of what comes later. */
static void
assert_noticed(const char *reason)
{
	fixture_wait_failed(&f);
	if (strstr(f.reason, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", f.reason, reason);
	fixture_log(&f, 2, bytes_of("lost"));
	fixture_close(&f);
	assert_int_equal(f.persisted, 1);
}

/* A store that has logged one entry. */
static void
begin_watched(void)
{
	upkeep_factor = 50;
	fixture_open_started(&f);
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
}

static void
remove_in_use(const char *name)
{
	char reason[64];

	begin_watched();
	fixture_remove_file(&f, name);
	snprintf(reason, sizeof reason, "%s was removed while it was in use", name);
	assert_noticed(reason);
}

#define REMOVED_TEST(test, name)     \
	DISK_TEST(test)              \
	{                            \
		remove_in_use(name); \
	}

REMOVED_TEST(test_log_removed, "log.db")
REMOVED_TEST(test_log_wal_removed, "log.db-wal")
REMOVED_TEST(test_state_removed, "state.db")
REMOVED_TEST(test_marks_removed, "marks")
REMOVED_TEST(test_lock_removed, "lock")

DISK_TEST(test_replaced)
{
	begin_watched();
	fixture_sql(&f, "other", "CREATE TABLE t (a)");
	assert_int_equal(rename(fixture_path(&f, "other"), fixture_path(&f, "state.db")), 0);
	assert_noticed("state.db was replaced while it was in use");
}

/* A file that can't be looked at may still be there. */
DISK_TEST(test_not_seen)
{
	struct file_guard guard;
	char why[SQLITE_WHY];

	begin_watched();
	file_guard_begin(&guard, f.directory);
	stat_error = EIO;
	assert_true(file_guard_check(&guard, why, sizeof why));
	stat_error = 0;
	assert_true(file_guard_check(&guard, why, sizeof why));
	fixture_close(&f);
}

/* Another file of the disk failed: the first reason is told, and nothing is written any more. */
DISK_TEST(test_another_file_fails)
{
	begin_watched();
	store_fail(f.store, "the cell file cannot be synced");
	fixture_remove_file(&f, "marks");
	assert_noticed("the cell file cannot be synced");
}

/* ---- damage that is met while running ---- */

/* A page that SQLite finds damaged stops the store, and the next start looks at it: that is no sign
 * of a disk that can't be trusted until the machine was started again. */
DISK_TEST(test_damaged_while_running)
{
	static uint8_t large[3000]; /* in all more than SQLite keeps in memory */
	char garbage[4096];
	int fd;

	f.others = true;
	fixture_open_started(&f);
	for (uint64_t slot = 1; slot <= 2000; slot++)
		fixture_log(&f, slot, (struct bytes){large, sizeof large});
	fixture_close(&f);
	fixture_open_started(&f);
	memset(garbage, 'x', sizeof garbage);
	fd = open(fixture_path(&f, "log.db"), O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (off_t page = 1; page < lseek(fd, 0, SEEK_END) / 4096; page++)
		assert_int_equal(pwrite(fd, garbage, sizeof garbage, page * 4096), 4096);
	close(fd);
	for (uint64_t slot = 1; slot <= 2000 && !f.failed; slot++) {
		fixture_log(&f, slot, bytes_of("again"));
		uv_run(&f.loop, UV_RUN_NOWAIT);
	}
	fixture_wait_failed(&f);
	assert_non_null(strstr(f.reason, "log.db is damaged"));
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.damaged, 2000);
	fixture_close(&f);
}

/* ---- leases ---- */

/* No lease lasts as long as an incarnation that has been there for minutes. */
DISK_TEST(test_old_leases_forgotten)
{
	fixture_open_started(&f);
	fixture_put_lease(&f, 60000);
	fixture_close(&f);
	fixture_open_started(&f);
	fixture_put_lease(&f, 500);
	fixture_close(&f);
	fixture_open_started(&f);
	assert_int_equal(span_to_ms(f.recovered.wait), 60000);
	later_s = 59;
	fixture_put_lease(&f, 500);
	fixture_close(&f);
	fixture_open_started(&f);
	assert_int_equal(span_to_ms(f.recovered.wait), 60000);
	later_s += 300;
	fixture_put_lease(&f, 600);
	fixture_close(&f);
	fixture_open_started(&f);
	assert_int_equal(span_to_ms(f.recovered.wait), 600);
	fixture_close(&f);
}

int
main(void)
{
	log_start("test_store_disk", LEVEL_ERROR);
	return unit_run(NULL, NULL);
}
