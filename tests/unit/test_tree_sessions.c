/* Sessions, and requests that take effect exactly once. */
#include <stdio.h>
#include "tests/unit/tree_fixture.h"

TREE_TEST(test_create_session)
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

/* Its nonce proves much, but not that the locks of a lasting session may be free. */
TREE_TEST(test_lasting_session)
{
	struct fixture *f = *state;
	const struct bytes nonce = bytes_of("0123456789abcdef");
	struct tree_session found;
	uint64_t s;

	assert_int_equal(run(f, 0,
	                     OP(create_session, .nonce = nonce, .lasting = 1,
	                        .principal = bytes_of("admin"), .principal_generation = 1)),
	                 RC_OK);
	s = f->answer.session.session;
	assert_true(tree_session(f->tree, s, &found));
	assert_true(found.lasting);
	assert_int_equal(run(f, 0,
	                     OP(end_session, .session = s, .cause = SESSION_EXPIRED,
	                        .nonce = nonce)),
	                 RC_PERM);
	assert_int_equal(run(f, s,
	                     OP(end_session, .session = s, .cause = SESSION_CLOSED,
	                        .nonce = nonce)),
	                 RC_OK);
}

/* A lasting session keeps its locks from all others until an operator ends it. */
TREE_TEST(test_who_may_have_a_lasting_session)
{
	struct fixture *f = *state;
	const uint64_t acl = lookup(f, NODE_ROOT, "acl");
	struct tree_principal p;
	struct op op = {.code = OP_create_session,
	                .create_session = {.nonce = bytes_of("0123456789abcdef"), .lasting = 1}};

	add_principal(f, "mallory", 1);
	assert_true(tree_principal(f->tree, bytes_of("mallory"), &p));
	op.create_session.principal = p.name;
	op.create_session.principal_generation = p.generation;
	assert_int_equal(run(f, 0, &op), RC_ACCES);
	assert_int_equal(write_file(f, new_file(f, acl, "lasting"), "mallory\n"), RC_OK);
	assert_int_equal(run(f, 0, &op), RC_OK);
	assert_int_equal(write_file(f, lookup(f, acl, "lasting"), ""), RC_OK);
	assert_int_equal(run(f, 0, &op), RC_OK); /* it is the same one */
	op.create_session.nonce = bytes_of("another one of16");
	assert_int_equal(run(f, 0, &op), RC_ACCES);
	op.create_session.lasting = 0;
	assert_int_equal(run(f, 0, &op), RC_OK);
}

TREE_TEST(test_sessions_of_a_principal)
{
	struct fixture *f = *state;
	uint64_t mine[2], others = 0, first;
	struct tree_session s = {0};

	add_principal(f, "mallory", 1);
	add_principal(f, "mallory2", 2);
	for (int i = 0; i < 4; i++) {
		const char *principal = i % 2 == 0 ? "mallory" : "mallory2";
		char nonce[2] = {(char)('a' + i), 0};

		const uint64_t session = session_of(f, nonce, principal);

		if (i % 2 == 0)
			mine[i / 2] = session;
		else
			others = session;
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
end(struct fixture *f, uint64_t by, uint64_t session, enum end_cause cause, uint64_t epoch,
    const char *nonce)
{
	return run(f, by,
	           OP(end_session, .session = session, .cause = cause, .epoch = epoch,
	              .nonce = bytes_of(nonce)));
}

TREE_TEST(test_who_may_end_a_session)
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

/* ---- exactly once ---- */

static const struct op *
append_op(uint64_t node)
{
	static struct op op;

	op = (struct op){.code = OP_append, .append = {.node = node, .data = bytes_of("x")}};
	return &op;
}

TREE_TEST(test_a_request_that_comes_again)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f"), index;

	assert_int_equal(run_numbered(f, s, 1, 1, append_op(file)), RC_OK);
	assert_false(f->out.answers[0].replayed);
	assert_true(f->out.answers[0].kept);
	index = tree_applied(f->tree);
	assert_int_equal(f->out.answers[0].index, index);
	assert_int_equal(run_numbered(f, s, 1, 1, append_op(file)), RC_OK);
	assert_true(f->out.answers[0].replayed);
	assert_int_equal(f->out.answers[0].index, index);
	assert_int_equal(f->out.notes_n, 0);
	assert_int_equal(f->answer.attr.attr.content_generation, 2);
	assert_contents(f, file, "x");
	assert_int_equal(run_numbered(f, READER, 1, 1, append_op(file)), RC_OK); /* another's */
	assert_contents(f, file, "xx");
	assert_int_equal(run_numbered(f, s, 1, 1, OP(release, .node = file)), RC_INVAL);
}

TREE_TEST(test_an_acquire_that_waits_is_decided_later)
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

TREE_TEST(test_the_end_of_a_session_is_not_kept)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s");
	const struct op *op = OP(end_session, .session = s, .cause = SESSION_CLOSED);

	assert_int_equal(run_numbered(f, s, 1, 1, op), RC_OK);
	assert_false(f->out.answers[0].kept);
	assert_int_equal(run_numbered(f, s, 1, 1, op), RC_NO_SESSION);
}

TREE_TEST(test_numbers_have_a_window)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(run_numbered(f, s, LIMIT_NUMBERS, 1, append_op(file)), RC_OK);
	assert_int_equal(run_numbered(f, s, LIMIT_NUMBERS + 1, 1, append_op(file)), RC_INVAL);
	assert_false(f->out.answers[0].kept);
	assert_int_equal(run_numbered(f, s, LIMIT_NUMBERS + 1, 2, append_op(file)), RC_OK);
}
