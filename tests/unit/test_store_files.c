/* Whatever is wrong with the files of a store is said in one line, and leaves them as they are. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/store/dir_lock.h"
#include "cell/store/log_db.h"
#include "cell/sys/file.h"
#include "cell/sys/run_dir.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

static struct fixture f;

#define STORE_TEST(test) TEST_ON(test, fixture_setup, fixture_teardown, &f)

/* A new data directory. */
static void
begin_anew(void)
{
	fixture_remove(&f);
	fixture_make(&f);
}

STORE_TEST(test_in_use)
{
	char expected[64];
	pid_t child;
	int status;

	fixture_open_started(&f);
	snprintf(expected, sizeof expected, "in use by process %d", (int)getpid());
	child = fork();
	if (child == 0) {
		struct tree *tree;
		struct px_recovered recovered;
		char why[256] = "";

		if (store_open(f.directory, "test", 1, false, &tree, &recovered, why, sizeof why) !=
		    NULL)
			_exit(1);
		_exit(strstr(why, expected) != NULL ? 0 : 2);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	fixture_close(&f);
	fixture_open_started(&f);
	fixture_close(&f);
}

/* The linker puts this in the place of the real one: a test of the lock ends then. */
static int testing = -1;
int __wrap_nanosleep(const struct timespec *length, struct timespec *rest);

int
__wrap_nanosleep(const struct timespec *length, struct timespec *rest)
{
	(void)length;
	(void)rest;
	return testing < 0 ? 0 : close(testing);
}

/* As dir_lock_holder tests it, after the process that had the directory has ended. */
STORE_TEST(test_a_test_of_the_lock)
{
	pid_t child = fork();
	struct dir_lock lock;
	char why[256];
	int status;

	if (child == 0)
		_exit(!dir_lock_take(&lock, f.directory, why, sizeof why));
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	testing = open(fixture_path(&f, DIR_LOCK_FILE), O_RDONLY);
	assert_int_equal(flock(testing, LOCK_SH), 0);
	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	testing = -1;
	fixture_close(&f);
	/* Whoever has it without a number is not waited for. */
	fixture_overwrite(&f, DIR_LOCK_FILE, 0, "x", 1);
	testing = open(fixture_path(&f, DIR_LOCK_FILE), O_RDONLY);
	assert_int_equal(flock(testing, LOCK_SH), 0);
	fixture_refused(&f, "in use by another process");
	assert_int_equal(close(testing), 0);
	testing = -1;
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
	fixture_log_slots(&f, 1, 10);
	fixture_save(&f, 5, bytes_of("five"));
	fixture_close(&f);
}

static uint64_t
sum_of_file(const char *name)
{
	uint8_t bytes[65536];
	FILE *file = fopen(fixture_path(&f, name), "r");
	size_t n;

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
	fixture_refused(&f, reason);
	for (int i = 0; i < DATA_FILES; i++) {
		if (sums[i] != sum_of_file(data_files[i]) && sums[i] != 0)
			fail_msg("%s was changed after: %s", data_files[i], sql);
	}
}

STORE_TEST(test_damage)
{
	assert_damage("state.db", "UPDATE nodes SET contents = x'00' WHERE node = 2",
	              "state.db is damaged: nodes row 2: checksum");
	assert_damage("state.db", "UPDATE meta SET applied = 4",
	              "state.db is damaged: meta row 0: checksum");
	assert_damage("state.db", "UPDATE cell SET name = 'other'",
	              "state.db is damaged: cell: checksum");
	assert_damage("state.db", "PRAGMA user_version = 99", "state.db has format 99");
	assert_damage("state.db", "PRAGMA application_id = 1",
	              "state.db is a database of another program");
	assert_damage("state.db", "DROP TABLE locks", "state.db is damaged: no such table: locks");
	assert_damage("log.db", "UPDATE entries SET payload = x'00' WHERE slot = 7",
	              "log.db is damaged: entries row 7: checksum");
	assert_damage("log.db", "UPDATE entries SET round = 4 WHERE slot = 7",
	              "log.db is damaged: entries row 7: checksum");
	assert_damage("log.db", "UPDATE entries SET origin_round = 4 WHERE slot = 7",
	              "log.db is damaged: entries row 7: checksum");
	assert_damage("log.db", "DELETE FROM entries WHERE slot = 7",
	              "log.db is damaged: entries row 7 is missing");
	assert_damage("log.db", "DELETE FROM entries WHERE slot = 10",
	              "log.db is damaged: it ends at slot 9, but 10 was acknowledged");
	assert_damage("log.db", "DROP TABLE leases", "log.db is damaged: no such table: leases");
	assert_damage("log.db", "PRAGMA user_version = 99", "log.db has format 99");
}

/* What the marks know as well, or nobody needs. */
STORE_TEST(test_mended)
{
	static const char *const damages[] =
	    {"UPDATE ballots SET round = 9; UPDATE ballots_again SET round = 9",
	     "UPDATE incarnation SET number = 9",
	     "DELETE FROM incarnation",
	     "UPDATE chosen SET slot = 2",
	     "UPDATE replica SET replica = 2",
	     "DELETE FROM replica",
	     "UPDATE entries SET payload = x'00' WHERE slot = 5",
	     "DELETE FROM entries WHERE slot = 1",
	     "INSERT INTO marks VALUES (2, 0, 0, 0, 0, 0, 0, 0)"};

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
			assert_int_equal(log_db_last(&f.recovered), 10);
			assert_int_equal(f.recovered.applied, 5);
			assert_true(f.recovered.chosen <= 9); /* the hint, and no guess */
			fixture_close(&f);
		}
	}
}

STORE_TEST(test_other_owner)
{
	struct tree *tree;
	struct px_recovered recovered;

	make_store();
	assert_null(
	    store_open(f.directory, "test", 2, true, &tree, &recovered, f.why, sizeof f.why));
	assert_string_equal(f.why, "log.db belongs to replica 1 of cell test, not to replica 2 of "
	                           "cell test");
	assert_null(
	    store_open(f.directory, "other", 1, true, &tree, &recovered, f.why, sizeof f.why));
	assert_string_equal(f.why, "log.db belongs to replica 1 of cell test, not to replica 1 of "
	                           "cell other");
	fixture_remove_file(&f, "log.db");
	fixture_remove_file(&f, "marks");
	assert_null(
	    store_open(f.directory, "other", 1, true, &tree, &recovered, f.why, sizeof f.why));
	assert_string_equal(f.why, "state.db belongs to cell test, not to other");
}

STORE_TEST(test_one_ballot_copy_is_enough)
{
	make_store();
	fixture_sql(&f, "log.db", "UPDATE ballots SET round = 99");
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.promised.round, 3);
	fixture_close(&f);
}

STORE_TEST(test_damaged_files)
{
	char garbage[4096];

	memset(garbage, 'x', sizeof garbage);
	make_store();
	fixture_overwrite(&f, "state.db", 0, garbage, 100);
	fixture_refused(&f, "state.db is damaged: not an SQLite database");
	begin_anew();
	make_store();
	fixture_overwrite(&f, "state.db", 4096, garbage, 4096);
	fixture_refused(&f, "state.db is damaged: ");
	begin_anew();
	make_store();
	fixture_overwrite(&f, "marks", 3, "xxx", 3);
	if (!fixture_open(&f)) /* one of its two lines is enough */
		fail_msg("%s", f.why);
	fixture_close(&f);
	fixture_overwrite(&f, "marks", 0, garbage, 4096);
	fixture_refused(&f, "marks is damaged: checksum; remove it if log.db is known to be whole");
}

/* Opens what the run directory says of the store with this id. */
static FILE *
open_run_mark(const char *id, const char *mode)
{
	char directory[100], path[128];
	FILE *mark;

	assert_int_equal(run_dir_make(directory, sizeof directory), 0);
	snprintf(path, sizeof path, "%s/failed-%s", directory, id);
	mark = fopen(path, mode);
	assert_non_null(mark);
	return mark;
}

/* As a crash leaves it that came soon after it was made. */
static void
empty_run_mark(const char *id)
{
	fclose(open_run_mark(id, "w"));
}

/* As if it had been made before the machine was started; not every run directory is emptied by
 * that. */
static void
age_run_mark(const char *id)
{
	FILE *mark = open_run_mark(id, "r");
	char why[32] = "";

	assert_int_equal(fscanf(mark, "failed boot %*[^:]: this mark was %31s", why), 1);
	assert_string_equal(why, "damaged");
	fclose(mark);
	mark = open_run_mark(id, "w");
	fputs("failed boot x: y", mark);
	fclose(mark);
}

/* The same for that of the data directory. */
static void
age_mark(char id[17])
{
	FILE *health = fopen(fixture_path(&f, "health"), "r");
	char text[64];

	assert_non_null(health);
	assert_int_equal(fscanf(health, "store %16[0-9a-f]\nfailed boot ", id), 1);
	fclose(health);
	fixture_overwrite(&f, "health", 0, text,
	                  (size_t)snprintf(text, sizeof text, "store %s\nfailed boot x: y\n", id));
}

/* Nobody knows whether the disk has failed: as if it had, until the machine was started again. */
STORE_TEST(test_damaged_health)
{
	static const char said[] = "health: marked failed since this boot: this mark was damaged; "
	                           "restart the machine, or replace the disk";
	char garbage[4096], id[17];

	memset(garbage, 'x', sizeof garbage);
	for (int n = 0; n < 3; n++) {
		make_store();
		if (n < 2)
			fixture_overwrite(&f, "health", 0, garbage, n == 0 ? 100 : sizeof garbage);
		else
			assert_int_equal(truncate(fixture_path(&f, "health"), 0), 0);
		fixture_refused(&f, said);
		fixture_refused(&f, said);
		age_mark(id);
		empty_run_mark(id); /* the other place */
		fixture_refused(&f, "this mark was damaged; restart the machine");
		age_mark(id);
		age_run_mark(id);
		fixture_open_started(&f); /* which takes the mark back */
		assert_int_equal(tree_applied(f.tree), 5);
		fixture_close(&f);
		fixture_open_started(&f);
		begin_anew();
	}
}

STORE_TEST(test_missing_files)
{
	struct px_record trim = {.kind = PX_RECORD_TRIM, .slot = 4};

	make_store();
	fixture_remove_file(&f, "log.db");
	fixture_refused(&f, "log.db is missing, but incarnation 1 was begun");
	fixture_remove_file(&f, "marks");
	fixture_refused(&f, "log.db is missing: it ends at slot 0, but state.db at 5");
	begin_anew();

	make_store();
	fixture_remove_file(&f, "state.db"); /* all of it can be built again from the log */
	assert_true(fixture_open(&f));
	assert_int_equal(tree_applied(f.tree), 0);
	fixture_close(&f);
	begin_anew();

	make_store();
	fixture_open_started(&f);
	store_log(f.store, 11, &trim, 1);
	fixture_close(&f);
	fixture_remove_file(&f, "state.db"); /* now it can't */
	fixture_refused(&f,
	                "state.db is missing: it ends at slot 0, but log.db begins behind slot 4");
}

/* A crash in the middle of the first start leaves any prefix of what it makes. */
STORE_TEST(test_half_made)
{
	fixture_overwrite(&f, "log.db", 0, "", 0);
	fixture_overwrite(&f, "state.db", 0, "", 0);
	fixture_overwrite(&f, "health.new", 0, "store 12", 8);
	fixture_overwrite(&f, "marks.new", 0, "inc", 3);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.incarnation, 1);
	fixture_close(&f);
	fixture_remove_file(&f, "state.db");
	fixture_sql(&f, "state.db", "PRAGMA journal_mode = WAL");
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.incarnation, 2);
	fixture_close(&f);
}

STORE_TEST(test_private)
{
	struct stat st;

	fixture_open_started(&f);
	fixture_log_slots(&f, 1, 1);
	fixture_wait_persisted(&f, 1);
	for (int i = 0; i < DATA_FILES; i++) {
		assert_int_equal(stat(fixture_path(&f, data_files[i]), &st), 0);
		assert_int_equal(st.st_mode & 07777, 0600);
	}
	fixture_close(&f);
}

/* The linker puts this in the place of the real one: the state is aside while the lock is held. */
static bool state_when_released;
void __real_dir_lock_release(struct dir_lock *lock);
void __wrap_dir_lock_release(struct dir_lock *lock);

void
__wrap_dir_lock_release(struct dir_lock *lock)
{
	state_when_released = fixture_has(&f, "state.db");
	__real_dir_lock_release(lock);
}

/* A state that can't be moved out of the way is not taken for one that was. */
STORE_TEST(test_set_aside)
{
	make_store();
	assert_true(state_when_released);
	assert_int_equal(mkdir(fixture_path(&f, "state.db.damaged"), 0700), 0);
	fixture_open_started(&f);
	store_set_state_aside(f.store);
	fixture_close(&f);
	assert_true(fixture_has(&f, "state.db"));
	assert_int_equal(rmdir(fixture_path(&f, "state.db.damaged")), 0);
	fixture_open_started(&f);
	store_set_state_aside(f.store);
	fixture_close(&f);
	assert_true(fixture_has(&f, "state.db.damaged"));
	assert_false(state_when_released);
}

/* The linker puts this in the place of the real one: it notes what is synced, or fails. */
static ino_t synced;
static bool sync_fails;
int __wrap_fsync(int fd);

int
__wrap_fsync(int fd)
{
	struct stat st;

	if (sync_fails || fstat(fd, &st) < 0) {
		errno = EIO;
		return -1;
	}
	synced = st.st_ino;
	return 0;
}

/* The name of a data directory is durable before anything in it. */
STORE_TEST(test_a_new_directory)
{
	const char *path = fixture_path(&f, "new");
	struct stat parent;

	assert_int_equal(stat(f.directory, &parent), 0);
	assert_int_equal(file_make_directory(path, 0700), 0);
	assert_int_equal(synced, parent.st_ino);
	assert_int_equal(file_make_directory(path, 0700), -EEXIST);
	assert_int_equal(rmdir(path), 0);
	sync_fails = true;
	assert_int_equal(file_make_directory(path, 0700), -EIO);
	sync_fails = false;
	assert_false(fixture_has(&f, "new"));
}

/* In the place of SQLite's open: that file can't be opened for writing, once. */
static const char *refused_writing;

static int
open_for_sqlite(const char *path, int flags, int mode)
{
	if (refused_writing == NULL || (flags & O_RDWR) == 0 ||
	    strcmp(strrchr(path, '/') + 1, refused_writing) != 0)
		return open(path, flags, mode);
	refused_writing = NULL;
	errno = ENFILE;
	return -1;
}

/* SQLite opens such a file for reading only, and would say so at the first commit. */
STORE_TEST(test_no_opening_for_writing)
{
	static const char *const databases[] = {"log.db", "state.db"};
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	char why[64];

	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_close(&f);
	vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)open_for_sqlite);
	for (int i = 0; i < 2; i++) {
		refused_writing = databases[i];
		snprintf(why, sizeof why, "%s: Permission denied", databases[i]);
		fixture_refused(&f, why);
		assert_null(refused_writing);
		assert_false(fixture_has(&f, "log.db.damaged"));
		assert_false(fixture_has(&f, "state.db.damaged"));
	}
	vfs->xSetSystemCall(vfs, "open", NULL);
	assert_true(fixture_open(&f));
}

/* The log has a mark of another replica, and node 2 is damaged. */
static void
damage_state_of_two(enum member_role role_of_2)
{
	const enum member_role roles[] = {MEMBER_VOTER, role_of_2};
	struct row_list rows = {0};
	struct row row = fake_meta(5);

	begin_anew();
	fixture_open_started(&f);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_MARK, .mark = {.replica = 2}});
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_TRIM, .slot = 5});
	row_list_add(&rows, &row);
	row = fake_node(2, "n", bytes_of("contents"));
	row_list_add(&rows, &row);
	for (int i = 0; i < 2; i++) {
		row = (struct row){.table = ROWS_members};
		row.values[COL_members_id].number = i + 1;
		row.values[COL_members_role].number = (int64_t)roles[i];
		row_list_add(&rows, &row);
	}
	store_state(f.store, 5, &rows);
	fixture_close(&f);
	fixture_sql(&f, "state.db", "UPDATE nodes SET acl_generation = 7 WHERE node = 2");
}

static void
assert_fetches_its_state(void)
{
	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	assert_true(f.recovered.state_lost);
	fixture_start(&f);
	fixture_close(&f);
}

/* A damaged state may still tell that all others were removed: the log keeps marks of them. */
STORE_TEST(test_the_state_of_the_last_member)
{
	static const uint8_t zeros[4096];
	long page;

	damage_state_of_two(MEMBER_REMOVED);
	fixture_refused(&f, "nodes row 2: checksum; the cell has to be restored from a backup: "
	                    "lsctl restore");
	page = (long)fixture_number(&f, "state.db",
	                            "SELECT rootpage FROM sqlite_schema WHERE name = 'nodes'");
	fixture_overwrite(&f, "state.db", (page - 1) * 4096, zeros, sizeof zeros);
	fixture_refused(&f, "; the cell has to be restored from a backup: lsctl restore");
	fixture_sql(&f, "state.db", "UPDATE members SET role = 7");
	assert_fetches_its_state();
	damage_state_of_two(MEMBER_LEARNER);
	assert_fetches_its_state();
}

/* ---- the own mark, which names the disk: without it the replica would lose its vote ---- */

static void
make_marked(void)
{
	const struct mark own = {.replica = 1, .incarnation = 4, .start = 7, .slot = 1};

	begin_anew();
	f.others = true;
	fixture_open_started(&f);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_PROMISE, .ballot = {5, 2}});
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_MARK, .mark = own});
	fixture_log_slots(&f, 1, 5);
	fixture_close(&f);
}

/* Now, and after the log was written again. */
static void
check_own_mark(void)
{
	for (int life = 0; life < 2; life++) {
		assert_true(fixture_open(&f));
		assert_int_equal(f.recovered.marks_n, 1);
		assert_int_equal(f.recovered.marks[0].replica, 1);
		assert_int_equal(f.recovered.marks[0].incarnation, 4);
		assert_int_equal(f.recovered.marks[0].start, 7);
		assert_int_equal(f.recovered.marks[0].slot, 1);
		fixture_close(&f);
	}
}

STORE_TEST(test_own_mark)
{
	make_marked();
	fixture_remove_file(&f, "marks");
	check_own_mark();
	make_marked();
	fixture_sql(&f, "log.db", "UPDATE marks SET start = 8");
	check_own_mark();
	make_marked();
	fixture_sql(&f, "log.db", "DROP TABLE marks");
	check_own_mark();
	make_marked();
	fixture_overwrite(&f, "log.db", 0, "no database", 11);
	check_own_mark();
}

/* The entries of an old copy may be others than were acknowledged, and an emptied disk has none:
 * neither is helped to a vote. */
STORE_TEST(test_own_mark_of_an_old_copy)
{
	make_marked();
	fixture_sql(&f, "log.db", "DELETE FROM entries WHERE slot > 3; DELETE FROM marks");
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.damaged, 5);
	assert_int_equal(f.recovered.marks_n, 0);
	fixture_close(&f);
	make_marked();
	fixture_remove_file(&f, "log.db");
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.marks_n, 0);
	fixture_close(&f);
}
