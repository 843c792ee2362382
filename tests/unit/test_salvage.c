/* What is left of a replica: a state and a log that goes on after it, one without the other, a
 * damaged log, a directory in use; and what a restore makes of it. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/store/dir_lock.h"
#include "cell/sys/file.h"
#include "cell/store/log_db.h"
#include "cell/store/salvage.h"
#include "cell/host/standalone.h"
#include "cell/wire/codec.h"
#include "tests/unit/failing_checkpoint.h"
#include "tests/unit/unit.h"

enum { ENTRIES = 8, FILE_NODE = 6 };

/* A data directory, and the entries that its cell had. */
struct bench {
	char directory[64], work[64];
	struct buffer payload[ENTRIES + 1];
	struct ballot origin[ENTRIES + 1];
	struct salvage s;
};

/* ---- a replica ---- */

static void
put_entry(struct buffer *payload, uint64_t session, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY), packed = BUFFER(LIMIT_ENTRY);
	struct command c = {.session = session};

	wire_put_op(&encoded, op);
	c.op = buffer_view(&encoded);
	wire_put_command(&packed, &c);
	*payload = BUFFER(LIMIT_ENTRY);
	wire_put_entry(payload, &(struct entry){.commands = {buffer_view(&packed), 1}});
	must(!payload->failed);
	buffer_free(&encoded);
	buffer_free(&packed);
}

/* A cell begins, somebody makes a file and appends to it: "3", "4" and so on, by slot. */
static void
make_entries(struct bench *b)
{
	static char text[ENTRIES + 1][12];
	const struct op begin = {.code = OP_begin_epoch, .begin_epoch = {.ballot = {1, 1}}};
	const struct op session = {.code = OP_create_session,
	                           .create_session = {.nonce = bytes_of("nonce"),
	                                              .principal = bytes_of("admin"),
	                                              .principal_generation = 1}};
	const struct op create = {.code = OP_create,
	                          .create = {.parent = NODE_ROOT,
	                                     .name = bytes_of("f"),
	                                     .kind = NODE_FILE}};

	put_entry(&b->payload[1], 0, &begin);
	put_entry(&b->payload[2], 0, &session);
	put_entry(&b->payload[3], 5, &create);
	for (int i = 4; i <= ENTRIES; i++) {
		struct op append = {.code = OP_append, .append = {.node = FILE_NODE}};

		snprintf(text[i], sizeof text[i], "%d", i);
		append.append.data = bytes_of(text[i]);
		put_entry(&b->payload[i], 5, &append);
	}
	for (int i = 1; i <= ENTRIES; i++)
		b->origin[i] = (struct ballot){1, 1};
}

static void
write_log(struct bench *b, uint64_t trimmed, uint64_t last)
{
	struct px_recovered recovered;
	struct log_db log;
	char why[512];
	int rc;

	must(log_db_open(&log, b->directory, "local", 1, why, sizeof why));
	must(log_db_recover(&log, 0, LOG_DB_ALONE, &recovered, why, sizeof why));
	must(log_db_start(&log, b->directory, "local", 1, &recovered, why, sizeof why));
	log_db_recovered_free(&recovered);
	rc = sqlite_begin(&log.db);
	for (uint64_t slot = 1; slot <= last && rc == SQLITE_OK; slot++) {
		struct bytes payload = buffer_view(&b->payload[slot]);
		struct px_record r = {.kind = PX_RECORD_ENTRY,
		                      .slot = slot,
		                      .ballot = {9, 1},
		                      .origin = b->origin[slot],
		                      .payload = payload,
		                      .checksum = checksum(payload)};

		rc = log_db_write(&log, &r);
	}
	if (rc == SQLITE_OK)
		rc = log_db_write(&log,
		                  &(struct px_record){.kind = PX_RECORD_TRIM, .slot = trimmed});
	must(sqlite_end(&log.db, rc == SQLITE_OK ? log_db_finish(&log) : rc) == WORK_DONE);
	log_db_written(&log);
	must(log_db_close(&log, false) == WORK_DONE);
}

static void
write_state(struct bench *b, uint64_t applied)
{
	struct row_list rows = {0};
	const struct row_list *list = &rows;
	struct tree_outcome out = {0};
	struct state_db state;
	struct tree *t;
	char why[512];
	int rc;

	must(state_db_open(&state, b->directory, "local", &t, why, sizeof why));
	for (uint64_t slot = 1; slot <= applied; slot++)
		must(tree_apply(t, slot, b->origin[slot], buffer_view(&b->payload[slot]), &out) ==
		     RC_OK);
	tree_dirty_rows(t, &rows);
	must(state_db_start(&state, b->directory, "local", why, sizeof why));
	rc = sqlite_begin(&state.db);
	must(sqlite_end(&state.db, rc == SQLITE_OK ? state_db_write(&state, &list, 1) : rc) ==
	     WORK_DONE);
	must(state_db_close(&state, false) == WORK_DONE);
	row_list_free(&rows);
	tree_outcome_free(&out);
	tree_free(t);
}

static int
setup(void **state)
{
	static struct bench bench;
	struct bench *b = &bench;
	struct cell_file cell_file;
	char why[512];

	*b = (struct bench){.directory = "/tmp/test_salvage.XXXXXX",
	                    .work = "/tmp/test_salvage.XXXXXX"};
	must(mkdtemp(b->directory) != NULL && mkdtemp(b->work) != NULL);
	must(standalone_prepare(b->directory, "local", &cell_file, why, sizeof why));
	make_entries(b);
	*state = b;
	return 0;
}

static int
teardown(void **state)
{
	struct bench *b = *state;
	char command[200];

	salvage_end(&b->s);
	for (int i = 1; i <= ENTRIES; i++)
		buffer_free(&b->payload[i]);
	snprintf(command, sizeof command, "rm -r %s %s", b->directory, b->work);
	return system(command);
}

#define BENCH_TEST(test) TEST_WITH(test, setup, teardown)

static void
run_sql(struct bench *b, const char *file, const char *sql)
{
	char path[128];
	sqlite3 *db;

	snprintf(path, sizeof path, "%s/%s", b->directory, file);
	must(sqlite3_open(path, &db) == SQLITE_OK);
	must(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
	sqlite3_close(db);
}

/* ---- checks ---- */

static bool
salvage(struct bench *b)
{
	return salvage_directory(&b->s, b->directory, b->work);
}

static void
assert_salvaged(struct bench *b, uint64_t applied, uint64_t from_log)
{
	if (!salvage(b))
		fail_msg("%s", b->s.why);
	assert_int_equal(tree_applied(b->s.tree), applied);
	assert_int_equal(b->s.from_log, from_log);
	assert_string_equal(b->s.cell, "local");
}

static void
assert_text(struct tree *t, const char *text)
{
	const struct op op = {.code = OP_get_contents, .get_contents = {.node = FILE_NODE}};
	struct buffer scratch = BUFFER(LIMIT_FRAME); /* contents need none */
	struct result r;

	assert_int_equal(tree_read(t, &(struct requester){.session = 5}, 0, &op, &r, &scratch),
	                 RC_OK);
	assert_true(bytes_equal(r.contents.contents, bytes_of(text)));
}

static void
assert_refused(struct bench *b, const char *why)
{
	assert_false(salvage(b));
	if (strstr(b->s.why, why) == NULL)
		fail_msg("%s", b->s.why);
	assert_null(strchr(b->s.why, '\n'));
}

/* ---- tests ---- */

BENCH_TEST(test_the_log_goes_on_behind_the_state)
{
	struct bench *b = *state;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	assert_text(b->s.tree, "45678");
	assert_int_equal(b->s.damaged, 0);
}

BENCH_TEST(test_a_state_that_is_further)
{
	struct bench *b = *state;

	write_log(b, 0, 5);
	write_state(b, 7);
	assert_salvaged(b, 7, 0);
	assert_text(b->s.tree, "4567");
}

BENCH_TEST(test_a_log_without_a_state)
{
	struct bench *b = *state;

	write_log(b, 0, ENTRIES);
	assert_salvaged(b, ENTRIES, ENTRIES);
	assert_text(b->s.tree, "45678");
}

BENCH_TEST(test_a_state_without_a_log)
{
	struct bench *b = *state;

	write_state(b, 6);
	assert_salvaged(b, 6, 0);
}

BENCH_TEST(test_a_gap_between_them)
{
	struct bench *b = *state;

	write_state(b, 4);
	write_log(b, 6, ENTRIES);
	assert_refused(b, "state.db ends at slot 4, but log.db begins behind slot 6");
}

/* It was never chosen: who proposed the entry before it did not know it. */
BENCH_TEST(test_an_older_origin_ends_the_log)
{
	struct bench *b = *state;

	b->origin[6] = (struct ballot){3, 2};
	write_log(b, 0, ENTRIES);
	b->origin[6] = (struct ballot){1, 1};
	write_state(b, 4);
	assert_salvaged(b, 6, 2);
	assert_text(b->s.tree, "456");
}

BENCH_TEST(test_a_damaged_log)
{
	struct bench *b = *state;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	run_sql(b, "log.db", "UPDATE entries SET payload = x'00' WHERE slot = 7");
	assert_salvaged(b, 6, 2);
	assert_text(b->s.tree, "456");
	assert_int_equal(b->s.damaged, ENTRIES);
}

/* What it had promised nobody can tell any more; nor does anybody have to. */
BENCH_TEST(test_promises_that_are_lost)
{
	struct bench *b = *state;
	char marks[128];

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	run_sql(b, "log.db",
	        "UPDATE ballots SET round = 1; UPDATE ballots_again SET round = 1;"
	        "UPDATE incarnation SET number = 1000");
	snprintf(marks, sizeof marks, "%s/marks", b->directory);
	assert_int_equal(unlink(marks), 0);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	assert_text(b->s.tree, "45678");
}

static void
move(struct bench *b, const char *from, const char *to)
{
	char old[128], new[128];

	snprintf(old, sizeof old, "%s/%s", b->directory, from);
	snprintf(new, sizeof new, "%s/%s", b->directory, to);
	must(rename(old, new) == 0);
}

/* The replica was killed before the fresh log, or after the damaged one, had its new name. */
BENCH_TEST(test_a_log_that_waits)
{
	struct bench *b = *state;

	write_state(b, 4);
	write_log(b, 0, ENTRIES);
	move(b, "log.db", "log.db.ready");
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	salvage_end(&b->s);
	assert_int_equal(salvage_clean(b->work), 0);
	assert_int_equal(mkdir(b->work, 0700), 0);
	move(b, "marks", "marks.kept");
	write_log(b, 0, 5);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	assert_text(b->s.tree, "45678");
}

/* A fetched state counts, unless the one in its place is newer. */
BENCH_TEST(test_a_state_that_waits)
{
	struct bench *b = *state;

	write_log(b, 6, ENTRIES);
	write_state(b, 6);
	move(b, "state.db", "state.db.ready");
	write_state(b, 4);
	assert_salvaged(b, ENTRIES, ENTRIES - 6);
	assert_text(b->s.tree, "45678");
	salvage_end(&b->s);
	assert_int_equal(salvage_clean(b->work), 0);
	assert_int_equal(mkdir(b->work, 0700), 0);
	move(b, "state.db", "other");
	move(b, "state.db.ready", "state.db");
	move(b, "other", "state.db.ready");
	assert_salvaged(b, ENTRIES, ENTRIES - 6);
}

BENCH_TEST(test_damage_that_the_state_covers)
{
	struct bench *b = *state;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	run_sql(b, "log.db", "UPDATE entries SET payload = x'00' WHERE slot = 3");
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	assert_int_equal(b->s.damaged, 0);
}

BENCH_TEST(test_a_damaged_state)
{
	struct bench *b = *state;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	run_sql(b, "state.db", "UPDATE nodes SET acl_generation = 7 WHERE node = 2");
	assert_refused(b, "state.db is damaged: nodes row 2: checksum");
}

/* A new cell gets keys of its own. */
BENCH_TEST(test_a_signing_key_that_is_lost)
{
	struct bench *b = *state;
	char path[128];

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	snprintf(path, sizeof path, "%s/signing.key", b->directory);
	assert_int_equal(truncate(path, 5), 0);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	salvage_end(&b->s);
	assert_int_equal(salvage_clean(b->work), 0);
	assert_int_equal(mkdir(b->work, 0700), 0);
	assert_int_equal(unlink(path), 0);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
}

BENCH_TEST(test_nothing_in_it)
{
	struct bench *b = *state;

	assert_refused(b, "there is nothing in it yet");
}

/* A directory that is only read stays as it is. */
BENCH_TEST(test_a_directory_without_a_lock_file)
{
	struct bench *b = *state;
	char path[128];

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	snprintf(path, sizeof path, "%s/" DIR_LOCK_FILE, b->directory);
	assert_int_equal(unlink(path), 0);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	assert_int_equal(access(path, F_OK), -1);
}

/* Of whoever had it last: the name of this process is not put in its place. */
BENCH_TEST(test_a_lock_file_is_not_written)
{
	struct bench *b = *state;
	char path[128], text[8] = "";
	FILE *lock;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	snprintf(path, sizeof path, "%s/" DIR_LOCK_FILE, b->directory);
	lock = fopen(path, "w+");
	assert_non_null(lock);
	assert_int_equal(fputs("12\n", lock), 1);
	assert_int_equal(fflush(lock), 0);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	rewind(lock);
	assert_non_null(fgets(text, sizeof text, lock));
	assert_string_equal(text, "12\n");
	fclose(lock);
}

/* While a process has the directory only salvage_running may have a look. */
BENCH_TEST(test_a_directory_in_use)
{
	struct bench *b = *state;
	struct dir_lock lock;
	char why[512];

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	assert_true(dir_lock_take(&lock, b->directory, why, sizeof why));
	assert_refused(b, "in use by process");
	salvage_end(&b->s);
	if (!salvage_running(&b->s, b->directory, b->work))
		fail_msg("%s", b->s.why);
	assert_int_equal(tree_applied(b->s.tree), ENTRIES);
	assert_text(b->s.tree, "45678");
	dir_lock_release(&lock);
}

/* Closing what was never opened closes nothing that is somebody else's. */
BENCH_TEST(test_an_end_without_a_beginning)
{
	struct bench *b = *state;
	struct salvage s;

	assert_false(salvage_backup(&s, "/no/such/file", b->work));
	salvage_end(&s);
	salvage_end(&s);
	assert_true(fcntl(0, F_GETFD) >= 0);
}

BENCH_TEST(test_written_it_is_one_file)
{
	struct bench *b = *state;
	char path[128];

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	assert_true(salvage_write(&b->s));
	salvage_end(&b->s);
	snprintf(path, sizeof path, "%s/again", b->work);
	assert_int_equal(salvage_place(b->work, path), 0);
	assert_int_equal(salvage_place(b->work, path), -EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_true(salvage_backup(&b->s, NULL, b->work));
	assert_int_equal(tree_applied(b->s.tree), ENTRIES);
	assert_text(b->s.tree, "45678");
	salvage_end(&b->s);
	assert_int_equal(salvage_clean(b->work), 0);
	assert_int_equal(mkdir(b->work, 0700), 0);
}

/* The database is closed all the same, and is not closed again at the end. */
BENCH_TEST(test_the_last_checkpoint_fails)
{
	struct bench *b = *state;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	assert_salvaged(b, ENTRIES, ENTRIES - 4);
	checkpoints_fail = true;
	assert_false(salvage_write(&b->s));
	checkpoints_fail = false;
	salvage_end(&b->s);
	assert_int_equal(salvage_clean(b->work), 0);
	assert_int_equal(mkdir(b->work, 0700), 0);
}

BENCH_TEST(test_a_restored_state)
{
	struct bench *b = *state;
	struct restoration r;
	char why[512];

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	if (!restoration_prepare(b->directory, b->work, &r, why, sizeof why))
		fail_msg("%s", why);
	assert_int_equal(r.applied, ENTRIES);
	assert_int_equal(r.from_log, ENTRIES - 4);
	assert_int_equal(r.sessions, 1);
	assert_int_equal(r.nodes, 5);
	assert_true(salvage_backup(&b->s, NULL, b->work));
	assert_int_equal(tree_applied(b->s.tree), ENTRIES + 1);
	assert_true(tree_epoch(b->s.tree) > 1ull << 40);
	/* Of no ballot: whatever the new cell proposes is newer. */
	assert_int_equal(tree_origin(b->s.tree).round, 0);
	assert_int_equal(tree_usage(b->s.tree).sessions, 0);
}

static uint64_t
restored_epoch(struct bench *b)
{
	struct restoration r;
	char why[512];
	uint64_t epoch;

	if (!restoration_prepare(b->directory, b->work, &r, why, sizeof why))
		fail_msg("%s", why);
	assert_true(salvage_backup(&b->s, NULL, b->work));
	epoch = tree_epoch(b->s.tree);
	salvage_end(&b->s);
	assert_int_equal(salvage_clean(b->work), 0);
	assert_int_equal(mkdir(b->work, 0700), 0);
	return epoch;
}

/* The cell that was made first has given out numbers since. */
BENCH_TEST(test_restored_twice)
{
	struct bench *b = *state;
	uint64_t first;

	write_log(b, 0, ENTRIES);
	write_state(b, 4);
	first = restored_epoch(b);
	assert_true(restored_epoch(b) > first);
}
