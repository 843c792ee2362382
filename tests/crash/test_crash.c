/* A store whose process, power, disk or room on the disk goes away at any moment: whatever it had
 * acknowledged is there afterwards, nothing half done is, and after a failed sync it acknowledges
 * nothing and can't be opened before the next boot.
 *
 * A child works on the store and tells through a pipe what was acknowledged; when it is dead, the
 * parent opens what it left. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sqlite3.h>

#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "tests/crash/powercut.h"
#include "tests/crash/victim.h"
#include "tests/unit/unit.h"

enum {
	KILLS = 10,
	KILL_AFTER = 300, /* at the most, so many acknowledgements */
	CUTS = 40,        /* moments at which the power is cut, spread over all there are */
	FAILURES = 16,    /* likewise, syncs that fail */
	PATIENCE_S = 20,
	LONG = 300, /* slots: the write-ahead log grows, is moved and begins again */
};

static char why_saved[512];

/* ---- the child ---- */

/* What is applied was chosen, and so it is durable in the log of a cell of one: the state never
 * gets ahead of it. */
static void
save_persisted(void)
{
	fixture_save(&f, f.persisted, payload_of(f.persisted));
}

/* Two lives of a store, each with some of everything: small and large entries, rows, a trim. */
static int
live_twice(void)
{
	for (int life = 0; life < 2; life++) {
		if (!victim_start())
			return REFUSED;
		for (uint64_t i = 1; i <= 20 && !f.failed; i++) {
			uint64_t slot = (uint64_t)life * 20 + i;

			fixture_log(&f, slot, payload_of(slot));
			if (i % 4 == 0)
				fixture_wait_persisted(&f, slot);
			if (i % 6 == 0)
				save_persisted();
			if (life == 1 && i == 10)
				victim_trim(15, slot);
		}
		fixture_close(&f);
		if (f.failed)
			return REFUSED;
	}
	return OK;
}

/* Until somebody kills it. Trims what was saved. */
static int
live_on(void)
{
	if (!victim_start())
		return REFUSED;
	for (uint64_t slot = told.persisted + 1;; slot++) {
		fixture_log(&f, slot, payload_of(slot));
		if (slot % 64 == 0 && f.saved > 20)
			victim_trim(f.saved - 20, slot);
		if (slot % 16 == 0) {
			fixture_wait_persisted(&f, slot);
			save_persisted();
		}
	}
}

/* So long that checkpoints run beside the commits. */
static int
live_long(void)
{
	if (!victim_start())
		return REFUSED;
	for (uint64_t slot = 1; slot <= LONG && !f.failed; slot++) {
		fixture_log(&f, slot, payload_of(slot));
		if (slot % 4 == 0)
			fixture_wait_persisted(&f, slot);
	}
	must(f.failed || victim_threads() == 4);
	fixture_close(&f);
	return f.failed ? REFUSED : OK;
}

/* Its owner has other things to end before it: by then all threads have left. */
static int
close_late(void)
{
	alarm(PATIENCE_S);
	if (!victim_start())
		return REFUSED;
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	fixture_save(&f, 1, payload_of(1));
	powercut_fail_sync(powercut_syncs() + 1);
	fixture_log(&f, 2, payload_of(2));
	while (!f.failed || victim_threads() > 1)
		uv_run(&f.loop, UV_RUN_NOWAIT);
	uv_run(&f.loop, UV_RUN_NOWAIT);
	fixture_close(&f);
	return REFUSED;
}

static int
starve(void)
{
	alarm(PATIENCE_S);
	if (!victim_start())
		return REFUSED;
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	sqlite3_hard_heap_limit64(1);
	fixture_log(&f, 2, payload_of(5)); /* several pages */
	fixture_wait_persisted(&f, 2);
	return f.failed ? REFUSED : OK;
}

TEST(test_killed)
{
	struct rng rng = rng_seeded(1);
	struct acks acks = {0};

	for (int i = 0; i < KILLS; i++) {
		struct victim victim;

		told = acks;
		victim = victim_run(live_on, NULL, 0, 0);
		victim_listen(victim, 1 + rng_below(&rng, KILL_AFTER), &acks);
		kill(victim.pid, SIGKILL);
		assert_int_equal(victim_harvest(victim, &acks), -1);
		assert_kept(&acks);
		/* What was there without having been acknowledged counts from now on. */
		assert_true(fixture_open(&f));
		acks.persisted = f.recovered.trimmed + f.recovered.entries_n;
		fixture_close(&f);
	}
	assert_true(acks.persisted > 100);
}

/* How much of a life there is to interrupt. */
static void
measure(int (*life)(void), long *operations, long *syncs)
{
	int ends[2];
	long counts[2];
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		report_fd = open("/dev/null", O_WRONLY);
		powercut_install(1);
		must(life() == OK);
		counts[0] = powercut_operations();
		counts[1] = powercut_syncs();
		must(write(ends[1], counts, sizeof counts) == sizeof counts);
		_exit(0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], counts, sizeof counts), sizeof counts);
	close(ends[0]);
	waitpid(pid, NULL, 0);
	*operations = counts[0];
	*syncs = counts[1];
}

/* All of them with LSFS_CRASH_ALL in the environment. */
static long
stride_of(long all, long wanted)
{
	return getenv("LSFS_CRASH_ALL") != NULL || all < wanted ? 1 : all / wanted;
}

/* Where a directory was not synced there are several things that may be left of it: it is cut there
 * again. False when the work has come to its end before. */
static bool
cut(int (*life)(void), long n)
{
	int status = POWERCUT_TORN;

	for (int times = 0; status == POWERCUT_TORN && times < POWERCUT_TIMES; times++) {
		struct acks acks = {0};

		victim_fresh();
		status = victim_harvest(victim_run(life, powercut_at, n,
		                                   (uint64_t)n * POWERCUT_TIMES + (uint64_t)times),
		                        &acks);
		if (status != POWERCUT_STATUS && status != POWERCUT_TORN && status != OK)
			fail_msg("cut at %ld: the child ended with %d", n, status);
		assert_kept(&acks);
		assert_kept(&acks); /* opening it was no danger to it */
	}
	return status != OK;
}

static void
cut_everywhere(int (*life)(void))
{
	long operations, syncs, cuts = 0;

	measure(life, &operations, &syncs);
	assert_true(operations > 100 && syncs > 10);
	for (long n = 1; n <= operations; n += stride_of(operations, CUTS))
		cuts += cut(life, n);
	assert_true(cuts > CUTS / 2);
}

TEST(test_power_cut)
{
	cut_everywhere(live_twice);
}

TEST(test_power_cut_beside_a_checkpoint)
{
	cut_everywhere(live_long);
}

/* Only the mark in the run directory is left: the data directory's could not be written. */
static void
health_without_mark(char saved[4096])
{
	char path[128], text[4096];
	int fd;

	snprintf(path, sizeof path, "%s/health", f.directory);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, saved, 4096), 4096);
	memset(text, ' ', sizeof text);
	memcpy(text, saved, 23);
	memcpy(text + 23, "ok\n", 3);
	assert_int_equal(pwrite(fd, text, sizeof text, 0), sizeof text);
	assert_false(fixture_open(&f));
	assert_non_null(strstr(f.why, "marked failed since this boot"));
	assert_int_equal(pwrite(fd, saved, 4096, 0), 4096);
	close(fd);
}

/* ---- files that are written as a whole: the cell file, keys, marks ---- */

enum { REPLACED = 4 };

static int
replace_file(void)
{
	for (uint64_t i = 1; i <= REPLACED; i++) {
		if (file_replace(fixture_path(&f, "cell.conf"), payload_of(5 * i), 0600) < 0)
			return REFUSED;
		told.persisted = i;
		must(write(report_fd, &told, sizeof told) == sizeof told);
	}
	return OK;
}

/* It is that which was acknowledged, or the next one: whole. */
static void
assert_replaced(uint64_t acknowledged)
{
	struct buffer found = BUFFER(1 << 20);
	int fd = open(fixture_path(&f, "cell.conf"), O_RDONLY);
	bool is_whole;

	if (fd < 0 && acknowledged == 0)
		return;
	assert_true(fd >= 0);
	assert_int_equal(file_read(fd, 1 << 20, &found), 0);
	close(fd);
	is_whole = bytes_equal(buffer_view(&found), payload_of(5 * (acknowledged + 1)));
	if (!is_whole && acknowledged > 0)
		is_whole = bytes_equal(buffer_view(&found), payload_of(5 * acknowledged));
	assert_true(is_whole);
	buffer_free(&found);
}

TEST(test_cut_in_replacing)
{
	int status = POWERCUT_STATUS, cuts = 0;

	for (long n = 1; status != OK; n++) {
		for (long times = 0; times < POWERCUT_TIMES && status != OK; times++) {
			struct acks acks = {0};

			victim_fresh();
			status = victim_harvest(victim_run(replace_file, powercut_at, n,
			                                   (uint64_t)(n * POWERCUT_TIMES + times)),
			                        &acks);
			assert_true(status == POWERCUT_STATUS || status == POWERCUT_TORN ||
			            status == OK);
			assert_replaced(acks.persisted);
			cuts += status != OK;
		}
	}
	assert_true(cuts >= 4 * REPLACED * POWERCUT_TIMES);
}

static void
fail_everywhere(int (*life)(void))
{
	long operations, syncs, failures = 0;
	char saved[4096];

	victim_fresh();
	measure(life, &operations, &syncs);
	/* The first two are of the file that would be marked. */
	for (long n = 3; n <= syncs; n += stride_of(syncs, FAILURES)) {
		struct acks acks = {0};
		int status;

		victim_fresh();
		status =
		    victim_harvest(victim_run(life, powercut_fail_sync, n, (uint64_t)n), &acks);
		if (status == OK)
			continue; /* there were fewer syncs than in the first run */
		if (status != REFUSED)
			fail_msg("sync %ld failed: the child ended with %d", n, status);
		failures++;
		assert_false(fixture_open(&f));
		snprintf(why_saved, sizeof why_saved, "%s", f.why);
		if (strstr(f.why, "marked failed since this boot") == NULL)
			fail_msg("sync %ld failed, then: %s", n, f.why);
		assert_false(fixture_open(&f)); /* trying again does not help */
		assert_string_equal(why_saved, f.why);
		health_without_mark(saved);
		victim_next_boot();
		assert_kept(&acks);
		assert_kept(&acks);
	}
	assert_true(failures > FAILURES / 3);
}

TEST(test_failed_sync)
{
	fail_everywhere(live_twice);
}

TEST(test_failed_sync_beside_a_checkpoint)
{
	fail_everywhere(live_long);
}

TEST(test_closed_after_failure)
{
	struct acks acks = {0};

	victim_fresh();
	if (victim_harvest(victim_run(close_late, powercut_fail_sync, 0, 1), &acks) != REFUSED)
		fail_msg("a store that had failed did not close");
	assert_int_equal(acks.persisted, 1);
	assert_int_equal(acks.failed, 1);
	victim_next_boot();
	assert_kept(&acks);
}

/* The process ends, as everywhere; the disk is not to blame. */
TEST(test_no_memory)
{
	struct acks acks = {0};

	victim_fresh();
	assert_int_equal(victim_harvest(victim_run(starve, NULL, 0, 0), &acks), -1);
	assert_int_equal(acks.persisted, 1);
	assert_int_equal(acks.failed, 0);
	assert_kept(&acks);
}

/* The last test: from here on this process works on the disk that can get full. */
TEST(test_no_room)
{
	victim_fresh();
	powercut_install(7);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	for (uint64_t slot = 2; slot <= 4; slot++) {
		powercut_no_room((long)slot - 1, 3); /* in the middle of a transaction, too */
		fixture_log(&f, slot, payload_of(slot * 5)); /* several pages */
		fixture_wait_full(&f, true);
		fixture_wait_full(&f, false);
		fixture_wait_persisted(&f, slot);
		assert_true(f.fulls >= (int)slot - 1);
	}
	assert_false(f.failed);
	fixture_save(&f, 1, payload_of(1));
	powercut_no_room(1, 2);
	fixture_wait_full(&f, true);
	fixture_wait_saved(&f, 1);
	fixture_wait_full(&f, false);
	assert_false(f.failed);
	fixture_close(&f);
}

TEST(test_closed_while_full)
{
	victim_fresh();
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	powercut_no_room(1, 1000000);
	fixture_log(&f, 2, payload_of(2));
	fixture_wait_full(&f, true);
	fixture_close(&f); /* does not wait for room */
	assert_int_equal(f.persisted, 1);
	powercut_no_room(1, 0);
	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	assert_int_equal(f.recovered.entries_n, 1);
	fixture_close(&f);
}

int
main(void)
{
	int failed;

	log_start("test_crash", LEVEL_ERROR);
	fixture_make(&f);
	failed = unit_run(NULL, NULL);
	fixture_remove(&f);
	return failed;
}
