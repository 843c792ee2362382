/* Budgets of directories: what counts against them, what they refuse, and who sets them. The quota
 * of the cell is in test_rows.c. */
#include "tests/unit/row_store.h"
#include "tests/unit/tree_fixture.h"

enum { NODE = 256 }; /* bytes that a node counts beyond its contents */

static enum rc
set_quota(struct fixture *f, uint64_t node, enum quota_kind which, uint64_t most)
{
	return run(f, READER, OP(set_quota, .node = node, .which = which, .most = most));
}

static struct result_usage
usage(struct fixture *f, uint64_t node)
{
	assert_int_equal(look(f, READER, OP(get_usage, .node = node)), RC_OK);
	return f->answer.usage;
}

static void
assert_below(struct fixture *f, uint64_t directory, uint64_t nodes, uint64_t bytes)
{
	const struct result_usage u = usage(f, directory);

	assert_int_equal(u.below_nodes, nodes);
	assert_int_equal(u.below_bytes, bytes);
}

TREE_TEST(test_which_nodes_have_one)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f"), d = new_directory(f, NODE_ROOT, "d");

	assert_int_equal(set_quota(f, file, QUOTA_NODES, 1), RC_NOTDIR);
	assert_int_equal(set_quota(f, 999, QUOTA_NODES, 1), RC_STALE);
	assert_int_equal(set_quota(f, d, QUOTA_KINDS, 1), RC_INVAL);
	assert_int_equal(set_quota(f, d, QUOTA_NODES, (1ull << 32) + 1), RC_RANGE);
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, (1ull << 40) + 1), RC_RANGE);
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, 1ull << 40), RC_OK);
	assert_int_equal(noted(f, TREE_NODE_CHANGED)->node, d);
	assert_int_equal(usage(f, d).budget_bytes, 1ull << 40);
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, 0), RC_OK);
	assert_int_equal(usage(f, d).budget_bytes, 0);
	assert_int_equal(look(f, READER, OP(get_usage, .node = 999)), RC_STALE);
}

TREE_TEST(test_all_that_is_below_counts)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, d, "e"), file;

	assert_int_equal(create(f, READER, e, "f", NODE_FILE, true), RC_OK);
	file = f->answer.created.attr.node;
	assert_int_equal(write_file(f, file, "12345"), RC_OK);
	assert_below(f, d, 2, 2 * NODE + 5);
	assert_below(f, e, 1, NODE + 5);
	assert_int_equal(append_file(f, file, "6"), RC_OK);
	assert_int_equal(write_file(f, file, "12"), RC_OK);
	assert_below(f, d, 2, 2 * NODE + 2);
	assert_int_equal(run(f, READER, OP(close_ephemeral, .node = file)), RC_OK);
	assert_below(f, d, 1, NODE);
	assert_below(f, e, 0, 0);
	assert_int_equal(usage(f, NODE_ROOT).below_nodes, usage(f, 0).nodes - 1);
	assert_int_equal(usage(f, NODE_ROOT).below_bytes, usage(f, 0).bytes - NODE);
}

/* Two that are equal, before and after: nothing was changed in between. */
TREE_TEST(test_the_index_of_the_last_change_below)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, d, "e"), file, before;

	before = usage(f, e).index;
	new_file(f, NODE_ROOT, "beside");
	new_file(f, d, "above");
	assert_int_equal(usage(f, e).index, before);
	file = new_file(f, e, "f");
	assert_int_equal(usage(f, e).index, tree_applied(f->tree));
	assert_int_equal(usage(f, NODE_ROOT).index, tree_applied(f->tree));
	assert_int_equal(write_file(f, file, ""), RC_OK);
	assert_int_equal(usage(f, d).index, tree_applied(f->tree));
	assert_int_equal(run(f, READER, OP(set_acl, file, ACL_READ, bytes_of("admin"))), RC_OK);
	assert_int_equal(usage(f, d).index, tree_applied(f->tree));
	assert_int_equal(run(f, READER, OP(set_lock_delay, file, 3)), RC_OK);
	assert_int_equal(usage(f, d).index, tree_applied(f->tree));
	assert_int_equal(delete_name(f, e, "f", NODE_FILE), RC_OK);
	assert_int_equal(usage(f, d).index, tree_applied(f->tree));
	assert_int_equal(usage(f, e).index, tree_applied(f->tree));
}

TREE_TEST(test_what_would_exceed_is_refused)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), file = new_file(f, d, "f");

	assert_int_equal(set_quota(f, d, QUOTA_NODES, 2), RC_OK);
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, 2 * NODE + 4), RC_OK);
	assert_int_equal(write_file(f, file, "12345"), RC_OK);
	assert_int_equal(create(f, READER, d, "g", NODE_FILE, false), RC_DQUOT);
	assert_int_equal(write_file(f, file, "1234"), RC_OK);
	new_directory(f, d, "g");
	assert_int_equal(create(f, READER, d, "h", NODE_DIRECTORY, false), RC_DQUOT);
	assert_int_equal(write_file(f, file, "12345"), RC_DQUOT);
	assert_int_equal(append_file(f, file, "5"), RC_DQUOT);
	assert_int_equal(append_file(f, file, ""), RC_OK);
	assert_contents(f, file, "1234");
	assert_below(f, d, 2, 2 * NODE + 4);
	new_file(f, NODE_ROOT, "outside");
	/* A budget below what is there: it can only shrink. */
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, 1), RC_OK);
	assert_int_equal(write_file(f, file, "4321"), RC_OK);
	assert_int_equal(write_file(f, file, "12345"), RC_DQUOT);
	assert_int_equal(delete_name(f, d, "g", NODE_DIRECTORY), RC_OK);
	assert_int_equal(create(f, READER, d, "g", NODE_FILE, false), RC_DQUOT);
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, 0), RC_OK);
	new_file(f, d, "g");
	assert_int_equal(create(f, READER, d, "h", NODE_FILE, false), RC_DQUOT);
}

TREE_TEST(test_each_budget_above_counts)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, d, "e");
	uint64_t file = new_file(f, e, "f");
	struct result_usage u;

	assert_int_equal(set_quota(f, d, QUOTA_NODES, 3), RC_OK);
	assert_int_equal(set_quota(f, e, QUOTA_NODES, 5), RC_OK);
	assert_int_equal(set_quota(f, e, QUOTA_BYTES, 10 * NODE), RC_OK);
	u = usage(f, file);
	assert_int_equal(u.directory, 0);
	assert_int_equal(u.budgets, 1u << QUOTA_NODES | 1u << QUOTA_BYTES);
	assert_int_equal(u.nodes, 2);
	assert_int_equal(u.quota_nodes, 3);
	assert_int_equal(u.bytes, NODE);
	assert_int_equal(u.quota_bytes, 10 * NODE);
	assert_int_equal(usage(f, NODE_ROOT).budgets, 0);
	new_file(f, e, "g");
	assert_int_equal(create(f, READER, e, "h", NODE_FILE, false), RC_DQUOT);
	assert_int_equal(create(f, READER, d, "h", NODE_FILE, false), RC_DQUOT);
	assert_int_equal(set_quota(f, d, QUOTA_NODES, 0), RC_OK);
	for (int i = 0; i < 3; i++)
		new_file(f, e, (const char *[]){"1", "2", "3"}[i]);
	assert_int_equal(create(f, READER, e, "4", NODE_FILE, false), RC_DQUOT);
	new_file(f, d, "4");
}

TREE_TEST(test_a_rename_takes_its_count_along)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, d, "e");
	uint64_t file = new_file(f, NODE_ROOT, "f"), small;

	assert_int_equal(write_file(f, file, "12345678"), RC_OK);
	assert_int_equal(set_quota(f, d, QUOTA_NODES, 2), RC_OK);
	assert_int_equal(set_quota(f, e, QUOTA_BYTES, NODE + 7), RC_OK);
	/* e has no room for the bytes, d has. */
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "f", e, "f"), RC_DQUOT);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "f", d, "f"), RC_OK);
	assert_below(f, d, 2, 2 * NODE + 8);
	new_file(f, NODE_ROOT, "g");
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "g", d, "g"), RC_DQUOT);
	/* Inside of d nothing changes for d, though it is full. */
	assert_int_equal(rename_file(f, READER, d, "f", d, "g"), RC_OK);
	assert_int_equal(rename_file(f, READER, d, "g", e, "g"), RC_DQUOT);
	assert_int_equal(set_quota(f, e, QUOTA_BYTES, NODE + 8), RC_OK);
	assert_int_equal(rename_file(f, READER, d, "g", e, "g"), RC_OK);
	assert_below(f, d, 2, 2 * NODE + 8);
	assert_below(f, e, 1, NODE + 8);
	/* Over a file that is there only the bytes count, and those of the former contents go. */
	small = new_file(f, NODE_ROOT, "small");
	assert_int_equal(write_file(f, small, "123456789"), RC_OK);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "small", e, "g"), RC_DQUOT);
	assert_int_equal(write_file(f, small, "1234"), RC_OK);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "small", e, "g"), RC_OK);
	assert_below(f, e, 1, NODE + 4);
	assert_int_equal(rename_file(f, READER, e, "g", NODE_ROOT, "out"), RC_OK);
	assert_below(f, d, 1, NODE);
}

TREE_TEST(test_it_is_stored_and_the_counts_come_back)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, d, "e");
	struct row_store store = {0};
	char why[100];

	assert_int_equal(set_quota(f, d, QUOTA_NODES, 2), RC_OK);
	assert_int_equal(set_quota(f, d, QUOTA_BYTES, 1000), RC_OK);
	new_file(f, e, "f");
	assert_true(tree_is_scarce(f->tree));
	row_store_save(&store, f->tree);
	tree_free(f->tree);
	f->tree = row_store_load(&store, why, sizeof why);
	assert_non_null(f->tree);
	assert_true(tree_is_scarce(f->tree));
	assert_below(f, d, 2, 2 * NODE);
	assert_int_equal(usage(f, d).budget_nodes, 2);
	assert_int_equal(usage(f, d).budget_bytes, 1000);
	assert_int_equal(create(f, READER, e, "g", NODE_FILE, false), RC_DQUOT);
	assert_int_equal(delete_name(f, e, "f", NODE_FILE), RC_OK);
	assert_int_equal(delete_name(f, d, "e", NODE_DIRECTORY), RC_OK);
	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_DIRECTORY), RC_OK);
	assert_false(tree_is_scarce(f->tree));
	row_store_free(&store);
}

/* Whoever has all rights in a directory cannot raise its budget; who may change what is above it
 * can, and operators. */
TREE_TEST(test_who_may_set_it)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, d, "e"), tenant;
	uint64_t acl = new_file(f, NODE_ACL, "tenant");

	add_principal(f, "tenant", 7);
	tenant = session_of(f, "T", "tenant");
	assert_int_equal(write_file(f, acl, "tenant\n"), RC_OK);
	assert_int_equal(run(f, READER, OP(set_acl, d, ACL_CHANGE, bytes_of("tenant"))), RC_OK);
	assert_int_equal(run(f, tenant, OP(set_quota, d, QUOTA_NODES, 9)), RC_ACCES);
	assert_int_equal(f->answer.refused.node, NODE_ROOT);
	assert_int_equal(f->answer.refused.right, RIGHT_CHANGE);
	assert_int_equal(run(f, tenant, OP(set_quota, e, QUOTA_NODES, 9)), RC_OK);
	assert_int_equal(run(f, READER, OP(set_quota, d, QUOTA_NODES, 9)), RC_OK);
	assert_int_equal(run(f, READER, OP(set_quota, e, QUOTA_NODES, 9)), RC_OK);
	assert_int_equal(run(f, tenant, OP(set_quota, NODE_ROOT, QUOTA_NODES, 9)), RC_ACCES);
	assert_int_equal(run(f, READER, OP(set_quota, NODE_ROOT, QUOTA_NODES, 0)), RC_OK);
}
