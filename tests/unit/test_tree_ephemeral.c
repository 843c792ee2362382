/* Ephemeral nodes, which go with their last opener, and sessions that have too much to end in one
 * entry. */
#include <stdio.h>
#include "tests/unit/tree_fixture.h"

static uint64_t
ephemeral(struct fixture *f, uint64_t session, uint64_t parent, const char *name,
          enum node_kind kind)
{
	assert_int_equal(create(f, session, parent, name, kind, true), RC_OK);
	assert_int_equal(f->answer.created.attr.ephemeral, 1);
	return f->answer.created.attr.node;
}

static enum rc
open_it(struct fixture *f, uint64_t session, uint64_t node)
{
	return run(f, session, OP(open_ephemeral, .node = node));
}

static enum rc
close_it(struct fixture *f, uint64_t session, uint64_t node)
{
	return run(f, session, OP(close_ephemeral, .node = node));
}

static enum rc
mark(struct fixture *f, uint64_t session, uint64_t node)
{
	return run(f, session, OP(make_ephemeral, .node = node));
}

static enum rc
find(struct fixture *f, uint64_t session, const char *name)
{
	return run(f, session,
	           OP(create, .parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE));
}

static uint64_t
file_of(struct fixture *f, uint64_t session, const char *name)
{
	assert_int_equal(find(f, session, name), RC_OK);
	return f->answer.created.attr.node;
}

TREE_TEST(test_opens_of_permanent_nodes_are_not_kept)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(open_it(f, a, file), RC_OK);
	assert_int_equal(f->answer.attr.attr.node, file);
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_int_equal(end_session(f, a, SESSION_CLOSED), RC_OK);
	assert_true(exists(f, file));
}

TREE_TEST(test_make_ephemeral)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b"), file = file_of(f, a, "f");

	assert_int_equal(mark(f, a, NODE_ROOT), RC_ISDIR);
	assert_int_equal(mark(f, a, 999), RC_STALE);
	assert_int_equal(mark(f, 0, file), RC_NO_SESSION);
	assert_int_equal(mark(f, a, file), RC_OK);
	assert_int_equal(f->answer.attr.attr.ephemeral, 1);
	assert_int_equal(noted(f, TREE_NODE_CHANGED)->node, file);
	assert_int_equal(mark(f, b, file), RC_OK); /* it is, already */
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_true(exists(f, file));
	assert_int_equal(close_it(f, b, file), RC_OK);
	assert_false(exists(f, file));
}

TREE_TEST(test_only_who_marks_becomes_an_opener)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t file = file_of(f, a, "f");

	assert_int_equal(mark(f, a, file), RC_OK);
	assert_int_equal(close_it(f, b, file), RC_OK);
	assert_true(exists(f, file));
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_false(exists(f, file));
}

TREE_TEST(test_an_ephemeral_directory_goes_with_its_last_child)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a");
	uint64_t upper = ephemeral(f, a, NODE_ROOT, "upper", NODE_DIRECTORY);
	uint64_t lower = ephemeral(f, a, upper, "lower", NODE_DIRECTORY);
	uint64_t x = new_file(f, lower, "x"), y = new_file(f, lower, "y");

	assert_int_equal(end_session(f, a, SESSION_CLOSED), RC_OK); /* they had children */
	assert_int_equal(delete_name(f, lower, "x", NODE_FILE), RC_OK);
	assert_true(exists(f, lower) && !exists(f, x));
	assert_int_equal(delete_name(f, lower, "y", NODE_FILE), RC_OK);
	assert_int_equal(notes_of(f, TREE_NODE_DELETED), 3);
	assert_false(exists(f, y) || exists(f, lower) || exists(f, upper));
	assert_int_equal(attr_of(f, NODE_ROOT).children, 1);
}

/* A session knows the number by which it opened the file, whatever others have renamed since. */
TREE_TEST(test_a_close_names_the_number_that_was_opened)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b"), c = new_session(f, "c");
	uint64_t file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE), new;

	assert_int_equal(open_it(f, b, file), RC_OK);
	assert_int_equal(rename_file(f, c, NODE_ROOT, "e", NODE_ROOT, "f"), RC_OK);
	assert_int_equal(rename_file(f, c, NODE_ROOT, "f", NODE_ROOT, "g"), RC_OK);
	new = f->answer.renamed.attr.node;
	assert_int_equal(close_it(f, a, new), RC_OK); /* it has not opened that */
	assert_int_equal(close_it(f, b, file), RC_OK);
	assert_int_equal(close_it(f, b, file), RC_OK);
	assert_true(exists(f, new));
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_int_equal(noted(f, TREE_NODE_DELETED)->node, new);
	assert_false(exists(f, new));
}

/* What a rename does to a file that somebody has open by an earlier number. */
TREE_TEST(test_opens_by_an_earlier_number_end_with_the_file)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	uint64_t permanent = new_file(f, NODE_ROOT, "p");

	assert_int_equal(rename_file(f, b, NODE_ROOT, "e", NODE_ROOT, "f"), RC_OK);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "f", NODE_ROOT, "p"), RC_OK);
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_true(exists(f, permanent));
	file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "e", NODE_ROOT, "f"), RC_OK);
	assert_int_equal(delete_name(f, NODE_ROOT, "f", NODE_FILE), RC_OK);
	assert_int_equal(close_it(f, a, file), RC_OK);
	ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "e", NODE_ROOT, "f"), RC_OK);
	assert_int_equal(end_session(f, a, SESSION_EXPIRED), RC_OK);
	assert_int_equal(lookup(f, NODE_ROOT, "f"), 0);
}

/* Many commands to an entry, of many sessions. */
static void
open_by_many(struct fixture *f, uint64_t file, uint64_t first, uint64_t n)
{
	const struct op *op = OP(open_ephemeral, .node = file);

	for (uint64_t s = first; s < first + n; s++) {
		struct command c = {.stamp_ns = SECOND_NS, .session = s};

		entry_add(f, &c, op);
		if (f->packed_n == 512 || s == first + n - 1)
			assert_int_equal(entry_apply(f), RC_OK);
	}
}

static uint64_t
many_sessions(struct fixture *f, uint64_t n)
{
	char nonce[LIMIT_NONCE + 1];
	uint64_t first = new_session(f, "first of many");

	for (uint64_t i = 1; i < n; i++) {
		struct command c = {.stamp_ns = SECOND_NS};

		snprintf(nonce, sizeof nonce, "many %llu", (unsigned long long)i);
		entry_add(f, &c,
		          OP(create_session, .nonce = bytes_of(nonce),
		             .principal = bytes_of("admin"), .principal_generation = 1));
		if (f->packed_n == 512 || i == n - 1)
			assert_int_equal(entry_apply(f), RC_OK);
	}
	return first;
}

TREE_TEST(test_openers_of_a_file_have_a_limit)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	uint64_t many = many_sessions(f, LIMIT_OPENERS - 1);
	const struct op *create_it =
	    OP(create, .parent = NODE_ROOT, .name = bytes_of("e"), .kind = NODE_FILE);

	open_by_many(f, file, many, LIMIT_OPENERS - 1);
	assert_int_equal(open_it(f, b, file), RC_FULL);
	assert_int_equal(run(f, b, create_it), RC_FULL);
	assert_int_equal(run(f, b, OP(make_ephemeral, .node = file)), RC_FULL);
	assert_int_equal(open_it(f, a, file), RC_OK); /* it has it */
	ephemeral(f, b, NODE_ROOT, "other", NODE_FILE);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "other", NODE_ROOT, "e"), RC_FULL);
	assert_int_equal(close_it(f, many, file), RC_OK);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "other", NODE_ROOT, "e"), RC_OK);
	assert_int_equal(open_it(f, many, file), RC_FULL);
	assert_int_equal(delete_name(f, NODE_ROOT, "e", NODE_FILE), RC_OK);
}

/* Whether it opens files that there are, or makes them. */
TREE_TEST(test_opens_of_a_session_have_a_limit)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b"), file;
	uint64_t others = ephemeral(f, b, NODE_ROOT, "others", NODE_FILE);
	uint64_t permanent = file_of(f, b, "permanent"), d = new_directory(f, NODE_ROOT, "d");
	const struct op *number_it =
	    OP(number, .parent = d, .prefix = bytes_of("x"), .ephemeral = true);
	const struct command c = {.stamp_ns = SECOND_NS, .session = a};

	file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	for (int i = 1; i < LIMIT_SESSION_OPENS; i++) {
		entry_add(f, &c, number_it);
		if (f->packed_n == 512 || i == LIMIT_SESSION_OPENS - 1)
			assert_int_equal(entry_apply(f), RC_OK);
	}
	assert_int_equal(attr_of(f, d).children, LIMIT_SESSION_OPENS - 1);
	assert_int_equal(open_it(f, a, others), RC_FULL);
	assert_int_equal(find(f, a, "others"), RC_FULL);
	assert_int_equal(mark(f, a, permanent), RC_FULL);
	assert_int_equal(run(f, a, number_it), RC_FULL);
	assert_int_equal(create(f, a, NODE_ROOT, "new", NODE_FILE, true), RC_FULL);
	assert_int_equal(lookup(f, NODE_ROOT, "new"), 0);

	assert_int_equal(open_it(f, a, file), RC_OK); /* it has it */
	assert_int_equal(open_it(f, a, permanent), RC_OK);
	assert_int_equal(open_it(f, b, file), RC_OK);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "e", NODE_ROOT, "f"), RC_OK);
	assert_int_equal(open_it(f, a, others), RC_FULL);
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_int_equal(open_it(f, a, others), RC_OK);
	assert_int_equal(create(f, a, NODE_ROOT, "new", NODE_FILE, true), RC_FULL);
	assert_int_equal(delete_name(f, NODE_ROOT, "others", NODE_FILE), RC_OK);
	ephemeral(f, a, NODE_ROOT, "new", NODE_FILE);
}

/* ---- an end in parts ---- */

static enum rc
finish_session(struct fixture *f, uint64_t session)
{
	return run(f, 0, OP(finish_session, .session = session));
}

/* From the first part on it is no session; what it still has stays its own until its turn comes. */
TREE_TEST(test_a_session_ends_part_by_part)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b"), file[3], seen = 0;
	const char *names[] = {"x", "y", "z"};
	enum end_cause cause = SESSION_CLOSED;
	struct tree_session s;

	tree_set_ending(f->tree, 2);
	for (int i = 0; i < 3; i++) {
		file[i] = new_file(f, NODE_ROOT, names[i]);
		assert_int_equal(acquire(f, a, 1, 1, file[i], LOCK_SHARED), RC_OK);
	}
	assert_int_equal(acquire(f, a, 2, 2, file[0], LOCK_SHARED), RC_OK);
	ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	ephemeral(f, a, NODE_ROOT, "d", NODE_DIRECTORY);
	assert_int_equal(run_numbered(f, a, 1, 1, OP(set_lock_delay, .node = file[1])), RC_OK);

	assert_int_equal(end_session(f, a, SESSION_EXPIRED), RC_OK);
	assert_int_equal(noted(f, TREE_SESSION_ENDED)->session, a);
	assert_int_equal(notes_of(f, TREE_LOCK_CHANGED), 2);
	assert_int_equal(lock_of_node(f, file[0]).state, LOCK_STATE_DELAYED);
	assert_int_equal(lock_of_node(f, file[1]).state, LOCK_STATE_SHARED);
	assert_false(tree_session(f->tree, a, &s));
	assert_true(tree_session_after(f->tree, a - 1, &s) && s.id == b);
	assert_int_equal(tree_session_by_nonce(f->tree, bytes_of("a")), 0);
	assert_true(tree_ending(f->tree, &seen, &cause));
	assert_true(seen == a && cause == SESSION_EXPIRED);
	assert_int_equal(open_it(f, a, lookup(f, NODE_ROOT, "e")), RC_NO_SESSION);
	assert_int_equal(run(f, 0,
	                     OP(grant, .session = a,
	                        .acquire = {.node = file[1],
	                                    .owner = 9,
	                                    .acquisition = 9,
	                                    .mode = LOCK_SHARED})),
	                 RC_NO_SESSION);
	assert_int_equal(run(f, 0, OP(await_session, .session = a, .awaited = 1)), RC_NO_SESSION);
	assert_int_equal(end_session(f, a, SESSION_CLOSED), RC_NO_SESSION);
	assert_int_equal(acquire(f, b, 1, 1, file[1], LOCK_EXCLUSIVE), RC_BUSY_LOCK);
	assert_true(new_session(f, "a") != a);

	assert_int_equal(finish_session(f, b), RC_NO_SESSION); /* it lives */
	assert_int_equal(finish_session(f, a), RC_OK);
	assert_int_equal(lock_of_node(f, file[2]).state, LOCK_STATE_DELAYED);
	assert_int_equal(notes_of(f, TREE_SESSION_ENDED), 0);
	assert_true(lookup(f, NODE_ROOT, "e") != 0);
	assert_int_equal(finish_session(f, a), RC_OK); /* an open, and the file with it */
	assert_int_equal(lookup(f, NODE_ROOT, "e"), 0);
	assert_true(lookup(f, NODE_ROOT, "d") != 0);
	assert_int_equal(finish_session(f, a), RC_OK); /* a directory, a kept answer */
	assert_int_equal(lookup(f, NODE_ROOT, "d"), 0);
	assert_false(tree_ending(f->tree, &seen, &cause));
	assert_int_equal(finish_session(f, a), RC_NO_SESSION);
}

/* Nothing is the longer for those who have the lock-delay beside them. */
TREE_TEST(test_the_end_of_many_who_share_a_lock)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), file = new_file(f, NODE_ROOT, "x"), session;
	enum end_cause cause;
	size_t parts = 1;

	for (uint64_t owner = 0; owner < 2 * LIMIT_ENDING; owner++)
		assert_int_equal(run(f, a,
		                     OP(acquire, .acquire = {.node = file,
		                                             .owner = owner,
		                                             .acquisition = 1,
		                                             .mode = LOCK_SHARED,
		                                             .delay_s = owner == 7 ? 40 : 3})),
		                 RC_OK);
	assert_int_equal(end_session(f, a, SESSION_EXPIRED), RC_OK);
	assert_int_equal(notes_of(f, TREE_DELAY_BEGAN), LIMIT_ENDING);
	assert_int_equal(noted(f, TREE_DELAY_BEGAN)->seconds, 40);
	for (; tree_ending(f->tree, &session, &cause); parts++)
		assert_int_equal(finish_session(f, session), RC_OK);
	assert_int_equal(parts, 2);
	assert_int_equal(f->out.notes[0].seconds, 40); /* as the delay that stands */
	assert_int_equal(lock_of_node(f, file).state, LOCK_STATE_DELAYED);
}
