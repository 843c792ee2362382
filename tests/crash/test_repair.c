/* What an opening repairs, and what it installs, cut off anywhere: there is the old or the new one,
 * never a mixture, and the next opening goes on. With LSFS_CRASH_ALL in the environment it is cut
 * at every operation. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/must.h"
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

/* A replica of several, with a copy of another one's state beside it. */
static void
make_replica(void)
{
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
	fixture_save(&f, REPAIR_APPLIED, payload_of(REPAIR_APPLIED));
	victim_trim(REPAIR_TRIMMED, REPAIR_LAST + 1);
	fixture_close(&f);
	fixture_make(&other);
	must(fixture_open(&other));
	fixture_start(&other);
	for (uint64_t slot = 1; slot <= FETCHED; slot++)
		fixture_log(&other, slot, payload_of(slot));
	fixture_save(&other, FETCHED, payload_of(FETCHED));
	fixture_wait_saved(&other, FETCHED);
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

	if (!victim_start())
		return REFUSED;
	last = f.recovered.applied > f.recovered.trimmed + f.recovered.entries_n
	           ? f.recovered.applied : f.recovered.trimmed + f.recovered.entries_n;
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

static int
install_and_go_on(void)
{
	char from[128], to[128];

	snprintf(from, sizeof from, "%s/received", f.directory);
	snprintf(to, sizeof to, "%s/" STORE_FETCHED, f.directory);
	if (rename(from, to) < 0 || !store_fetched_ready(f.directory, "test", f.why, sizeof f.why))
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
		assert_int_equal(victim_harvest(victim_run(save_and_die, NULL, 0, 0), &ignored),
		                 OK);
	fixture_make(&made);
	copy_directory(f.directory, made.directory);
	for (long n = 1; status == POWERCUT_STATUS; n += getenv("LSFS_CRASH_ALL") ? 1 : 4) {
		struct acks acks = {0};

		victim_fresh();
		f.others = true;
		copy_directory(made.directory, f.directory);
		status = victim_harvest(victim_run(work, powercut_at, n, (uint64_t)n), &acks);
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
	cut_everywhere(install_and_go_on, NULL, NULL, FETCHED);
}

static void
test_cut_in_repair(void **state)
{
	(void)state;
	cut_everywhere(go_on, "log.db", "UPDATE entries SET payload = x'00' WHERE slot = 20", 0);
	cut_everywhere(go_on, "log.db", "DROP TABLE chosen", 0);
	cut_everywhere(go_on, "state.db", "UPDATE nodes SET contents = x'00'", 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate_setup_teardown(test_cut_in_install, fixture_setup,
	                                             fixture_teardown, &f),
	    cmocka_unit_test_prestate_setup_teardown(test_cut_in_repair, fixture_setup,
	                                             fixture_teardown, &f),
	};

	log_start("test_repair", LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
