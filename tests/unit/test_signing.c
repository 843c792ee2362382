/* The public signing keys in force, and the rows that keep them. */
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"

#define FIRST "the first key with its 32 letters"
#define SECOND "another key: it has 32 letters!!"
#define THIRD "the third of them, of 32 letters"

static struct bytes
key(const char *text)
{
	return (struct bytes){(const uint8_t *)text, 32};
}

static enum rc
rotate(struct fixture *f, const char *to, const char *from)
{
	return run(f, 0, OP(rotate_key, .key = key(to), .former = key(from)));
}

static void
assert_keys(const struct tree *t, const char *newest, const char *former)
{
	const struct bytes keys = tree_signing_keys(t);

	assert_int_equal(keys.len, 64);
	assert_memory_equal(keys.data, newest, 32);
	assert_memory_equal(keys.data + 32, former, 32);
}

TREE_TEST(test_rotations)
{
	struct fixture *f = *state;

	assert_int_equal(tree_signing_keys(f->tree).len, 0);
	assert_int_equal(tree_signing_since(f->tree), 0);
	assert_int_equal(rotate(f, SECOND, FIRST), RC_OK);
	assert_keys(f->tree, SECOND, FIRST);
	assert_int_equal(tree_signing_since(f->tree), tree_applied(f->tree));
	assert_int_equal(rotate(f, SECOND, FIRST), RC_OK); /* again */
	assert_int_equal(tree_signing_since(f->tree), tree_applied(f->tree) - 1);
	assert_int_equal(rotate(f, THIRD, SECOND), RC_OK);
	assert_keys(f->tree, THIRD, SECOND);
}

/* Of two that begin with the same key only one happens. */
TREE_TEST(test_refused)
{
	struct fixture *f = *state;

	assert_int_equal(rotate(f, FIRST, FIRST), RC_INVAL);
	assert_int_equal(run(f, 0,
	                     OP(rotate_key, .key = {(const uint8_t *)SECOND, 31},
	                        .former = key(FIRST))),
	                 RC_INVAL);
	assert_int_equal(run(f, 0, OP(rotate_key, .key = key(SECOND))), RC_INVAL);
	assert_int_equal(tree_signing_since(f->tree), 0);
	assert_int_equal(rotate(f, SECOND, FIRST), RC_OK);
	assert_int_equal(rotate(f, THIRD, FIRST), RC_CANCELED);
	assert_keys(f->tree, SECOND, FIRST);
}

static enum rc
replace_lost(struct fixture *f, const char *to, const char *former, const char *lost)
{
	return run(f, 0, OP(rotate_key, .key = key(to), .former = key(former), .lost = key(lost)));
}

/* The newest key goes out of force, and the one before it stays. */
TREE_TEST(test_the_newest_is_lost)
{
	struct fixture *f = *state;

	assert_int_equal(replace_lost(f, THIRD, FIRST, SECOND), RC_CANCELED); /* none in force */
	assert_int_equal(rotate(f, SECOND, FIRST), RC_OK);
	assert_int_equal(replace_lost(f, THIRD, SECOND, SECOND), RC_CANCELED);
	assert_int_equal(replace_lost(f, THIRD, FIRST, FIRST), RC_CANCELED);
	assert_int_equal(replace_lost(f, FIRST, FIRST, SECOND), RC_INVAL);
	assert_int_equal(run(f, 0,
	                     OP(rotate_key, .key = key(THIRD), .former = key(FIRST),
	                        .lost = {(const uint8_t *)SECOND, 31})),
	                 RC_CANCELED);
	assert_keys(f->tree, SECOND, FIRST);
	assert_int_equal(replace_lost(f, THIRD, FIRST, SECOND), RC_OK);
	assert_keys(f->tree, THIRD, FIRST);
	assert_int_equal(replace_lost(f, SECOND, FIRST, SECOND), RC_CANCELED);
	assert_int_equal(rotate(f, SECOND, THIRD), RC_OK);
}

TREE_TEST(test_no_session_rotates)
{
	struct fixture *f = *state;

	assert_int_equal(run(f, READER, OP(rotate_key, .key = key(SECOND), .former = key(FIRST))),
	                 RC_PERM);
	assert_int_equal(tree_signing_since(f->tree), 0);
}

TREE_TEST(test_stored_and_loaded)
{
	struct fixture *f = *state;
	struct row_store store = {0};
	struct tree *loaded;
	char why[512];

	row_store_save(&store, f->tree);
	loaded = row_store_load(&store, why, sizeof why);
	assert_int_equal(tree_signing_keys(loaded).len, 0);
	tree_free(loaded);
	assert_int_equal(rotate(f, SECOND, FIRST), RC_OK);
	row_store_save(&store, f->tree);
	loaded = row_store_load(&store, why, sizeof why);
	assert_keys(loaded, SECOND, FIRST);
	assert_int_equal(tree_signing_since(loaded), tree_signing_since(f->tree));
	tree_free(loaded);
	row_store_free(&store);
}

/* It has a key of its own, which is in its cell file. */
TREE_TEST(test_a_restored_cell_has_none)
{
	struct fixture *f = *state;

	assert_int_equal(rotate(f, SECOND, FIRST), RC_OK);
	assert_int_equal(run(f, 0, OP(restore, .jump = 1000)), RC_OK);
	assert_int_equal(tree_signing_keys(f->tree).len, 0);
	assert_int_equal(rotate(f, SECOND, THIRD), RC_OK);
	assert_keys(f->tree, SECOND, THIRD);
}
