/* The tree's nodes: a new cell, names, contents, rename, delete, ACL names, quota. */
#include <stdio.h>
#include "cell/base/checksum.h"
#include "tests/unit/tree_fixture.h"

static void
assert_text(struct bytes b, const char *text)
{
	assert_true(bytes_equal(b, bytes_of(text)));
}

TREE_TEST(test_first_epoch_makes_the_cell)
{
	struct fixture *f = *state;
	uint64_t acl = lookup(f, NODE_ROOT, "acl");
	struct attr root = attr_of(f, NODE_ROOT), everyone;

	assert_int_equal(root.kind, NODE_DIRECTORY);
	assert_int_equal(root.parent, 0);
	assert_text(root.acl_read, "everyone");
	assert_contents(f, lookup(f, acl, "admin"), "admin\n");
	assert_contents(f, lookup(f, acl, "everyone"), "*\n");
	everyone = attr_of(f, lookup(f, acl, "everyone"));
	assert_text(everyone.acl_read, "everyone");
	assert_text(everyone.acl_write, "admin");
	assert_text(everyone.acl_change, "admin");
	root = attr_of(f, NODE_ROOT);
	assert_text(root.acl_write, "everyone");
	assert_text(root.acl_change, "admin");
}

TEST(test_a_private_cell)
{
	struct fixture *f = fixture_empty();
	struct attr root;

	assert_int_equal(run(f, 0, OP(begin_epoch, .ballot = {1, 1}, .closed = 1)), RC_OK);
	assert_int_equal(new_session(f, "reader"), READER);
	root = attr_of(f, NODE_ROOT);
	assert_text(root.acl_read, "admin");
	assert_text(root.acl_write, "admin");
	assert_text(root.acl_change, "admin");
	fixture_free(f);
}

TEST(test_nothing_before_the_first_epoch)
{
	struct fixture *f = fixture_empty();

	assert_int_equal(run(f, 0, OP(create_session, .nonce = bytes_of("early"))), RC_OLD_EPOCH);
	assert_int_equal(run(f, READER, OP(delete, .parent = 1)), RC_NO_SESSION);
	assert_int_equal(run(f, 0, OP(begin_epoch, .ballot = {1, 1})), RC_OK);
	assert_int_equal(new_session(f, "reader"), READER);
	assert_true(exists(f, NODE_ROOT));
	fixture_free(f);
}

TREE_TEST(test_create_and_lookup)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), file = new_file(f, d, "f");
	struct attr a = attr_of(f, file);

	assert_int_equal(lookup(f, d, "f"), file);
	assert_int_equal(a.parent, d);
	assert_int_equal(a.content_generation, 1);
	assert_int_equal(a.checksum, checksum((struct bytes){0}));
	assert_int_equal(a.rights, RIGHT_READ | RIGHT_WRITE | RIGHT_CHANGE);
	assert_int_equal(a.lock_delay_s, -1);
	assert_text(a.acl_change, "admin");
	assert_int_equal(attr_of(f, d).children, 1);
	assert_int_equal(lookup(f, d, "g"), 0);
	assert_int_equal(look(f, READER, OP(lookup, .parent = file, .name = bytes_of("x"))),
	                 RC_NOTDIR);
	assert_int_equal(look(f, READER, OP(lookup, .parent = 999, .name = bytes_of("x"))),
	                 RC_STALE);
	assert_int_equal(look(f, 999, OP(get_attr, .node = d)), RC_NO_SESSION);
}

static enum rc
create_again(struct fixture *f, const char *name, enum node_kind kind)
{
	return run(f, READER,
	           OP(create, .parent = NODE_ROOT, .name = bytes_of(name), .kind = kind));
}

TREE_TEST(test_create_what_exists)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");

	new_directory(f, NODE_ROOT, "d");
	assert_int_equal(create(f, READER, NODE_ROOT, "f", NODE_FILE, false), RC_EXIST);
	assert_int_equal(create_again(f, "f", NODE_FILE), RC_OK);
	assert_int_equal(f->answer.created.fresh, 0);
	assert_int_equal(f->answer.created.attr.node, file);
	assert_int_equal(create_again(f, "d", NODE_FILE), RC_ISDIR);
	assert_int_equal(create_again(f, "f", NODE_DIRECTORY), RC_NOTDIR);
	assert_int_equal(create(f, READER, file, "x", NODE_FILE, false), RC_NOTDIR);
	assert_int_equal(create(f, READER, 999, "x", NODE_FILE, false), RC_STALE);
	assert_int_equal(create(f, READER, NODE_ROOT, "x", 3, false), RC_INVAL);
}

TREE_TEST(test_names)
{
	struct fixture *f = *state;
	static const char *const bad[] = {"", ".", "..", "a/b", "a\nb", "\x7f", "\x01"};
	char name[LIMIT_NAME + 2];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(create(f, READER, NODE_ROOT, bad[i], NODE_FILE, false), RC_INVAL);
	memset(name, 'n', sizeof name);
	name[LIMIT_NAME + 1] = 0;
	assert_int_equal(create(f, READER, NODE_ROOT, name, NODE_FILE, false), RC_NAMETOOLONG);
	name[LIMIT_NAME] = 0;
	new_file(f, NODE_ROOT, name);
	new_file(f, NODE_ROOT, "gr\xc3\xbc\xc3\x9f dich: \xff");
	assert_int_equal(create(f, READER, NODE_ROOT, ".cell", NODE_FILE, false), RC_PERM);
	new_file(f, new_directory(f, NODE_ROOT, "d"), ".cell");
	new_file(f, NODE_ROOT, "x");
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "x", NODE_ROOT, ".cell"), RC_PERM);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "x", NODE_ROOT, "a/b"), RC_INVAL);
}

TREE_TEST(test_longest_path)
{
	struct fixture *f = *state;
	uint64_t d = NODE_ROOT;
	char name[LIMIT_NAME + 1] = {0};

	memset(name, 'n', LIMIT_NAME);
	for (int i = 0; i < 3; i++)
		d = new_directory(f, d, name); /* 3 * 256 bytes */
	name[LIMIT_NAME - 1] = 0;
	d = new_directory(f, d, name); /* 1023 bytes */
	assert_int_equal(create(f, READER, d, "x", NODE_FILE, false), RC_NAMETOOLONG);
	new_file(f, NODE_ROOT, "y");
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "y", d, "x"), RC_NAMETOOLONG);
	name[LIMIT_NAME - 1] = 'n';
	new_file(f, attr_of(f, d).parent, name); /* 1024 bytes */
}

TREE_TEST(test_listing_is_sorted_bytewise)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d");
	static const char *const sorted[] = {"B", "a", "a ", "ab", "b", "\xff"};
	static const int order[] = {4, 0, 5, 2, 1, 3};
	struct cursor from;
	struct child child;

	for (int i = 0; i < 6; i++)
		new_file(f, d, sorted[order[i]]);
	assert_int_equal(look(f, READER, OP(get_listing, .node = d)), RC_OK);
	assert_int_equal(f->answer.listing.attr.children, 6);
	assert_int_equal(f->answer.listing.entries.count, 6);
	from = cursor_of(f->answer.listing.entries.packed);
	for (int i = 0; i < 6; i++) {
		assert_true(wire_next_child(&from, &child));
		assert_text(child.name, sorted[i]);
		assert_int_equal(child.kind, NODE_FILE);
	}
	assert_int_equal(look(f, READER, OP(get_listing, .node = child.node)), RC_NOTDIR);
}

/* Reads the next page, as long as there is one, and appends its names, each after a blank. */
static bool
page(struct fixture *f, struct op *op, struct buffer *names)
{
	static char last[LIMIT_NAME];
	struct cursor from;
	struct child child;

	assert_int_equal(look(f, READER, op), RC_OK);
	from = cursor_of(f->answer.listing.entries.packed);
	while (wire_next_child(&from, &child)) {
		buffer_printf(names, " %.*s", (int)child.name.len, (const char *)child.name.data);
		memcpy(last, child.name.data, child.name.len);
		op->get_listing.after = (struct bytes){(const uint8_t *)last, child.name.len};
	}
	op->get_listing.index = f->answer.listing.index;
	op->get_listing.next_node = f->answer.listing.next_node;
	return f->answer.listing.more;
}

/* What comes and goes between two pages changes nothing in the listing, whatever it is. */
TREE_TEST(test_listing_in_pages_is_a_snapshot)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d");
	struct op op = {.code = OP_get_listing, .get_listing = {.node = d, .most = 1}};
	struct buffer names = BUFFER(1024);

	for (char name[] = "b"; *name <= 'g'; ++*name)
		new_file(f, d, name);
	assert_true(page(f, &op, &names)); /* b */
	assert_int_equal(delete_name(f, d, "b", NODE_FILE), RC_OK);
	assert_int_equal(delete_name(f, d, "c", NODE_FILE), RC_OK);
	new_file(f, d, "a");
	new_file(f, d, "c"); /* another one */
	new_file(f, d, "cc");
	assert_int_equal(delete_name(f, d, "cc", NODE_FILE), RC_OK);
	assert_true(page(f, &op, &names)); /* c */
	assert_int_equal(delete_name(f, d, "c", NODE_FILE), RC_OK);
	assert_int_equal(rename_file(f, READER, d, "d", d, "h"), RC_OK);
	assert_int_equal(rename_file(f, READER, d, "e", d, "f"), RC_OK);
	while (page(f, &op, &names))
		;
	buffer_put_u8(&names, 0);
	assert_string_equal((char *)names.data, " b c d e f g");
	buffer_free(&names);
}

/* A page of long ago can't be gone on with. */
TREE_TEST(test_listing_of_long_ago)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), e = new_directory(f, NODE_ROOT, "e");
	struct op op = {.code = OP_get_listing, .get_listing = {.node = d, .most = 1}};
	struct buffer names = BUFFER(1024);

	new_file(f, d, "a");
	new_file(f, d, "b");
	assert_true(page(f, &op, &names));
	for (int i = 0; i < LIMIT_REMOVED - 1; i++) {
		new_file(f, e, "x");
		assert_int_equal(delete_name(f, e, "x", NODE_FILE), RC_OK);
	}
	assert_false(page(f, &op, &names));
	assert_int_equal(delete_name(f, d, "b", NODE_FILE), RC_OK);
	assert_int_equal(look(f, READER, &op), RC_OK);
	new_file(f, e, "x");
	assert_int_equal(delete_name(f, e, "x", NODE_FILE), RC_OK);
	assert_int_equal(look(f, READER, &op), RC_CANCELED);
	op.get_listing.index = tree_applied(f->tree) + 1;
	assert_int_equal(look(f, READER, &op), RC_CANCELED);
	buffer_free(&names);
}

TREE_TEST(test_contents)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	struct attr a;

	assert_int_equal(write_file(f, file, "hello"), RC_OK);
	assert_int_equal(noted(f, TREE_NODE_CHANGED)->node, file);
	a = f->answer.attr.attr;
	assert_int_equal(a.content_generation, 2);
	assert_int_equal(a.size, 5);
	assert_int_equal(a.checksum, checksum(bytes_of("hello")));
	assert_contents(f, file, "hello");
	assert_int_equal(append_file(f, file, " world"), RC_OK);
	assert_int_equal(f->answer.attr.attr.content_generation, 3);
	assert_contents(f, file, "hello world");
	assert_int_equal(append_file(f, file, ""), RC_OK);
	assert_int_equal(f->answer.attr.attr.content_generation, 4);
	assert_int_equal(write_file(f, file, ""), RC_OK);
	assert_contents(f, file, "");
	assert_int_equal(write_file(f, NODE_ROOT, "x"), RC_ISDIR);
	assert_int_equal(append_file(f, NODE_ROOT, "x"), RC_ISDIR);
	assert_int_equal(look(f, READER, OP(get_contents, .node = NODE_ROOT)), RC_ISDIR);
	assert_int_equal(write_file(f, 999, "x"), RC_STALE);
}

/* What the asker has is not sent again. */
TREE_TEST(test_contents_that_are_known)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");

	assert_int_equal(look(f, READER, OP(get_contents, .node = file, .generation = 1)), RC_OK);
	assert_int_equal(f->answer.contents.same, 1); /* empty, too */
	assert_int_equal(write_file(f, file, "hello"), RC_OK);
	for (uint64_t known = 0; known < 4; known++) {
		assert_int_equal(look(f, READER,
		                      OP(get_contents, .node = file, .generation = known)),
		                 RC_OK);
		assert_int_equal(f->answer.contents.attr.content_generation, 2);
		assert_int_equal(f->answer.contents.attr.size, 5);
		assert_int_equal(f->answer.contents.same, known == 2);
		assert_int_equal(f->answer.contents.contents.len, known == 2 ? 0 : 5);
	}
}

TREE_TEST(test_append_up_to_the_limit)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	struct bytes all = {calloc(LIMIT_CONTENTS, 1), LIMIT_CONTENTS - 1};

	assert_int_equal(run(f, READER, OP(set_contents, .node = file, .contents = all)), RC_OK);
	assert_int_equal(append_file(f, file, "ab"), RC_FBIG);
	assert_int_equal(append_file(f, file, "a"), RC_OK);
	assert_int_equal(f->answer.attr.attr.size, LIMIT_CONTENTS);
	assert_int_equal(append_file(f, file, "b"), RC_FBIG);
	free((void *)all.data);
}

TREE_TEST(test_mtime_always_grows_with_contents)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	int64_t before;

	f->stamp_ns = 1000 * (int64_t)SECOND_NS;
	assert_int_equal(write_file(f, file, "x"), RC_OK);
	before = f->answer.attr.attr.mtime_ns;
	assert_int_equal(before, 1000 * (int64_t)SECOND_NS);
	f->stamp_ns = 10;
	assert_int_equal(write_file(f, file, "y"), RC_OK);
	assert_int_equal(f->answer.attr.attr.mtime_ns, before + 1);
	assert_int_equal(append_file(f, file, "z"), RC_OK);
	assert_int_equal(f->answer.attr.attr.mtime_ns, before + 2);
}

/* `touch -d 2100-01-01` holds for the contents that are there, not for all to come. */
TREE_TEST(test_mtime_set_ahead_ends_with_the_contents)
{
	static const int64_t ahead[] = {200000 * (int64_t)SECOND_NS, INT64_MAX - 1, INT64_MAX};
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");

	for (size_t n = 0; n < sizeof ahead / sizeof ahead[0]; n++) {
		f->stamp_ns = (1000 + (int64_t)n) * (int64_t)SECOND_NS;
		assert_int_equal(run(f, READER, OP(set_mtime, .node = file, .mtime_ns = ahead[n])),
		                 RC_OK);
		assert_true(f->answer.attr.attr.mtime_ns == ahead[n]);
		assert_int_equal(append_file(f, file, "z"), RC_OK);
		assert_in_range(f->answer.attr.attr.mtime_ns, 1000ll * SECOND_NS,
		                2000ll * SECOND_NS);
	}
	f->stamp_ns = INT64_MIN;
	assert_int_equal(run(f, READER, OP(set_mtime, .node = file, .mtime_ns = INT64_MAX)), RC_OK);
	assert_int_equal(write_file(f, file, "z"), RC_OK);
	assert_true(f->answer.attr.attr.mtime_ns < 0);
}

TREE_TEST(test_set_mtime)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f");
	int64_t root = attr_of(f, NODE_ROOT).mtime_ns;

	assert_int_equal(run(f, READER, OP(set_mtime, .node = file, .mtime_ns = -5)), RC_OK);
	assert_int_equal(f->answer.attr.attr.mtime_ns, -5);
	assert_int_equal(f->answer.attr.attr.content_generation, 1);
	f->stamp_ns = 4711;
	assert_int_equal(run(f, READER, OP(set_mtime, .node = file, .now = 1)), RC_OK);
	assert_int_equal(f->answer.attr.attr.mtime_ns, 4711);
	assert_int_equal(run(f, READER, OP(set_mtime, .node = NODE_ROOT, .now = 1)), RC_OK);
	assert_int_equal(f->answer.attr.attr.mtime_ns, root);
	new_file(f, NODE_ROOT, "g");
	assert_int_equal(attr_of(f, NODE_ROOT).mtime_ns, root);
	assert_int_equal(run(f, READER, OP(set_mtime, .node = 999)), RC_STALE);
}

/* Of a change that leaves size and mtime as they were, the change time tells. */
TREE_TEST(test_each_change_has_a_change_time)
{
	struct fixture *f = *state;
	uint64_t file = new_file(f, NODE_ROOT, "f"), d = new_directory(f, NODE_ROOT, "d"), other;
	int64_t last = 1000 * (int64_t)SECOND_NS;
	struct op *const changes[] = {
	    OP(set_contents, .node = file, .contents = bytes_of("x")),
	    OP(append, .node = file, .data = bytes_of("y")),
	    OP(set_mtime, .node = file, .mtime_ns = 5),
	    OP(set_mtime, .node = file, .mtime_ns = INT64_MAX),
	    OP(set_acl, .node = file, .which = ACL_WRITE, .name = bytes_of("admin")),
	    OP(set_lock_delay, .node = file, .seconds = 3),
	    OP(make_ephemeral, .node = file),
	};

	f->stamp_ns = last;
	assert_int_equal(run(f, READER, OP(set_contents, .node = file)), RC_OK);
	assert_true(f->answer.attr.attr.ctime_ns == last);
	f->stamp_ns = 0; /* another master's clock */
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
		assert_int_equal(run(f, READER, changes[i]), RC_OK);
		assert_true(f->answer.attr.attr.ctime_ns == ++last);
	}
	assert_int_equal(acquire(f, READER, 1, 1, file, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(release(f, READER, 1, 1, file), RC_OK);
	assert_true(attr_of(f, file).ctime_ns == last); /* locks are no attributes */
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "f", d, "g"), RC_OK);
	assert_true(f->answer.renamed.attr.ctime_ns == ++last);
	other = new_file(f, NODE_ROOT, "other");
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "other", d, "g"), RC_OK);
	assert_true(f->answer.renamed.attr.ctime_ns == ++last);
	assert_int_not_equal(f->answer.renamed.attr.node, other);
}

TREE_TEST(test_the_change_time_of_a_directory)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d");
	int64_t born = attr_of(f, d).ctime_ns;

	new_file(f, d, "f");
	assert_int_equal(run(f, READER, OP(set_mtime, .node = d, .mtime_ns = 5)), RC_OK);
	assert_true(f->answer.attr.attr.ctime_ns == born);
	assert_int_equal(run(f, READER, OP(set_lock_delay, .node = d, .seconds = 3)), RC_OK);
	assert_true(f->answer.attr.attr.ctime_ns > born);
}

TREE_TEST(test_rename_to_a_new_name)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), source = new_file(f, NODE_ROOT, "a"), target;

	assert_int_equal(write_file(f, source, "text"), RC_OK);
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = source, .which = ACL_WRITE,
	                        .name = bytes_of("admin"))),
	                 RC_OK);
	assert_int_equal(run(f, READER, OP(set_mtime, .node = source, .mtime_ns = 99)), RC_OK);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "a", d, "b"), RC_OK);
	assert_int_equal(f->answer.renamed.source, source);
	target = f->answer.renamed.attr.node;
	assert_true(target > source);
	assert_text(f->answer.renamed.attr.acl_write, "admin");
	assert_int_equal(f->answer.renamed.attr.mtime_ns, 99);
	assert_int_equal(noted(f, TREE_NODE_CREATED)->node, target);
	assert_int_equal(noted(f, TREE_NODE_DELETED)->node, source);
	assert_int_equal(noted(f, TREE_LOCK_GONE)->node, source);
	assert_int_equal(lookup(f, NODE_ROOT, "a"), 0);
	assert_int_equal(lookup(f, d, "b"), target);
	assert_contents(f, target, "text");
	assert_false(exists(f, source));
}

TREE_TEST(test_rename_keeps_the_targets_identity)
{
	struct fixture *f = *state;
	uint64_t source = new_file(f, NODE_ROOT, "new"), target = new_file(f, NODE_ROOT, "old");
	struct attr a;

	write_file(f, source, "new text");
	write_file(f, target, "old text");
	assert_int_equal(acquire(f, READER, 1, 1, target, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(run(f, READER, OP(set_mtime, .node = source, .mtime_ns = 5)), RC_OK);
	a = attr_of(f, target);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "new", NODE_ROOT, "old"), RC_OK);
	assert_int_equal(f->answer.renamed.attr.node, target);
	assert_int_equal(f->answer.renamed.source, source);
	assert_int_equal(f->answer.renamed.attr.content_generation, a.content_generation + 1);
	assert_int_equal(f->answer.renamed.attr.mtime_ns, 5); /* rsync -t, mv */
	assert_contents(f, target, "new text");
	assert_int_equal(lock_of_node(f, target).state, LOCK_STATE_EXCLUSIVE);
	assert_int_equal(lookup(f, NODE_ROOT, "new"), 0);

	source = new_file(f, NODE_ROOT, "new");
	assert_int_equal(run(f, READER, OP(set_mtime, .node = source, .mtime_ns = 5)), RC_OK);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "new", NODE_ROOT, "old"), RC_OK);
	assert_int_equal(f->answer.renamed.attr.mtime_ns, 6); /* other contents, another time */
}

TREE_TEST(test_rename_refusals)
{
	struct fixture *f = *state;
	uint64_t a = new_file(f, NODE_ROOT, "a"), b = new_file(f, NODE_ROOT, "b");

	new_directory(f, NODE_ROOT, "d");
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "d", NODE_ROOT, "e"), RC_XDEV);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "a", NODE_ROOT, "d"), RC_ISDIR);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "no", NODE_ROOT, "e"), RC_NOENT);
	assert_int_equal(rename_file(f, READER, a, "x", NODE_ROOT, "e"), RC_NOTDIR);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "a", b, "e"), RC_NOTDIR);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "a", 999, "e"), RC_STALE);
	assert_int_equal(rename_file(f, READER, NODE_ROOT, "a", NODE_ROOT, "a"), RC_OK);
	assert_int_equal(f->answer.renamed.source, 0);
	assert_int_equal(f->out.notes_n, 0);
	assert_int_equal(run(f, READER,
	                     OP(rename, .parent = NODE_ROOT, .name = bytes_of("a"),
	                        .new_parent = NODE_ROOT, .new_name = bytes_of("b"),
	                        .no_replace = 1)),
	                 RC_EXIST);
	assert_true(exists(f, a) && exists(f, b));
}

TREE_TEST(test_delete)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), file = new_file(f, d, "f");

	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_DIRECTORY), RC_NOTEMPTY);
	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_FILE), RC_ISDIR);
	assert_int_equal(delete_name(f, d, "f", NODE_DIRECTORY), RC_NOTDIR);
	assert_int_equal(delete_name(f, d, "g", NODE_FILE), RC_NOENT);
	assert_int_equal(delete_name(f, file, "g", NODE_FILE), RC_NOTDIR);
	assert_int_equal(delete_name(f, 999, "g", NODE_FILE), RC_STALE);
	assert_int_equal(delete_name(f, NODE_ROOT, "acl", NODE_DIRECTORY), RC_BUSY);
	assert_int_equal(delete_name(f, d, "f", NODE_FILE), RC_OK);
	assert_int_equal(f->answer.deleted.node, file);
	assert_int_equal(noted(f, TREE_NODE_DELETED)->parent, d);
	assert_int_equal(delete_name(f, NODE_ROOT, "d", NODE_DIRECTORY), RC_OK);
	assert_int_equal(delete_name(f, d, "f", NODE_FILE), RC_STALE);
}

TREE_TEST(test_instance_numbers_are_never_reused)
{
	struct fixture *f = *state;
	uint64_t first = new_file(f, NODE_ROOT, "f"), session;

	assert_int_equal(delete_name(f, NODE_ROOT, "f", NODE_FILE), RC_OK);
	session = new_session(f, "s");
	assert_true(session > first);
	assert_true(new_file(f, NODE_ROOT, "f") > session);
}

TREE_TEST(test_acl_names)
{
	struct fixture *f = *state;
	uint64_t acl = lookup(f, NODE_ROOT, "acl"), d = new_directory(f, NODE_ROOT, "d");

	new_file(f, acl, "team");
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = d, .which = ACL_READ, .name = bytes_of("team"))),
	                 RC_OK);
	assert_text(f->answer.attr.attr.acl_read, "team");
	assert_int_equal(f->answer.attr.attr.acl_generation, 2);
	assert_int_equal(f->answer.attr.attr.content_generation, 0);
	assert_text(attr_of(f, new_file(f, d, "f")).acl_read, "team");
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = d, .which = ACL_READ, .name = bytes_of("nobody"))),
	                 RC_NOENT);
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = d, .which = ACL_NAMES, .name = bytes_of("team"))),
	                 RC_INVAL);
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = d, .which = ACL_READ, .name = bytes_of("a/b"))),
	                 RC_INVAL);
	assert_int_equal(run(f, READER,
	                     OP(set_acl, .node = 999, .which = ACL_READ, .name = bytes_of("team"))),
	                 RC_STALE);
}

TREE_TEST(test_path_and_sequencer)
{
	struct fixture *f = *state;
	uint64_t d = new_directory(f, NODE_ROOT, "d"), file = new_file(f, d, "f:1");
	struct buffer path = BUFFER(LIMIT_PATH);
	char expected[100];

	assert_true(tree_path(f->tree, file, &path));
	assert_text(buffer_view(&path), "/d/f:1");
	buffer_reset(&path);
	assert_true(tree_path(f->tree, NODE_ROOT, &path));
	assert_text(buffer_view(&path), "/");
	assert_false(tree_path(f->tree, 999, &path));
	buffer_free(&path);

	assert_int_equal(look(f, READER, OP(get_sequencer, .node = file)), RC_NODATA);
	assert_int_equal(acquire(f, READER, 1, 1, file, LOCK_SHARED), RC_OK);
	assert_int_equal(look(f, READER, OP(get_sequencer, .node = file)), RC_OK);
	assert_int_equal(f->answer.sequencer.fence, tree_applied(f->tree));
	snprintf(expected, sizeof expected, "/ls/local/d/f:1:1:shared:%llu:%llu",
	         (unsigned long long)file, (unsigned long long)tree_applied(f->tree));
	assert_text(f->answer.sequencer.sequencer, expected);
	assert_int_equal(look(f, new_session(f, "other"), OP(get_sequencer, .node = file)),
	                 RC_NODATA);
}

TREE_TEST(test_usage)
{
	struct fixture *f = *state;
	struct result_usage before;
	uint64_t file;

	assert_int_equal(look(f, READER, OP(get_usage)), RC_OK);
	before = f->answer.usage;
	assert_int_equal(before.nodes, 4);
	assert_int_equal(before.quota_nodes, tree_setting(f->tree, SETTING_quota_nodes));
	assert_int_equal(before.sessions, 1);
	file = new_file(f, NODE_ROOT, "f");
	write_file(f, file, "12345");
	acquire(f, READER, 1, 1, file, LOCK_EXCLUSIVE);
	assert_int_equal(look(f, READER, OP(get_usage)), RC_OK);
	assert_int_equal(f->answer.usage.nodes, 5);
	assert_int_equal(f->answer.usage.bytes, before.bytes + 256 + 5);
	assert_int_equal(f->answer.usage.locks_held, 1);
	assert_int_equal(f->answer.usage.applied, tree_applied(f->tree));
}

TREE_TEST(test_bad_payloads_change_only_the_index)
{
	struct fixture *f = *state;
	uint64_t index = tree_applied(f->tree), digest = tree_digest(f->tree);
	struct ballot origin = {7, 1};

	assert_int_equal(tree_apply(f->tree, index + 1, origin, bytes_of("rubbish"), &f->out),
	                 RC_BAD_MESSAGE);
	assert_int_equal(f->out.answers_n + f->out.notes_n, 0);
	assert_int_equal(tree_applied(f->tree), index + 1);
	assert_int_not_equal(tree_digest(f->tree), digest);
	assert_int_equal(tree_origin(f->tree).round, 7);
	assert_int_equal(tree_apply(f->tree, index + 2, origin, (struct bytes){0}, &f->out), RC_OK);
	assert_int_equal(f->out.answers_n + f->out.notes_n, 0);
	assert_null(tree_check(f->tree));
}

TREE_TEST(test_an_entry_with_one_bad_command_is_refused_whole)
{
	struct fixture *f = *state;
	struct command good = {.session = READER},
	               bad = {.session = READER, .op = bytes_of("\xff")};

	entry_add(f, &good,
	          OP(create, .parent = NODE_ROOT, .name = bytes_of("f"), .kind = NODE_FILE));
	wire_put_command(&f->packed, &bad);
	f->packed_n++;
	assert_int_equal(entry_apply(f), RC_BAD_MESSAGE);
	assert_int_equal(lookup(f, NODE_ROOT, "f"), 0);
}

TREE_TEST(test_commands_of_an_entry_see_each_other)
{
	struct fixture *f = *state;
	struct command c = {.session = READER};

	for (int i = 0; i < 3; i++)
		entry_add(f, &c,
		          OP(create, .parent = NODE_ROOT, .name = bytes_of("f"), .kind = NODE_FILE,
		             .exclusive = i == 2));
	assert_int_equal(entry_apply(f), RC_OK);
	assert_int_equal(f->out.answers_n, 3);
	assert_int_equal(wire_get_result(RESULT_created, f->out.answers[0].result, &f->answer),
	                 RC_OK);
	assert_int_equal(f->answer.created.fresh, 1);
	assert_int_equal(wire_get_result(RESULT_created, f->out.answers[1].result, &f->answer),
	                 RC_OK);
	assert_int_equal(f->answer.created.fresh, 0);
	assert_int_equal(f->out.answers[2].rc, RC_EXIST);
}

TREE_TEST(test_who_may_ask_what)
{
	struct fixture *f = *state;

	assert_int_equal(run(f, READER, OP(begin_epoch, .ballot = {9, 9})), RC_PERM);
	assert_int_equal(tree_epoch(f->tree), 1);
	assert_int_equal(run(f, READER, OP(get_attr, .node = 1)), RC_INVAL);
	assert_int_equal(run(f, 0, OP(get_attr, .node = 1)), RC_INVAL);
	assert_int_equal(run(f, 999, OP(delete, .parent = 1)), RC_NO_SESSION);
	assert_int_equal(look(f, READER, OP(delete, .parent = 1)), RC_INVAL);
}
