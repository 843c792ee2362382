/* What happens to the files of a running store: the disk gets full, another program holds or
 * removes them, a page changes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "cell/base/memory.h"
#include "cell/io/clock.h"
#include "cell/io/log.h"
#include "cell/io/reserve.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"

static struct fixture f;

/* The linker puts this one in the place of clock_now. */
mono_t __real_clock_now(void);
mono_t __wrap_clock_now(void);

static int64_t later_s;

mono_t
__wrap_clock_now(void)
{
	return mono_add(__real_clock_now(), span_ms(later_s * 1000));
}

static int
setup(void **state)
{
	(void)state;
	fixture_make(&f);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	fixture_remove(&f);
	return 0;
}

static void
open_started(void)
{
	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	fixture_start(&f);
}

static const char *
path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof path, "%s/%s", f.directory, name);
	return path;
}

static void
wait_full(bool full)
{
	while (f.full != full)
		uv_run(&f.loop, UV_RUN_ONCE);
}

/* ---- no room ---- */

enum { CHUNK = 64 * 1024, BIG = 200 * 1024 };

static void
fill_disk(void)
{
	char *chunk = memory_zero(CHUNK, 1);
	int fd = open(path_of("filler"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
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

	return stat(path_of(name), &st) == 0 ? (int64_t)st.st_blocks * 512 : -1;
}

/* Logs large entries until one is not acknowledged; its slot. */
static uint64_t
log_until_stuck(uint64_t slot)
{
	uint8_t *bytes = memory_zero(BIG, 1);

	for (;; slot++) {
		fixture_log(&f, slot, (struct bytes){bytes, BIG});
		for (int turn = 0; turn < 40 && f.persisted < slot; turn++) {
			uv_run(&f.loop, UV_RUN_NOWAIT);
			usleep(10000);
		}
		if (f.persisted < slot)
			break;
	}
	free(bytes);
	return slot;
}

static void
test_reserve(void **state)
{
	uint64_t first, stuck;

	if (geteuid() != 0)
		skip();
	setup(state);
	if (mount("test_store", f.directory, "tmpfs", 0, "size=24m") < 0) {
		teardown(state);
		skip();
	}
	open_started();
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
	assert_int_equal(unlink(path_of("filler")), 0);
	fixture_wait_persisted(&f, first);
	wait_full(false);
	assert_true(blocks_of(RESERVE_FILE) >= RESERVE_SIZE);
	fill_disk();
	stuck = log_until_stuck(first + 1);
	fixture_close(&f); /* gives up what has no room */
	assert_int_equal(f.fulls, 2);
	assert_int_equal(f.persisted, stuck - 1);
	assert_int_equal(unlink(path_of("filler")), 0);
	open_started();
	assert_int_equal(f.recovered.entries_n, stuck - 1);
	assert_int_equal(f.recovered.damaged, 0);
	fixture_close(&f);
	assert_int_equal(umount(f.directory), 0);
	teardown(state);
}

/* What a start writes goes into the reserve. */
static void
test_start_on_a_full_disk(void **state)
{
	if (geteuid() != 0)
		skip();
	setup(state);
	if (mount("test_store", f.directory, "tmpfs", 0, "size=24m") < 0) {
		teardown(state);
		skip();
	}
	open_started();
	fixture_log(&f, 1, bytes_of("x"));
	fixture_close(&f);
	fill_disk();
	open_started();
	assert_int_equal(f.recovered.entries_n, 1);
	wait_full(true);
	fixture_log(&f, 2, bytes_of("x"));
	fixture_wait_persisted(&f, 2);
	assert_int_equal(unlink(path_of("filler")), 0);
	wait_full(false);
	fixture_close(&f);
	assert_int_equal(umount(f.directory), 0);
	teardown(state);
}

/* It starts without a reserve, and says so. */
static void
test_no_room_for_reserve(void **state)
{
	if (geteuid() != 0)
		skip();
	setup(state);
	if (mount("test_store", f.directory, "tmpfs", 0, "size=7m") < 0) {
		teardown(state);
		skip();
	}
	open_started();
	wait_full(true);
	assert_true(blocks_of(RESERVE_FILE) < RESERVE_SIZE);
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
	assert_int_equal(mount(NULL, f.directory, NULL, MS_REMOUNT, "size=24m"), 0);
	wait_full(false);
	assert_true(blocks_of(RESERVE_FILE) >= RESERVE_SIZE);
	fixture_close(&f);
	assert_int_equal(umount(f.directory), 0);
	teardown(state);
}

/* ---- other programs ---- */

static sqlite3 *
hold(const char *name)
{
	sqlite3 *handle;

	assert_int_equal(sqlite3_open(path_of(name), &handle), SQLITE_OK);
	assert_int_equal(sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
	return handle;
}

static void
let_go(sqlite3 *handle)
{
	assert_int_equal(sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_close(handle), SQLITE_OK);
}

static void
run_for(int64_t ms)
{
	mono_t until = mono_add(__real_clock_now(), span_ms(ms));

	while (!mono_reached(__real_clock_now(), until) && !f.failed) {
		uv_run(&f.loop, UV_RUN_NOWAIT);
		usleep(10000);
	}
}

/* Somebody who looks into the files for longer than SQLite waits. */
static void
test_busy_is_not_full(void **state)
{
	sqlite3 *log, *rows;

	(void)state;
	open_started();
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
	log = hold("log.db");
	rows = hold("state.db");
	fixture_log(&f, 2, bytes_of("x"));
	fixture_save(&f, 2, bytes_of("x"));
	run_for(2500);
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

static void
assert_noticed(const char *reason)
{
	run_for(10000);
	assert_true(f.failed);
	if (strstr(f.reason, reason) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", f.reason, reason);
	fixture_log(&f, 2, bytes_of("lost"));
	run_for(50);
	fixture_close(&f);
	assert_int_equal(f.persisted, 1);
}

static void
test_removed(void **state)
{
	static const char *const names[] = {"log.db", "state.db", "marks", "lock", "log.db-wal"};
	char reason[64];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		setup(state);
		open_started();
		fixture_log(&f, 1, bytes_of("x"));
		fixture_wait_persisted(&f, 1);
		assert_int_equal(unlink(path_of(names[i])), 0);
		snprintf(reason, sizeof reason, "%s was removed while it was in use", names[i]);
		assert_noticed(reason);
		teardown(state);
	}
}

static void
test_replaced(void **state)
{
	char from[256];

	setup(state);
	open_started();
	fixture_log(&f, 1, bytes_of("x"));
	fixture_wait_persisted(&f, 1);
	snprintf(from, sizeof from, "%s", path_of("other"));
	fixture_sql(&f, "other", "CREATE TABLE t (a)");
	assert_int_equal(rename(from, path_of("state.db")), 0);
	assert_noticed("state.db was replaced while it was in use");
	teardown(state);
}

/* ---- damage that is met while running ---- */

/* A page that SQLite finds damaged stops the store, and the next start looks at it: that is no sign
 * of a disk that can't be trusted until the machine was started again. */
static void
test_damaged_while_running(void **state)
{
	static uint8_t large[3000]; /* in all more than SQLite keeps in memory */
	char garbage[4096];
	int fd;

	(void)state;
	f.others = true;
	open_started();
	for (uint64_t slot = 1; slot <= 2000; slot++)
		fixture_log(&f, slot, (struct bytes){large, sizeof large});
	fixture_close(&f);
	open_started();
	memset(garbage, 'x', sizeof garbage);
	fd = open(path_of("log.db"), O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (off_t page = 1; page < lseek(fd, 0, SEEK_END) / 4096; page++)
		assert_int_equal(pwrite(fd, garbage, sizeof garbage, page * 4096), 4096);
	close(fd);
	for (uint64_t slot = 1; slot <= 2000 && !f.failed; slot++) {
		fixture_log(&f, slot, bytes_of("again"));
		uv_run(&f.loop, UV_RUN_NOWAIT);
	}
	run_for(10000);
	assert_true(f.failed);
	assert_non_null(strstr(f.reason, "log.db is damaged"));
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.damaged, 2000);
	fixture_close(&f);
}

/* ---- leases ---- */

static void
put_lease(int64_t ms)
{
	struct px_record r = {.kind = PX_RECORD_LEASE, .length = span_ms(ms)};

	store_log(f.store, f.persisted + 1, &r, 1);
	fixture_wait_persisted(&f, f.persisted + 1);
}

/* No lease lasts as long as an incarnation that has been there for minutes. */
static void
test_old_leases_forgotten(void **state)
{
	(void)state;
	open_started();
	put_lease(60000);
	fixture_close(&f);
	open_started();
	put_lease(500);
	fixture_close(&f);
	open_started();
	assert_int_equal(span_to_ms(f.recovered.wait), 60000);
	later_s = 59;
	put_lease(500);
	fixture_close(&f);
	open_started();
	assert_int_equal(span_to_ms(f.recovered.wait), 60000);
	later_s += 300;
	put_lease(600);
	fixture_close(&f);
	open_started();
	assert_int_equal(span_to_ms(f.recovered.wait), 600);
	fixture_close(&f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_reserve), cmocka_unit_test(test_start_on_a_full_disk),
	    cmocka_unit_test(test_no_room_for_reserve),
	    TEST(test_busy_is_not_full), cmocka_unit_test(test_removed),
	    cmocka_unit_test(test_replaced), TEST(test_damaged_while_running),
	    TEST(test_old_leases_forgotten),
	};

	log_start("test_store_disk", LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
