/* What an opening repairs, and what it installs, cut off anywhere: there is the old or the new one,
 * never a mixture, and the next opening goes on. With LSFS_CRASH_ALL in the environment it is cut
 * at every operation. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/copy/copy_files.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "tests/crash/powercut.h"
#include "tests/crash/victim.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/unit.h"

enum { REPAIR_LAST = 30, REPAIR_APPLIED = 12, REPAIR_TRIMMED = 8, FETCHED = 60 };

static void
on_copied(void *user, enum rc rc, uint64_t applied, const char *why)
{
	(void)why;
	must(rc == RC_OK && applied == FETCHED);
	*(bool *)user = true;
}

/* A second file, of several pages: parts of two states would not fit together. */
static void
save_other_file(struct fixture *of, uint64_t applied)
{
	struct row meta = fake_meta(applied);
	struct row node = fake_node(3, "three", payload_of(5 * applied));
	struct row_list rows = {0};

	row_list_add(&rows, &node);
	row_list_add(&rows, &meta);
	store_state(of->store, applied, &rows);
	row_list_free(&rows);
}

/* A replica of several, with a copy of another one's state beside it. */
static void
make_replica(void)
{
	struct state_copier copier;
	struct fixture other;
	char from[128], to[128];
	bool copied = false;

	victim_fresh();
	f.others = true;
	must(fixture_open(&f));
	fixture_start(&f);
	for (uint64_t slot = 1; slot <= REPAIR_LAST; slot++)
		fixture_log(&f, slot, payload_of(slot));
	fixture_wait_persisted(&f, REPAIR_LAST);
	save_other_file(&f, REPAIR_APPLIED);
	fixture_save(&f, REPAIR_APPLIED, payload_of(REPAIR_APPLIED));
	victim_trim(REPAIR_TRIMMED, REPAIR_LAST + 1);
	fixture_close(&f);
	fixture_make(&other);
	must(fixture_open(&other));
	fixture_start(&other);
	for (uint64_t slot = 1; slot <= FETCHED; slot++)
		fixture_log(&other, slot, payload_of(slot));
	save_other_file(&other, FETCHED);
	fixture_save(&other, FETCHED, payload_of(FETCHED));
	fixture_wait_saved(&other, FETCHED);
	state_copy_init(&copier, &other.loop, other.directory);
	state_copy_add(&copier, STORE_COPY, on_copied, &copied);
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

	if (!victim_start())
		return REFUSED;
	last = f.recovered.applied > f.recovered.trimmed + f.recovered.entries_n
	           ? f.recovered.applied
	           : f.recovered.trimmed + f.recovered.entries_n;
	if (last == f.recovered.applied)
		victim_trim(last, last);
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
	if (!victim_start())
		return REFUSED;
	fixture_save(&f, REPAIR_APPLIED, payload_of(REPAIR_APPLIED));
	fixture_wait_saved(&f, REPAIR_APPLIED);
	return OK;
}

/* Writes the copy, as it is received, without a sync. */
static bool
receive(void)
{
	struct buffer copy = BUFFER(16 << 20);
	char from[128], to[128];
	int in, out;
	bool ok;

	snprintf(from, sizeof from, "%s/received", f.directory);
	snprintf(to, sizeof to, "%s/" STORE_FETCHED, f.directory);
	in = open(from, O_RDONLY | O_CLOEXEC);
	out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ok = in >= 0 && out >= 0 && file_read(in, 16 << 20, &copy) == 0 &&
	     file_write_at(out, buffer_view(&copy), 0) == 0;
	close(in);
	close(out);
	buffer_free(&copy);
	return ok;
}

static int
install_and_go_on(void)
{
	if (!receive() || !state_copy_ready(f.directory, "test", f.why, sizeof f.why))
		return REFUSED;
	return go_on();
}

static void
assert_file(uint64_t number, struct bytes contents)
{
	const struct row *node = fake_tree_find(f.tree, ROWS_nodes, number);

	assert_non_null(node);
	assert_true(bytes_equal(node->values[COL_nodes_contents].bytes, contents));
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
	if (applied > 0) {
		assert_file(2, payload_of(applied));
		assert_file(3, payload_of(5 * applied));
	}
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

/* Where a directory was not synced there are several things that may be left of it: it is cut there
 * again. False when the work has come to its end. */
static bool
cut(int (*work)(void), const struct fixture *made, long n, uint64_t other_state)
{
	int status = POWERCUT_TORN;

	for (int times = 0; status == POWERCUT_TORN && times < POWERCUT_TIMES; times++) {
		struct acks acks = {0};

		victim_fresh();
		f.others = true;
		copy_directory(made->directory, f.directory);
		status = victim_harvest(victim_run(work, powercut_at, n,
		                                   (uint64_t)n * POWERCUT_TIMES + (uint64_t)times),
		                        &acks);
		if (status != POWERCUT_STATUS && status != POWERCUT_TORN && status != OK)
			fail_msg("cut at %ld: the child ended with %d", n, status);
		assert_sound(other_state);
		assert_sound(other_state);
	}
	return status != OK;
}

/* At each operation after a renaming that may be lost, and at one in eight of the others. */
static void
cut_everywhere(int (*work)(void), const char *file, const char *sql, uint64_t other_state)
{
	const bool all = getenv("LSFS_CRASH_ALL") != NULL;
	const uint8_t *endings = powercut_watch();
	struct acks ignored;
	struct fixture made;
	long cuts = 0, n = 1;

	make_replica();
	if (file != NULL)
		fixture_sql(&f, file, sql);
	else
		assert_int_equal(victim_harvest(victim_run(save_and_die, NULL, 0, 0), &ignored),
		                 OK);
	fixture_make(&made);
	copy_directory(f.directory, made.directory);
	assert_false(cut(work, &made, LONG_MAX, other_state));
	for (; endings[n] != 0; n++)
		if (all || n % 8 == 1 || endings[n] == POWERCUT_TORN)
			cuts += cut(work, &made, n, other_state);
	assert_true(cuts > 6);
	fixture_remove(&made);
}

TEST_ON(test_cut_in_install, fixture_setup, fixture_teardown, &f)
{
	cut_everywhere(install_and_go_on, NULL, NULL, FETCHED);
}

TEST_ON(test_cut_in_repair, fixture_setup, fixture_teardown, &f)
{
	cut_everywhere(go_on, "log.db", "UPDATE entries SET payload = x'00' WHERE slot = 20", 0);
	cut_everywhere(go_on, "log.db", "DROP TABLE chosen", 0);
	cut_everywhere(go_on, "state.db", "UPDATE nodes SET contents = x'00'", 0);
}

/* Each sync fails once: no start in this boot succeeds any more, the next boot's does. */
static void
fail_everywhere(const struct fixture *made, uint64_t other_state)
{
	int status = REFUSED, failures = 0;

	for (long n = 1; status != OK; n++) {
		struct acks acks = {0};

		victim_fresh();
		f.others = true;
		copy_directory(made->directory, f.directory);
		status =
		    victim_harvest(victim_run(go_on, powercut_fail_sync, n, (uint64_t)n), &acks);
		if (status == OK)
			break;
		if (status != REFUSED)
			fail_msg("sync %ld failed: the child ended with %d", n, status);
		if (fixture_open(&f))
			fail_msg("sync %ld failed, and the next start succeeds", n);
		if (strstr(f.why, "marked failed since this boot") == NULL)
			fail_msg("sync %ld failed, then: %s", n, f.why);
		victim_next_boot();
		assert_sound(other_state);
		failures++;
	}
	assert_true(failures > 10);
}

static void
fail_after(const char *file, const char *sql, uint64_t other_state)
{
	struct fixture made;

	make_replica();
	if (file != NULL)
		fixture_sql(&f, file, sql);
	else
		assert_true(receive() &&
		            state_copy_ready(f.directory, "test", f.why, sizeof f.why));
	fixture_make(&made);
	copy_directory(f.directory, made.directory);
	fail_everywhere(&made, other_state);
	fixture_remove(&made);
}

TEST_ON(test_failed_sync, fixture_setup, fixture_teardown, &f)
{
	fail_after("log.db", "DROP TABLE chosen", 0);
	fail_after("state.db", "UPDATE nodes SET contents = x'00'", 0);
	fail_after(NULL, NULL, FETCHED);
}

int
main(void)
{
	log_start("test_repair", LEVEL_ERROR);
	return unit_run(NULL, NULL);
}
