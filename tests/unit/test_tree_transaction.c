/* Transactions: all of the operations of one part, or none. */
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"
#include "tests/unit/tree_random.h"

enum { SEEDS = 120, ROUNDS = 600 };

/* The steps of a transaction. */
struct draft {
	struct buffer steps;
	uint32_t n;
};

static struct draft
draft(void)
{
	return (struct draft){.steps = BUFFER(LIMIT_ENTRY)};
}

static void
put_step(struct draft *d, struct step s, const char *path)
{
	s.path = bytes_of(path);
	wire_put_step(&d->steps, &s);
	assert_false(d->steps.failed);
	d->n++;
}

static void
put_op(struct draft *d, const char *path, const char *new_path, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct step s = {.kind = STEP_DO, .new_path = bytes_of(new_path)};

	wire_put_op(&encoded, op);
	s.op = buffer_view(&encoded);
	put_step(d, s, path);
	buffer_free(&encoded);
}

static void
put_create(struct draft *d, const char *path, enum node_kind kind)
{
	put_op(d, path, "", OP(create, .kind = kind));
}

static void
put_set(struct draft *d, const char *path, const char *contents)
{
	put_op(d, path, "", OP(set_contents, .contents = bytes_of(contents)));
}

static enum rc
commit(struct fixture *f, uint64_t session, struct draft *d)
{
	struct op op = {.code = OP_transaction, .transaction = {{buffer_view(&d->steps), d->n}}};
	const enum rc rc = run(f, session, &op);

	buffer_free(&d->steps);
	return rc;
}

static void
assert_refused(struct fixture *f, struct draft *d, uint32_t step, enum rc rc)
{
	assert_int_equal(commit(f, READER, d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_NONE);
	assert_int_equal(f->answer.transaction.failed, step);
	assert_int_equal(f->answer.transaction.rc, rc);
	assert_int_equal(f->out.notes_n, 0);
}

TREE_TEST(test_operations_see_those_before_them)
{
	struct fixture *f = *state;
	struct draft d = draft();
	struct step_done done;
	struct cursor at;

	put_create(&d, "/d", NODE_DIRECTORY);
	put_create(&d, "/d/f", NODE_FILE);
	put_set(&d, "/d/f", "one");
	put_op(&d, "/d/f", "", OP(append, .data = bytes_of(" two")));
	put_op(&d, "/d/f", "/d/g", OP(rename));
	put_create(&d, "/d/f", NODE_FILE);
	assert_int_equal(commit(f, READER, &d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_FIRST);
	assert_int_equal(f->answer.transaction.done.count, 6);
	at = cursor_of(f->answer.transaction.done.packed);
	for (int i = 0; i < 4; i++)
		assert_true(wire_next_step_done(&at, &done));
	assert_int_equal(done.step, 4);
	assert_int_equal(done.generation, 3);
	assert_contents(f, lookup(f, lookup(f, NODE_ROOT, "d"), "g"), "one two");
	assert_contents(f, lookup(f, lookup(f, NODE_ROOT, "d"), "f"), "");
	assert_int_equal(notes_of(f, TREE_NODE_CREATED), 4);
}

/* The transaction declares the change of this key, and is done. */
static void
assert_changes(struct fixture *f, struct draft *d, uint64_t key)
{
	const struct op op = {.code = OP_transaction,
	                      .transaction = {{buffer_view(&d->steps), d->n}}};
	const struct requester who = {.session = READER};
	struct footprint changes = {0};
	bool declared = false;

	tree_changes(f->tree, &who, &op, 0, &changes);
	for (size_t i = 0; i < changes.n; i++)
		declared |= changes.keys[i] == key;
	footprint_free(&changes);
	assert_true(declared);
	assert_int_equal(commit(f, READER, d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_FIRST);
}

/* What the tree refuses now is possible after the operations before it. */
TREE_TEST(test_a_rename_to_a_new_directory_changes_the_old_one)
{
	struct fixture *f = *state;
	const uint64_t p = new_directory(f, NODE_ROOT, "p");
	struct draft d = draft();

	new_file(f, p, "f");
	put_create(&d, "/new", NODE_DIRECTORY);
	put_op(&d, "/p/f", "/new/f", OP(rename));
	assert_changes(f, &d, p);
	assert_int_equal(lookup(f, p, "f"), 0);
}

TREE_TEST(test_a_rename_of_a_new_file_changes_rights)
{
	struct fixture *f = *state;
	struct draft d = draft();

	put_create(&d, "/t", NODE_FILE);
	put_set(&d, "/t", "admin\n");
	put_op(&d, "/t", "/acl/team", OP(rename));
	assert_changes(f, &d, KEY_RIGHTS);
}

TREE_TEST(test_ephemeral_directories_go_with_what_was_made_in_them)
{
	struct fixture *f = *state;
	struct draft d = draft(), renamed = draft();
	const uint64_t up = new_directory(f, NODE_ROOT, "up");
	uint64_t e;

	assert_int_equal(create(f, READER, up, "e", NODE_DIRECTORY, true), RC_OK);
	put_create(&d, "/up/e/x", NODE_FILE);
	put_op(&d, "/up/e/x", "", OP(delete));
	assert_changes(f, &d, up);
	assert_int_equal(lookup(f, up, "e"), 0);

	assert_int_equal(create(f, READER, up, "e", NODE_DIRECTORY, true), RC_OK);
	e = lookup(f, up, "e");
	assert_int_equal(create(f, READER, e, "e", NODE_DIRECTORY, true), RC_OK);
	put_create(&renamed, "/up/e/e/x", NODE_FILE);
	put_op(&renamed, "/up/e/e/x", "/x", OP(rename));
	assert_changes(f, &renamed, up);
	assert_int_equal(lookup(f, up, "e"), 0);
}

TREE_TEST(test_one_refusal_undoes_all)
{
	struct fixture *f = *state;
	const uint64_t dir = new_directory(f, NODE_ROOT, "d"), a = new_file(f, dir, "a");
	struct draft d = draft();
	struct attr before;

	assert_int_equal(write_file(f, a, "kept"), RC_OK);
	before = attr_of(f, a);
	put_set(&d, "/d/a", "lost");
	put_create(&d, "/n", NODE_FILE);
	put_op(&d, "/n", "", OP(acquire, .acquire = {.owner = 1, .mode = LOCK_EXCLUSIVE}));
	put_op(&d, "/d/a", "/d/b", OP(rename));
	put_op(&d, "/d/b", "", OP(delete));
	put_op(&d, "/d", "", OP(delete));
	put_set(&d, "/nowhere", "x");
	assert_refused(f, &d, 7, RC_NOENT);
	assert_int_equal(lookup(f, dir, "a"), a);
	assert_contents(f, a, "kept");
	assert_int_equal(attr_of(f, a).mtime_ns, before.mtime_ns);
	assert_int_equal(attr_of(f, a).content_generation, before.content_generation);
	assert_int_equal(attr_of(f, a).ctime_ns, before.ctime_ns);
	assert_int_equal(lookup(f, NODE_ROOT, "n"), 0);
}

TREE_TEST(test_conditions_choose_the_part)
{
	struct fixture *f = *state;
	const uint64_t a = new_file(f, NODE_ROOT, "a");
	struct draft d = draft();

	put_step(&d, (struct step){.kind = STEP_ABSENT}, "/b/c");
	put_step(&d, (struct step){.kind = STEP_GENERATION, .generation = 1}, "/a");
	assert_int_equal(commit(f, READER, &d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_FIRST);
	assert_int_equal(f->answer.transaction.condition, 0);
	d = draft();

	put_step(&d, (struct step){.kind = STEP_GENERATION, .generation = 1}, "/a");
	put_step(&d, (struct step){.kind = STEP_ABSENT}, "/a");
	put_set(&d, "/a", "first");
	put_step(&d, (struct step){.kind = STEP_ELSE}, "/");
	put_set(&d, "/a", "else");
	assert_int_equal(commit(f, READER, &d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_ELSE);
	assert_int_equal(f->answer.transaction.condition, 2);
	assert_contents(f, a, "else");
}

TREE_TEST(test_a_lock_that_is_taken)
{
	struct fixture *f = *state;
	const uint64_t l = new_file(f, NODE_ROOT, "l");
	struct draft d = draft();
	struct result_transaction r;
	struct step_done done;
	struct cursor at;

	put_op(&d, "/l", "",
	       OP(acquire, .acquire = {.owner = 1,
	                               .acquisition = 1,
	                               .delay_s = -1,
	                               .mode = LOCK_EXCLUSIVE}));
	put_set(&d, "/l", "me");
	assert_int_equal(commit(f, READER, &d), RC_OK);
	r = f->answer.transaction;
	at = cursor_of(r.done.packed);
	assert_true(r.part == PART_FIRST && wire_next_step_done(&at, &done));
	assert_int_equal(lock_of_node(f, l).state, LOCK_STATE_EXCLUSIVE);
	assert_int_equal(done.generation, 1);

	d = draft();
	put_step(&d, (struct step){.kind = STEP_HELD, .guard = {l, 1, LOCK_EXCLUSIVE, done.fence}},
	         "/l");
	put_set(&d, "/l", "still me");
	assert_int_equal(commit(f, READER, &d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_FIRST);

	d = draft();
	put_set(&d, "/l", "another");
	put_op(&d, "/l", "",
	       OP(acquire, .acquire = {.owner = 2, .acquisition = 2, .mode = LOCK_EXCLUSIVE}));
	assert_refused(f, &d, 2, RC_BUSY_LOCK);
	assert_contents(f, l, "still me");
}

/* The first waiter was not to be had, and the next one is known to the master alone. */
TREE_TEST(test_no_lock_is_taken_behind_its_grant_that_was_refused)
{
	struct fixture *f = *state;
	const struct acquire waits = {.node = new_file(f, NODE_ROOT, "l"),
	                              .owner = 1,
	                              .acquisition = 1,
	                              .mode = LOCK_EXCLUSIVE};
	const struct op *grant = OP(grant, .session = 999, .acquire = waits);
	struct draft d = draft();
	struct result r;
	struct op op;

	new_file(f, NODE_ROOT, "free");
	put_op(&d, "/free", "", OP(acquire, .acquire = waits));
	put_op(&d, "/l", "", OP(acquire, .acquire = waits));
	op = (struct op){.code = OP_transaction, .transaction = {{buffer_view(&d.steps), d.n}}};
	entry_add(f, &(struct command){0}, grant);
	entry_add(f, &(struct command){.session = READER}, &op);
	assert_int_equal(entry_apply(f), RC_OK);
	assert_int_equal(f->out.answers[0].rc, RC_NO_SESSION);
	assert_int_equal(f->out.answers[1].rc, RC_OK);
	assert_int_equal(wire_get_result(RESULT_transaction, f->out.answers[1].result, &r), RC_OK);
	assert_int_equal(r.transaction.failed, 2);
	assert_int_equal(r.transaction.rc, RC_BUSY_LOCK);

	assert_int_equal(commit(f, READER, &d), RC_OK);
	assert_int_equal(f->answer.transaction.part, PART_FIRST);
}

TREE_TEST(test_each_operation_needs_its_right)
{
	struct fixture *f = *state;
	struct draft d = draft();

	add_principal(f, "eve", 9);
	new_file(f, NODE_ROOT, "a");
	put_set(&d, "/a", "x");
	put_set(&d, "/acl/everyone", "");
	assert_int_equal(commit(f, session_of(f, "e", "eve"), &d), RC_OK);
	assert_int_equal(f->answer.transaction.failed, 2);
	assert_int_equal(f->answer.transaction.rc, RC_ACCES);
	assert_int_equal(f->answer.transaction.right, RIGHT_WRITE);
	assert_true(bytes_equal(f->answer.transaction.acl, bytes_of("admin")));
	assert_contents(f, lookup(f, NODE_ROOT, "a"), "");
}

TREE_TEST(test_forms_that_are_none)
{
	struct fixture *f = *state;
	struct draft d = draft();

	put_set(&d, "/a", "x");
	put_step(&d, (struct step){.kind = STEP_ABSENT}, "/b");
	assert_int_equal(commit(f, READER, &d), RC_INVAL);
	d = draft();
	put_set(&d, "a", "x");
	assert_int_equal(commit(f, READER, &d), RC_INVAL);
	d = draft();
	put_op(&d, "/", "", OP(get_attr));
	assert_int_equal(commit(f, READER, &d), RC_INVAL);
	d = draft();
	for (int i = 0; i <= LIMIT_TRANSACTION; i++)
		put_set(&d, "/a", "x");
	assert_int_equal(commit(f, READER, &d), RC_FULL);
}

/* The first row from there on that a refusal must leave as it is. */
static bool
next_kept(const struct row_store *s, size_t *at)
{
	while (*at < s->rows.n &&
	       (s->rows.rows[*at].table == ROWS_meta || s->rows.rows[*at].table == ROWS_changes))
		++*at;
	return *at < s->rows.n;
}

/* Whatever a transaction has done before it was refused, all rows are as they were, but the
 * counters in `meta`, and the history, which is trimmed. */
static void
assert_nothing_done(const struct row_store *before, struct tree *t)
{
	struct row_store after;
	size_t a = 0, b = 0;

	row_store_copy(&after, before);
	row_store_save(&after, t);
	while (next_kept(&after, &a) && next_kept(before, &b))
		assert_int_equal(row_checksum(&after.rows.rows[a++]),
		                 row_checksum(&before->rows.rows[b++]));
	assert_false(next_kept(&after, &a) || next_kept(before, &b));
	row_store_free(&after);
}

/* Numbers of transactions that did more than one operation, and that were refused at a later one.
 */
static void
one_run(uint64_t seed, unsigned *done, unsigned *refused)
{
	struct rng rng = rng_seeded(seed);
	struct fixture *f = fixture_new();
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	struct row_store before = {0};
	struct op op;

	for (int i = 0; i < ROUNDS; i++) {
		buffer_reset(&payload);
		random_entry(&rng, f->tree, &payload);
		tree_apply(f->tree, tree_applied(f->tree) + 1, (struct ballot){1, 1},
		           buffer_view(&payload), &f->out);
		row_store_save(&before, f->tree);
		op = random_transaction(&rng, f->tree);
		if (run(f, random_session(&rng, f->tree), &op) != RC_OK)
			continue;
		*done += f->answer.transaction.done.count > 1;
		if (f->answer.transaction.part != PART_NONE)
			continue;
		*refused += f->answer.transaction.failed > 1;
		assert_int_equal(f->out.notes_n, 0);
		assert_nothing_done(&before, f->tree);
	}
	buffer_free(&payload);
	row_store_free(&before);
	fixture_free(f);
}

TEST(test_refusals_at_random)
{
	unsigned done = 0, refused = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		one_run(seed, &done, &refused);
	assert_in_range(done, 300, SEEDS * ROUNDS);
	assert_in_range(refused, 300, SEEDS * ROUNDS);
}
