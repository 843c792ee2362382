/* Principals come and go; some of them are administrators, of whom one is always left. */
#include <stdio.h>
#include "tests/unit/tree_fixture.h"

/* ---- administrators ---- */

static bool
is_admin(struct fixture *f, const char *principal)
{
	return tree_is_admin(f->tree, bytes_of(principal));
}

static void
write_admins(struct fixture *f, const char *text)
{
	uint64_t acl = lookup(f, NODE_ROOT, "acl");

	assert_int_equal(write_file(f, lookup(f, acl, "admin"), text), RC_OK);
}

TREE_TEST(test_administrators)
{
	static const char *const principals[] = {"alice", "bob", "carol", "dave", "adm"};
	struct fixture *f = *state;

	for (int i = 0; i < 5; i++)
		add_principal(f, principals[i], (uint8_t)(i + 1));
	assert_true(is_admin(f, "admin"));
	assert_false(is_admin(f, "adm"));
	assert_false(is_admin(f, ""));
	write_admins(f, "# who may\n\n  alice \t\r\nbob # on call\n#carol\nadmin\ndave");
	assert_true(is_admin(f, "alice"));
	assert_true(is_admin(f, "bob"));
	assert_true(is_admin(f, "dave"));
	assert_false(is_admin(f, "carol"));
	assert_false(is_admin(f, "#carol"));
	assert_false(is_admin(f, ""));
	write_admins(f, "#*\n*x\nadmin");
	assert_false(is_admin(f, "alice"));
	write_admins(f, "zoe\n *\n");
	assert_true(is_admin(f, "alice"));
	assert_false(is_admin(f, "zoe"));
	assert_false(is_admin(f, ""));
}

TEST(test_an_empty_tree_has_no_administrators)
{
	struct fixture *f = fixture_empty();

	assert_false(is_admin(f, "admin"));
	fixture_free(f);
}

/* ---- principals ---- */

static enum rc
remove_principal(struct fixture *f, const char *name)
{
	return run(f, 0, OP(remove_principal, .name = bytes_of(name)));
}

static enum rc
add_key(struct fixture *f, const char *name, uint8_t first, size_t len)
{
	uint8_t key[32] = {first};

	return run(f, 0, OP(add_principal, .name = bytes_of(name), .key = {key, len}));
}

static enum rc
rekey(struct fixture *f, const char *name, struct bytes key)
{
	return run(f, 0, OP(rekey_principal, .name = bytes_of(name), .key = key));
}

TREE_TEST(test_principals)
{
	static const char *const bad[] = {"", "bob/x", "b*", "b#", "b b", "b\x7f"};
	struct fixture *f = *state;
	struct tree_principal p;
	uint64_t former;

	assert_int_equal(add_key(f, "ann", 1, 32), RC_OK);
	former = principal_generation(f, "ann");
	assert_int_equal(add_key(f, "ann", 1, 32), RC_OK);
	assert_int_equal(principal_generation(f, "ann"), former);
	assert_int_equal(add_key(f, "ann", 2, 32), RC_EXIST);
	assert_int_equal(add_key(f, "bob", 1, 32), RC_EXIST);
	assert_int_equal(add_key(f, "bob", 2, 31), RC_INVAL);
	assert_int_equal(add_key(f, "bob", 2, 0), RC_INVAL);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_int_equal(add_key(f, bad[i], 2, 32), RC_INVAL);
	assert_int_equal(add_key(f, "bob", 2, 32), RC_OK);
	assert_true(tree_principal_after(f->tree, bytes_of("admin"), &p));
	assert_true(bytes_equal(p.name, bytes_of("ann")));
	assert_true(tree_principal_after(f->tree, p.name, &p));
	assert_true(bytes_equal(p.name, bytes_of("bob")));
	assert_false(tree_principal_after(f->tree, p.name, &p));
	assert_int_equal(remove_principal(f, "carol"), RC_NOENT);
	assert_int_equal(remove_principal(f, "ann"), RC_OK);
	assert_int_equal(noted(f, TREE_PRINCIPAL_REMOVED)->principal, former);
	assert_false(tree_principal(f->tree, bytes_of("ann"), &p));
	assert_int_equal(add_key(f, "ann", 1, 32), RC_OK);
	assert_true(principal_generation(f, "ann") > former);
}

/* A session belongs to the principal that opened it, not to the next one of its name. */
TREE_TEST(test_sessions_of_removed_principals)
{
	struct fixture *f = *state;
	struct tree_session s;
	uint64_t session, former;

	add_principal(f, "ann", 1);
	former = principal_generation(f, "ann");
	session = session_of(f, "ann's", "ann");
	assert_int_equal(remove_principal(f, "ann"), RC_OK);
	assert_int_equal(run(f, 0,
	                     OP(create_session, .nonce = bytes_of("late"),
	                        .principal = bytes_of("ann"), .principal_generation = former)),
	                 RC_PERM);
	add_principal(f, "ann", 1);
	assert_int_equal(run(f, 0,
	                     OP(create_session, .nonce = bytes_of("late"),
	                        .principal = bytes_of("ann"), .principal_generation = former)),
	                 RC_PERM);
	assert_true(tree_session(f->tree, session, &s));
	assert_int_equal(s.principal_generation, former);
	assert_int_equal(run(f, session,
	                     OP(create, .parent = NODE_ROOT, .name = bytes_of("hers"),
	                        .kind = NODE_FILE)),
	                 RC_ACCES);
}

/* ---- ACL files ---- */

static uint64_t
acl_file(struct fixture *f, const char *name, const char *text)
{
	const uint64_t node = new_file(f, lookup(f, NODE_ROOT, "acl"), name);

	assert_int_equal(write_file(f, node, text), RC_OK);
	return node;
}

static const char *
naming(struct fixture *f, const char *principal, const char *after)
{
	static char name[LIMIT_NAME + 1];
	const struct bytes file = tree_acl_naming(f->tree, bytes_of(principal), bytes_of(after));

	snprintf(name, sizeof name, "%.*s", (int)file.len, (const char *)file.data);
	return name;
}

/* The lines of the principal and of its users go; all else in the files stays. */
TREE_TEST(test_a_name_is_taken_out_of_acl_files)
{
	struct fixture *f = *state;
	const uint64_t team = acl_file(f, "team", "# ann\nann # on call\nanna\n\n  ann/bob\nzoe");
	const uint64_t users = acl_file(f, "users", "ann/*");
	const uint64_t others = acl_file(f, "others", "an\nannie\nzoe/ann\n*\n");

	assert_string_equal(naming(f, "ann", ""), "team");
	assert_string_equal(naming(f, "ann", "team"), "users");
	assert_string_equal(naming(f, "ann", "users"), "");
	assert_int_equal(run(f, 0, OP(purge_name, .name = bytes_of("a/b"))), RC_INVAL);
	assert_int_equal(run(f, 0, OP(purge_name, .name = bytes_of("admin"))), RC_EXIST);
	assert_int_equal(run(f, 0, OP(purge_name, .name = bytes_of("ann"))), RC_OK);
	assert_contents(f, team, "# ann\nanna\n\nzoe");
	assert_contents(f, users, "");
	assert_contents(f, others, "an\nannie\nzoe/ann\n*\n");
	assert_string_equal(naming(f, "ann", ""), "");
	assert_int_equal(f->out.notes_n, 2);
	assert_int_equal(f->out.notes[0].kind, TREE_NODE_CHANGED);
	assert_int_equal(f->out.notes[0].node, team);
	assert_int_equal(run(f, 0, OP(purge_name, .name = bytes_of("ann"))), RC_OK);
	assert_int_equal(f->out.notes_n, 0);
}

/* One command changes a few files; the next one goes on. */
TREE_TEST(test_a_name_is_purged_in_parts)
{
	struct fixture *f = *state;
	size_t commands = 0;

	for (int i = 0; i < 150; i++) {
		char name[16];

		snprintf(name, sizeof name, "f%03d", i);
		acl_file(f, name, "ann\n");
	}
	for (; naming(f, "ann", "")[0] != '\0'; commands++)
		assert_int_equal(run(f, 0, OP(purge_name, .name = bytes_of("ann"))), RC_OK);
	assert_int_equal(commands, 3);
}

TREE_TEST(test_an_administrator_is_left)
{
	struct fixture *f = *state;

	assert_int_equal(remove_principal(f, "admin"), RC_PERM);
	write_admins(f, "admin\nann\n");
	assert_int_equal(remove_principal(f, "admin"), RC_PERM);
	add_principal(f, "ann", 1);
	assert_int_equal(remove_principal(f, "admin"), RC_OK);
	assert_int_equal(remove_principal(f, "ann"), RC_PERM);
}

/* An administrator gets another key; nothing of the former key's owner goes on. */
TREE_TEST(test_an_administrator_is_recovered)
{
	static const uint8_t keys[3][32] = {{1}, {2}, {3}};
	const struct bytes first = {keys[0], 32}, second = {keys[1], 32};
	struct fixture *f = *state;
	struct tree_principal p;
	const uint64_t former = principal_generation(f, "admin");

	add_principal(f, "ann", 3);
	assert_int_equal(rekey(f, "bob", first), RC_NOENT);
	assert_int_equal(rekey(f, "ann", first), RC_PERM);
	assert_int_equal(rekey(f, "admin", (struct bytes){keys[0], 31}), RC_INVAL);
	assert_true(tree_principal(f->tree, bytes_of("ann"), &p));
	assert_int_equal(rekey(f, "admin", p.key), RC_EXIST);
	assert_int_equal(principal_generation(f, "admin"), former);
	assert_int_equal(rekey(f, "admin", first), RC_OK);
	assert_int_equal(noted(f, TREE_PRINCIPAL_REMOVED)->principal, former);
	assert_true(tree_principal_of_key(f->tree, first, &p));
	assert_true(bytes_equal(p.name, bytes_of("admin")));
	assert_true(p.generation > former);
	assert_int_equal(rekey(f, "admin", first), RC_OK);
	assert_int_equal(principal_generation(f, "admin"), p.generation);
	assert_int_equal(rekey(f, "admin", second), RC_OK);
	assert_false(tree_principal_of_key(f->tree, first, &p));
	assert_true(is_admin(f, "admin"));
}

/* Also of one that was restored: its administrator has the key of the new cell file. */
TREE_TEST(test_the_administrator_of_a_new_cell)
{
	static const uint8_t keys[2][32] = {{1}, {2}};
	struct fixture *f = *state;
	struct tree_principal p;
	const uint64_t former = principal_generation(f, "admin");

	assert_int_equal(run(f, 0, OP(begin_epoch, .admin_key = {keys[0], 32})), RC_OK);
	assert_true(tree_principal(f->tree, bytes_of("admin"), &p));
	assert_true(p.generation > former);
	assert_true(bytes_equal(p.key, (struct bytes){keys[0], 32}));
	assert_int_equal(run(f, 0,
	                     OP(add_principal, .name = bytes_of("ann"), .key = {keys[1], 32})),
	                 RC_OK);
	assert_int_equal(run(f, 0, OP(begin_epoch, .admin_key = {keys[1], 32})), RC_INVAL);
	assert_int_equal(run(f, 0, OP(begin_epoch, .admin_key = {keys[0], 32})), RC_OK);
	assert_true(tree_principal(f->tree, bytes_of("admin"), &p));
	assert_true(p.generation > former);
}
