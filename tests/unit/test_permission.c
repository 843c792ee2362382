/* Access rights: what ACL files say, what each operation needs, and when it is decided. */
#include <stdio.h>
#include "cell/tree/internal.h"
#include "tests/unit/tree_fixture.h"

/* A node that only `reader`, `writer` or `changer` may use so, and one session of each. */
struct rights_bench {
	struct fixture *f;
	uint64_t acl, directory, file;
	uint64_t none, reader, writer, changer;
};

static uint64_t
new_principal(struct fixture *f, const char *principal)
{
	char nonce[LIMIT_NONCE + 1];

	snprintf(nonce, sizeof nonce, "of %s", principal);
	add_principal(f, principal, (uint8_t)principal[0]);
	return session_of(f, nonce, principal);
}

static void
new_acl(struct rights_bench *b, const char *name, const char *text)
{
	const uint64_t file = new_file(b->f, b->acl, name);

	assert_int_equal(write_file(b->f, file, text), RC_OK);
}

static void
write_acl(struct rights_bench *b, const char *name, const char *text)
{
	assert_int_equal(write_file(b->f, lookup(b->f, b->acl, name), text), RC_OK);
}

static void
set_acl(struct rights_bench *b, uint64_t node, enum acl_name which, const char *name)
{
	assert_int_equal(run(b->f, READER,
	                     OP(set_acl, .node = node, .which = (uint8_t)which,
	                        .name = bytes_of(name))),
	                 RC_OK);
}

static void
restrict_node(struct rights_bench *b, uint64_t node)
{
	set_acl(b, node, ACL_READ, "readers");
	set_acl(b, node, ACL_WRITE, "writers");
	set_acl(b, node, ACL_CHANGE, "changers");
}

static int
bench_setup(void **state)
{
	struct rights_bench *b = calloc(1, sizeof *b);
	struct fixture *f = fixture_new();

	b->f = f;
	b->acl = lookup(f, NODE_ROOT, "acl");
	new_acl(b, "readers", "reader\n");
	new_acl(b, "writers", "writer\n");
	new_acl(b, "changers", "admin\nchanger\n");
	b->directory = new_directory(f, NODE_ROOT, "d");
	restrict_node(b, b->directory);
	set_acl(b, b->directory, ACL_CHANGE, "admin");
	b->file = new_file(f, NODE_ROOT, "f");
	restrict_node(b, b->file);
	b->none = new_principal(f, "none");
	b->reader = new_principal(f, "reader");
	b->writer = new_principal(f, "writer");
	b->changer = new_principal(f, "changer");
	*state = b;
	return 0;
}

static int
bench_teardown(void **state)
{
	struct rights_bench *b = *state;

	fixture_free(b->f);
	free(b);
	return 0;
}
#define RIGHTS_TEST(test) TEST_WITH(test, bench_setup, bench_teardown)

/* ---- what each operation needs ---- */

static enum rc
try(struct rights_bench *b, uint64_t session, const struct op *op)
{
	if (wire_op(op->code)->class == OP_CLASS_READ)
		return look(b->f, session, op);
	return run(b->f, session, op);
}

/* It changes nothing, and says so before it is proposed. */
static void
assert_refused(struct rights_bench *b, uint64_t session, const struct op *op)
{
	const struct requester who = {.session = session};
	struct footprint changes = {0};

	assert_false(tree_permits(b->f->tree, &who, op));
	tree_changes(b->f->tree, &who, op, wire_op_node(op), &changes);
	assert_int_equal(changes.n, 0);
	assert_int_equal(try(b, session, op), RC_ACCES);
}

/* The operation is refused to every session but those that have one of the rights. */
static void
assert_needs(struct rights_bench *b, unsigned rights, const struct op *op)
{
	const uint64_t session[] = {b->none, b->reader, b->writer, b->changer};
	const unsigned has[] = {0, RIGHT_READ, RIGHT_WRITE, RIGHT_CHANGE};

	for (size_t i = 0; i < 4; i++)
		if (rights != 0 && (has[i] & rights) == 0)
			assert_refused(b, session[i], op);
	for (size_t i = 0; i < 4; i++) {
		const struct requester who = {.session = session[i]};

		if (rights != 0 && (has[i] & rights) == 0)
			continue;
		assert_true(tree_permits(b->f->tree, &who, op));
		assert_int_not_equal(try(b, session[i], op), RC_ACCES);
	}
}

RIGHTS_TEST(test_reads_need_read)
{
	struct rights_bench *b = *state;

	assert_needs(b, RIGHT_READ, OP(get_contents, .node = b->file));
	assert_needs(b, RIGHT_READ, OP(get_listing, .node = b->directory));
	assert_needs(b, RIGHT_WRITE, OP(get_sequencer, .node = b->file));
	assert_needs(b, 0, OP(get_attr, .node = b->file));
	assert_needs(b, 0, OP(lookup, .parent = b->directory, .name = bytes_of("x")));
	assert_needs(b, 0, OP(get_lock, .node = b->file));
	assert_needs(b, 0, OP(get_queue, .node = b->file));
	assert_needs(b, 0, OP(get_usage));
}

RIGHTS_TEST(test_writes_need_write)
{
	struct rights_bench *b = *state;

	assert_needs(b, RIGHT_WRITE, OP(set_contents, .node = b->file));
	assert_needs(b, RIGHT_WRITE, OP(append, .node = b->file));
	assert_needs(b, RIGHT_WRITE, OP(set_mtime, .node = b->file));
	assert_needs(b, RIGHT_WRITE, OP(set_lock_delay, .node = b->file, .seconds = 3));
	assert_needs(b, RIGHT_WRITE, OP(make_ephemeral, .node = b->file));
	assert_needs(b, RIGHT_READ | RIGHT_WRITE, OP(open_ephemeral, .node = b->file));
	assert_needs(b, RIGHT_CHANGE,
	             OP(set_acl, .node = b->file, .which = ACL_READ, .name = bytes_of("readers")));
	assert_needs(b, 0, OP(close_ephemeral, .node = b->file));
}

RIGHTS_TEST(test_locks_need_write)
{
	struct rights_bench *b = *state;
	struct acquire a = {.node = b->file, .owner = 1, .acquisition = 1, .mode = LOCK_SHARED};

	assert_needs(b, RIGHT_WRITE, OP(acquire, .acquire = a));
	a.mode = LOCK_EXCLUSIVE;
	a.acquisition = 2;
	assert_needs(b, RIGHT_WRITE, OP(acquire, .acquire = a));
	assert_needs(b, 0, OP(release, .node = b->file, .owner = 1, .acquisition = 2));
	assert_needs(b, 0, OP(cancel, .node = b->file, .owner = 1, .acquisition = 2));
}

/* ---- groups ---- */

static bool
may_read(struct rights_bench *b, uint64_t session)
{
	return try(b, session, OP(get_contents, .node = b->file)) == RC_OK;
}

RIGHTS_TEST(test_a_group_stands_for_its_principals)
{
	struct rights_bench *b = *state;

	write_acl(b, "readers", "@team # all of them\n");
	assert_false(may_read(b, b->none));
	new_acl(b, "team", "none\n");
	assert_true(may_read(b, b->none));
	assert_false(may_read(b, b->reader));
	write_acl(b, "team", "reader\n");
	assert_false(may_read(b, b->none));
	assert_true(may_read(b, b->reader));
}

RIGHTS_TEST(test_groups_are_nested_four_deep)
{
	struct rights_bench *b = *state;

	write_acl(b, "readers", "@1\n");
	new_acl(b, "1", "@2\n@1\n@readers\n");
	new_acl(b, "2", "@3\n@1\n");
	new_acl(b, "3", "@4\n@2\n");
	new_acl(b, "4", "none\n@5\n");
	new_acl(b, "5", "reader\n");
	assert_true(may_read(b, b->none));
	assert_false(may_read(b, b->reader));
	write_acl(b, "1", "@2\n@3\n");
	assert_true(may_read(b, b->reader));
}

/* However many files name each other, or groups that are not there, a look-up is short. */
RIGHTS_TEST(test_groups_in_circles)
{
	struct rights_bench *b = *state;
	struct buffer all = BUFFER(LIMIT_ACL);
	char name[16];

	for (int i = 0; i < 2 * LIMIT_GROUPS; i++)
		buffer_printf(&all, "@g%d\n", i);
	buffer_put_u8(&all, '\0');
	for (int i = 0; i < 2 * LIMIT_GROUPS; i++) {
		snprintf(name, sizeof name, "g%d", i);
		new_acl(b, name, (const char *)all.data);
	}
	write_acl(b, "readers", (const char *)all.data);
	assert_false(may_read(b, b->none));
	buffer_reset(&all);
	for (int i = 0; i < 17 * LIMIT_GROUPS; i++)
		buffer_printf(&all, "@a%d\n", i);
	buffer_put_bytes(&all, (struct bytes){(const uint8_t *)"@z\n", 4});
	new_acl(b, "z", "reader\n");
	write_acl(b, "readers", (const char *)all.data);
	assert_false(may_read(b, b->reader));
	buffer_free(&all);
}

/* Somebody has to be named in it himself, so that no group can lock all out. */
RIGHTS_TEST(test_the_administrators_are_no_group_alone)
{
	struct rights_bench *b = *state;
	const uint64_t admin = lookup(b->f, b->acl, "admin");

	new_acl(b, "ops", "none\n");
	assert_int_equal(write_file(b->f, admin, "@ops\n"), RC_INVAL);
	assert_int_equal(write_file(b->f, admin, "admin\n@ops\n"), RC_OK);
	assert_true(tree_is_admin(b->f->tree, bytes_of("none")));
	assert_false(tree_is_admin(b->f->tree, bytes_of("reader")));
}

/* A create needs write on the parent; if there is such a file, it is an open of that one. */
RIGHTS_TEST(test_creating_needs_write_on_the_parent)
{
	struct rights_bench *b = *state;

	assert_needs(b, RIGHT_WRITE,
	             OP(create, .parent = b->directory, .name = bytes_of("x"), .kind = NODE_FILE));
	assert_needs(b, RIGHT_READ | RIGHT_WRITE,
	             OP(create, .parent = NODE_ROOT, .name = bytes_of("f"), .kind = NODE_FILE));
	assert_int_equal(create(b->f, b->none, NODE_ROOT, "f", NODE_FILE, false), RC_EXIST);
	assert_int_equal(create(b->f, b->none, b->file, "f", NODE_FILE, false), RC_NOTDIR);
	assert_int_equal(create(b->f, b->none, 999, "f", NODE_FILE, false), RC_STALE);
}

/* Deleting needs write on the node, none on its parent. */
RIGHTS_TEST(test_deleting_needs_write_on_the_node)
{
	struct rights_bench *b = *state;
	uint64_t open_to_all;

	assert_needs(b, RIGHT_WRITE,
	             OP(delete, .parent = NODE_ROOT, .name = bytes_of("f"), .kind = NODE_FILE));
	assert_int_equal(lookup(b->f, NODE_ROOT, "f"), 0);
	assert_int_equal(create(b->f, b->writer, b->directory, "x", NODE_FILE, false), RC_OK);
	open_to_all = b->f->answer.created.attr.node;
	set_acl(b, open_to_all, ACL_WRITE, "everyone");
	assert_int_equal(run(b->f, b->none,
	                     OP(delete, .parent = b->directory, .name = bytes_of("x"),
	                        .kind = NODE_FILE)),
	                 RC_OK);
}

/* Renaming needs write on the source, and on the target or, when there is none, on its parent. */
RIGHTS_TEST(test_renaming)
{
	struct rights_bench *b = *state;
	uint64_t mine = new_file(b->f, NODE_ROOT, "mine");

	assert_int_equal(rename_file(b->f, b->none, NODE_ROOT, "f", NODE_ROOT, "g"), RC_ACCES);
	assert_int_equal(rename_file(b->f, b->none, NODE_ROOT, "mine", NODE_ROOT, "f"), RC_ACCES);
	assert_int_equal(rename_file(b->f, b->none, NODE_ROOT, "mine", b->directory, "x"),
	                 RC_ACCES);
	assert_int_equal(rename_file(b->f, b->none, NODE_ROOT, "gone", b->directory, "x"),
	                 RC_NOENT);
	assert_int_equal(rename_file(b->f, b->none, NODE_ROOT, "f", 999, "x"), RC_STALE);
	assert_int_equal(attr_of(b->f, mine).parent, NODE_ROOT);
	assert_int_equal(rename_file(b->f, b->writer, NODE_ROOT, "mine", NODE_ROOT, "f"), RC_OK);
	set_acl(b, b->directory, ACL_READ, "everyone");
	assert_int_equal(rename_file(b->f, b->writer, NODE_ROOT, "f", b->directory, "x"), RC_OK);
	/* It keeps its own names, as with mv(1). */
	assert_true(bytes_equal(b->f->answer.renamed.attr.acl_read, bytes_of("readers")));
}

/* The target shows the source's contents to those whom its own ACL names: who may not read the
 * source could read them there. */
RIGHTS_TEST(test_renaming_over_a_file_shows_it)
{
	struct rights_bench *b = *state;
	const struct op *over = OP(rename, .parent = NODE_ROOT, .name = bytes_of("f"),
	                           .new_parent = NODE_ROOT, .new_name = bytes_of("shown"));
	const uint64_t shown = new_file(b->f, NODE_ROOT, "shown");

	assert_refused(b, b->writer, over);
	write_acl(b, "readers", "writer\n");
	assert_int_equal(run(b->f, b->writer, over), RC_OK);
	assert_int_equal(b->f->answer.renamed.attr.node, shown);
}

RIGHTS_TEST(test_renaming_over_a_file_of_the_same_readers)
{
	struct rights_bench *b = *state;
	const uint64_t hidden = new_file(b->f, NODE_ROOT, "hidden");

	set_acl(b, hidden, ACL_READ, "readers");
	assert_int_equal(rename_file(b->f, b->writer, NODE_ROOT, "f", NODE_ROOT, "f"), RC_OK);
	assert_int_equal(rename_file(b->f, b->writer, NODE_ROOT, "f", NODE_ROOT, "hidden"), RC_OK);
	assert_int_equal(b->f->answer.renamed.attr.node, hidden);
	assert_int_equal(b->f->answer.renamed.attr.rights, RIGHT_WRITE);
}

/* ---- ACL files ---- */

static uint8_t
rights_of(struct rights_bench *b, const char *principal, const char *user)
{
	const struct subject who = {bytes_of(principal), bytes_of(user)};

	return acl_rights(b->f->tree, node_find(b->f->tree, b->file), &who);
}

static void
write_readers(struct rights_bench *b, const char *text)
{
	write_acl(b, "readers", text);
}

RIGHTS_TEST(test_lines_of_an_acl_file)
{
	struct rights_bench *b = *state;

	write_readers(b, "# all\n\n zoe\t# on call\r\nann/eve\nbob/*\nadam");
	assert_int_equal(rights_of(b, "zoe", ""), RIGHT_READ);
	assert_int_equal(rights_of(b, "adam", ""), RIGHT_READ);
	assert_int_equal(rights_of(b, "zoe", "eve"), 0); /* a user is not its principal */
	assert_int_equal(rights_of(b, "ann", ""), 0);
	assert_int_equal(rights_of(b, "ann", "eve"), RIGHT_READ);
	assert_int_equal(rights_of(b, "ann", "ev"), 0);
	assert_int_equal(rights_of(b, "ann", "evelyn"), 0);
	assert_int_equal(rights_of(b, "bob", ""), 0);
	assert_int_equal(rights_of(b, "bob", "eve"), RIGHT_READ);
	assert_int_equal(rights_of(b, "all", ""), 0);
	assert_int_equal(rights_of(b, "", ""), 0);
	write_readers(b, " *\n");
	assert_int_equal(rights_of(b, "carol", ""), RIGHT_READ);
	assert_int_equal(rights_of(b, "carol", "eve"), RIGHT_READ);
	assert_int_equal(rights_of(b, "", ""), 0);
	assert_int_equal(rights_of(b, "", "eve"), 0);
	write_readers(b, "");
	assert_int_equal(rights_of(b, "reader", ""), 0);
}

RIGHTS_TEST(test_an_acl_file_that_is_too_long_gives_no_right)
{
	struct rights_bench *b = *state;
	char *text = malloc(LIMIT_ACL + 2);

	memset(text, '\n', LIMIT_ACL + 1);
	text[LIMIT_ACL] = text[LIMIT_ACL + 1] = '\0';
	text[0] = '*';
	write_readers(b, text);
	assert_int_equal(rights_of(b, "carol", ""), RIGHT_READ);
	text[LIMIT_ACL] = '\n';
	write_readers(b, text);
	assert_int_equal(rights_of(b, "carol", ""), 0);
	free(text);
}

/* A name of no file gives the right to nobody, also not to administrators. */
RIGHTS_TEST(test_a_removed_acl_file_gives_no_right)
{
	struct rights_bench *b = *state;

	assert_int_equal(rights_of(b, "reader", ""), RIGHT_READ);
	assert_int_equal(delete_name(b->f, b->acl, "readers", NODE_FILE), RC_OK);
	assert_int_equal(rights_of(b, "reader", ""), 0);
	assert_int_equal(rights_of(b, "admin", ""), RIGHT_CHANGE);
	new_directory(b->f, b->acl, "readers");
	assert_int_equal(rights_of(b, "reader", ""), 0);
	assert_int_equal(delete_name(b->f, b->acl, "readers", NODE_DIRECTORY), RC_OK);
	new_file(b->f, b->acl, "readers");
	assert_int_equal(rights_of(b, "reader", ""), 0);
	write_readers(b, "reader");
	assert_int_equal(rights_of(b, "reader", ""), RIGHT_READ);
}

/* The answer shows the rights of the subject that asks, after the command as it is then. */
RIGHTS_TEST(test_attributes_show_the_rights_of_the_subject)
{
	struct rights_bench *b = *state;
	const struct requester user = {.session = b->reader, .user = bytes_of("eve")};
	struct buffer scratch = BUFFER(LIMIT_FRAME); /* attributes need none */
	struct result r;

	assert_int_equal(look(b->f, b->reader, OP(get_attr, .node = b->file)), RC_OK);
	assert_int_equal(b->f->answer.attr.attr.rights, RIGHT_READ);
	write_readers(b, "reader/*\n");
	assert_int_equal(look(b->f, b->reader, OP(get_attr, .node = b->file)), RC_OK);
	assert_int_equal(b->f->answer.attr.attr.rights, 0);
	assert_int_equal(tree_read(b->f->tree, &user, 0, OP(get_attr, .node = b->file), &r,
	                           &scratch),
	                 RC_OK);
	assert_int_equal(r.attr.attr.rights, RIGHT_READ);
	assert_int_equal(run(b->f, b->changer,
	                     OP(set_acl, .node = b->file, .which = ACL_READ,
	                        .name = bytes_of("everyone"))),
	                 RC_OK);
	assert_int_equal(b->f->answer.attr.attr.rights, RIGHT_READ | RIGHT_CHANGE);
}

/* Short contents could be guessed from it. */
RIGHTS_TEST(test_a_checksum_is_shown_to_readers)
{
	struct rights_bench *b = *state;

	assert_int_equal(look(b->f, b->writer, OP(get_attr, .node = b->file)), RC_OK);
	assert_int_equal(b->f->answer.attr.attr.checksum, 0);
	assert_int_equal(run(b->f, b->writer, OP(set_contents, .node = b->file)), RC_OK);
	assert_int_equal(b->f->answer.attr.attr.checksum, 0);
	assert_int_equal(look(b->f, b->reader, OP(get_attr, .node = b->file)), RC_OK);
	assert_int_not_equal(b->f->answer.attr.attr.checksum, 0);
}

/* ---- commands for a user ---- */

static enum rc
run_for(struct fixture *f, uint64_t session, const char *user, const struct op *op)
{
	entry_add(f, &(struct command){.session = session, .user = bytes_of(user)}, op);
	assert_int_equal(entry_apply(f), RC_OK);
	return f->out.answers[0].rc;
}

RIGHTS_TEST(test_a_command_acts_for_its_user)
{
	struct rights_bench *b = *state;
	const struct op *write = OP(set_contents, .node = b->file);

	assert_int_equal(run_for(b->f, b->writer, "", write), RC_OK);
	assert_int_equal(run_for(b->f, b->writer, "eve", write), RC_ACCES);
	assert_int_equal(run_for(b->f, b->none, "writer", write), RC_ACCES);
}

/* ---- through a handle ---- */

static enum rc
through(struct rights_bench *b, uint8_t handle_rights, uint64_t session, const struct op *op)
{
	enum rc rc;

	b->f->handle_rights = handle_rights;
	rc = try(b, session, op);
	b->f->handle_rights = 0;
	return rc;
}

/* Access to contents is checked when a handle is opened. */
RIGHTS_TEST(test_a_handle_keeps_its_rights)
{
	struct rights_bench *b = *state;
	const struct op *read = OP(get_contents, .node = b->file);
	const struct op *write = OP(set_contents, .node = b->file);
	const struct op *append = OP(append, .node = b->file);

	assert_int_equal(through(b, RIGHT_READ, b->none, read), RC_OK);
	assert_int_equal(through(b, RIGHT_WRITE, b->none, write), RC_OK);
	assert_int_equal(through(b, RIGHT_WRITE, b->none, append), RC_OK);
	assert_int_equal(through(b, RIGHT_WRITE | RIGHT_CHANGE, b->none, read), RC_ACCES);
	assert_int_equal(through(b, RIGHT_READ | RIGHT_CHANGE, b->none, write), RC_ACCES);
	assert_int_equal(through(b, RIGHT_READ, b->none, append), RC_ACCES);
	assert_int_equal(through(b, RIGHT_CHANGE, b->reader, read), RC_OK);
}

RIGHTS_TEST(test_only_contents_are_used_through_a_handle)
{
	const uint8_t all = RIGHT_READ | RIGHT_WRITE | RIGHT_CHANGE;
	struct rights_bench *b = *state;
	const struct op *acquire =
	    OP(acquire,
	       .acquire = {.node = b->file, .owner = 1, .acquisition = 1, .mode = LOCK_SHARED});
	const struct op *delete =
	    OP(delete, .parent = b->directory, .name = bytes_of("x"), .kind = NODE_FILE);

	assert_int_equal(create(b->f, b->writer, b->directory, "x", NODE_FILE, false), RC_OK);
	assert_int_equal(through(b, all, b->none, acquire), RC_ACCES);
	assert_int_equal(through(b, all, b->none, delete), RC_ACCES);
	assert_int_equal(through(b, all, b->none, OP(set_mtime, .node = b->file)), RC_ACCES);
	assert_int_equal(through(b, all, b->none, OP(get_listing, .node = b->directory)), RC_ACCES);
	assert_int_equal(through(b, all, b->none,
	                         OP(set_acl, .node = b->file, .which = ACL_READ,
	                            .name = bytes_of("everyone"))),
	                 RC_ACCES);
}

RIGHTS_TEST(test_no_handle_outlives_its_principal)
{
	struct rights_bench *b = *state;

	assert_int_equal(run(b->f, 0, OP(remove_principal, .name = bytes_of("none"))), RC_OK);
	assert_int_equal(through(b, RIGHT_READ, b->none, OP(get_contents, .node = b->file)),
	                 RC_ACCES);
}

/* A waiter whose right was taken away gets no lock. */
RIGHTS_TEST(test_a_grant_needs_write_when_it_is_applied)
{
	struct rights_bench *b = *state;
	const struct op *grant =
	    OP(grant, .session = b->writer,
	       .acquire = {.node = b->file, .owner = 1, .acquisition = 1, .mode = LOCK_EXCLUSIVE});

	assert_int_equal(run_for(b->f, 0, "eve", grant), RC_ACCES);
	assert_int_equal(lock_of_node(b->f, b->file).state, LOCK_STATE_FREE);
	assert_int_equal(run_for(b->f, 0, "", grant), RC_OK);
	assert_int_equal(lock_of_node(b->f, b->file).state, LOCK_STATE_EXCLUSIVE);
}

/* An acquire that is received again after its grant gets the answer of that, whatever the ACL says
 * now: the session holds the lock. */
RIGHTS_TEST(test_a_holder_is_told_so_again)
{
	struct rights_bench *b = *state;

	assert_int_equal(acquire(b->f, b->writer, 1, 1, b->file, LOCK_SHARED), RC_OK);
	set_acl(b, b->file, ACL_WRITE, "admin");
	assert_int_equal(acquire(b->f, b->writer, 1, 1, b->file, LOCK_SHARED), RC_OK);
	assert_int_equal(acquire(b->f, b->writer, 1, 2, b->file, LOCK_EXCLUSIVE), RC_ACCES);
	assert_int_equal(lock_of_node(b->f, b->file).state, LOCK_STATE_SHARED);
	assert_int_equal(release(b->f, b->writer, 1, 1, b->file), RC_OK);
	assert_int_equal(lock_of_node(b->f, b->file).state, LOCK_STATE_FREE);
}

/* The lists of locks show paths to those who may list them. */
RIGHTS_TEST(test_paths_of_locks)
{
	struct rights_bench *b = *state;
	uint64_t hidden;

	assert_int_equal(create(b->f, b->writer, b->directory, "x", NODE_FILE, false), RC_OK);
	hidden = b->f->answer.created.attr.node;
	assert_int_equal(look(b->f, b->reader, OP(get_queue, .node = hidden)), RC_OK);
	assert_true(bytes_equal(b->f->answer.queue.path, bytes_of("/d/x")));
	assert_int_equal(look(b->f, b->writer, OP(get_queue, .node = hidden)), RC_OK);
	assert_int_equal(b->f->answer.queue.path.len, 0);
}

/* ---- what a change of an ACL file changes ---- */

static bool
changes_rights(struct rights_bench *b, const struct op *op)
{
	const struct requester admin = {.session = READER};
	struct footprint f = {0};
	bool found = false;

	tree_changes(b->f->tree, &admin, op, wire_op_node(op), &f);
	for (size_t i = 0; i < f.n; i++)
		found |= f.keys[i] == KEY_RIGHTS;
	footprint_free(&f);
	return found;
}

RIGHTS_TEST(test_changes_of_acl_files_change_all_rights)
{
	struct rights_bench *b = *state;
	const uint64_t readers = lookup(b->f, b->acl, "readers");
	struct bytes name = bytes_of("readers"), other = bytes_of("other");

	assert_true(changes_rights(b, OP(set_contents, .node = readers)));
	assert_true(changes_rights(b, OP(append, .node = readers)));
	assert_true(
	    changes_rights(b, OP(delete, .parent = b->acl, .name = name, .kind = NODE_FILE)));
	assert_true(
	    changes_rights(b, OP(create, .parent = b->acl, .name = other, .kind = NODE_FILE)));
	assert_true(changes_rights(b, OP(rename, .parent = b->acl, .name = name,
	                                 .new_parent = NODE_ROOT, .new_name = other)));
	new_file(b->f, NODE_ROOT, "other");
	assert_true(changes_rights(b, OP(rename, .parent = NODE_ROOT, .name = other,
	                                 .new_parent = b->acl, .new_name = name)));
	assert_true(changes_rights(b, OP(rename, .parent = NODE_ROOT, .name = other,
	                                 .new_parent = b->acl, .new_name = other)));
	assert_false(changes_rights(b, OP(create, .parent = NODE_ROOT, .name = bytes_of("new"),
	                                  .kind = NODE_FILE)));
	assert_false(changes_rights(b, OP(set_acl, .node = b->file, .which = ACL_READ,
	                                  .name = bytes_of("everyone"))));
}

/* An ephemeral ACL file goes with its session, which declares that. */
RIGHTS_TEST(test_the_end_of_a_session_may_change_rights)
{
	struct rights_bench *b = *state;
	uint64_t session = new_session(b->f, "short");
	struct op op = {.code = OP_end_session,
	                .end_session = {.session = session,
	                                .cause = SESSION_CLOSED,
	                                .epoch = tree_epoch(b->f->tree)}};

	assert_false(changes_rights(b, &op));
	assert_int_equal(create(b->f, session, b->acl, "mine", NODE_FILE, true), RC_OK);
	assert_true(changes_rights(b, &op));
}

/* One that was created as ephemeral may be marked again. */
RIGHTS_TEST(test_an_acl_file_does_not_become_ephemeral)
{
	struct rights_bench *b = *state;
	const struct requester who = {.session = READER};
	const uint64_t file = new_file(b->f, b->acl, "lasting");
	struct footprint changes = {0};
	const struct op *mark = OP(make_ephemeral, .node = file);

	tree_changes(b->f->tree, &who, mark, file, &changes);
	assert_int_equal(changes.n, 0);
	assert_int_equal(run(b->f, READER, mark), RC_BUSY);
	assert_int_equal(create(b->f, READER, b->acl, "mine", NODE_FILE, true), RC_OK);
	assert_int_equal(run(b->f, READER,
	                     OP(make_ephemeral, .node = lookup(b->f, b->acl, "mine"))),
	                 RC_OK);
}

/* Without such a file the root or /acl would give a right to nobody, and nor would what inherits
 * from them. */
RIGHTS_TEST(test_acl_files_that_the_root_names_stay)
{
	struct rights_bench *b = *state;

	assert_int_equal(delete_name(b->f, b->acl, "everyone", NODE_FILE), RC_BUSY);
	assert_int_equal(rename_file(b->f, READER, b->acl, "everyone", NODE_ROOT, "x"), RC_BUSY);
	assert_int_equal(rename_file(b->f, READER, b->acl, "everyone", b->acl, "all"), RC_BUSY);
	set_acl(b, NODE_ROOT, ACL_WRITE, "writers");
	assert_int_equal(delete_name(b->f, b->acl, "writers", NODE_FILE), RC_BUSY);
	set_acl(b, NODE_ROOT, ACL_WRITE, "everyone");
	assert_int_equal(delete_name(b->f, b->acl, "writers", NODE_FILE), RC_OK);
	set_acl(b, b->acl, ACL_READ, "readers");
	assert_int_equal(delete_name(b->f, b->acl, "readers", NODE_FILE), RC_BUSY);
	set_acl(b, b->acl, ACL_READ, "everyone");
	assert_int_equal(delete_name(b->f, b->acl, "readers", NODE_FILE), RC_OK);
}

/* Elsewhere a name is only a name; and editors save by renaming over the file. */
RIGHTS_TEST(test_files_of_such_names_elsewhere)
{
	struct rights_bench *b = *state;
	const uint64_t everyone = lookup(b->f, b->acl, "everyone");

	new_file(b->f, NODE_ROOT, "everyone");
	assert_int_equal(delete_name(b->f, NODE_ROOT, "everyone", NODE_FILE), RC_OK);
	assert_int_equal(write_file(b->f, new_file(b->f, b->acl, "saved"), "*\n"), RC_OK);
	assert_int_equal(rename_file(b->f, READER, b->acl, "saved", b->acl, "everyone"), RC_OK);
	assert_int_equal(lookup(b->f, b->acl, "everyone"), everyone);
}

/* A name of an ephemeral file would last no longer than its session. */
RIGHTS_TEST(test_the_root_names_no_ephemeral_file)
{
	struct rights_bench *b = *state;
	const struct op *name =
	    OP(set_acl, .node = NODE_ROOT, .which = ACL_READ, .name = bytes_of("mine"));

	assert_int_equal(create(b->f, READER, b->acl, "mine", NODE_FILE, true), RC_OK);
	assert_int_equal(run(b->f, READER, name), RC_BUSY);
	set_acl(b, b->file, ACL_READ, "mine");
}

/* ---- /acl/admin ---- */

RIGHTS_TEST(test_administrators_stay)
{
	struct rights_bench *b = *state;
	const uint64_t admin = lookup(b->f, b->acl, "admin");

	assert_int_equal(delete_name(b->f, b->acl, "admin", NODE_FILE), RC_BUSY);
	assert_int_equal(delete_name(b->f, NODE_ROOT, "acl", NODE_DIRECTORY), RC_BUSY);
	assert_int_equal(rename_file(b->f, READER, b->acl, "admin", NODE_ROOT, "admin"), RC_BUSY);
	assert_int_equal(run(b->f, READER, OP(make_ephemeral, .node = admin)), RC_BUSY);
	assert_int_equal(write_file(b->f, admin, ""), RC_INVAL);
	assert_int_equal(write_file(b->f, admin, "# admin\nadmin/eve\nnobody\n"), RC_INVAL);
	assert_int_equal(write_file(b->f, admin, "\nann\nadmin"), RC_OK);
	assert_int_equal(append_file(b->f, admin, "istrator"), RC_INVAL);
	assert_contents(b->f, admin, "\nann\nadmin");
	assert_int_equal(append_file(b->f, admin, "\nbob\n"), RC_OK);
	assert_int_equal(write_file(b->f, admin, "*"), RC_OK);
}

/* Editors save by renaming. */
RIGHTS_TEST(test_administrators_by_rename)
{
	struct rights_bench *b = *state;
	const uint64_t admin = lookup(b->f, b->acl, "admin");
	const uint64_t saved = new_file(b->f, b->acl, "saved");

	assert_int_equal(write_file(b->f, saved, "nobody\n"), RC_OK);
	assert_int_equal(rename_file(b->f, READER, b->acl, "saved", b->acl, "admin"), RC_INVAL);
	assert_int_equal(write_file(b->f, saved, "admin\nann\n"), RC_OK);
	assert_int_equal(rename_file(b->f, READER, b->acl, "saved", b->acl, "admin"), RC_OK);
	assert_int_equal(lookup(b->f, b->acl, "admin"), admin);
	assert_contents(b->f, admin, "admin\nann\n");
}
