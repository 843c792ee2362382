/* Copies of state.db: consistent while both writers go on, given up at the close; and how one takes
 * the place of a state.db, or is refused. */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/copy/copy_files.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

enum { NODES = 400, NODE_BYTES = 20000 };

static struct fixture f, other;
static struct state_copier copier; /* of f */

struct copied {
	bool done;
	enum rc rc;
	uint64_t applied;
	char why[256];
};

static void
on_copied(void *user, enum rc rc, uint64_t applied, const char *why)
{
	struct copied *c = user;

	c->done = true;
	c->rc = rc;
	c->applied = applied;
	snprintf(c->why, sizeof c->why, "%s", why);
}

static void
wait_copied(const struct copied *c)
{
	while (!c->done)
		uv_run(&f.loop, UV_RUN_ONCE);
}

static void
open_f(void)
{
	fixture_open_started(&f);
	state_copy_init(&copier, &f.loop, f.directory);
}

static void
on_idle(void *user)
{
	*(bool *)user = true;
}

static int
setup(void **state)
{
	(void)state;
	fixture_make(&f);
	fixture_make(&other);
	other.others = true;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	fixture_remove(&f);
	fixture_remove(&other);
	return 0;
}

#define COPY_TEST(test) TEST_WITH(test, setup, teardown)

static void
move(const char *name, struct fixture *to, const char *new_name)
{
	assert_int_equal(rename(fixture_path(&f, name), fixture_path(to, new_name)), 0);
}

/* Every node's contents say `applied`: a mixture would show. */
static void
save_all(uint64_t applied)
{
	uint8_t *bytes = memory_zero(NODE_BYTES, 1);
	struct row_list rows = {0};
	struct row row = fake_meta(applied);

	memset(bytes, (int)('a' + applied % 26), NODE_BYTES);
	row_list_add(&rows, &row);
	for (int64_t node = 2; node < 2 + NODES; node++) {
		row = fake_node(node, "n", (struct bytes){bytes, NODE_BYTES});
		row_list_add(&rows, &row);
	}
	free(bytes);
	store_state(f.store, applied, &rows);
}

static void
assert_state(struct fixture *fixture, uint64_t applied)
{
	assert_int_equal(tree_applied(fixture->tree), applied);
	for (int64_t node = 2; node < 2 + NODES; node++) {
		const struct row *row = fake_tree_find(fixture->tree, ROWS_nodes, node);

		assert_non_null(row);
		assert_int_equal(row->values[COL_nodes_contents].bytes.data[NODE_BYTES / 2],
		                 'a' + applied % 26);
	}
}

/* A copy of f's state at `applied`, as what the other one has received. */
static void
give_fetched(uint64_t applied)
{
	struct copied c = {0};
	char why[256] = "";

	open_f();
	for (uint64_t slot = f.recovered.entries_n + 1; slot <= applied; slot++)
		fixture_log(&f, slot, bytes_of("x"));
	save_all(applied);
	fixture_wait_saved(&f, applied);
	state_copy_add(&copier, STORE_COPY, on_copied, &c);
	wait_copied(&c);
	assert_string_equal(c.why, "");
	assert_int_equal(c.applied, applied);
	move(STORE_COPY, &other, STORE_FETCHED);
	fixture_close(&f);
	if (!state_copy_ready(other.directory, "test", why, sizeof why))
		fail_msg("%s", why);
}

COPY_TEST(test_copied_while_written)
{
	struct copied c = {0}, second = {0};

	open_f();
	for (uint64_t i = 1; i <= 8; i++)
		fixture_log(&f, i, bytes_of("x"));
	save_all(1);
	fixture_wait_saved(&f, 1);
	state_copy_add(&copier, STORE_COPY, on_copied, &c);
	state_copy_add(&copier, "second.db", on_copied, &second);
	for (uint64_t i = 2; i <= 8; i++) {
		save_all(i);
		fixture_wait_saved(&f, i);
	}
	wait_copied(&second);
	assert_string_equal(c.why, "");
	assert_string_equal(second.why, "");
	assert_true(c.applied >= 1 && c.applied <= second.applied && second.applied <= 8);
	move(STORE_COPY, &other, "state.db");
	assert_true(fixture_open(&other));
	assert_state(&other, c.applied);
	fixture_close(&other);
	fixture_close(&f);
	assert_true(fixture_has(&f, "second.db")); /* the caller's */
	assert_true(fixture_open(&f));
	assert_state(&f, 8);
	fixture_close(&f);
}

COPY_TEST(test_given_up)
{
	struct copied c[3] = {{0}};
	bool idle = false;

	open_f();
	fixture_log(&f, 1, bytes_of("x"));
	save_all(1);
	fixture_wait_saved(&f, 1);
	for (int i = 0; i < 3; i++)
		state_copy_add(&copier, STORE_COPY, on_copied, &c[i]);
	state_copy_stop(&copier, on_idle, &idle);
	while (!idle)
		uv_run(&f.loop, UV_RUN_ONCE);
	fixture_close(&f);
	for (int i = 0; i < 3; i++)
		assert_true(c[i].done);
	assert_non_null(strstr(c[2].why, "abandoned"));
	assert_int_equal(c[0].why[0] == '\0', fixture_has(&f, STORE_COPY));
	assert_true(fixture_open(&f)); /* what is left of it goes */
	assert_false(fixture_has(&f, STORE_COPY));
	assert_state(&f, 1);
	fixture_close(&f);
}

COPY_TEST(test_nothing_to_copy)
{
	struct copied c = {0};

	open_f();
	state_copy_add(&copier, STORE_COPY, on_copied, &c);
	wait_copied(&c);
	assert_int_equal(c.rc, RC_NODATA);
	assert_non_null(strstr(c.why, "there is nothing to copy yet"));
	assert_false(fixture_has(&f, STORE_COPY));
	fixture_close(&f);
}

/* That there is damage is no reason to call it empty. */
COPY_TEST(test_nothing_can_be_read)
{
	struct copied c = {0};
	char garbage[4096];
	int64_t page;

	open_f();
	fixture_log(&f, 1, bytes_of("x"));
	save_all(1);
	fixture_wait_saved(&f, 1);
	fixture_close(&f);
	page = fixture_number(&f, "state.db",
	                      "SELECT rootpage FROM sqlite_schema WHERE name = 'meta'");
	open_f();
	memset(garbage, 'x', sizeof garbage);
	fixture_overwrite(&f, "state.db", (long)(page - 1) * 4096, garbage, sizeof garbage);
	state_copy_add(&copier, STORE_COPY, on_copied, &c);
	wait_copied(&c);
	assert_int_equal(c.rc, RC_IO);
	assert_non_null(strstr(c.why, "malformed"));
	assert_false(fixture_has(&f, STORE_COPY));
	fixture_close(&f);
}

/* An empty replica, and one whose log ends earlier. */
COPY_TEST(test_installed)
{
	give_fetched(7);
	assert_false(fixture_has(&other, STORE_FETCHED));
	fixture_open_started(&other);
	assert_state(&other, 7);
	assert_int_equal(other.recovered.applied, 7);
	assert_int_equal(other.recovered.applied_origin.round, 2);
	assert_int_equal(other.recovered.chosen, 7);
	fixture_close(&other);
	give_fetched(9);
	fixture_open_started(&other);
	assert_state(&other, 9);
	assert_false(fixture_has(&other, "state.db.ready"));
	fixture_close(&other);
	fixture_open_started(&other);
	assert_state(&other, 9);
	fixture_close(&other);
}

/* In the place of a state.db without a state, that of a replica which has started before. */
COPY_TEST(test_installed_over_none)
{
	fixture_open_started(&other);
	fixture_close(&other);
	assert_true(fixture_has(&other, "state.db"));
	give_fetched(7);
	fixture_open_started(&other);
	assert_state(&other, 7);
	fixture_close(&other);
}

/* A state of slot 8 waits beside that of slot 9. */
static void
give_older(void)
{
	give_fetched(9);
	fixture_open_started(&other);
	fixture_close(&other);
	fixture_remove(&f);
	fixture_make(&f);
	give_fetched(8);
}

COPY_TEST(test_older_is_not_installed)
{
	give_older();
	fixture_open_started(&other);
	assert_state(&other, 9);
	assert_false(fixture_has(&other, "state.db.ready"));
	fixture_close(&other);
}

/* In the place of SQLite's open: state.db can't be opened for writing, once. */
static bool refuses;

static int
open_for_sqlite(const char *path, int flags, int mode)
{
	if (!refuses || (flags & O_RDWR) == 0 || strcmp(strrchr(path, '/') + 1, "state.db") != 0)
		return open(path, flags, mode);
	refuses = false;
	errno = ENFILE;
	return -1;
}

/* A state.db that can't be read at the moment is not taken for none. */
COPY_TEST(test_older_beside_an_unreadable_one)
{
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);

	give_older();
	refuses = true;
	vfs->xSetSystemCall(vfs, "open", (sqlite3_syscall_ptr)open_for_sqlite);
	for (int i = 0; i < 2; i++) {
		fixture_open_started(&other);
		assert_false(refuses);
		assert_state(&other, 9);
		fixture_close(&other);
	}
	vfs->xSetSystemCall(vfs, "open", NULL);
	assert_false(fixture_has(&other, "state.db.ready"));
}

static void
assert_not_ready(const char *reason)
{
	char why[256] = "";

	assert_false(state_copy_ready(other.directory, "test", why, sizeof why));
	if (strstr(why, reason) == NULL || strchr(why, '\n') != NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, reason);
	assert_false(fixture_has(&other, STORE_FETCHED));
	assert_false(fixture_has(&other, "state.db.ready"));
}

COPY_TEST(test_damaged_copy)
{
	char garbage[8192];

	memset(garbage, 'x', sizeof garbage);
	assert_not_ready("fetched.db");
	fixture_overwrite(&other, STORE_FETCHED, 0, garbage, sizeof garbage);
	assert_not_ready("fetched.db is damaged: not an SQLite database");
	fixture_overwrite(&other, STORE_FETCHED, 0, "", 0);
	assert_not_ready("fetched.db: there is nothing in it");
}

static void
copy_with(const char *sql)
{
	give_fetched(3);
	fixture_sql(&other, "state.db.ready", sql);
	snprintf(other.why, sizeof other.why, "%s/state.db.ready", other.directory);
	snprintf(f.why, sizeof f.why, "%s/" STORE_FETCHED, other.directory);
	assert_int_equal(rename(other.why, f.why), 0);
}

COPY_TEST(test_copy_does_not_load)
{
	copy_with("UPDATE nodes SET contents = x'00' WHERE node = 5");
	assert_not_ready("fetched.db is damaged: nodes row 5: checksum");
	copy_with("UPDATE meta SET applied = 1000");
	assert_not_ready("fetched.db is damaged: meta row 0: checksum");
}

COPY_TEST(test_other_cell)
{
	char why[256];

	give_fetched(3);
	snprintf(other.why, sizeof other.why, "%s/state.db.ready", other.directory);
	snprintf(f.why, sizeof f.why, "%s/" STORE_FETCHED, other.directory);
	assert_int_equal(rename(other.why, f.why), 0);
	assert_false(state_copy_ready(other.directory, "elsewhere", why, sizeof why));
	assert_non_null(strstr(why, "belongs to cell test, not to elsewhere"));
}

COPY_TEST(test_unfinished_goes)
{
	fixture_overwrite(&f, STORE_FETCHED, 0, "half", 4);
	fixture_overwrite(&f, STORE_COPY, 0, "half", 4);
	fixture_overwrite(&f, STORE_COPY "-journal", 0, "half", 4);
	assert_true(fixture_open(&f));
	assert_false(fixture_has(&f, STORE_FETCHED));
	assert_false(fixture_has(&f, STORE_COPY));
	assert_false(fixture_has(&f, STORE_COPY "-journal"));
	fixture_close(&f);
}
