/* The store: what was acknowledged is there again, and whatever is wrong with the files is said in
 * one line and leaves them as they are. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cell/base/checksum.h"
#include "tests/unit/fake_tree.h"
#include "cell/io/worker.h"
#include "cell/io/logdb.h"
#include "cell/io/rundir.h"
#include "tests/unit/store_fixture.h"

static struct fixture f;

/* A new data directory. */
static void
begin_anew(void)
{
	fixture_remove(&f);
	fixture_make(&f);
}

static void
assert_refused(const char *reason)
{
	if (fixture_open(&f))
		fail_msg("opened, although: %s", reason);
	if (strstr(f.why, reason) == NULL || strchr(f.why, '\n') != NULL)
		fail_msg("\"%s\" does not say \"%s\"", f.why, reason);
}

static void
log_slots(uint64_t first, uint64_t last)
{
	char text[32];

	for (uint64_t slot = first; slot <= last; slot++) {
		snprintf(text, sizeof text, "entry %d", (int)slot);
		fixture_log(&f, slot, bytes_of(text));
	}
}

static void
assert_entries(uint64_t first, uint64_t last)
{
	char text[32];

	assert_int_equal(f.recovered.entries_n, last + 1 - first);
	for (uint64_t slot = first; slot <= last; slot++) {
		const struct log_entry *e = &f.recovered.entries[slot - first];

		snprintf(text, sizeof text, "entry %d", (int)slot);
		assert_int_equal(e->slot, slot);
		assert_int_equal(e->ballot.round, 3);
		assert_int_equal(e->origin.round, 2);
		assert_true(bytes_equal(e->payload, bytes_of(text)));
		assert_int_equal(e->checksum, checksum(e->payload));
	}
}

static void
test_new(void **state)
{
	(void)state;
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.incarnation, 1);
	assert_int_equal(f.recovered.entries_n, 0);
	assert_int_equal(f.recovered.promised.round, 0);
	assert_int_equal(tree_applied(f.tree), 0);
	fixture_close(&f); /* never started */
	fixture_open_started(&f);
	assert_int_equal(f.recovered.incarnation, 2);
	fixture_close(&f);
}

static void
test_log_comes_back(void **state)
{
	struct px_record promise = {.kind = PX_RECORD_PROMISE,
	                            .ballot = {.round = 3, .replica = 1}};

	(void)state;
	fixture_open_started(&f);
	store_log(f.store, 0, &promise, 1);
	log_slots(1, 500);
	fixture_wait_persisted(&f, 500);
	assert_true(f.in_order);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_entries(1, 500);
	assert_int_equal(f.recovered.promised.round, 3);
	assert_int_equal(f.recovered.chosen, 499);
	fixture_close(&f);
}

static void
test_entry_replaced(void **state)
{
	struct px_record r = {.kind = PX_RECORD_ENTRY,
	                      .slot = 2,
	                      .ballot = {7, 1},
	                      .origin = {7, 1},
	                      .payload = bytes_of("other"),
	                      .checksum = checksum(bytes_of("other"))};

	(void)state;
	fixture_open_started(&f);
	log_slots(1, 3);
	store_log(f.store, 4, &r, 1);
	fixture_wait_persisted(&f, 4);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.entries_n, 3);
	assert_int_equal(f.recovered.entries[1].ballot.round, 7);
	assert_true(bytes_equal(f.recovered.entries[1].payload, bytes_of("other")));
	fixture_close(&f);
}

static void
test_queued_at_close_is_written(void **state)
{
	(void)state;
	fixture_open_started(&f);
	log_slots(1, 50);
	fixture_save(&f, 50, bytes_of("last"));
	fixture_close(&f);
	assert_int_equal(f.persisted, 50);
	assert_int_equal(f.saved, 50);
	assert_true(fixture_open(&f));
	assert_entries(1, 50);
	assert_int_equal(tree_applied(f.tree), 50);
	fixture_close(&f);
}

static void
test_rows_come_back(void **state)
{
	struct row row;
	struct row_list rows = {0};
	const struct row *back;
	uint8_t blob[3000];

	(void)state;
	for (size_t i = 0; i < sizeof blob; i++)
		blob[i] = (uint8_t)(i * 7);
	fixture_open_started(&f);
	log_slots(1, 2);
	row = fake_node(-5, "odd \xff\x01 name", (struct bytes){blob, sizeof blob});
	row_list_add(&rows, &row);
	row = fake_node(6, "", (struct bytes){0});
	row_list_add(&rows, &row);
	row = (struct row){.table = ROWS_results, .values = {{.number = 9}, {.number = 1}}};
	row_list_add(&rows, &row);
	row.values[1].number = 2;
	row_list_add(&rows, &row);
	row = fake_meta(1);
	row_list_add(&rows, &row);
	store_state(f.store, 1, &rows);
	row = (struct row){
	    .table = ROWS_results, .deleted = true, .values = {{.number = 9}, {.number = 2}}};
	row_list_add(&rows, &row);
	row = fake_node(6, "six", bytes_of("6"));
	row_list_add(&rows, &row);
	row = fake_meta(2);
	row_list_add(&rows, &row);
	store_state(f.store, 2, &rows);
	assert_true(store_state_queued(f.store) > sizeof blob);
	fixture_wait_saved(&f, 2);
	assert_int_equal(store_state_queued(f.store), 0);
	fixture_close(&f);

	assert_true(fixture_open(&f));
	assert_int_equal(fake_tree_rows(f.tree)->n, 4);
	assert_int_equal(tree_applied(f.tree), 2);
	assert_int_equal(f.recovered.applied, 2);
	back = fake_tree_find(f.tree, ROWS_nodes, -5);
	assert_true(bytes_equal(back->values[COL_nodes_name].bytes, bytes_of("odd \xff\x01 name")));
	assert_true(bytes_equal(back->values[COL_nodes_contents].bytes,
	                        (struct bytes){blob, sizeof blob}));
	assert_int_equal(back->values[COL_nodes_checksum].number, 5000015);
	back = fake_tree_find(f.tree, ROWS_nodes, 6);
	assert_true(bytes_equal(back->values[COL_nodes_name].bytes, bytes_of("six")));
	assert_int_equal(fake_tree_find(f.tree, ROWS_results, 9)->values[1].number, 1);
	fixture_close(&f);
}

static void
test_trim(void **state)
{
	struct px_record trim = {.kind = PX_RECORD_TRIM, .slot = 900};

	(void)state;
	fixture_open_started(&f);
	log_slots(1, 1000);
	fixture_save(&f, 900, bytes_of("x"));
	fixture_wait_saved(&f, 900);
	fixture_wait_persisted(&f, 1000);
	store_log(f.store, 1001, &trim, 1);
	fixture_wait_persisted(&f, 1001);
	log_slots(1001, 1001);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.trimmed, 900); /* though rows may be left below it */
	assert_entries(901, 1001);
	assert_int_equal(f.recovered.chosen, 1000);
	fixture_close(&f);
}

static void
test_trim_goes_on_while_idle(void **state)
{
	struct px_record trim = {.kind = PX_RECORD_TRIM, .slot = 1000};

	(void)state;
	fixture_open_started(&f);
	log_slots(1, 1000);
	fixture_save(&f, 1000, bytes_of("x"));
	fixture_wait_saved(&f, 1000);
	store_log(f.store, 1001, &trim, 1);
	fixture_wait_persisted(&f, 1001);
	/* The next transaction waits for the idle work before it. */
	fixture_log(&f, 1001, bytes_of("entry 1001"));
	fixture_log(&f, 1002, bytes_of("entry 1002"));
	fixture_wait_persisted(&f, 1002);
	fixture_log(&f, 1003, bytes_of("entry 1003"));
	fixture_wait_persisted(&f, 1003);
	fixture_log(&f, 1004, bytes_of("entry 1004"));
	fixture_wait_persisted(&f, 1004);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.trimmed, 1000);
	assert_entries(1001, 1004);
	fixture_close(&f);
	assert_int_equal(fixture_number(&f, "log.db", "SELECT count(*) FROM entries"), 4);
}

/* A snapshot may leave the log far behind: the base jumps over slots that it never had. */
static void
test_trim_jumps(void **state)
{
	struct px_record records[2] = {
	    {.kind = PX_RECORD_TRIM, .slot = 5000},
	    {.kind = PX_RECORD_ENTRY,
	     .slot = 5001,
	     .ballot = {3, 1},
	     .origin = {2, 1},
	     .payload = bytes_of("entry 5001"),
	     .checksum = checksum(bytes_of("entry 5001"))},
	};

	(void)state;
	fixture_open_started(&f);
	log_slots(1, 1000);
	fixture_wait_persisted(&f, 1000);
	fixture_save(&f, 5000, bytes_of("x"));
	fixture_wait_saved(&f, 5000);
	store_log(f.store, 1001, records, 2);
	fixture_close(&f);
	for (int life = 0; life < 2; life++) { /* not all old rows are deleted at once */
		assert_true(fixture_open(&f));
		assert_int_equal(f.recovered.trimmed, 5000);
		assert_entries(5001, 5001);
		fixture_close(&f);
	}
	fixture_open_started(&f);
	for (uint64_t i = 5002; i < 5010; i++) {
		fixture_log(&f, i, bytes_of("x"));
		fixture_wait_persisted(&f, i);
	}
	fixture_close(&f);
	assert_int_equal(fixture_number(&f, "log.db", "SELECT count(*) FROM entries"), 9);
}

static void
put_mark(uint8_t replica, uint64_t incarnation, uint64_t slot)
{
	struct px_record r = {.kind = PX_RECORD_MARK,
	                      .mark = {.replica = replica,
	                               .incarnation = incarnation,
	                               .start = UINT64_MAX - replica,
	                               .ballot = {9, replica},
	                               .slot = slot}};

	store_log(f.store, f.persisted + 1, &r, 1);
	fixture_wait_persisted(&f, f.persisted + 1);
}

static void
test_marks(void **state)
{
	(void)state;
	fixture_open_started(&f);
	put_mark(2, 1, 10);
	put_mark(200, 7, UINT64_MAX);
	put_mark(2, 2, 11);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.marks_n, 2);
	assert_int_equal(f.recovered.marks[0].replica, 2);
	assert_int_equal(f.recovered.marks[0].incarnation, 2);
	assert_int_equal(f.recovered.marks[0].slot, 11);
	assert_int_equal(f.recovered.marks[1].replica, 200);
	assert_true(f.recovered.marks[1].start == UINT64_MAX - 200);
	assert_int_equal(f.recovered.marks[1].ballot.round, 9);
	assert_int_equal(f.recovered.marks[1].ballot.replica, 200);
	assert_true(f.recovered.marks[1].slot == UINT64_MAX);
	fixture_close(&f);
}

static void
put_lease(int64_t ms)
{
	struct px_record r = {.kind = PX_RECORD_LEASE, .length = span_ms(ms)};

	store_log(f.store, 1, &r, 1);
	fixture_wait_persisted(&f, 1);
}

static void
test_leases(void **state)
{
	(void)state;
	fixture_open_started(&f);
	put_lease(500);
	put_lease(2000);
	fixture_close(&f);
	fixture_open_started(&f); /* granted 2 s, then stopped: those may still stand */
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	fixture_close(&f);
	fixture_open_started(&f); /* the start between says nothing about them */
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	put_lease(0);
	fixture_close(&f);
	fixture_open_started(&f); /* the last one recorded that none stands */
	assert_int_equal(f.recovered.wait.ns, 0);
	fixture_close(&f);
	fixture_open_started(&f); /* which counts only for the next */
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	for (int life = 0; life < 20; life++) {
		put_lease(100 + life);
		fixture_close(&f);
		fixture_open_started(&f);
	}
	fixture_close(&f);
	assert_true(fixture_number(&f, "log.db", "SELECT count(*) FROM leases") <= 3);
	assert_true(fixture_open(&f));
	assert_int_equal(span_to_ms(f.recovered.wait), 2000);
	fixture_close(&f);
}

static void
test_in_use(void **state)
{
	char expected[64];
	pid_t child;
	int status;

	(void)state;
	fixture_open_started(&f);
	snprintf(expected, sizeof expected, "in use by process %d", (int)getpid());
	child = fork();
	if (child == 0) {
		struct tree *tree;
		struct px_recovered recovered;
		char why[256] = "";

		if (store_open(f.directory, "test", 1, false, &tree, &recovered, why,
		               sizeof why) != NULL)
			_exit(1);
		_exit(strstr(why, expected) != NULL ? 0 : 2);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	fixture_close(&f);
	fixture_open_started(&f);
	fixture_close(&f);
}

/* A store with ten entries and rows up to slot 5. */
static void
make_store(void)
{
	struct px_record promise = {.kind = PX_RECORD_PROMISE,
	                            .ballot = {.round = 3, .replica = 1}};

	struct px_record mark = {.kind = PX_RECORD_MARK, .mark = {.replica = 1}};

	fixture_open_started(&f);
	store_log(f.store, 0, &promise, 1);
	store_log(f.store, 0, &mark, 1); /* of itself: that makes no other replica */
	log_slots(1, 10);
	fixture_save(&f, 5, bytes_of("five"));
	fixture_close(&f);
}

static void
remove_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", f.directory, name);
	assert_int_equal(unlink(path), 0);
}

static uint64_t
sum_of_file(const char *name)
{
	char path[128];
	uint8_t bytes[65536];
	size_t n;
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", f.directory, name);
	file = fopen(path, "r");
	if (file == NULL)
		return 0;
	n = fread(bytes, 1, sizeof bytes, file);
	fclose(file);
	return checksum((struct bytes){bytes, n});
}

static const char *const data_files[] = {"log.db",       "log.db-wal", "state.db",
                                         "state.db-wal", "marks",      "health"};
enum { DATA_FILES = 6 };

/* Damages one thing, and sees it refused without a change to any file. */
static void
assert_damage(const char *file, const char *sql, const char *reason)
{
	uint64_t sums[DATA_FILES];

	begin_anew();
	make_store();
	fixture_sql(&f, file, sql);
	for (int i = 0; i < DATA_FILES; i++)
		sums[i] = sum_of_file(data_files[i]);
	assert_refused(reason);
	for (int i = 0; i < DATA_FILES; i++) {
		if (sums[i] != sum_of_file(data_files[i]) && sums[i] != 0)
			fail_msg("%s was changed after: %s", data_files[i], sql);
	}
}

static void
test_damage(void **state)
{
	(void)state;
	assert_damage("state.db", "UPDATE nodes SET contents = x'00' WHERE node = 2",
	              "state.db is damaged: nodes row 2: checksum");
	assert_damage("state.db", "UPDATE meta SET applied = 4",
	              "state.db is damaged: meta row 0: checksum");
	assert_damage("state.db", "UPDATE cell SET name = 'other'",
	              "state.db is damaged: cell: checksum");
	assert_damage("state.db", "PRAGMA user_version = 99", "state.db has format 99");
	assert_damage("state.db", "PRAGMA application_id = 1", "state.db is some other program's");
	assert_damage("state.db", "DROP TABLE locks", "state.db is damaged: no such table: locks");
	assert_damage("log.db", "UPDATE entries SET payload = x'00' WHERE slot = 7",
	              "log.db is damaged: entries row 7: checksum");
	assert_damage("log.db", "UPDATE entries SET round = 4 WHERE slot = 7",
	              "log.db is damaged: entries row 7: checksum");
	assert_damage("log.db", "UPDATE entries SET origin_round = 4 WHERE slot = 7",
	              "log.db is damaged: entries row 7: checksum");
	assert_damage("log.db", "DELETE FROM entries WHERE slot = 7",
	              "log.db is damaged: entries row 7 is missing");
	assert_damage(
	    "log.db", "DELETE FROM entries WHERE slot = 10",
	    "log.db is damaged: it ends at slot 9, but 10 was acknowledged");
	assert_damage("log.db", "DROP TABLE leases", "log.db is damaged: no such table: leases");
	assert_damage("log.db", "PRAGMA user_version = 99", "log.db has format 99");
}

/* What the marks know as well, or nobody needs. */
static void
test_mended(void **state)
{
	static const char *const damages[] = {
	    "UPDATE ballots SET round = 9; UPDATE ballots_again SET round = 9",
	    "UPDATE incarnation SET number = 9", "DELETE FROM incarnation",
	    "UPDATE chosen SET slot = 2", "UPDATE replica SET replica = 2",
	    "DELETE FROM replica", "UPDATE entries SET payload = x'00' WHERE slot = 5",
	    "DELETE FROM entries WHERE slot = 1", "INSERT INTO marks VALUES (2, 0, 0, 0, 0, 0, 0)"};

	(void)state;
	for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
		begin_anew();
		make_store();
		fixture_sql(&f, "log.db", damages[i]);
		for (uint64_t life = 2; life < 4; life++) {
			if (!fixture_open(&f))
				fail_msg("%s: %s", damages[i], f.why);
			assert_int_equal(f.recovered.incarnation, life);
			assert_int_equal(f.recovered.promised.round, 3);
			assert_int_equal(f.recovered.damaged, 0);
			assert_int_equal(logdb_last(&f.recovered), 10);
			assert_int_equal(f.recovered.applied, 5);
			assert_true(f.recovered.chosen <= 9); /* the hint, and no guess */
			fixture_close(&f);
		}
	}
}

static void
test_other_owner(void **state)
{
	struct tree *tree;
	struct px_recovered recovered;

	(void)state;
	make_store();
	assert_null(store_open(f.directory, "test", 2, true, &tree, &recovered, f.why,
	                       sizeof f.why));
	assert_string_equal(f.why, "log.db belongs to replica 1 of cell test, not to replica 2 of "
	                           "cell test");
	assert_null(store_open(f.directory, "other", 1, true, &tree, &recovered, f.why,
	                       sizeof f.why));
	assert_string_equal(f.why, "log.db belongs to replica 1 of cell test, not to replica 1 of "
	                           "cell other");
	remove_file("log.db");
	remove_file("marks");
	assert_null(store_open(f.directory, "other", 1, true, &tree, &recovered, f.why,
	                       sizeof f.why));
	assert_string_equal(f.why, "state.db belongs to cell test, not to other");
}

static void
test_one_ballot_copy_is_enough(void **state)
{
	(void)state;
	make_store();
	fixture_sql(&f, "log.db", "UPDATE ballots SET round = 99");
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.promised.round, 3);
	fixture_close(&f);
}

static void
overwrite(const char *name, long offset, const char *bytes, size_t n)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof path, "%s/%s", f.directory, name);
	file = fopen(path, "r+");
	if (file == NULL)
		file = fopen(path, "w");
	assert_non_null(file);
	fseek(file, offset, SEEK_SET);
	fwrite(bytes, 1, n, file);
	fclose(file);
}

static void
empty_file(const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", f.directory, name);
	assert_int_equal(truncate(path, 0), 0);
}

static void
test_damaged_files(void **state)
{
	char garbage[4096];

	(void)state;
	memset(garbage, 'x', sizeof garbage);
	make_store();
	overwrite("state.db", 0, garbage, 100);
	assert_refused("state.db is damaged: not an SQLite database");
	begin_anew();
	make_store();
	overwrite("state.db", 4096, garbage, 4096);
	assert_refused("state.db is damaged: ");
	begin_anew();
	make_store();
	overwrite("marks", 3, "xxx", 3);
	if (!fixture_open(&f)) /* one of its two lines is enough */
		fail_msg("%s", f.why);
	fixture_close(&f);
	overwrite("marks", 0, garbage, 4096);
	assert_refused("marks is damaged: checksum; remove it if log.db is known to be whole");
}

/* What the run directory says of the store with this id; NULL: nothing. */
static void
write_run_mark(const char *id, const char *text)
{
	char directory[100], path[128];
	FILE *mark;

	assert_int_equal(rundir_make(directory, sizeof directory), 0);
	snprintf(path, sizeof path, "%s/failed-%s", directory, id);
	if (text == NULL) {
		assert_int_equal(unlink(path), 0);
		return;
	}
	mark = fopen(path, "w");
	assert_non_null(mark);
	fputs(text, mark);
	fclose(mark);
}

/* As if it had been made before the machine was started. */
static void
age_mark(char id[17])
{
	char path[128], text[64];
	FILE *health;

	snprintf(path, sizeof path, "%s/health", f.directory);
	health = fopen(path, "r");
	assert_non_null(health);
	assert_int_equal(fscanf(health, "store %16[0-9a-f]\nfailed boot ", id), 1);
	fclose(health);
	overwrite("health", 0, text,
	          (size_t)snprintf(text, sizeof text, "store %s\nfailed boot x: y\n", id));
}

/* Nobody knows whether the disk has failed: as if it had, until the machine was started again. */
static void
test_damaged_health(void **state)
{
	static const char said[] = "health: marked failed since this boot: this mark was damaged; "
	                           "restart the machine, or replace the disk";
	char garbage[4096], id[17];

	(void)state;
	memset(garbage, 'x', sizeof garbage);
	for (int n = 0; n < 3; n++) {
		make_store();
		if (n < 2)
			overwrite("health", 0, garbage, n == 0 ? 100 : sizeof garbage);
		else
			empty_file("health");
		assert_refused(said);
		assert_refused(said);
		age_mark(id);
		write_run_mark(id, ""); /* the other place */
		assert_refused("this mark was damaged; restart the machine");
		write_run_mark(id, NULL);
		age_mark(id);
		fixture_open_started(&f); /* which takes the mark back */
		assert_int_equal(tree_applied(f.tree), 5);
		fixture_close(&f);
		fixture_open_started(&f);
		begin_anew();
	}
}

static void
test_missing_files(void **state)
{
	struct px_record trim = {.kind = PX_RECORD_TRIM, .slot = 4};

	(void)state;
	make_store();
	remove_file("log.db");
	assert_refused("log.db is missing, but incarnation 1 was begun");
	remove_file("marks");
	assert_refused("log.db is missing: it ends at slot 0, but state.db at 5");
	begin_anew();

	make_store();
	remove_file("state.db"); /* all of it can be built again from the log */
	assert_true(fixture_open(&f));
	assert_int_equal(tree_applied(f.tree), 0);
	fixture_close(&f);
	begin_anew();

	make_store();
	fixture_open_started(&f);
	store_log(f.store, 11, &trim, 1);
	fixture_close(&f);
	remove_file("state.db"); /* now it can't */
	assert_refused("state.db is missing: it ends at slot 0, but log.db begins behind slot 4");
}

/* A crash in the middle of the first start leaves any prefix of what it makes. */
static void
test_half_made(void **state)
{
	(void)state;
	overwrite("log.db", 0, "", 0);
	overwrite("state.db", 0, "", 0);
	overwrite("health.new", 0, "store 12", 8);
	overwrite("marks.new", 0, "inc", 3);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.incarnation, 1);
	fixture_close(&f);
	remove_file("state.db");
	fixture_sql(&f, "state.db", "PRAGMA journal_mode = WAL");
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.incarnation, 2);
	fixture_close(&f);
}

static void
test_private(void **state)
{
	char path[128];
	struct stat st;

	(void)state;
	fixture_open_started(&f);
	log_slots(1, 1);
	fixture_wait_persisted(&f, 1);
	for (int i = 0; i < DATA_FILES; i++) {
		snprintf(path, sizeof path, "%s/%s", f.directory, data_files[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	fixture_close(&f);
}

/* ---- no thread can be made ---- */

/* The linker puts this one in the place of worker_start. */
int __real_worker_start(struct worker *w);
int __wrap_worker_start(struct worker *w);

static int starts_left = INT_MAX;

int
__wrap_worker_start(struct worker *w)
{
	return starts_left-- > 0 ? __real_worker_start(w) : -EAGAIN;
}

static void
on_closed_at_once(void *user)
{
	((struct fixture *)user)->closed = true;
}

static void
test_start_without_threads(void **state)
{
	(void)state;
	fixture_open_started(&f);
	log_slots(1, 3);
	fixture_close(&f);
	for (int threads = 0; threads < 2; threads++) {
		assert_true(fixture_open(&f));
		starts_left = threads;
		assert_int_equal(fixture_try_start(&f), -EAGAIN);
		starts_left = INT_MAX;
		store_close(f.store, on_closed_at_once, &f);
		assert_true(f.closed);
		tree_free(f.tree);
		store_recovered_free(&f.recovered);
	}
	fixture_open_started(&f);
	assert_int_equal(f.recovered.entries_n, 3);
	assert_false(f.failed);
	fixture_close(&f);
}

#define TEST(name) \
	cmocka_unit_test_prestate_setup_teardown(name, fixture_setup, fixture_teardown, &f)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TEST(test_new), TEST(test_log_comes_back), TEST(test_entry_replaced),
	    TEST(test_queued_at_close_is_written), TEST(test_rows_come_back), TEST(test_trim),
	    TEST(test_trim_goes_on_while_idle), TEST(test_trim_jumps), TEST(test_marks),
	    TEST(test_leases), TEST(test_in_use), TEST(test_damage), TEST(test_mended),
	    TEST(test_other_owner), TEST(test_one_ballot_copy_is_enough),
	    TEST(test_damaged_files), TEST(test_damaged_health), TEST(test_missing_files),
	    TEST(test_half_made), TEST(test_private), TEST(test_start_without_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
