/* Names and nodes: lookup, create, delete, rename, listings, dead nodes, ephemeral files. */
#include <unistd.h>
#include "tests/unit/mount_bench.h"

static int
mkdir_error(struct bench *b, uint64_t parent, const char *name, mode_t mode)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_MKDIR, .ino = parent,
	                                           .name = bytes_of(name), .mode = mode});
}

static int
getattr_error(struct bench *b, uint64_t ino, pid_t pid)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_GETATTR, .ino = ino, .pid = pid});
}

/* ---- names ---- */

static void
test_lookup(void **state)
{
	struct bench *b = *state;
	struct mount_event e = {.kind = MOUNT_LOOKUP, .ino = NODE_ROOT, .name = bytes_of("f")};
	char longest[LIMIT_NAME + 2];
	struct mount_reply *r;

	assert_int_equal(bench_error(b, e), ENOENT);
	other_writes(b, "f", "abc");
	r = bench_call(b, e);
	assert_int_equal(r->kind, MOUNT_ENTRY);
	assert_int_equal(r->stat.size, 3);
	assert_int_equal(r->stat.nlink, 1);
	assert_int_equal(r->stat.mode, S_IFREG | 0644);
	assert_int_equal(r->attr_timeout.ns + r->entry_timeout.ns, 0);
	memset(longest, 'n', sizeof longest);
	e.name = (struct bytes){(uint8_t *)longest, LIMIT_NAME + 1};
	assert_int_equal(bench_error(b, e), ENAMETOOLONG);
}

static void
test_mkdir_rmdir(void **state)
{
	struct bench *b = *state;
	struct mount_event rm = {.kind = MOUNT_RMDIR, .ino = NODE_ROOT, .name = bytes_of("d")};
	uint64_t d;

	assert_int_equal(mkdir_error(b, NODE_ROOT, "d", 0755), 0);
	assert_int_equal(mkdir_error(b, NODE_ROOT, "d", 0755), EEXIST);
	d = k_lookup(b, "d");
	assert_int_equal(k_stat(b, d, SHELL).mode, S_IFDIR | 0755);
	assert_int_equal(k_stat(b, d, SHELL).nlink, 2);
	assert_int_equal(mkdir_error(b, d, "sub", 01755), 0);
	assert_int_equal(k_unlink(b, "d"), EISDIR);
	assert_int_equal(bench_error(b, rm), ENOTEMPTY);
	rm.ino = d;
	rm.name = bytes_of("sub");
	assert_int_equal(bench_error(b, rm), 0);
	rm.ino = NODE_ROOT;
	rm.name = bytes_of("d");
	assert_int_equal(bench_error(b, rm), 0);
	assert_int_equal(k_lookup(b, "d"), 0);
	assert_int_equal(k_stat(b, d, SHELL).nlink, 0); /* who has it as working directory */
}

static void
test_reserved_name(void **state)
{
	struct bench *b = *state;
	struct mount_event e = {.kind = MOUNT_CREATE, .ino = NODE_ROOT, .name = bytes_of(".cell"),
	                        .flags = O_CREAT | O_WRONLY};

	buffer_reset(&b->trace);
	assert_int_equal(bench_error(b, e), EPERM);
	assert_int_equal(mkdir_error(b, NODE_ROOT, ".cell", 0755), EPERM);
	assert_int_equal(mkdir_error(b, MOUNT_INO_CELL, "d", 0755), EPERM);
	assert_int_equal(k_unlink(b, ".cell"), EPERM);
	assert_int_equal(k_rename(b, "f", ".cell"), EPERM);
	bench_asked(b, "");
	assert_int_equal(k_lookup(b, ".cell"), MOUNT_INO_CELL);
	e.kind = MOUNT_REFUSED;
	assert_int_equal(bench_error(b, e), EPERM);
}

/* ---- listings ---- */

static void
assert_listing(struct bench *b, struct file d, int64_t offset, const char *expected)
{
	buffer_reset(&b->names);
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_READDIR, .ino = d.ino,
	                                                     .fh = d.fh, .offset = offset}), 0);
	buffer_put_u8(&b->names, 0);
	assert_string_equal((char *)b->names.data, expected);
}

static void
test_listing(void **state)
{
	struct bench *b = *state;
	struct file d = {.ino = NODE_ROOT};

	other_writes(b, "b", "");
	other_writes(b, "a", "");
	d.fh = bench_call(b, (struct mount_event){.kind = MOUNT_OPENDIR, .ino = d.ino})->fh;
	bench_asked(b, "get_attr");
	other_writes(b, "ab", "");
	other_deletes(b, "ab");
	assert_listing(b, d, 0, " . .. a acl b"); /* as it is now, not as at the open */
	bench_asked(b, "get_listing");
	other_writes(b, "aa", "");
	assert_listing(b, d, 3, " acl b"); /* one snapshot, until it is rewound */
	assert_listing(b, d, 5, "");
	bench_asked(b, "");
	assert_listing(b, d, 0, " . .. a aa acl b");
	bench_asked(b, "get_listing");
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_RELEASEDIR,
	                                                     .ino = d.ino, .fh = d.fh}), 0);
}

static void
test_listing_in_pages(void **state)
{
	struct bench *b = bench_new(&(struct mount_config){.cell = "local", .listing_page = 1});
	struct file d = {.ino = NODE_ROOT};

	(void)state;
	for (char name[] = "b"; *name <= 'd'; ++*name)
		other_writes(b, name, "");
	d.fh = bench_call(b, (struct mount_event){.kind = MOUNT_OPENDIR, .ino = d.ino})->fh;
	bench_asked(b, "get_attr");
	assert_listing(b, d, 2, " acl b c d"); /* nothing was read yet: it is fetched */
	bench_asked(b, "get_listing | get_listing | get_listing | get_listing");
	assert_listing(b, d, 4, " c d");
	bench_asked(b, "");
	bench_free(b);
}

/* ---- dead nodes ---- */

static void
test_unlinked_file_is_read_on(void **state)
{
	struct bench *b = *state;
	struct file f, g;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDONLY, SHELL);
	g = k_open(b, "f", O_RDONLY, OTHER);
	k_read(b, g, 0, "abc");
	buffer_reset(&b->trace);
	assert_int_equal(k_unlink(b, "f"), 0);
	bench_asked(b, "lookup \"f\" | get_contents but 2 | delete \"f\"");
	assert_true(b->stale_inodes > 0);
	k_read(b, f, 0, "abc");
	k_read(b, g, 1, "bc");
	assert_int_equal(k_stat(b, f.ino, SHELL).nlink, 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 3);
	assert_int_equal(k_lookup(b, "f"), 0);
	k_close(b, f, SHELL);
	k_close(b, g, OTHER);
}

static void
test_file_deleted_elsewhere(void **state)
{
	struct bench *b = *state;
	struct file f, g;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDWR, SHELL);
	g = k_open(b, "f", O_RDWR, SHELL);
	k_read(b, f, 0, "abc");
	other_deletes(b, "f");
	k_read(b, f, 0, "abc");
	assert_int_equal(k_stat(b, f.ino, SHELL).nlink, 0);
	k_read(b, g, 1, "bc");
	assert_int_equal(k_write(b, f, SHELL, "x"), ESTALE);
	k_close(b, f, SHELL);
	k_close(b, g, SHELL);
}

/* The kernel looks the name up again after ESTALE, once: a second time there is no such file. */
static void
test_path_to_a_dead_node(void **state)
{
	struct bench *b = *state;
	struct mount_event open = {.kind = MOUNT_OPEN};
	uint64_t ino;

	for (int turn = 0; turn < 2; turn++) {
		other_writes(b, "f", "abc");
		ino = k_lookup(b, "f");
		other_deletes(b, "f");
		assert_int_equal(getattr_error(b, ino, SHELL), turn == 0 ? ESTALE : ENOENT);
	}
	other_writes(b, "f", "abc");
	ino = k_lookup(b, "f");
	other_deletes(b, "f");
	open.ino = ino;
	assert_int_equal(bench_error(b, open), ESTALE);
	other_writes(b, "g", "");
	bench_wait(b, 2000); /* long ago: not the kernel's second walk */
	assert_int_equal(bench_error(b, open), ESTALE);
	/* it found something: all is forgotten */
	k_close(b, k_open(b, "g", O_RDONLY, SHELL), SHELL);
	assert_int_equal(bench_error(b, open), ESTALE);
}

static int
open_error(struct bench *b, uint64_t ino)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = ino});
}

/* A first dead node is never told as no file: its name may lead to another one by now. */
static void
test_paths_to_two_dead_nodes(void **state)
{
	struct bench *b = *state;
	uint64_t f, g;

	other_writes(b, "f", "abc");
	other_writes(b, "g", "abc");
	f = k_lookup(b, "f");
	g = k_lookup(b, "g");
	other_deletes(b, "f");
	other_deletes(b, "g");
	assert_int_equal(open_error(b, f), ESTALE);
	assert_int_equal(k_lookup(b, "f"), 0); /* the second walk ends here */
	other_writes(b, "g", "new");
	assert_int_equal(open_error(b, g), ESTALE);
	g = k_lookup(b, "g");
	assert_int_equal(k_stat(b, g, SHELL).size, 3); /* another call */
	other_deletes(b, "g");
	assert_int_equal(open_error(b, g), ESTALE);
	other_writes(b, "g", "newer");
	assert_int_equal(open_error(b, f), ESTALE); /* not what a walk has found */
	other_deletes(b, "g");
}

static void
test_forget(void **state)
{
	struct bench *b = *state;
	uint64_t ino;

	other_writes(b, "f", "abc");
	ino = k_lookup(b, "f");
	k_lookup(b, "f");
	other_deletes(b, "f");
	assert_int_equal(getattr_error(b, ino, SHELL), ESTALE);
	bench_start(b, (struct mount_event){.kind = MOUNT_FORGET, .ino = ino, .count = 2});
	b->calls--; /* it has no answer */
	assert_int_equal(getattr_error(b, ino, OTHER), ESTALE);
}

/* ---- rename ---- */

static void
test_rename_moves_handles(void **state)
{
	struct bench *b = *state;
	struct file s = k_open(b, "s", O_RDWR | O_CREAT, SHELL);
	uint64_t target;

	other_writes(b, "t", "old");
	target = k_lookup(b, "t");
	assert_int_equal(k_write(b, s, SHELL, "new"), 0);
	buffer_reset(&b->trace);
	assert_int_equal(k_rename(b, "s", "t"), 0);
	bench_asked(b, "lookup \"s\" | set_contents =1 \"new\" | rename \"s\" \"t\"");
	assert_file(b, "t", "new");
	assert_int_equal(k_stat(b, s.ino, SHELL).ino, target); /* fstat of the descriptor */
	assert_int_equal(k_stat(b, s.ino, SHELL).nlink, 1);
	assert_int_equal(k_write_at(b, s, SHELL, 3, "er"), 0);
	k_close(b, s, SHELL);
	assert_file(b, "t", "newer");
}

/* The kernel knows the file by its first number, however often it was renamed since. */
static void
test_rename_again_and_again(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "a", O_RDWR | O_CREAT, SHELL);

	for (int n = 0; n < 3; n++) {
		assert_int_equal(k_rename(b, "a", "b"), 0);
		assert_int_equal(k_rename(b, "b", "a"), 0);
	}
	assert_int_equal(k_stat(b, f.ino, SHELL).nlink, 1);
	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	k_close(b, f, SHELL);
	assert_file(b, "a", "x");
}

/* Where nothing is open no name has to be looked up for it. */
static void
test_rename_without_handles(void **state)
{
	struct bench *b = *state;

	other_writes(b, "s", "x");
	assert_int_equal(k_rename(b, "s", "t"), 0);
	bench_asked(b, "rename \"s\" \"t\"");
	assert_int_equal(k_rename(b, "t", "t"), 0);
	assert_file(b, "t", "x");
	assert_int_equal(k_rename(b, "s", "t"), ENOENT);
	assert_int_equal(k_rename(b, "acl", "d"), EXDEV);
}

static void
test_rename_onto_itself(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	assert_int_equal(k_rename(b, "f", "f"), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).nlink, 1);
	assert_int_equal(k_write_at(b, f, SHELL, 1, "y"), 0);
	k_close(b, f, SHELL);
	assert_file(b, "f", "xy");
}

static void
test_rename_flags(void **state)
{
	struct bench *b = *state;
	struct mount_event e = {.kind = MOUNT_RENAME, .ino = NODE_ROOT, .new_ino = NODE_ROOT,
	                        .name = bytes_of("s"), .new_name = bytes_of("t"), .flags = 1};

	other_writes(b, "s", "x");
	other_writes(b, "t", "y");
	assert_int_equal(bench_error(b, e), EEXIST);
	e.flags = 2; /* RENAME_EXCHANGE */
	assert_int_equal(bench_error(b, e), EINVAL);
}

static void
test_rename_fails_with_its_commit(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "s", "x");
	f = k_open(b, "s", O_RDWR, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "y"), 0);
	other_writes(b, "s", "z");
	assert_int_equal(k_rename(b, "s", "t"), ECANCELED);
	assert_file(b, "s", "z");
	k_close(b, f, SHELL);
}

/* ---- ephemeral files ---- */

static struct file
create_ephemeral(struct bench *b, const char *name)
{
	struct mount_reply *r = bench_call(
	    b, (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT, .name = bytes_of(name),
	                            .flags = O_CREAT | O_RDWR, .mode = S_ISVTX | 0644});

	assert_int_equal(r->error, 0);
	assert_true(r->stat.mode & S_ISVTX);
	return (struct file){.ino = r->stat.ino, .fh = r->fh};
}

static void
test_ephemeral_goes_with_its_last_close(void **state)
{
	struct bench *b = *state;
	struct file f = create_ephemeral(b, "e"), g;

	buffer_reset(&b->trace);
	g = k_open(b, "e", O_RDONLY, OTHER); /* the session has it open already */
	bench_asked(b, "lookup \"e\" | get_contents but 1");
	k_close(b, f, SHELL);
	bench_asked(b, "");
	k_close(b, g, OTHER);
	bench_asked(b, "&close_ephemeral");
	assert_int_equal(k_lookup(b, "e"), 0);
}

static void
test_ephemeral_of_another_session(void **state)
{
	struct bench *b = *state;
	struct file f;

	assert_int_equal(create(b->cell, b->other, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	f = k_open(b, "e", O_RDONLY, SHELL);
	bench_asked(b, "lookup \"e\" | get_contents | open_ephemeral");
	assert_int_equal(end_session(b->cell, b->other, SESSION_CLOSED), RC_OK);
	assert_true(k_lookup(b, "e") != 0);
	k_close(b, f, SHELL);
	assert_int_equal(k_lookup(b, "e"), 0);
}

/* An interrupted open or create that succeeded after all keeps nothing open. */
static void
test_interrupted_opens_are_tidied(void **state)
{
	struct bench *b = *state;
	uint64_t ino, call;

	assert_int_equal(create(b->cell, b->other, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	ino = k_lookup(b, "e");
	buffer_reset(&b->trace);
	b->hold = true;
	call = bench_start(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = ino});
	bench_answer(b);
	bench_kill(b, call);
	bench_answer_all(b);
	bench_asked(b, "get_contents | open_ephemeral | &close_ephemeral");
	call = bench_start(b, (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT,
	                                           .name = bytes_of("mine"), .mode = S_ISVTX,
	                                           .flags = O_CREAT | O_RDWR});
	bench_kill(b, call);
	bench_answer_all(b);
	assert_int_equal(lookup(b->cell, NODE_ROOT, "mine"), 0);
}

static void
test_make_ephemeral(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);

	assert_int_equal(k_setxattr(b, f.ino, "user.ls.ephemeral", "0"), EOPNOTSUPP);
	assert_int_equal(k_setxattr(b, f.ino, "user.ls.ephemeral", "1"), 0);
	assert_true(k_stat(b, f.ino, SHELL).mode & S_ISVTX);
	k_close(b, f, SHELL);
	assert_int_equal(k_lookup(b, "f"), 0);
	other_writes(b, "g", "");
	assert_int_equal(k_setxattr(b, k_lookup(b, "g"), "user.ls.ephemeral", "1"), EINVAL);
	f = k_open(b, "g", O_RDWR, SHELL);
	assert_int_equal(k_setxattr(b, f.ino, "user.ls.ephemeral", "1"), EBUSY);
	buffer_reset(&b->trace);
	k_close(b, f, SHELL);
	bench_asked(b, "");
	assert_true(k_lookup(b, "g") != 0);
}

static void
test_renamed_ephemeral_stays_open(void **state)
{
	struct bench *b = *state;
	struct file f = create_ephemeral(b, "e");

	assert_int_equal(k_rename(b, "e", "t"), 0);
	assert_true(k_lookup(b, "t") != 0);
	k_close(b, f, SHELL);
	assert_int_equal(k_lookup(b, "t"), 0);
}

static bool
is_there(struct bench *b, const char *name)
{
	return lookup(b->cell, NODE_ROOT, name) != 0;
}

static void
other_renames(struct bench *b, const char *name, const char *new_name)
{
	assert_int_equal(rename_file(b->cell, b->other, NODE_ROOT, name, NODE_ROOT, new_name),
	                 RC_OK);
}

/* Whether or not this mount has noticed. */
static void
test_ephemeral_renamed_elsewhere_goes_with_its_last_close(void **state)
{
	struct bench *b = *state;
	struct file f;

	for (int noticed = 0; noticed < 2; noticed++) {
		f = create_ephemeral(b, "e");
		other_renames(b, "e", "t");
		other_renames(b, "t", "u");
		if (noticed)
			assert_int_equal(k_write(b, f, SHELL, "x"), 0);
		if (noticed)
			assert_int_equal(k_flush(b, f, SHELL, 1), ESTALE);
		assert_true(is_there(b, "u"));
		k_release(b, f);
		assert_false(is_there(b, "u"));
	}
}

static void
test_ephemeral_open_by_both_its_numbers(void **state)
{
	struct bench *b = *state;
	struct file e, t;

	for (int first = 0; first < 2; first++) {
		e = create_ephemeral(b, "e");
		t = create_ephemeral(b, "t");
		other_renames(b, "e", "t");
		k_release(b, first ? e : t);
		assert_true(is_there(b, "t"));
		k_release(b, first ? t : e);
		assert_false(is_there(b, "t"));
	}
	for (int first = 0; first < 2; first++) {
		e = create_ephemeral(b, "e");
		t = create_ephemeral(b, "t");
		assert_int_equal(k_rename(b, "e", "t"), 0);
		k_release(b, first ? e : t);
		assert_true(is_there(b, "t"));
		k_release(b, first ? t : e);
		assert_false(is_there(b, "t"));
	}
}

/* The close comes at each moment of a rename by this mount. */
static void
test_close_while_an_ephemeral_file_is_renamed(void **state)
{
	struct bench *b = *state;
	uint64_t call;
	struct file f;

	for (int at = 0; at < 6; at++) {
		f = create_ephemeral(b, "e");
		b->hold = true;
		call = bench_start(b, (struct mount_event){.kind = MOUNT_RENAME, .ino = NODE_ROOT,
		                                           .new_ino = NODE_ROOT,
		                                           .name = bytes_of("e"),
		                                           .new_name = bytes_of("t")});
		for (int i = 0; i < at && b->pending_n > 0; i++)
			bench_answer(b);
		k_release(b, f);
		bench_answer_all(b);
		b->hold = false;
		assert_true(bench_answered(b, call));
		assert_false(is_there(b, "e") || is_there(b, "t"));
	}
}

/* The open comes at each moment of a rename by this mount. */
static void
test_open_while_an_ephemeral_file_is_renamed(void **state)
{
	struct bench *b = *state;
	uint64_t open, call, ino;
	struct mount_reply *r;

	for (int at = 0; at < 6; at++) {
		assert_int_equal(create(b->cell, b->other, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
		ino = k_lookup(b, "e");
		b->hold = true;
		call = bench_start(b, (struct mount_event){.kind = MOUNT_RENAME, .ino = NODE_ROOT,
		                                           .new_ino = NODE_ROOT,
		                                           .name = bytes_of("e"),
		                                           .new_name = bytes_of("t")});
		for (int i = 0; i < at && b->pending_n > 0; i++)
			bench_answer(b);
		open = bench_start(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = ino});
		bench_answer_all(b);
		b->hold = false;
		assert_true(bench_answered(b, call) && bench_answered(b, open));
		r = bench_reply(b, open);
		assert_true(is_there(b, "t"));
		assert_int_equal(run(b->cell, b->other, OP(close_ephemeral, .node = ino)), RC_OK);
		assert_int_equal(is_there(b, "t"), r->error == 0);
		if (r->error == 0)
			k_release(b, (struct file){.ino = ino, .fh = r->fh});
		assert_false(is_there(b, "t"));
	}
}

/* An open that came too late for a rename, and is refused, leaves no number behind: a mark of the
 * target would take it for the one by which the file is open, and close its own. */
static void
test_late_open_of_a_renamed_ephemeral_file(void **state)
{
	struct bench *b = *state;
	struct mount_reply *r;
	struct file f;
	uint64_t open, call, ino;

	for (int at = 0; at < 6; at++) {
		f = k_open(b, "t", O_RDWR | O_CREAT, SHELL);
		assert_int_equal(create(b->cell, b->other, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
		ino = k_lookup(b, "e");
		b->hold = true;
		call = bench_start(b, (struct mount_event){.kind = MOUNT_RENAME, .ino = NODE_ROOT,
		                                           .new_ino = NODE_ROOT,
		                                           .name = bytes_of("e"),
		                                           .new_name = bytes_of("t")});
		for (int i = 0; i < at && b->pending_n > 0; i++)
			bench_answer(b);
		open = bench_start(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = ino});
		bench_answer_all(b);
		b->hold = false;
		assert_true(bench_answered(b, call) && bench_answered(b, open));
		r = bench_reply(b, open);
		if (r->error == 0)
			k_release(b, (struct file){.ino = ino, .fh = r->fh});
		assert_int_equal(k_setxattr(b, f.ino, "user.ls.ephemeral", "1"), 0);
		assert_true(is_there(b, "t"));
		assert_int_equal(run(b->cell, b->other, OP(close_ephemeral, .node = ino)), RC_OK);
		assert_true(is_there(b, "t"));
		k_release(b, f);
		assert_false(is_there(b, "t"));
	}
}

/* Another mount renames the file right after this one has, before this one could do anything. */
static void
test_ephemeral_renamed_here_and_at_once_elsewhere(void **state)
{
	struct bench *b = *state;
	struct file f = create_ephemeral(b, "e");

	b->hold = true;
	bench_start(b, (struct mount_event){.kind = MOUNT_RENAME, .ino = NODE_ROOT,
	                                    .new_ino = NODE_ROOT, .name = bytes_of("e"),
	                                    .new_name = bytes_of("t")});
	while (!is_there(b, "t"))
		bench_answer(b);
	other_renames(b, "t", "u");
	bench_answer_all(b);
	b->hold = false;
	assert_true(is_there(b, "u"));
	k_release(b, f);
	assert_false(is_there(b, "u"));
}

/* A safe save, over and over, of a file that stays open: the cell keeps one opener. */
static void
test_many_renames_onto_an_open_ephemeral_file(void **state)
{
	struct bench *b = *state;
	struct file f = create_ephemeral(b, "e"), g;

	for (int i = 0; i < 3; i++) {
		g = create_ephemeral(b, "tmp");
		buffer_reset(&b->trace);
		assert_int_equal(k_rename(b, "tmp", "e"), 0);
		bench_asked(b, "lookup \"tmp\" | rename \"tmp\" \"e\" | &close_ephemeral");
		k_release(b, g);
		bench_asked(b, "");
	}
	k_release(b, f);
	bench_asked(b, "&close_ephemeral");
	assert_false(is_there(b, "e"));
}

/* The create itself has opened it; that another mount then renames it makes no difference. */
static void
test_create_of_an_ephemeral_file_that_is_renamed(void **state)
{
	struct bench *b = *state;
	uint64_t call, ino;

	assert_int_equal(create(b->cell, b->other, NODE_ROOT, "e", NODE_FILE, true), RC_OK);
	ino = lookup(b->cell, NODE_ROOT, "e");
	b->hold = true;
	call = bench_start(b, (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT,
	                                           .name = bytes_of("e"), .mode = 0644,
	                                           .flags = O_CREAT | O_RDWR});
	bench_answer(b);
	other_renames(b, "e", "t");
	bench_answer_all(b);
	bench_asked(b, "create \"e\" | open_ephemeral | &close_ephemeral");
	assert_int_equal(bench_reply(b, call)->error, ESTALE);
	assert_int_equal(run(b->cell, b->other, OP(close_ephemeral, .node = ino)), RC_OK);
	assert_false(is_there(b, "t"));
}

/* A create opens the file by its new number, while it is open by the old one. */
static void
test_create_of_a_renamed_ephemeral_file(void **state)
{
	struct bench *b = *state;
	struct mount_event again = {.kind = MOUNT_CREATE, .ino = NODE_ROOT, .mode = 0644,
	                            .name = bytes_of("t"), .flags = O_CREAT | O_RDWR};
	struct file f = create_ephemeral(b, "e"), g;
	struct mount_reply *r;

	assert_int_equal(k_rename(b, "e", "t"), 0);
	r = bench_call(b, again);
	assert_int_equal(r->error, 0);
	g = (struct file){.ino = r->stat.ino, .fh = r->fh};
	k_release(b, f);
	assert_true(is_there(b, "t"));
	k_release(b, g);
	assert_false(is_there(b, "t"));
}

/* A lock does not survive the rename of its file: the descriptor is dead, and keeps nothing open
 * once it is closed. */
static void
test_dead_descriptor_of_a_renamed_ephemeral_file(void **state)
{
	struct bench *b = *state;
	struct file f = create_ephemeral(b, "e"), g = k_open(b, "e", O_RDONLY, OTHER);

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, false), 0);
	assert_int_equal(k_rename(b, "e", "t"), 0);
	k_release(b, g);
	k_release(b, f);
	assert_false(is_there(b, "t"));
}

/* ---- access, open flags ---- */

static void
test_access(void **state)
{
	struct bench *b = *state;
	struct mount_event e = {.kind = MOUNT_ACCESS, .flags = R_OK | W_OK};

	other_writes(b, "f", "");
	e.ino = k_lookup(b, "f");
	assert_int_equal(bench_error(b, e), 0);
	e.flags = X_OK;
	assert_int_equal(bench_error(b, e), EACCES);
	e.ino = NODE_ROOT;
	assert_int_equal(bench_error(b, e), 0);
}

static void
test_exec_is_refused(void **state)
{
	struct bench *b = *state;

	other_writes(b, "f", "#!/bin/sh\n");
	assert_int_equal(k_open_error(b, "f", O_RDONLY | 0x20), EACCES);
}

/* ---- the session ---- */

static void
test_path_calls_when_the_session_ends(void **state)
{
	struct bench *b = *state;
	uint64_t ino, call;

	other_writes(b, "f", "abc");
	ino = k_lookup(b, "f");
	b->hold = true;
	call = bench_start(b, (struct mount_event){.kind = MOUNT_GETATTR, .ino = ino});
	bench_state(b, CLIENT_EXPIRED);
	bench_answer_with(b, RC_STALE);
	assert_int_equal(bench_reply(b, call)->error, EIO);
	bench_state(b, CLIENT_SAFE);
	b->hold = false;
	assert_int_equal(k_stat(b, ino, SHELL).nlink, 1); /* the node is not taken for dead */
}

/* What is asked while there is no session is done in the next one. */
static void
test_calls_between_two_sessions(void **state)
{
	struct bench *b = *state;
	uint64_t call, look;
	struct file f = create_ephemeral(b, "f");

	bench_state(b, CLIENT_EXPIRED);
	b->hold = true;
	call = bench_start(b, (struct mount_event){.kind = MOUNT_CREATE, .ino = NODE_ROOT,
	                                           .name = bytes_of("e"), .mode = S_ISVTX | 0644,
	                                           .flags = O_CREAT | O_RDWR});
	look = bench_start(b, (struct mount_event){.kind = MOUNT_GETATTR, .ino = 999});
	bench_new_session(b);
	bench_answer_all(b);
	b->hold = false;
	assert_int_equal(bench_reply(b, look)->error, ESTALE); /* there is no such node */
	f = (struct file){.ino = bench_reply(b, call)->stat.ino, .fh = bench_reply(b, call)->fh};
	assert_true(is_there(b, "e"));
	k_close(b, f, SHELL);
	assert_false(is_there(b, "e"));
}

static void
test_status(void **state)
{
	struct bench *b = *state;
	struct file f = {.ino = MOUNT_INO_STATUS};
	struct mount_reply *r = bench_call(b, (struct mount_event){
		.kind = MOUNT_LOOKUP, .ino = MOUNT_INO_CELL, .name = bytes_of("status")});
	struct mount_event read = {.kind = MOUNT_READ, .ino = f.ino, .size = 4096};

	assert_int_equal(r->stat.ino, MOUNT_INO_STATUS);
	assert_int_equal(r->stat.mode, S_IFREG | 0444);
	b->hold = true; /* none of this waits for the cell */
	f.fh = bench_call(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = f.ino})->fh;
	read.fh = f.fh;
	assert_int_equal(bench_error(b, read), 0);
	buffer_put_u8(&b->data, 0);
	assert_non_null(strstr((char *)b->data.data, "state: safe\nlease_left: 12.000\n"));
	assert_non_null(strstr((char *)b->data.data, "\nmaster: 1\n"));
	b->client.status.grace_end = mono_add(b->now, span_ms(44500));
	bench_state(b, CLIENT_JEOPARDY);
	assert_int_equal(bench_error(b, read), 0);
	buffer_put_u8(&b->data, 0);
	assert_non_null(strstr((char *)b->data.data, "state: jeopardy\n"));
	assert_non_null(strstr((char *)b->data.data, "grace_left: 44.500\n"));
	k_release(b, f);
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_OPEN, .ino = f.ino,
	                                                     .flags = O_RDWR}), EACCES);
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_SETATTR, .ino = f.ino}),
	                 EPERM);
	bench_asked(b, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_lookup),
		TEST(test_mkdir_rmdir),
		TEST(test_reserved_name),
		TEST(test_listing),
		TEST(test_listing_in_pages),
		TEST(test_unlinked_file_is_read_on),
		TEST(test_file_deleted_elsewhere),
		TEST(test_path_to_a_dead_node),
		TEST(test_paths_to_two_dead_nodes),
		TEST(test_forget),
		TEST(test_rename_moves_handles),
		TEST(test_rename_again_and_again),
		TEST(test_rename_without_handles),
		TEST(test_rename_onto_itself),
		TEST(test_rename_flags),
		TEST(test_rename_fails_with_its_commit),
		TEST(test_ephemeral_goes_with_its_last_close),
		TEST(test_ephemeral_of_another_session),
		TEST(test_interrupted_opens_are_tidied),
		TEST(test_make_ephemeral),
		TEST(test_renamed_ephemeral_stays_open),
		TEST(test_ephemeral_renamed_elsewhere_goes_with_its_last_close),
		TEST(test_ephemeral_open_by_both_its_numbers),
		TEST(test_close_while_an_ephemeral_file_is_renamed),
		TEST(test_open_while_an_ephemeral_file_is_renamed),
		TEST(test_late_open_of_a_renamed_ephemeral_file),
		TEST(test_ephemeral_renamed_here_and_at_once_elsewhere),
		TEST(test_many_renames_onto_an_open_ephemeral_file),
		TEST(test_create_of_an_ephemeral_file_that_is_renamed),
		TEST(test_create_of_a_renamed_ephemeral_file),
		TEST(test_dead_descriptor_of_a_renamed_ephemeral_file),
		TEST(test_access),
		TEST(test_exec_is_refused),
		TEST(test_path_calls_when_the_session_ends),
		TEST(test_calls_between_two_sessions),
		TEST(test_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
