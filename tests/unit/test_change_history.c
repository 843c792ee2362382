/* The changes of the last minutes: what they say, and how long they are kept. */
#include "tests/unit/tree_fixture.h"

#include <stdio.h>

enum { MOST = 64 };

static struct result_changes
ask(struct fixture *f, uint64_t since)
{
	assert_int_equal(look(f, READER, OP(get_changes, .since = since)), RC_OK);
	return f->answer.changes;
}

/* The changes above the index, a line each: kind, path, generation. */
static void
assert_changes(struct fixture *f, uint64_t since, const char *want)
{
	const struct result_changes r = ask(f, since);
	struct cursor at = cursor_of(r.changes.packed);
	char lines[4096] = "";
	struct past_change c;
	size_t n = 0;

	while (wire_next_past_change(&at, &c))
		n +=
		    (size_t)snprintf(lines + n, sizeof lines - n, "%d %.*s %d\n", c.kind,
		                     (int)c.path.len, (const char *)c.path.data, (int)c.generation);
	assert_string_equal(lines, want);
	assert_int_equal(r.upto, tree_applied(f->tree));
	assert_int_equal(r.more, 0);
}

TREE_TEST(test_each_change_is_told)
{
	struct fixture *f = *state;
	const uint64_t since = tree_applied(f->tree);
	const uint64_t d = new_directory(f, NODE_ROOT, "d"), file = new_file(f, d, "f");

	assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_int_equal(run(f, READER, OP(set_mtime, .node = file, .mtime_ns = 1)), RC_OK);
	assert_int_equal(acquire(f, READER, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(release(f, READER, 1, 1, file), RC_OK);
	assert_int_equal(rename_file(f, READER, d, "f", NODE_ROOT, "g"), RC_OK);
	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_DIRECTORY), RC_OK);
	assert_changes(f, since,
	               "1 /d 0\n1 /d/f 0\n2 /d/f 2\n3 /d/f 0\n5 /d/f 1\n"
	               "1 /g 0\n2 /g 2\n4 /d/f 0\n4 /d 0\n");
	assert_changes(f, since + 7, "4 /d 0\n");
	assert_changes(f, tree_applied(f->tree), "");
}

TREE_TEST(test_of_what_is_refused_nothing_is_told)
{
	struct fixture *f = *state;
	const uint64_t since = tree_applied(f->tree);

	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_DIRECTORY), RC_NOENT);
	assert_int_equal(write_file(f, NODE_ACL_ADMIN, "nobody\n"), RC_INVAL);
	assert_changes(f, since, "");
}

static void
set(struct fixture *f, enum setting which, uint64_t value)
{
	assert_int_equal(run(f, 0, OP(set_setting, .setting = (uint8_t)which, .value = value)),
	                 RC_OK);
}

/* A command comes a second after the one before it. */
TREE_TEST(test_old_changes_are_forgotten)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f"), since = tree_applied(f->tree);

	set(f, SETTING_history_seconds, 5);
	for (int i = 0; i < 6; i++)
		assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_int_equal(ask(f, 0).compacted, since);
	assert_changes(f, since, "2 /f 2\n2 /f 3\n2 /f 4\n2 /f 5\n2 /f 6\n2 /f 7\n");
	assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_int_equal(ask(f, since + 1).compacted, since + 3);
	assert_changes(f, since + 3, "2 /f 4\n2 /f 5\n2 /f 6\n2 /f 7\n2 /f 8\n2 /f 9\n");
}

TREE_TEST(test_many_changes_are_forgotten)
{
	struct fixture *f = *state;
	const uint64_t file = new_file(f, NODE_ROOT, "f");

	for (int i = 0; i < 2 * MOST; i++)
		assert_int_equal(write_file(f, file, "x"), RC_OK);
	set(f, SETTING_history_bytes, 1);
	assert_true(ask(f, 0).changes.count > MOST / 2); /* a part at a time */
	assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_int_equal(ask(f, 0).changes.count, 1);
	assert_int_equal(ask(f, 0).compacted, tree_applied(f->tree) - 1);
	assert_int_equal(ask(f, tree_applied(f->tree) - 1).compacted, 0);
}

/* Some thousands come and go; a command comes a second after the one before it. */
TREE_TEST(test_a_long_history)
{
	struct fixture *f = *state;
	const uint64_t file = new_file(f, NODE_ROOT, "f"), kept = 1500;
	uint64_t last;

	set(f, SETTING_history_seconds, kept);
	for (int i = 0; i < 6000; i++)
		assert_int_equal(write_file(f, file, "x"), RC_OK);
	last = tree_applied(f->tree);
	assert_int_equal(ask(f, 0).compacted, last - kept - 1);
	assert_changes(f, last - 3, "2 /f 5999\n2 /f 6000\n2 /f 6001\n");
	set(f, SETTING_history_bytes, 1);
	for (int i = 0; i < MOST; i++)
		assert_int_equal(write_file(f, file, "x"), RC_OK);
	assert_changes(f, tree_applied(f->tree) - 1, "2 /f 6065\n");
	assert_int_equal(ask(f, 0).changes.count, 1);
}

/* Pages follow each other, and have whole entries. */
TREE_TEST(test_pages)
{
	struct fixture *f = *state;
	const int n = 3000;
	uint64_t since, file;
	uint32_t changes = 0;
	int pages = 0;

	set(f, SETTING_history_seconds, 86400);
	since = tree_applied(f->tree);
	file = new_file(f, NODE_ROOT, "f");
	for (int i = 1; i < n; i++)
		assert_int_equal(write_file(f, file, "x"), RC_OK);
	for (struct result_changes r = {.more = 1}; r.more; pages++) {
		r = ask(f, since);
		assert_true(r.changes.count > 0 && r.changes.count == r.upto - since);
		changes += r.changes.count;
		since = r.upto;
	}
	assert_int_equal(changes, n);
	assert_true(pages > 1);
}

static uint32_t
changes_for(struct fixture *f, uint64_t session, uint64_t since)
{
	assert_int_equal(look(f, session, OP(get_changes, .since = since)), RC_OK);
	return f->answer.changes.changes.count;
}

/* A change is told to those who may read its node now or, when that is deleted, could then. */
TREE_TEST(test_changes_of_nodes_that_may_be_read)
{
	struct fixture *f = *state;
	uint64_t team, file, other, since;

	team = new_file(f, NODE_ACL, "team");
	assert_int_equal(write_file(f, team, "other\n"), RC_OK);
	add_principal(f, "other", 9);
	other = session_of(f, "other", "other");
	since = tree_applied(f->tree);
	file = new_file(f, NODE_ROOT, "f");
	assert_int_equal(changes_for(f, other, since), 1);
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = file, .which = ACL_READ,
	                        .name = bytes_of("admin"))),
	                 RC_OK);
	assert_int_equal(changes_for(f, other, since), 0);
	assert_int_equal(changes_for(f, READER, since), 2);
	assert_int_equal(delete_name(f, NODE_ROOT, "f", NODE_FILE), RC_OK);
	assert_int_equal(changes_for(f, other, since), 0);
	assert_int_equal(changes_for(f, READER, since), 3);
	file = new_file(f, NODE_ROOT, "g");
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = file, .which = ACL_READ,
	                        .name = bytes_of("team"))),
	                 RC_OK);
	assert_int_equal(delete_name(f, NODE_ROOT, "g", NODE_FILE), RC_OK);
	assert_int_equal(changes_for(f, other, since), 3);
	assert_int_equal(write_file(f, team, "admin\n"), RC_OK);
	assert_int_equal(changes_for(f, other, since), 1); /* that of the ACL file */
}
