/* Sessions, what ends with them, and requests that take effect exactly once. */
#include <stdio.h>
#include "tests/unit/tree_fixture.h"

static void
test_create_session(void **state)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "0123456789abcdef");
	struct tree_session found;

	assert_int_equal(noted(f, TREE_SESSION_CREATED)->session, s);
	assert_int_equal(new_session(f, "0123456789abcdef"), s);
	assert_null(noted(f, TREE_SESSION_CREATED));
	assert_int_equal(tree_session_by_nonce(f->tree, bytes_of("0123456789abcdef")), s);
	assert_int_equal(tree_session_by_nonce(f->tree, bytes_of("0123456789abcde")), 0);
	assert_true(tree_session(f->tree, s, &found));
	assert_true(bytes_equal(found.host, bytes_of("here")));
	assert_false(tree_session(f->tree, s + 1, &found));
	assert_true(tree_session_after(f->tree, 0, &found));
	assert_int_equal(found.id, READER);
	assert_true(tree_session_after(f->tree, READER, &found));
	assert_int_equal(found.id, s);
	assert_false(tree_session_after(f->tree, s, &found));
	assert_false(tree_session_after(f->tree, UINT64_MAX, &found));
	assert_int_equal(run(f, 0, OP(create_session, .awaited = 1)), RC_INVAL);
}

static void
test_sessions_of_a_principal(void **state)
{
	struct fixture *f = *state;
	uint64_t mine[2], others = 0, first;
	struct tree_session s = {0};

	for (int i = 0; i < 4; i++) {
		struct bytes principal = bytes_of(i % 2 == 0 ? "mallory" : "mallory2");
		char nonce[2] = {(char)('a' + i), 0};

		assert_int_equal(run(f, 0,
		                     OP(create_session, .nonce = bytes_of(nonce),
		                        .principal = principal)),
		                 RC_OK);
		if (i % 2 == 0)
			mine[i / 2] = f->answer.session.session;
		else
			others = f->answer.session.session;
	}
	assert_true(tree_session_of_after(f->tree, bytes_of("mallory"), 0, &s));
	assert_int_equal(s.id, mine[0]);
	first = s.id;
	assert_true(tree_session_of_after(f->tree, bytes_of("mallory"), s.id, &s));
	assert_int_equal(s.id, mine[1]);
	assert_false(tree_session_of_after(f->tree, bytes_of("mallory"), s.id, &s));
	assert_false(tree_session_of_after(f->tree, bytes_of("mallory"), UINT64_MAX, &s));
	assert_true(tree_session_of_after(f->tree, bytes_of("mallory2"), first, &s));
	assert_true(tree_session_of_after(f->tree, bytes_of("mallory2"), s.id, &s));
	assert_int_equal(s.id, others);
	assert_false(tree_session_of_after(f->tree, bytes_of("mall"), 0, &s));
	assert_int_equal(end_session(f, mine[0], SESSION_CLOSED), RC_OK);
	assert_true(tree_session_of_after(f->tree, bytes_of("mallory"), 0, &s));
	assert_int_equal(s.id, mine[1]);
}

static enum rc
end(struct fixture *f, uint64_t by, uint64_t session, enum session_end cause, uint64_t epoch,
    const char *nonce)
{
	return run(f, by,
	           OP(end_session, .session = session, .cause = cause, .epoch = epoch,
	              .nonce = bytes_of(nonce)));
}

static void
test_who_may_end_a_session(void **state)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s");
	struct tree_session found;

	assert_int_equal(end(f, READER, s, SESSION_CLOSED, 0, ""), RC_PERM);
	assert_int_equal(end(f, READER, s, SESSION_EXPIRED, 0, "x"), RC_PERM);
	assert_int_equal(end(f, 0, s, SESSION_EXPIRED, 0, "x"), RC_PERM);
	assert_int_equal(end(f, 0, s, SESSION_EXPIRED, 0, ""), RC_OLD_EPOCH);
	assert_int_equal(end(f, 0, s, 9, 1, ""), RC_INVAL);
	assert_int_equal(end(f, 0, 999, SESSION_EXPIRED, 1, ""), RC_NO_SESSION);
	assert_true(tree_session(f->tree, s, &found));

	assert_int_equal(end(f, 0, s, SESSION_EXPIRED, 1, ""), RC_OK);
	assert_int_equal(noted(f, TREE_SESSION_ENDED)->session, s);
	assert_int_equal(noted(f, TREE_SESSION_ENDED)->cause, SESSION_EXPIRED);
	assert_false(tree_session(f->tree, s, &found));
	assert_int_equal(tree_session_by_nonce(f->tree, bytes_of("s")), 0);
	assert_int_equal(end(f, READER, new_session(f, "s"), SESSION_EXPIRED, 0, "s"), RC_OK);
	s = new_session(f, "s");
	assert_int_equal(end(f, s, s, SESSION_CLOSED, 0, ""), RC_OK);
	assert_int_equal(end(f, s, s, SESSION_CLOSED, 0, ""), RC_NO_SESSION);
	assert_int_equal(end(f, 0, new_session(f, "s"), SESSION_DESTROYED, 0, ""), RC_OK);
}

/* ---- ephemeral nodes ---- */

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

static void
test_an_ephemeral_file_goes_with_its_last_opener(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);

	assert_int_equal(open_it(f, b, file), RC_OK);
	assert_int_equal(open_it(f, b, file), RC_OK);
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_true(exists(f, file));
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_true(exists(f, file));
	assert_int_equal(close_it(f, b, file), RC_OK);
	assert_int_equal(noted(f, TREE_NODE_DELETED)->node, file);
	assert_false(exists(f, file));
	assert_int_equal(close_it(f, b, file), RC_OK);
	assert_int_equal(open_it(f, b, file), RC_STALE);
	assert_int_equal(open_it(f, 0, file), RC_NO_SESSION);
	assert_int_equal(create(f, 0, NODE_ROOT, "x", NODE_FILE, true), RC_NO_SESSION);
}

static void
test_an_ephemeral_file_goes_with_its_last_session(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t file = ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);

	assert_int_equal(run(f, b,
	                     OP(create, .parent = NODE_ROOT, .name = bytes_of("e"),
	                        .kind = NODE_FILE)),
	                 RC_OK);
	assert_int_equal(end_session(f, a, SESSION_EXPIRED), RC_OK);
	assert_true(exists(f, file));
	assert_int_equal(end_session(f, b, SESSION_CLOSED), RC_OK);
	assert_false(exists(f, file));
}

/* A client that comes back with a new session finds what its old one has left, until that ends. */
static void
test_an_ephemeral_file_is_in_the_way_of_a_new_session(void **state)
{
	struct fixture *f = *state;
	uint64_t old = new_session(f, "old"), new = new_session(f, "new");
	uint64_t file = ephemeral(f, old, NODE_ROOT, "e", NODE_FILE);
	const struct op *again = OP(create, .parent = NODE_ROOT, .name = bytes_of("e"),
	                            .kind = NODE_FILE, .exclusive = 1, .ephemeral = 1);

	assert_int_equal(run(f, new, again), RC_EXIST);
	assert_int_equal(end_session(f, old, SESSION_EXPIRED), RC_OK);
	assert_false(exists(f, file));
	assert_int_equal(run(f, new, again), RC_OK);
	assert_int_equal(end_session(f, old, SESSION_EXPIRED), RC_NO_SESSION);
	assert_int_not_equal(lookup(f, NODE_ROOT, "e"), file);
	assert_int_equal(run(f, old, again), RC_NO_SESSION); /* too late */
}

static void
test_opens_of_permanent_nodes_are_not_kept(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(open_it(f, a, file), RC_OK);
	assert_int_equal(f->answer.attr.attr.node, file);
	assert_int_equal(close_it(f, a, file), RC_OK);
	assert_int_equal(end_session(f, a, SESSION_CLOSED), RC_OK);
	assert_true(exists(f, file));
}

static void
test_make_ephemeral(void **state)
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

/* The tree knows of opens of permanent files only what commands tell. */
static void
test_only_the_maker_marks_a_file(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t found = file_of(f, a, "found"), over = file_of(f, a, "over"), moved;

	assert_int_equal(mark(f, b, found), RC_BUSY);
	assert_int_equal(attr_of(f, found).ephemeral, 0);
	assert_int_equal(find(f, a, "found"), RC_OK);
	assert_int_equal(find(f, b, "found"), RC_OK);
	assert_int_equal(mark(f, a, found), RC_BUSY);
	file_of(f, b, "source");
	assert_int_equal(rename_file(f, b, NODE_ROOT, "source", NODE_ROOT, "over"), RC_OK);
	assert_int_equal(mark(f, a, over), RC_BUSY);
	assert_int_equal(rename_file(f, a, NODE_ROOT, "over", NODE_ROOT, "new"), RC_OK);
	moved = f->answer.renamed.attr.node;
	assert_int_equal(mark(f, b, moved), RC_BUSY);
	assert_int_equal(mark(f, a, moved), RC_OK);
}

/* Nobody knows any more which sessions an earlier master has told of the file. */
static void
test_marks_end_with_the_epoch(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), old = file_of(f, a, "old");

	assert_int_equal(run(f, 0, OP(begin_epoch, .ballot = {7, 2})), RC_OK);
	assert_int_equal(mark(f, a, old), RC_BUSY);
	assert_int_equal(mark(f, a, file_of(f, a, "new")), RC_OK);
}

static void
test_the_only_session_marks_any_file(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), file = new_file(f, NODE_ROOT, "f");

	tree_set_ending(f->tree, 1);
	file_of(f, READER, "f");
	assert_int_equal(open_it(f, READER, ephemeral(f, READER, NODE_ROOT, "e", NODE_FILE)),
	                 RC_OK);
	assert_true(tree_sharing_matters(f->tree, a, file));
	assert_int_equal(mark(f, a, file), RC_BUSY);
	assert_int_equal(end_session(f, READER, SESSION_CLOSED), RC_OK);
	assert_false(tree_sharing_matters(f->tree, a, file));
	assert_int_equal(mark(f, a, file), RC_OK);
}

static void
test_an_ephemeral_directory_goes_with_its_last_child(void **state)
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

static void
test_an_ephemeral_directory_without_children_goes_with_its_creator(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t upper = ephemeral(f, b, NODE_ROOT, "upper", NODE_DIRECTORY);
	uint64_t lower = ephemeral(f, a, upper, "lower", NODE_DIRECTORY);

	assert_int_equal(end_session(f, b, SESSION_EXPIRED), RC_OK);
	assert_true(exists(f, upper)); /* it has a child */
	assert_int_equal(end_session(f, a, SESSION_EXPIRED), RC_OK);
	assert_false(exists(f, upper) || exists(f, lower));
	a = new_session(f, "a");
	lower = ephemeral(f, a, NODE_ROOT, "d", NODE_DIRECTORY);
	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_DIRECTORY), RC_OK);
	assert_int_equal(end_session(f, a, SESSION_EXPIRED), RC_OK);
}

static void
test_renames_of_ephemeral_files(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), source, target;
	uint64_t old = new_file(f, NODE_ROOT, "old");

	source = ephemeral(f, a, ephemeral(f, a, NODE_ROOT, "d", NODE_DIRECTORY), "e", NODE_FILE);
	assert_int_equal(rename_file(f, a, lookup(f, NODE_ROOT, "d"), "e", NODE_ROOT, "new"),
	                 RC_OK);
	target = f->answer.renamed.attr.node;
	assert_int_equal(f->answer.renamed.attr.ephemeral, 1);
	assert_int_equal(lookup(f, NODE_ROOT, "d"), 0); /* that was its last child */
	assert_int_equal(close_it(f, a, source), RC_OK);
	assert_false(exists(f, target));

	ephemeral(f, a, NODE_ROOT, "e", NODE_FILE);
	assert_int_equal(rename_file(f, a, NODE_ROOT, "e", NODE_ROOT, "old"), RC_OK);
	assert_int_equal(f->answer.renamed.attr.node, old);
	assert_int_equal(f->answer.renamed.attr.ephemeral, 0);
	assert_int_equal(end_session(f, a, SESSION_CLOSED), RC_OK);
	assert_true(exists(f, old));
}

static void
test_rename_onto_an_ephemeral_file_brings_openers(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t target = ephemeral(f, a, NODE_ROOT, "target", NODE_FILE);

	ephemeral(f, b, NODE_ROOT, "source", NODE_FILE);
	assert_int_equal(rename_file(f, b, NODE_ROOT, "source", NODE_ROOT, "target"), RC_OK);
	assert_int_equal(end_session(f, a, SESSION_CLOSED), RC_OK);
	assert_true(exists(f, target));
	assert_int_equal(end_session(f, b, SESSION_CLOSED), RC_OK);
	assert_false(exists(f, target));
}

/* A session knows the number by which it opened the file, whatever others have renamed since. */
static void
test_a_close_names_the_number_that_was_opened(void **state)
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

static void
test_both_ends_of_a_rename_are_open(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b");
	uint64_t source, target;

	for (int first = 0; first < 2; first++) {
		source = ephemeral(f, a, NODE_ROOT, "source", NODE_FILE);
		target = ephemeral(f, a, NODE_ROOT, "target", NODE_FILE);
		assert_int_equal(rename_file(f, b, NODE_ROOT, "source", NODE_ROOT, "target"),
		                 RC_OK);
		assert_int_equal(close_it(f, a, first ? source : target), RC_OK);
		assert_true(exists(f, target));
		assert_int_equal(close_it(f, a, first ? target : source), RC_OK);
		assert_false(exists(f, target));
	}
}

/* What a rename does to a file that somebody has open by an earlier number. */
static void
test_opens_by_an_earlier_number_end_with_the_file(void **state)
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
		entry_add(f, &c, OP(create_session, .nonce = bytes_of(nonce)));
		if (f->packed_n == 512 || i == n - 1)
			assert_int_equal(entry_apply(f), RC_OK);
	}
	return first;
}

static void
test_openers_of_a_file_have_a_limit(void **state)
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

/* ---- an end in parts ---- */

static enum rc
finish_session(struct fixture *f, uint64_t session)
{
	return run(f, 0, OP(finish_session, .session = session));
}

/* From the first part on it is no session; what it still has stays its own until its turn comes. */
static void
test_a_session_ends_part_by_part(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), b = new_session(f, "b"), file[3], seen = 0;
	const char *names[] = {"x", "y", "z"};
	enum session_end cause = SESSION_CLOSED;
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
static void
test_the_end_of_many_who_share_a_lock(void **state)
{
	struct fixture *f = *state;
	uint64_t a = new_session(f, "a"), file = new_file(f, NODE_ROOT, "x"), session;
	enum session_end cause;
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

/* ---- exactly once ---- */

static const struct op *
append_op(uint64_t node)
{
	static struct op op;

	op = (struct op){.code = OP_append, .append = {.node = node, .data = bytes_of("x")}};
	return &op;
}

static void
test_a_request_that_comes_again(void **state)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(run_numbered(f, s, 1, 1, append_op(file)), RC_OK);
	assert_false(f->out.answers[0].replayed);
	assert_true(f->out.answers[0].kept);
	assert_int_equal(run_numbered(f, s, 1, 1, append_op(file)), RC_OK);
	assert_true(f->out.answers[0].replayed);
	assert_int_equal(f->out.notes_n, 0);
	assert_int_equal(f->answer.attr.attr.content_generation, 2);
	assert_contents(f, file, "x");
	assert_int_equal(run_numbered(f, READER, 1, 1, append_op(file)), RC_OK); /* another's */
	assert_contents(f, file, "xx");
	assert_int_equal(run_numbered(f, s, 1, 1, OP(release, .node = file)), RC_INVAL);
}

static void
test_a_refusal_is_kept_too(void **state)
{
	struct fixture *f = *state;
	const struct op *op = OP(create, .parent = NODE_ROOT, .name = bytes_of("f"),
	                         .kind = NODE_FILE, .exclusive = 1);

	new_file(f, NODE_ROOT, "f");
	assert_int_equal(run_numbered(f, READER, 1, 1, op), RC_EXIST);
	assert_int_equal(delete_name(f, NODE_ROOT, "f", NODE_FILE), RC_OK);
	assert_int_equal(run_numbered(f, READER, 1, 1, op), RC_EXIST);
	assert_true(f->out.answers[0].replayed);
}

static void
test_what_has_arrived_is_forgotten(void **state)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");

	for (uint64_t n = 1; n <= 4; n++)
		assert_int_equal(run_numbered(f, READER, n, 1, append_op(file)), RC_OK);
	assert_int_equal(run_numbered(f, READER, 5, 3, append_op(file)), RC_OK);
	assert_int_equal(run_numbered(f, READER, 2, 1, append_op(file)), RC_OLD_REQUEST);
	assert_false(f->out.answers[0].kept);
	assert_int_equal(run_numbered(f, READER, 3, 1, append_op(file)), RC_OK);
	assert_true(f->out.answers[0].replayed);
	assert_contents(f, file, "xxxxx");
}

static void
test_numbers_may_come_in_any_order(void **state)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(run_numbered(f, READER, 2, 1, append_op(file)), RC_OK);
	assert_int_equal(run_numbered(f, READER, 1, 1, append_op(file)), RC_OK);
	assert_false(f->out.answers[0].replayed);
	assert_contents(f, file, "xx");
}

static void
test_an_acquire_that_waits_is_decided_later(void **state)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f");
	struct op op = {.code = OP_acquire,
	                .acquire.acquire = {.node = file,
	                                    .owner = 1,
	                                    .wait = 1,
	                                    .acquisition = 1,
	                                    .mode = LOCK_EXCLUSIVE}};

	assert_int_equal(acquire(f, READER, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(run_numbered(f, s, 1, 1, &op), RC_BUSY_LOCK);
	assert_false(f->out.answers[0].kept);
	op.acquire.acquire.wait = 0;
	op.acquire.acquire.acquisition = 2;
	assert_int_equal(run_numbered(f, s, 2, 1, &op), RC_BUSY_LOCK);
	assert_true(f->out.answers[0].kept);
	assert_int_equal(release(f, READER, 1, 1, file), RC_OK);
	assert_int_equal(run_numbered(f, s, 2, 1, &op), RC_BUSY_LOCK); /* an answer once given */
	op.acquire.acquire.wait = 1;
	op.acquire.acquire.acquisition = 1;
	assert_int_equal(run_numbered(f, s, 1, 1, &op), RC_OK);
	assert_true(f->out.answers[0].kept);
}

static void
test_the_end_of_a_session_is_not_kept(void **state)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s");
	const struct op *op = OP(end_session, .session = s, .cause = SESSION_CLOSED);

	assert_int_equal(run_numbered(f, s, 1, 1, op), RC_OK);
	assert_false(f->out.answers[0].kept);
	assert_int_equal(run_numbered(f, s, 1, 1, op), RC_NO_SESSION);
}

static void
test_numbers_have_a_window(void **state)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(run_numbered(f, s, LIMIT_NUMBERS, 1, append_op(file)), RC_OK);
	assert_int_equal(run_numbered(f, s, LIMIT_NUMBERS + 1, 1, append_op(file)), RC_INVAL);
	assert_false(f->out.answers[0].kept);
	assert_int_equal(run_numbered(f, s, LIMIT_NUMBERS + 1, 2, append_op(file)), RC_OK);
}

#define TREE_TEST(f) cmocka_unit_test_setup_teardown(f, tree_setup, tree_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    TREE_TEST(test_create_session),
	    TREE_TEST(test_sessions_of_a_principal),
	    TREE_TEST(test_who_may_end_a_session),
	    TREE_TEST(test_an_ephemeral_file_goes_with_its_last_opener),
	    TREE_TEST(test_an_ephemeral_file_goes_with_its_last_session),
	    TREE_TEST(test_an_ephemeral_file_is_in_the_way_of_a_new_session),
	    TREE_TEST(test_opens_of_permanent_nodes_are_not_kept),
	    TREE_TEST(test_make_ephemeral),
	    TREE_TEST(test_only_the_maker_marks_a_file),
	    TREE_TEST(test_marks_end_with_the_epoch),
	    TREE_TEST(test_the_only_session_marks_any_file),
	    TREE_TEST(test_an_ephemeral_directory_goes_with_its_last_child),
	    TREE_TEST(test_an_ephemeral_directory_without_children_goes_with_its_creator),
	    TREE_TEST(test_renames_of_ephemeral_files),
	    TREE_TEST(test_rename_onto_an_ephemeral_file_brings_openers),
	    TREE_TEST(test_a_close_names_the_number_that_was_opened),
	    TREE_TEST(test_both_ends_of_a_rename_are_open),
	    TREE_TEST(test_opens_by_an_earlier_number_end_with_the_file),
	    TREE_TEST(test_openers_of_a_file_have_a_limit),
	    TREE_TEST(test_a_session_ends_part_by_part),
	    TREE_TEST(test_the_end_of_many_who_share_a_lock),
	    TREE_TEST(test_a_request_that_comes_again),
	    TREE_TEST(test_a_refusal_is_kept_too),
	    TREE_TEST(test_what_has_arrived_is_forgotten),
	    TREE_TEST(test_numbers_may_come_in_any_order),
	    TREE_TEST(test_an_acquire_that_waits_is_decided_later),
	    TREE_TEST(test_the_end_of_a_session_is_not_kept),
	    TREE_TEST(test_numbers_have_a_window),
	};

	return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
