/* Restore: a copy becomes a cell of its own, whose numbers are all greater than any that the old
 * one can have given out. */
#include <stdio.h>
#include "tests/unit/tree_fixture.h"

static const uint64_t jump = 1ull << 40;

static enum rc
restore(struct fixture *f)
{
	return run(f, 0, OP(restore, .jump = jump));
}

static uint64_t
lock_generation(struct fixture *f, uint64_t node)
{
	return lock_of_node(f, node).lock_generation;
}

/* The reader ends with all other sessions. */
static void
new_reader(struct fixture *f)
{
	assert_true(new_session(f, "reader") > jump);
}

/* Reads as the session that has this nonce now. */
static struct attr
attr_now(struct fixture *f, uint64_t node)
{
	uint64_t reader = tree_session_by_nonce(f->tree, bytes_of("reader"));

	assert_int_equal(look(f, reader, OP(get_attr, .node = node)), RC_OK);
	return f->answer.attr.attr;
}

static struct result_lock
lock_now(struct fixture *f, uint64_t node)
{
	uint64_t reader = tree_session_by_nonce(f->tree, bytes_of("reader"));

	assert_int_equal(look(f, reader, OP(get_lock, .node = node)), RC_OK);
	return f->answer.lock;
}

TREE_TEST(test_every_number_grows)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), file = new_file(f, d, "f");
	uint64_t locked, epoch = tree_epoch(f->tree), fence;
	struct attr before, after;

	assert_int_equal(write_file(f, file, "contents"), RC_OK);
	assert_int_equal(acquire(f, READER, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	fence = f->answer.acquired.fence;
	assert_int_equal(release(f, READER, 1, 1, file), RC_OK);
	locked = lock_generation(f, file);
	before = attr_of(f, file);
	assert_int_equal(restore(f), RC_OK);
	assert_int_equal(tree_epoch(f->tree), epoch + jump);
	new_reader(f);
	after = attr_now(f, file);
	assert_int_equal(after.node, before.node);
	assert_int_equal(after.content_generation, before.content_generation + jump);
	assert_int_equal(after.acl_generation, before.acl_generation + jump);
	assert_int_equal(after.checksum, before.checksum);
	assert_int_equal(after.mtime_ns, before.mtime_ns);
	assert_true(after.ctime_ns > before.ctime_ns);
	assert_int_equal(lock_now(f, file).lock_generation, locked + jump);
	assert_int_equal(attr_now(f, d).content_generation, 0);
	assert_int_equal(attr_now(f, NODE_ROOT).acl_generation, 1 + jump);
	/* It was never held in the copy; it may have been since, in the old cell. */
	assert_int_equal(lock_now(f, d).lock_generation, jump);
	assert_int_equal(acquire(f, tree_session_by_nonce(f->tree, bytes_of("reader")), 1, 1, d,
	                         LOCK_SHARED),
	                 RC_OK);
	assert_int_equal(f->answer.acquired.fence, fence + jump + 1);
	assert_int_equal(f->answer.acquired.lock_generation, jump + 1);
}

TREE_TEST(test_new_nodes_get_greater_numbers)
{
	struct fixture *f = *state;
	uint64_t last = new_file(f, NODE_ROOT, "last"), reader;

	assert_int_equal(restore(f), RC_OK);
	reader = new_session(f, "reader");
	assert_true(reader > last + jump);
	assert_int_equal(create(f, reader, NODE_ROOT, "next", NODE_FILE, false), RC_OK);
	assert_int_equal(f->answer.created.attr.node, reader + 1);
}

TREE_TEST(test_sessions_end_as_expired)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f"), gone;
	struct tree_session left;
	struct tree_note delay;

	assert_int_equal(acquire(f, s, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(create(f, s, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	gone = f->answer.created.attr.node;
	assert_int_equal(restore(f), RC_OK);
	assert_int_equal(notes_of(f, TREE_SESSION_ENDED), 2);
	assert_int_equal(noted(f, TREE_SESSION_ENDED)->cause, SESSION_EXPIRED);
	assert_int_equal(noted(f, TREE_NODE_DELETED)->node, gone);
	assert_false(tree_session_after(f->tree, 0, &left));
	assert_int_equal(tree_usage(f->tree).sessions, 0);
	assert_true(tree_delay_after(f->tree, 0, &delay));
	assert_int_equal(delay.node, file);
	assert_int_equal(delay.lock_generation, 1 + jump);
	assert_int_equal(delay.index, tree_applied(f->tree));
	assert_int_equal(delay.seconds, 15);
	new_reader(f);
	assert_int_equal(lock_now(f, file).state, LOCK_STATE_DELAYED);
}

/* A delay that stands goes on, and ends by its new name only. */
TREE_TEST(test_delays_that_stand_go_on)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f");
	struct tree_note before, after;

	assert_int_equal(acquire(f, s, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(end_session(f, s, SESSION_EXPIRED), RC_OK);
	assert_true(tree_delay_after(f->tree, 0, &before));
	assert_int_equal(restore(f), RC_OK);
	assert_true(tree_delay_after(f->tree, 0, &after));
	assert_int_equal(after.index, before.index);
	assert_int_equal(after.seconds, before.seconds);
	assert_int_equal(after.lock_generation, before.lock_generation + jump);
	assert_int_equal(run(f, 0,
	                     OP(delay_over, .node = file, .began = before.index,
	                        .lock_generation = before.lock_generation)),
	                 RC_OK);
	assert_true(tree_delay_after(f->tree, 0, &after));
	assert_int_equal(run(f, 0,
	                     OP(delay_over, .node = file, .began = after.index,
	                        .lock_generation = after.lock_generation)),
	                 RC_OK);
	assert_false(tree_delay_after(f->tree, 0, &after));
}

TREE_TEST(test_members_are_those_of_the_new_cell)
{
	struct fixture *f = *state;
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct member m = {.id = 1, .role = MEMBER_VOTER, .address = bytes_of("old:1")};

	wire_put_member(&packed, &m);
	assert_int_equal(run(f, 0, OP(begin_epoch, .members = {buffer_view(&packed), 1})), RC_OK);
	m.role = MEMBER_VOTER;
	m.address = bytes_of("moved:1");
	buffer_reset(&packed);
	wire_put_member(&packed, &m);
	assert_int_equal(run(f, 0, OP(set_members, .members = {buffer_view(&packed), 1})), RC_OK);
	assert_int_equal(restore(f), RC_OK);
	assert_false(tree_member_after(f->tree, 0, &m));
	assert_int_equal(tree_members_version(f->tree), 0);
	buffer_reset(&packed);
	m = (struct member){.id = 1, .role = MEMBER_VOTER, .address = bytes_of("new:1")};
	wire_put_member(&packed, &m);
	assert_int_equal(run(f, 0, OP(begin_epoch, .members = {buffer_view(&packed), 1})), RC_OK);
	assert_true(tree_member_after(f->tree, 0, &m));
	assert_true(bytes_equal(m.address, bytes_of("new:1")));
	buffer_free(&packed);
}

/* The old cell went on after the copy, and its changes are none of the new one. */
TREE_TEST(test_an_index_of_the_old_cell_is_behind_the_compacted)
{
	struct fixture *f = *state;
	uint64_t restored, reader;

	assert_int_equal(restore(f), RC_OK);
	restored = tree_applied(f->tree);
	reader = new_session(f, "reader");
	assert_int_equal(create(f, reader, NODE_ROOT, "f", NODE_FILE, false), RC_OK);
	assert_int_equal(look(f, reader, OP(get_changes, .since = tree_applied(f->tree) + 1)),
	                 RC_OK);
	assert_int_equal(f->answer.changes.compacted, restored);
	assert_int_equal(f->answer.changes.changes.count, 1);
	assert_int_equal(f->answer.changes.upto, tree_applied(f->tree));
	assert_int_equal(look(f, reader, OP(get_changes, .since = tree_applied(f->tree))), RC_OK);
	assert_int_equal(f->answer.changes.compacted, 0);
	assert_int_equal(f->answer.changes.changes.count, 0);
}

/* The old cell may have given the first ones after the copy. */
TREE_TEST(test_numbers_of_names_grow)
{
	struct fixture *f = *state;
	const uint64_t none = new_directory(f, NODE_ROOT, "none");
	const uint64_t some = new_directory(f, NODE_ROOT, "some");
	uint64_t reader;

	assert_int_equal(run(f, READER, OP(number, .parent = some, .prefix = bytes_of("n"))),
	                 RC_OK);
	assert_int_equal(f->answer.numbered.number, 0);
	assert_int_equal(restore(f), RC_OK);
	reader = new_session(f, "reader");
	assert_int_equal(run(f, reader, OP(number, .parent = none, .prefix = bytes_of("n"))),
	                 RC_OK);
	assert_int_equal(f->answer.numbered.number, jump);
	assert_int_equal(run(f, reader, OP(number, .parent = some, .prefix = bytes_of("n"))),
	                 RC_OK);
	assert_int_equal(f->answer.numbered.number, jump + 1);
}

TREE_TEST(test_who_may_restore_and_by_how_much)
{
	struct fixture *f = *state;

	assert_int_equal(run(f, READER, OP(restore, .jump = jump)), RC_PERM);
	assert_int_equal(run(f, 0, OP(restore, .jump = 0)), RC_RANGE);
	assert_int_equal(run(f, 0, OP(restore, .jump = UINT64_MAX)), RC_RANGE);
	assert_int_equal(tree_epoch(f->tree), 1);
	assert_true(exists(f, NODE_ROOT));
	assert_int_equal(run(f, 0, OP(restore, .jump = UINT64_MAX / 2)), RC_OK);
	assert_int_equal(run(f, 0, OP(restore, .jump = UINT64_MAX / 2)), RC_RANGE);
	assert_int_equal(tree_epoch(f->tree), 1 + UINT64_MAX / 2);
}

TEST(test_nothing_is_no_copy)
{
	struct fixture *f = fixture_empty();

	assert_int_equal(restore(f), RC_OLD_EPOCH);
	fixture_free(f);
}
