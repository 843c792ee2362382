/* A store whose process, power, disk or room on the disk goes away at any moment: whatever it had
 * acknowledged is there afterwards, nothing half done is, and after a failed sync it acknowledges
 * nothing and can't be opened before the next boot.
 *
 * A child works on the store and tells through a pipe what was acknowledged; when it is dead, the
 * parent opens what it left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/io/log.h"
#include "tests/crash/powercut.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"

enum {
	KILLS = 10,
	CUTS = 40,   /* moments at which the power is cut, spread over all there are */
	FAILURES = 16, /* likewise, syncs that fail */
	LIMIT_PAYLOAD = 40000,
	PATIENCE_S = 20,
	OK = 0, REFUSED = 3, LATE_ACK = 4, UNNOTICED = 5,
};

/* What the child tells. All of it only grows. */
struct acks {
	uint64_t incarnation, persisted, saved, failed;
};

static struct fixture f;
static char why_saved[512];

/* ---- contents that can be told from anything else ---- */

static struct bytes
payload_of(uint64_t slot)
{
	static uint8_t bytes[LIMIT_PAYLOAD];
	size_t len = slot % 5 == 0 ? LIMIT_PAYLOAD - slot : 20 + slot % 100;

	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(slot * 31 + i * (slot % 7 + 1));
	return (struct bytes){bytes, len};
}

/* ---- the child ---- */

static int report_fd;

static void
report(struct acks acks)
{
	must(write(report_fd, &acks, sizeof acks) == sizeof acks);
}

static struct acks told;

static void
on_persisted(void *user, uint64_t ticket)
{
	(void)user;
	if (told.failed)
		_exit(LATE_ACK);
	told.persisted = f.persisted = ticket;
	report(told);
}

static void
on_saved(void *user, uint64_t applied)
{
	(void)user;
	if (told.failed)
		_exit(LATE_ACK);
	told.saved = f.saved = applied;
	report(told);
}

static void
on_full(void *user, bool full)
{
	(void)user, (void)full;
}

static void
on_failed(void *user, const char *why)
{
	(void)user, (void)why;
	f.failed = true;
	told.failed = 1;
	report(told);
}

static bool
start(void)
{
	const struct store_callbacks callbacks = {on_persisted, on_saved, on_full, on_failed, NULL};

	if (!fixture_open(&f))
		return false;
	f.persisted = told.persisted;
	told.incarnation = f.recovered.incarnation;
	report(told);
	must(store_start(f.store, &f.loop, &callbacks) == 0);
	return true;
}

static void
trim(uint64_t slot, uint64_t ticket)
{
	struct px_record r = {.kind = PX_RECORD_TRIM, .slot = slot};

	store_log(f.store, ticket, &r, 1);
}

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
		if (!start())
			return REFUSED;
		for (uint64_t i = 1; i <= 20 && !f.failed; i++) {
			uint64_t slot = (uint64_t)life * 20 + i;

			fixture_log(&f, slot, payload_of(slot));
			if (i % 4 == 0)
				fixture_wait_persisted(&f, slot);
			if (i % 6 == 0)
				save_persisted();
			if (life == 1 && i == 10)
				trim(15, slot);
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
	if (!start())
		return REFUSED;
	for (uint64_t slot = told.persisted + 1;; slot++) {
		fixture_log(&f, slot, payload_of(slot));
		if (slot % 64 == 0 && f.saved > 20)
			trim(f.saved - 20, slot);
		if (slot % 16 == 0) {
			fixture_wait_persisted(&f, slot);
			save_persisted();
		}
	}
}

static int
threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	must(d != NULL);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n - 2; /* "." and ".." */
}

/* Its owner has other things to end before it: by then both threads have left. */
static int
close_late(void)
{
	alarm(PATIENCE_S);
	if (!start())
		return REFUSED;
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	fixture_save(&f, 1, payload_of(1));
	powercut_fail_sync(powercut_syncs() + 1);
	fixture_log(&f, 2, payload_of(2));
	while (!f.failed || threads() > 1)
		uv_run(&f.loop, UV_RUN_NOWAIT);
	uv_run(&f.loop, UV_RUN_NOWAIT);
	fixture_close(&f);
	return REFUSED;
}

static int
starve(void)
{
	alarm(PATIENCE_S);
	if (!start())
		return REFUSED;
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	sqlite3_hard_heap_limit64(1);
	fixture_log(&f, 2, payload_of(5)); /* several pages */
	fixture_wait_persisted(&f, 2);
	return f.failed ? REFUSED : OK;
}

/* ---- the parent ---- */

struct victim {
	pid_t pid;
	int fd;
};

static struct victim
run(int (*work)(void), void (*prepare)(long n), long n, uint64_t seed)
{
	int ends[2];
	struct victim victim;

	assert_int_equal(pipe(ends), 0);
	victim.fd = ends[0];
	victim.pid = fork();
	assert_true(victim.pid >= 0);
	if (victim.pid == 0) {
		int status;

		close(ends[0]);
		report_fd = ends[1];
		signal(SIGPIPE, SIG_DFL);
		if (prepare != NULL) {
			powercut_install(seed);
			prepare(n);
		}
		status = work();
		if (prepare != NULL && powercut_failed()) {
			powercut_leave();
			status = status == OK ? UNNOTICED : status;
		}
		_exit(status);
	}
	close(ends[1]);
	return victim;
}

/* Reads what it told until it is dead; its exit status, or -1 if it was killed. */
static int
harvest(struct victim victim, struct acks *acks)
{
	struct acks a;
	int status;

	while (read(victim.fd, &a, sizeof a) == sizeof a)
		*acks = a;
	close(victim.fd);
	assert_int_equal(waitpid(victim.pid, &status, 0), victim.pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void
assert_entry(const struct log_entry *e, uint64_t slot)
{
	assert_int_equal(e->slot, slot);
	assert_int_equal(e->ballot.round, 3);
	assert_true(bytes_equal(e->payload, payload_of(slot)));
}

/* Opens what is left and compares it with what had been acknowledged. */
static void
assert_kept(const struct acks *acks)
{
	const struct row *node;
	uint64_t applied, last;

	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	last = f.recovered.trimmed + f.recovered.entries_n;
	applied = tree_applied(f.tree);
	assert_true(f.recovered.incarnation > acks->incarnation);
	assert_true(last >= acks->persisted);
	assert_true(applied >= acks->saved);
	assert_true(f.recovered.trimmed <= applied && applied <= last);
	for (size_t i = 0; i < f.recovered.entries_n; i++)
		assert_entry(&f.recovered.entries[i], f.recovered.trimmed + 1 + i);
	node = fake_tree_find(f.tree, ROWS_nodes, 2);
	assert_true((node != NULL) == (applied > 0));
	if (node != NULL)
		assert_true(
		    bytes_equal(node->values[COL_nodes_contents].bytes, payload_of(applied)));
	fixture_close(&f);
}

static void
fresh(void)
{
	fixture_remove(&f);
	fixture_make_in_memory(&f);
	told = (struct acks){0};
}

/* ---- what an opening repairs or installs, cut off anywhere ---- */

enum { REPAIR_LAST = 30, REPAIR_APPLIED = 12, REPAIR_TRIMMED = 8, SNAPSHOT = 60 };

static void
on_copied(void *user, uint64_t applied, const char *why)
{
	must(why == NULL && applied == SNAPSHOT);
	*(bool *)user = true;
}

/* A replica of several, with a copy of another one's state beside it. */
static void
make_replica(void)
{
	struct fixture other;
	char from[128], to[128];
	bool copied = false;

	fresh();
	f.others = true;
	must(fixture_open(&f));
	fixture_start(&f);
	for (uint64_t slot = 1; slot <= REPAIR_LAST; slot++)
		fixture_log(&f, slot, payload_of(slot));
	fixture_wait_persisted(&f, REPAIR_LAST);
	fixture_save(&f, REPAIR_APPLIED, payload_of(REPAIR_APPLIED));
	trim(REPAIR_TRIMMED, REPAIR_LAST + 1);
	fixture_close(&f);
	fixture_make_in_memory(&other);
	must(fixture_open(&other));
	fixture_start(&other);
	for (uint64_t slot = 1; slot <= SNAPSHOT; slot++)
		fixture_log(&other, slot, payload_of(slot));
	fixture_save(&other, SNAPSHOT, payload_of(SNAPSHOT));
	fixture_wait_saved(&other, SNAPSHOT);
	store_copy(other.store, STORE_COPY, on_copied, &copied);
	while (!copied)
		uv_run(&other.loop, UV_RUN_ONCE);
	snprintf(from, sizeof from, "%s/" STORE_COPY, other.directory);
	snprintf(to, sizeof to, "%s/received", f.directory);
	must(rename(from, to) == 0);
	fixture_close(&other);
	fixture_remove(&other);
}

/* Opens it, goes on where it is, closes it. */
static int
go_on(void)
{
	uint64_t last;

	if (!start())
		return REFUSED;
	last = f.recovered.applied > f.recovered.trimmed + f.recovered.entries_n
	           ? f.recovered.applied : f.recovered.trimmed + f.recovered.entries_n;
	if (last == f.recovered.applied)
		trim(last, last);
	for (uint64_t slot = last + 1; slot <= last + 20; slot++)
		fixture_log(&f, slot, payload_of(slot));
	fixture_wait_persisted(&f, last + 20);
	fixture_close(&f);
	return f.failed ? REFUSED : OK;
}

/* Leaves write-ahead logs behind. */
static int
save_and_die(void)
{
	if (!start())
		return REFUSED;
	fixture_save(&f, REPAIR_APPLIED, payload_of(REPAIR_APPLIED));
	fixture_wait_saved(&f, REPAIR_APPLIED);
	return OK;
}

static int
install_and_go_on(void)
{
	char from[128], to[128];

	snprintf(from, sizeof from, "%s/received", f.directory);
	snprintf(to, sizeof to, "%s/" STORE_SNAPSHOT, f.directory);
	if (rename(from, to) < 0 || !store_snapshot_ready(f.directory, "test", f.why, sizeof f.why))
		return REFUSED;
	return go_on();
}

/* What is there is what was written once, all of it of one time. */
static void
assert_sound(uint64_t other_state)
{
	uint64_t applied, last, base;

	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	applied = tree_applied(f.tree);
	last = f.recovered.trimmed + f.recovered.entries_n;
	base = f.recovered.trimmed;
	assert_true(applied == REPAIR_APPLIED || applied == other_state);
	if (applied > 0)
		assert_true(bytes_equal(
		    fake_tree_find(f.tree, ROWS_nodes, 2)->values[COL_nodes_contents].bytes,
		    payload_of(applied)));
	for (size_t i = 0; i < f.recovered.entries_n; i++)
		assert_entry(&f.recovered.entries[i], base + 1 + i);
	assert_true(last >= REPAIR_LAST || applied >= REPAIR_LAST ||
	            f.recovered.damaged >= REPAIR_LAST);
	assert_int_equal(f.recovered.state_lost, applied < base);
	fixture_close(&f);
}

static void
copy_file(const char *directory, const char *to_directory, const char *name)
{
	static uint8_t bytes[16 << 20];
	char path[512];
	size_t n;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	file = fopen(path, "r");
	must(file != NULL);
	n = fread(bytes, 1, sizeof bytes, file);
	fclose(file);
	snprintf(path, sizeof path, "%s/%s", to_directory, name);
	file = fopen(path, "w");
	must(file != NULL && fwrite(bytes, 1, n, file) == n);
	fclose(file);
}

static void
copy_directory(const char *from, const char *to)
{
	DIR *d = opendir(from);
	struct dirent *e;

	must(d != NULL);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] != '.' && strcmp(e->d_name, "reserve") != 0)
			copy_file(from, to, e->d_name);
	}
	closedir(d);
}

static void
cut_everywhere(int (*work)(void), const char *file, const char *sql, uint64_t other_state)
{
	int status = POWERCUT_STATUS;
	struct acks ignored;
	struct fixture made;
	long cuts = 0;

	make_replica();
	if (file != NULL)
		fixture_sql(&f, file, sql);
	else
		assert_int_equal(harvest(run(save_and_die, NULL, 0, 0), &ignored), OK);
	fixture_make_in_memory(&made);
	copy_directory(f.directory, made.directory);
	for (long n = 1; status == POWERCUT_STATUS; n += getenv("LSFS_CRASH_ALL") ? 1 : 4) {
		struct acks acks = {0};

		fresh();
		f.others = true;
		copy_directory(made.directory, f.directory);
		status = harvest(run(work, powercut_at, n, (uint64_t)n), &acks);
		if (status != POWERCUT_STATUS && status != OK)
			fail_msg("cut at %ld: the child ended with %d", n, status);
		cuts += status == POWERCUT_STATUS;
		assert_sound(other_state);
		assert_sound(other_state);
	}
	assert_true(cuts > 6);
	fixture_remove(&made);
}

static void
test_cut_in_install(void **state)
{
	(void)state;
	cut_everywhere(install_and_go_on, NULL, NULL, SNAPSHOT);
}

static void
test_cut_in_repair(void **state)
{
	(void)state;
	cut_everywhere(go_on, "log.db", "UPDATE entries SET payload = x'00' WHERE slot = 20", 0);
	cut_everywhere(go_on, "log.db", "DROP TABLE chosen", 0);
	cut_everywhere(go_on, "state.db", "UPDATE nodes SET contents = x'00'", 0);
}

static void
test_killed(void **state)
{
	struct rng rng = rng_seeded(1);
	struct acks acks = {0};

	(void)state;
	told = acks;
	for (int i = 0; i < KILLS; i++) {
		struct timespec pause = {.tv_nsec = (long)rng_below(&rng, 250000000)};
		struct victim victim;

		told = acks;
		victim = run(live_on, NULL, 0, 0);
		nanosleep(&pause, NULL);
		kill(victim.pid, SIGKILL);
		assert_int_equal(harvest(victim, &acks), -1);
		assert_kept(&acks);
		/* What was there without having been acknowledged counts from now on. */
		assert_true(fixture_open(&f));
		acks.persisted = f.recovered.trimmed + f.recovered.entries_n;
		fixture_close(&f);
	}
	assert_true(acks.persisted > 100);
}

/* How much there is to interrupt. */
static void
measure(long *operations, long *syncs)
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
		must(live_twice() == OK);
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

static void
test_power_cut(void **state)
{
	long operations, syncs, cuts = 0;
	struct acks acks;

	(void)state;
	measure(&operations, &syncs);
	assert_true(operations > 100 && syncs > 10);
	for (long n = 1; n <= operations; n += stride_of(operations, CUTS)) {
		int status;

		fresh();
		memset(&acks, 0, sizeof acks);
		status = harvest(run(live_twice, powercut_at, n, (uint64_t)n), &acks);
		if (status != POWERCUT_STATUS && status != OK)
			fail_msg("cut at %ld: the child ended with %d", n, status);
		cuts += status == POWERCUT_STATUS;
		assert_kept(&acks);
		assert_kept(&acks); /* opening it was no danger to it */
	}
	assert_true(cuts > CUTS / 2);
}

/* As if the machine had been started again. */
static void
next_boot(void)
{
	char path[128], text[4096], id[17] = "";
	int fd;

	snprintf(path, sizeof path, "%s/health", f.directory);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof text), sizeof text);
	assert_int_equal(memcmp(text + 23, "failed boot ", 12), 0);
	memcpy(text + 35, "00000000", 8);
	assert_int_equal(pwrite(fd, text, sizeof text, 0), sizeof text);
	close(fd);
	memcpy(id, text + 6, 16);
	if (geteuid() == 0)
		snprintf(path, sizeof path, "/run/lsfs/failed-%s", id);
	else
		snprintf(path, sizeof path, "%s/lsfs/failed-%s", getenv("XDG_RUNTIME_DIR"), id);
	assert_int_equal(unlink(path), 0);
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

static void
test_failed_sync(void **state)
{
	long operations, syncs, failures = 0;
	char saved[4096];

	(void)state;
	fresh();
	measure(&operations, &syncs);
	for (long n = 1; n <= syncs; n += stride_of(syncs, FAILURES)) {
		struct acks acks = {0};
		int status;

		fresh();
		status = harvest(run(live_twice, powercut_fail_sync, n, (uint64_t)n), &acks);
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
		next_boot();
		assert_kept(&acks);
		assert_kept(&acks);
	}
	assert_true(failures > FAILURES / 3);
}

static void
test_closed_after_failure(void **state)
{
	struct acks acks = {0};

	(void)state;
	fresh();
	if (harvest(run(close_late, powercut_fail_sync, 0, 1), &acks) != REFUSED)
		fail_msg("a store that had failed did not close");
	assert_int_equal(acks.persisted, 1);
	assert_int_equal(acks.failed, 1);
	next_boot();
	assert_kept(&acks);
}

/* The process ends, as everywhere; the disk is not to blame. */
static void
test_no_memory(void **state)
{
	struct acks acks = {0};

	(void)state;
	fresh();
	assert_int_equal(harvest(run(starve, NULL, 0, 0), &acks), -1);
	assert_int_equal(acks.persisted, 1);
	assert_int_equal(acks.failed, 0);
	assert_kept(&acks);
}

static void
wait_full(bool full)
{
	while (f.full != full)
		uv_run(&f.loop, UV_RUN_ONCE);
}

/* The last test: from here on this process works on the disk that can get full. */
static void
test_no_room(void **state)
{
	(void)state;
	fresh();
	powercut_install(7);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	for (uint64_t slot = 2; slot <= 4; slot++) {
		powercut_no_room((long)slot - 1, 3); /* in the middle of a transaction, too */
		fixture_log(&f, slot, payload_of(slot * 5)); /* several pages */
		wait_full(true);
		wait_full(false);
		fixture_wait_persisted(&f, slot);
		assert_true(f.fulls >= (int)slot - 1);
	}
	assert_false(f.failed);
	fixture_save(&f, 1, payload_of(1));
	powercut_no_room(1, 2);
	wait_full(true);
	fixture_wait_saved(&f, 1);
	wait_full(false);
	assert_false(f.failed);
	fixture_close(&f);
}

static void
test_closed_while_full(void **state)
{
	(void)state;
	fresh();
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_log(&f, 1, payload_of(1));
	fixture_wait_persisted(&f, 1);
	powercut_no_room(1, 1000000);
	fixture_log(&f, 2, payload_of(2));
	wait_full(true);
	fixture_close(&f); /* does not wait for room */
	assert_int_equal(f.persisted, 1);
	powercut_no_room(1, 0);
	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	assert_int_equal(f.recovered.entries_n, 1);
	fixture_close(&f);
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_killed),      cmocka_unit_test(test_power_cut),
	    cmocka_unit_test(test_cut_in_install), cmocka_unit_test(test_cut_in_repair),
	    cmocka_unit_test(test_failed_sync), cmocka_unit_test(test_closed_after_failure),
	    cmocka_unit_test(test_no_memory),
	    cmocka_unit_test(test_no_room),     cmocka_unit_test(test_closed_while_full),
	};

	log_start("test_crash", LEVEL_ERROR);
	return cmocka_run_group_tests(tests, setup, teardown);
}
