/* Damage in the files of a replica that is one of several, each kind on its own: what is good is
 * kept, what was lost is known, also at the next start, and what can't be known stops it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/limit.h"
#include "cell/sys/log.h"
#include "cell/store/log_db.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

enum { LAST = 40, APPLIED = 12, INCARNATION = 1, WAIT_MS = 700 };

static struct fixture f;

/* The linker puts this in the place of the real one: the next opening of that file fails. */
static const char *refused_open;
int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, mode_t mode);

int
__wrap_open(const char *path, int flags, mode_t mode)
{
	if (refused_open == NULL || strstr(path, refused_open) == NULL)
		return __real_open(path, flags, mode);
	refused_open = NULL;
	errno = EMFILE;
	return -1;
}

/* A page of a file that the disk can't read: neither by the store nor by SQLite. */
static struct stat bad_file;
static long bad_page;
ssize_t __real_pread(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void *to, size_t n, off_t at);

ssize_t
__wrap_pread(int fd, void *to, size_t n, off_t at)
{
	struct stat st;

	if (bad_page < 0 || fstat(fd, &st) < 0 || st.st_ino != bad_file.st_ino ||
	    st.st_dev != bad_file.st_dev || at / 4096 > bad_page ||
	    (at + (off_t)n - 1) / 4096 < bad_page)
		return __real_pread(fd, to, n, at);
	errno = EIO;
	return -1;
}

/* How many pages the file has; that page of it is bad from now on. */
static long
lose_page(const char *name, long page)
{
	assert_int_equal(stat(fixture_path(&f, name), &bad_file), 0);
	bad_page = page;
	return bad_file.st_size / 4096;
}

static void
put_into_sqlite(void)
{
	static const char *const calls[] = {"pread", "pread64"};
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	for (int i = 0; i < 2; i++)
		vfs->xSetSystemCall(vfs, calls[i], (sqlite3_syscall_ptr)__wrap_pread);
}

static int
setup(void **state)
{
	fixture_make(*state);
	f.others = true;
	bad_page = -1;
	return 0;
}

#define STORE_TEST(test) TEST_ON(test, setup, fixture_teardown, &f)

static struct bytes
payload_of(uint64_t slot)
{
	static uint8_t bytes[6000];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(slot * 7 + i);
	/* Some need more pages. */
	return (struct bytes){bytes, slot % 10 == 0 ? sizeof bytes : 100};
}

/* Entries up to LAST, the state up to APPLIED, one of everything else. */
static void
make_store(uint64_t trim)
{
	bad_page = -1;
	fixture_remove(&f);
	fixture_make(&f);
	f.others = true;
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_PROMISE, .ballot = {5, 2}});
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_LEASE, .length = span_ms(WAIT_MS)});
	fixture_put(&f,
	            &(struct px_record){.kind = PX_RECORD_MARK, .mark = {.replica = 2, .slot = 3}});
	fixture_put(&f,
	            &(struct px_record){.kind = PX_RECORD_MARK, .mark = {.replica = 3, .slot = 4}});
	f.persisted = 0;
	for (uint64_t slot = 1; slot <= LAST; slot++)
		fixture_log(&f, slot, payload_of(slot));
	fixture_wait_persisted(&f, LAST);
	fixture_save(&f, APPLIED, payload_of(APPLIED));
	if (trim > 0)
		fixture_put(&f, &(struct px_record){.kind = PX_RECORD_TRIM, .slot = trim});
	fixture_close(&f);
}

/* What is there after the opening, and again after another one. */
struct expected {
	uint64_t trimmed, last, damaged, applied;
	int64_t wait_ms;
	size_t marks;
	bool state_lost;
};

static void
check_entries(void)
{
	for (size_t i = 0; i < f.recovered.entries_n; i++) {
		const struct log_entry *e = &f.recovered.entries[i];

		assert_int_equal(e->slot, f.recovered.trimmed + 1 + i);
		assert_int_equal(e->ballot.round, 3);
		assert_true(bytes_equal(e->payload, payload_of(e->slot)));
	}
}

static void
check(struct expected e)
{
	for (uint64_t life = 1; life < 3; life++) {
		if (!fixture_open(&f))
			fail_msg("%s", f.why);
		assert_int_equal(f.recovered.incarnation, INCARNATION + life);
		assert_int_equal(f.recovered.promised.round, 5);
		assert_int_equal(f.recovered.promised.replica, 2);
		assert_int_equal(f.recovered.trimmed, e.trimmed);
		assert_int_equal(log_db_last(&f.recovered), e.last);
		assert_int_equal(f.recovered.damaged, e.damaged);
		assert_int_equal(f.recovered.applied, e.applied);
		assert_int_equal(f.recovered.state_lost, e.state_lost);
		assert_int_equal(f.recovered.marks_n, e.marks);
		assert_int_equal(span_to_ms(f.recovered.wait), e.wait_ms);
		assert_true(f.recovered.chosen >= f.recovered.trimmed);
		assert_true(f.recovered.chosen <= (e.last > e.applied ? e.last : e.applied));
		check_entries();
		fixture_close(&f);
	}
}

static const struct expected whole = {.last = LAST,
                                      .applied = APPLIED,
                                      .wait_ms = WAIT_MS,
                                      .marks = 2};

static void
damage_log(const char *sql)
{
	make_store(0);
	fixture_sql(&f, "log.db", sql);
}

/* The next start waits for the longest lease of all starts before it. */
STORE_TEST(test_a_short_lease_after_a_repair)
{
	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 30");
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_LEASE, .length = span_ms(100)});
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(span_to_ms(f.recovered.wait), WAIT_MS);
	fixture_close(&f);
}

STORE_TEST(test_entries)
{
	struct expected e = whole;

	make_store(0);
	check(e);
	assert_false(fixture_has(&f, "log.db.damaged"));
	e.last = 29;
	e.damaged = LAST;
	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 30");
	check(e);
	assert_true(fixture_has(&f, "log.db.damaged"));
	damage_log("UPDATE entries SET round = 4 WHERE slot = 30");
	check(e);
	damage_log("UPDATE entries SET origin_replica = 3 WHERE slot = 30");
	check(e);
	damage_log("DELETE FROM entries WHERE slot = 30");
	check(e);
	damage_log("UPDATE entries SET slot = 100 WHERE slot = 30");
	e.damaged = 100; /* more than there was, at worst */
	check(e);
	e.damaged = LAST;
	damage_log("UPDATE entries SET payload = x'00' WHERE slot >= 30");
	check(e);
	damage_log("DELETE FROM entries WHERE slot >= 30"); /* as its marks tell */
	e.wait_ms = LIMIT_LEASE_MAX_S * 1000;
	check(e);
}

/* The state has them. */
STORE_TEST(test_applied_entries)
{
	struct expected e = whole;

	e.trimmed = APPLIED;
	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 3");
	check(e);
	damage_log("DELETE FROM entries WHERE slot <= 3");
	check(e);
	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 12");
	check(e);
	damage_log("UPDATE entries SET payload = x'00' WHERE slot IN (2, 13, 20)");
	e.last = APPLIED;
	e.damaged = LAST;
	check(e);
	make_store(8);
	fixture_sql(&f, "log.db", "UPDATE trimmed SET slot = 7");
	e = whole;
	e.trimmed = APPLIED;
	check(e);
	make_store(8);
	fixture_sql(&f, "log.db", "INSERT INTO entries VALUES (1, 2, 3, 4, 5, 6, 7, 8, 9, x'0a')");
	e.trimmed = 8; /* below the base nothing is looked at */
	check(e);
	assert_false(fixture_has(&f, "log.db.damaged"));
}

STORE_TEST(test_numbers)
{
	struct expected e = whole;

	damage_log("UPDATE chosen SET slot = 1000");
	check(e);
	damage_log("UPDATE replica SET cell = 'other'");
	check(e);
	damage_log("UPDATE incarnation SET number = 1000");
	check(e);
	damage_log("UPDATE ballots SET round = 1000");
	check(e);
	damage_log("UPDATE ballots_again SET round = 1000");
	check(e);
	damage_log("UPDATE ballots SET round = 1; UPDATE ballots_again SET round = 1");
	check(e);
	damage_log("UPDATE missing SET slot = 1; INSERT OR IGNORE INTO missing VALUES (0, 9, 9)");
	check(e);
	damage_log("UPDATE marks SET slot = 1000 WHERE replica = 3");
	e.marks = 1;
	check(e);
	e = whole;
	damage_log("UPDATE leases SET longest_ns = 1");
	e.wait_ms = LIMIT_LEASE_MAX_S * 1000; /* as long as any */
	check(e);
}

/* Not even all of them together. */
STORE_TEST(test_no_table)
{
	static const char *const tables[] = {"replica", "incarnation", "ballots", "ballots_again",
	                                     "entries", "chosen",      "trimmed", "missing",
	                                     "leases",  "marks"};
	struct expected e = whole;
	char sql[64];

	e.trimmed = e.last = APPLIED;
	e.damaged = LAST;
	e.wait_ms = LIMIT_LEASE_MAX_S * 1000;
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		snprintf(sql, sizeof sql, "DROP TABLE %s", tables[i]);
		damage_log(sql);
		e.marks = strcmp(tables[i], "marks") == 0 ? 0 : 2;
		check(e);
	}
}

STORE_TEST(test_vote_unknown)
{
	damage_log("UPDATE ballots SET round = 1; UPDATE ballots_again SET round = 1");
	fixture_remove_file(&f, "marks");
	fixture_refused(
	    &f, "what this replica has promised can't be read any more; this replica has to be "
	        "replaced: lsctl replica remove 1, then lsctl replica add");
	damage_log("UPDATE incarnation SET number = 1000");
	fixture_remove_file(&f, "marks");
	fixture_refused(&f, "what this replica has promised");
	damage_log("DROP TABLE chosen");
	fixture_remove_file(&f, "marks");
	fixture_refused(&f, "what this replica has promised");
	damage_log("UPDATE ballots SET round = 1");
	fixture_remove_file(&f, "marks");
	check(whole);
}

static void
fill(const char *name, long offset, size_t n)
{
	char garbage[4096];

	memset(garbage, 'x', sizeof garbage);
	fixture_overwrite(&f, name, offset, garbage, n);
}

/* Each page of log.db is overwritten, one at a time: either all entries are read, or the log says
 * that the last ones are damaged; the promise, which is stored twice, is never lost. */
STORE_TEST(test_log_pages)
{
	struct expected e = whole;
	struct stat st;

	make_store(0);
	assert_int_equal(stat(fixture_path(&f, "log.db"), &st), 0);
	e.trimmed = e.last = APPLIED;
	e.damaged = LAST;
	e.wait_ms = LIMIT_LEASE_MAX_S * 1000;
	for (long page = 0; page < st.st_size / 4096; page++) {
		make_store(0);
		fill("log.db", page * 4096, 4096);
		assert_true(fixture_open(&f));
		assert_int_equal(f.recovered.promised.round, 5);
		if (f.recovered.damaged == 0) {
			assert_int_equal(log_db_last(&f.recovered), LAST);
		} else {
			assert_int_equal(f.recovered.damaged, LAST);
		}
		check_entries();
		fixture_close(&f);
	}
	make_store(0);
	fill("log.db", 0, 100);
	e.marks = 0;
	check(e);
	make_store(0);
	fixture_remove_file(&f, "log.db");
	check(e);
}

STORE_TEST(test_marks_file)
{
	make_store(0);
	fill("marks", 0, 4096);
	check(whole);
	make_store(0);
	fill("marks", 0, 10);
	check(whole);
	assert_false(fixture_has(&f, "log.db.damaged"));
	make_store(0);
	fixture_remove_file(&f, "marks");
	check(whole);
}

/* A page that the disk can't read is as one with garbage. */
STORE_TEST(test_unreadable)
{
	struct expected e = whole;
	long pages = 1;

	for (long page = 0; page < pages; page++) {
		make_store(0);
		pages = lose_page("log.db", page);
		if (!fixture_open(&f))
			fail_msg("%s", f.why);
		assert_int_equal(f.recovered.promised.round, 5);
		assert_int_equal(f.recovered.damaged == 0 ? LAST : f.recovered.damaged, LAST);
		check_entries();
		fixture_close(&f);
		assert_true(fixture_has(&f, "log.db.damaged"));
	}
	e.applied = 0;
	pages = 1;
	for (long page = 0; page < pages; page++) {
		make_store(0);
		pages = lose_page("state.db", page);
		check(e);
		assert_true(fixture_has(&f, "state.db.damaged"));
	}
	make_store(0);
	lose_page("marks", 0);
	check(whole);
	assert_false(fixture_has(&f, "log.db.damaged"));
	make_store(0);
	lose_page("state.db", 0);
	f.others = false;
	fixture_sql(&f, "log.db", "DELETE FROM marks");
	fixture_refused(&f, "state.db is damaged: disk I/O error: Input/output error; log.db still "
	                    "has every entry: move state.db away to have it rebuilt");
}

static void
damage_state(uint64_t trim, const char *sql)
{
	make_store(trim);
	fixture_sql(&f, "state.db", sql);
}

/* The log still has everything, or it begins after slot 1. */
STORE_TEST(test_state)
{
	static const char *const damages[] = {
	    "UPDATE nodes SET contents = x'00' WHERE node = 2",
	    "UPDATE meta SET applied = 11",
	    "UPDATE cell SET name = 'other'",
	    "DELETE FROM cell",
	    "DROP TABLE sessions",
	    "DROP TABLE meta",
	};
	struct expected again = whole, lost = whole;

	again.applied = 0;
	lost.applied = 0;
	lost.trimmed = 8;
	lost.state_lost = true;
	for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
		damage_state(0, damages[i]);
		check(again);
		assert_true(fixture_has(&f, "state.db.damaged"));
		damage_state(8, damages[i]);
		check(lost);
		assert_true(fixture_has(&f, "state.db.damaged"));
	}
	make_store(8);
	fill("state.db", 4096, 4096);
	check(lost);
	make_store(8);
	fill("state.db", 0, 16);
	check(lost);
	make_store(8);
	fixture_remove_file(&f, "state.db");
	check(lost);
	make_store(0);
	fixture_remove_file(&f, "state.db");
	check(again);
}

/* With 3 in the place of 2, SQLite would open the file for reading only. */
STORE_TEST(test_write_version)
{
	struct expected e = whole;

	make_store(0);
	fixture_overwrite(&f, "state.db", 18, "\3", 1);
	e.applied = 0;
	check(e);
	assert_true(fixture_has(&f, "state.db.damaged"));
	make_store(0);
	fixture_overwrite(&f, "log.db", 18, "\3", 1);
	e = whole;
	e.trimmed = e.last = APPLIED;
	e.damaged = LAST;
	e.wait_ms = LIMIT_LEASE_MAX_S * 1000;
	check(e);
	assert_true(fixture_has(&f, "log.db.damaged"));
}

/* A damaged row is no later version. */
STORE_TEST(test_minor_version)
{
	struct expected e = whole;
	char sql[160];

	make_store(0);
	snprintf(sql, sizeof sql,
	         "INSERT INTO settings (setting, name, value, row_checksum) VALUES (%d, '', %d, 1)",
	         SETTING_minor_version, WIRE_MINOR + 1);
	fixture_sql(&f, "state.db", sql);
	e.applied = 0;
	check(e);
	assert_true(fixture_has(&f, "state.db.damaged"));
}

/* Nothing is known of a write-ahead log that can't be opened: both files stay as they are. */
STORE_TEST(test_a_log_that_cannot_be_opened)
{
	static const char *const logs[] = {"log.db-wal", "state.db-wal"};
	char why[64];

	for (int i = 0; i < 2; i++) {
		make_store(0);
		refused_open = logs[i];
		snprintf(why, sizeof why, "%s: Too many open files", logs[i]);
		fixture_refused(&f, why);
		check(whole);
		assert_false(fixture_has(&f, "log.db.damaged"));
		assert_false(fixture_has(&f, "state.db.damaged"));
	}
}

/* An old copy, from before the trim. */
STORE_TEST(test_old_state)
{
	make_store(0);
	assert_int_equal(rename(fixture_path(&f, "state.db"), fixture_path(&f, "saved")), 0);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	fixture_save(&f, 20, payload_of(20));
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_TRIM, .slot = 20});
	fixture_close(&f);
	assert_int_equal(rename(fixture_path(&f, "saved"), fixture_path(&f, "state.db")), 0);
	if (!fixture_open(&f))
		fail_msg("%s", f.why);
	assert_true(f.recovered.state_lost);
	assert_int_equal(tree_applied(f.tree), 0);
	fixture_close(&f);
}

/* What was lost is known until it was written again, in order. */
STORE_TEST(test_found_again)
{
	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 30");
	assert_true(fixture_open(&f));
	fixture_start(&f);
	for (uint64_t slot = 30; slot < LAST; slot++)
		fixture_log(&f, slot, payload_of(slot));
	fixture_close(&f);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	assert_int_equal(f.recovered.damaged, LAST);
	assert_int_equal(log_db_last(&f.recovered), LAST - 1);
	fixture_remove_file(&f, "marks"); /* log.db knows it, too */
	fixture_close(&f);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	assert_int_equal(f.recovered.damaged, LAST);
	fixture_log(&f, LAST, payload_of(LAST));
	fixture_close(&f);
	assert_true(fixture_open(&f));
	assert_int_equal(f.recovered.damaged, 0);
	assert_int_equal(log_db_last(&f.recovered), LAST);
	check_entries();
	fixture_close(&f);
}

/* A fetched state covers it. */
STORE_TEST(test_covered)
{
	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 30");
	assert_true(fixture_open(&f));
	fixture_start(&f);
	assert_int_equal(f.recovered.damaged, LAST);
	fixture_save(&f, LAST + 2, payload_of(1));
	fixture_close(&f);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	assert_int_equal(f.recovered.damaged, 0);
	assert_int_equal(f.recovered.applied, LAST + 2);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_TRIM, .slot = LAST + 2});
	fixture_close(&f);
	assert_int_equal(fixture_number(&f, "log.db", "SELECT slot FROM missing"), 0);
}

/* What the tree says of the members counts, not what the cell file did when it was made. */
STORE_TEST(test_members_decide)
{
	struct row_list rows = {0};
	struct row row =
	    {.table = ROWS_members,
	     .values =
	         {[COL_members_id] = {.number = 1}, [COL_members_role] = {.number = MEMBER_VOTER}}};

	damage_log("UPDATE entries SET payload = x'00' WHERE slot = 30");
	f.others = false;
	check((struct expected){.last = 29,
	                        .damaged = LAST,
	                        .applied = APPLIED,
	                        .wait_ms = WAIT_MS,
	                        .marks = 2}); /* it knows of others */
	damage_log("DELETE FROM marks; UPDATE entries SET payload = x'00' WHERE slot = 30");
	f.others = false;
	fixture_refused(
	    &f, "log.db is damaged: entries row 30: checksum; the cell has to be restored from a "
	        "backup: lsctl restore");
	f.others = true;
	make_store(0);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	row_list_add(&rows, &row);
	row = fake_meta(APPLIED);
	row_list_add(&rows, &row);
	store_state(f.store, APPLIED, &rows);
	fixture_close(&f);
	fixture_sql(&f, "log.db", "UPDATE entries SET payload = x'00' WHERE slot = 30");
	fixture_refused(&f, "lsctl restore"); /* the last one of a cell that had more */
}

/* ---- a mixture of old and new pages ---- */

enum { MIXED_NODES = 60, FRAME = 4096 + 24, WAL_HEAD = 32 };

static void
save_nodes(uint64_t applied, int64_t first, int64_t last)
{
	struct row_list rows = {0};
	struct row row = fake_meta(applied);

	row_list_add(&rows, &row);
	for (int64_t node = first; node <= last; node++) {
		row = fake_node(node, "n", payload_of(applied * 10 + 1));
		row_list_add(&rows, &row);
	}
	store_state(f.store, applied, &rows);
	fixture_wait_saved(&f, applied);
}

/* Two transactions are left in the write-ahead log, and have been moved into the file as well. */
static void
leave_moved_frames(int told)
{
	assert_true(fixture_open(&f));
	fixture_start(&f);
	for (uint64_t slot = 1; slot <= LAST; slot++)
		fixture_log(&f, slot, payload_of(slot));
	fixture_wait_persisted(&f, LAST);
	save_nodes(1, 2, 1 + MIXED_NODES);
	fixture_close(&f);
	assert_true(fixture_open(&f));
	fixture_start(&f);
	save_nodes(2, 2, 2);
	save_nodes(3, 1 + MIXED_NODES, 1 + MIXED_NODES);
	assert_true(fixture_number(&f, "state.db", "PRAGMA wal_checkpoint(PASSIVE)") == 0);
	if (write(told, "x", 1) == 1)
		pause();
	_exit(1);
}

static bool
node_is_of(int64_t node, uint64_t applied)
{
	const struct row *row = fake_tree_find(f.tree, ROWS_nodes, node);

	return row != NULL &&
	       bytes_equal(row->values[COL_nodes_contents].bytes, payload_of(applied * 10 + 1));
}

static void
check_not_mixed(void)
{
	uint64_t applied = tree_applied(f.tree);

	assert_true(applied == 0 || applied == 3);
	if (applied == 0)
		return;
	assert_true(node_is_of(2, 2));
	assert_true(node_is_of(3, 1));
	assert_true(node_is_of(1 + MIXED_NODES, 3));
}

/* SQLite takes what comes before a damaged frame from the write-ahead log, and the rest from the
 * file, which is newer. */
STORE_TEST(test_mixture)
{
	char path[256], kept[256], sh[600], byte = 'x';
	struct stat st;
	int ends[2], fd;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		leave_moved_frames(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(ends[0]);
	close(ends[1]);
	snprintf(path, sizeof path, "%s/state.db-wal", f.directory);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > WAL_HEAD + 3 * FRAME);
	snprintf(kept, sizeof kept, "%s.kept", f.directory);
	snprintf(sh, sizeof sh, "cp -a %s %s", f.directory, kept);
	assert_int_equal(system(sh), 0);
	for (long at = WAL_HEAD; at < st.st_size; at += FRAME) {
		snprintf(sh, sizeof sh, "rm -rf %s && cp -a %s %s", f.directory, kept, f.directory);
		assert_int_equal(system(sh), 0);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(pwrite(fd, &byte, 1, at + 100), 1);
		close(fd);
		if (!fixture_open(&f))
			fail_msg("%s", f.why);
		check_not_mixed();
		fixture_close(&f);
	}
	snprintf(sh, sizeof sh, "rm -rf %s", kept);
	assert_int_equal(system(sh), 0);
}

int
main(void)
{
	log_start("test_store_corruption", LEVEL_ERROR);
	put_into_sqlite();
	return unit_run(NULL, NULL);
}
