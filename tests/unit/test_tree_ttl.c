/* Files with a time to live: what renews them, and which command ends them. */
#include "tests/unit/tree_fixture.h"

enum { A = READER }; /* the session that the fixture has made */

static enum rc
set_ttl(struct fixture *f, uint64_t node, uint32_t seconds)
{
	return run(f, A, OP(set_ttl, .node = node, .seconds = seconds));
}

static enum rc
expire(struct fixture *f, uint64_t session, const struct tree_note *ttl)
{
	return run(f, session,
	           OP(expire, .node = ttl->node, .generation = ttl->generation,
	              .began = ttl->index));
}

static uint64_t
mortal(struct fixture *f, const char *name)
{
	uint64_t file = new_file(f, NODE_ROOT, name);

	assert_int_equal(set_ttl(f, file, 30), RC_OK);
	assert_int_equal(f->answer.attr.attr.ttl_s, 30);
	return file;
}

/* The command renewed the file: its time to live began with it. */
static struct tree_note
renewed(struct fixture *f, uint64_t file)
{
	const struct tree_note *n = noted(f, TREE_TTL_BEGAN);
	struct tree_note stored;

	assert_non_null(n);
	assert_int_equal(n->node, file);
	assert_int_equal(n->index, tree_applied(f->tree));
	assert_int_equal(n->generation, tree_content_generation(f->tree, file));
	assert_int_equal(n->seconds, 30);
	assert_true(tree_ttl_after(f->tree, file - 1, &stored));
	assert_int_equal(stored.index, n->index);
	return stored;
}

TREE_TEST(test_which_nodes_have_one)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	struct tree_note ttl;

	assert_int_equal(set_ttl(f, NODE_ROOT, 1), RC_ISDIR);
	assert_int_equal(set_ttl(f, 999, 1), RC_STALE);
	assert_int_equal(set_ttl(f, NODE_ACL + 1, 1), RC_BUSY);
	assert_int_equal(set_ttl(f, file, LIMIT_TTL_S + 1), RC_RANGE);
	assert_int_equal(set_ttl(f, file, LIMIT_TTL_S), RC_OK);
	assert_int_equal(set_ttl(f, file, 0), RC_OK);
	assert_int_equal(noted(f, TREE_TTL_BEGAN)->seconds, 0);
	assert_false(tree_ttl_after(f->tree, 0, &ttl));
	assert_int_equal(run(f, A, OP(append, .node = file, .data = bytes_of("x"))), RC_OK);
	assert_null(noted(f, TREE_TTL_BEGAN));
}

/* An ACL file would go with it, and all rights that it grants. */
TREE_TEST(test_none_is_carried_into_acl)
{
	struct fixture *f = *state;
	uint64_t file = mortal(f, "f");

	assert_int_equal(write_file(f, file, "admin\n"), RC_OK);
	assert_int_equal(rename_file(f, A, NODE_ROOT, "f", NODE_ACL, "team"), RC_BUSY);
	assert_true(exists(f, file));
	new_file(f, NODE_ACL, "team");
	assert_int_equal(rename_file(f, A, NODE_ROOT, "f", NODE_ACL, "team"), RC_OK);
	assert_int_equal(f->answer.renamed.attr.ttl_s, 0);
	file = mortal(f, "g");
	assert_int_equal(set_ttl(f, file, 0), RC_OK);
	assert_int_equal(rename_file(f, A, NODE_ROOT, "g", NODE_ACL, "other"), RC_OK);
}

TREE_TEST(test_what_renews_it)
{
	struct fixture *f = *state;
	uint64_t file = mortal(f, "f"), to;

	renewed(f, file);
	assert_int_equal(run(f, A, OP(append, .node = file, .data = bytes_of("x"))), RC_OK);
	renewed(f, file);
	assert_int_equal(run(f, A, OP(set_contents, .node = file, .contents = bytes_of("y"))),
	                 RC_OK);
	renewed(f, file);
	assert_int_equal(run(f, A, OP(set_mtime, .node = file, .now = 1)), RC_OK);
	renewed(f, file);
	new_file(f, NODE_ROOT, "other");
	assert_int_equal(run(f, A,
	                     OP(rename, .parent = NODE_ROOT, .name = bytes_of("other"),
	                        .new_parent = NODE_ROOT, .new_name = bytes_of("f"))),
	                 RC_OK);
	renewed(f, file);
	assert_int_equal(run(f, A, OP(set_lock_delay, .node = file, .seconds = 1)), RC_OK);
	assert_null(noted(f, TREE_TTL_BEGAN));
	assert_int_equal(run(f, A,
	                     OP(rename, .parent = NODE_ROOT, .name = bytes_of("f"),
	                        .new_parent = NODE_ROOT, .new_name = bytes_of("g"))),
	                 RC_OK);
	to = f->answer.renamed.attr.node;
	assert_int_equal(f->answer.renamed.attr.ttl_s, 30);
	renewed(f, to);
}

TREE_TEST(test_only_the_last_renewal_ends_it)
{
	struct fixture *f = *state;
	uint64_t s = new_session(f, "s"), file = mortal(f, "f");
	struct tree_note first = renewed(f, file), last;

	assert_int_equal(run(f, A, OP(set_mtime, .node = file, .now = 1)), RC_OK);
	last = renewed(f, file);
	assert_int_equal(expire(f, 0, &first), RC_OK);
	assert_true(exists(f, file));
	assert_int_equal(expire(f, A, &last), RC_PERM);
	assert_true(exists(f, file));
	assert_int_equal(acquire(f, s, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(expire(f, 0, &last), RC_OK);
	assert_false(exists(f, file));
	assert_int_equal(noted(f, TREE_NODE_DELETED)->node, file);
	assert_int_equal(noted(f, TREE_LOCK_GONE)->node, file);
	assert_int_equal(expire(f, 0, &last), RC_OK);
}

/* In a copy that becomes a cell, too, which has other generations. */
TREE_TEST(test_a_restored_cell_goes_on_with_it)
{
	struct fixture *f = *state;
	uint64_t file = mortal(f, "f");
	struct tree_note before = renewed(f, file), after;

	assert_int_equal(tree_restore(f->tree, 0), RC_OK);
	assert_true(tree_ttl_after(f->tree, 0, &after));
	assert_int_equal(after.index, before.index);
	assert_true(after.generation > before.generation);
	assert_int_equal(run(f, 0, OP(begin_epoch, .ballot = {1, 1})), RC_OK);
	assert_int_equal(expire(f, 0, &before), RC_OK);
	assert_true(tree_has_node(f->tree, file));
	assert_int_equal(expire(f, 0, &after), RC_OK);
	assert_false(tree_has_node(f->tree, file));
}
