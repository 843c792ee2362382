/* Versions of contents in memory: shared by all who read them, whatever is written meanwhile; what
 * mappings show; what crosses the wire for it; and files that are deleted while they are open. */
#include "tests/unit/mount_bench.h"

enum { READERS = 2000, BIG = LIMIT_CONTENTS };

/* ---- sharing ---- */

static void
test_readers_share_one_version(void **state)
{
	struct bench *b = *state;
	struct file f[READERS], w;

	other_writes(b, "f", "one");
	for (int n = 0; n < READERS; n++) {
		f[n] = k_open(b, "f", O_RDONLY, SHELL);
		k_read(b, f[n], 0, "one");
	}
	assert_int_equal(mount_versions(b->mount), 1);
	w = k_open(b, "f", O_RDWR, OTHER);
	assert_int_equal(k_write(b, w, OTHER, "two"), 0);
	assert_int_equal(mount_versions(b->mount), 1); /* it has a copy of its own to write into */
	k_close(b, w, OTHER);
	k_read(b, f[0], 1, "ne");
	k_read(b, f[1], 0, "two");
	k_read(b, f[2], 0, "two");
	assert_int_equal(mount_versions(b->mount), 2);
	for (int n = 0; n < READERS; n++)
		k_close(b, f[n], SHELL);
	bench_wait(b, 1);
	assert_int_equal(mount_versions(b->mount), 0);
}

static struct bytes
read_part(struct bench *b, struct file f, size_t size)
{
	struct mount_reply *r = bench_call(
	    b, (struct mount_event){.kind = MOUNT_READ, .ino = f.ino, .fh = f.fh, .size = size});

	assert_int_equal(r->error, 0);
	return r->data;
}

/* The reply is a view of the version itself. */
static void
test_read_copies_nothing(void **state)
{
	struct bench *b = *state;
	struct file f, g;

	other_writes(b, "f", "0123456789");
	f = k_open(b, "f", O_RDONLY, SHELL);
	g = k_open(b, "f", O_RDONLY, OTHER);
	assert_ptr_equal(read_part(b, f, 10).data, read_part(b, g, 4).data);
	k_close(b, f, SHELL);
	k_close(b, g, OTHER);
}

/* ---- what crosses the wire ---- */

static void
test_what_is_known_is_not_sent_again(void **state)
{
	struct bench *b = *state;
	struct file f, g;

	other_writes(b, "f", "12345");
	f = k_open(b, "f", O_RDONLY, SHELL);
	assert_int_equal(b->fetched, 5);
	k_read(b, f, 0, "12345");
	k_read(b, f, 0, "12345");
	g = k_open(b, "f", O_RDWR, OTHER);
	assert_int_equal(k_write(b, g, OTHER, "x"), 0);
	assert_int_equal(b->fetched, 5);
	assert_int_equal(k_flush(b, g, OTHER, 0), 0);
	k_read(b, f, 0, "x2345"); /* what was committed here is known, too */
	assert_int_equal(b->fetched, 5);
	k_release(b, g);
	other_writes(b, "f", "changed");
	k_read(b, f, 1, "2345");
	k_read(b, f, 0, "changed");
	assert_int_equal(b->fetched, 5 + 7);
	k_close(b, f, SHELL);
	bench_asked(b, "lookup \"f\" | get_contents | get_contents but 2 | get_contents but 2 | "
	               "lookup \"f\" | get_contents but 2 | get_contents but 2 | "
	               "set_contents =2 \"x2345\" | get_contents but 3 | get_contents but 3");
}

/* Nothing is fetched by who cannot read, or has truncated. */
static void
test_writers_fetch_nothing(void **state)
{
	static const int flags[] = {O_WRONLY, O_WRONLY | O_APPEND, O_WRONLY | O_TRUNC,
	                            O_RDWR | O_TRUNC};
	struct bench *b = *state;
	struct file f;

	for (size_t n = 0; n < sizeof flags / sizeof *flags; n++) {
		other_writes(b, "f", "12345");
		f = k_open(b, "f", flags[n], SHELL);
		k_release(b, f);
	}
	assert_int_equal(k_open_error(b, "f", O_RDONLY | 0x20), EACCES); /* execve */
	assert_int_equal(b->fetched, 0);
}

/* A cell that says "the same" of what it was not asked about. */
static void
test_same_as_what_is_unknown(void **state)
{
	struct bench *b = *state;
	struct mount_event read = {.kind = MOUNT_READ, .size = 9};
	struct mount_event open = {.kind = MOUNT_OPEN};
	struct file f;
	uint64_t call;

	other_writes(b, "f", "one");
	open.ino = k_lookup(b, "f");
	b->hold = true;
	call = bench_start(b, open);
	b->pending[0].op.get_contents.generation = 2;
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, EIO);
	b->hold = false;
	f = k_open(b, "f", O_RDONLY, SHELL);
	other_writes(b, "f", "two");
	b->hold = true;
	read.ino = f.ino;
	read.fh = f.fh;
	call = bench_start(b, read);
	b->pending[0].op.get_contents.generation = 3;
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, EIO);
	b->hold = false;
	k_read(b, f, 0, "two");
	k_close(b, f, SHELL);
}

/* The open takes a version along, but who reads or writes first still sees the newest. */
static void
test_first_look_is_at_the_newest(void **state)
{
	struct bench *b = *state;
	struct file f, g, a;

	other_writes(b, "f", "old");
	f = k_open(b, "f", O_RDONLY, SHELL);
	g = k_open(b, "f", O_RDWR, OTHER);
	a = k_open(b, "f", O_RDWR | O_APPEND, CHILD);
	other_writes(b, "f", "newest");
	assert_int_equal(k_write(b, a, CHILD, "!"), 0);
	assert_int_equal(k_stat(b, a.ino, CHILD).size, 4); /* as far as is known */
	k_read(b, a, 0, "newest!");
	assert_int_equal(k_stat(b, a.ino, CHILD).size, 7);
	k_read(b, f, 3, "est");
	assert_int_equal(k_write(b, g, OTHER, "N"), 0);
	assert_int_equal(k_flush(b, g, OTHER, 0), 0);
	k_close(b, a, CHILD);
	assert_file(b, "f", "Newest!");
	k_close(b, f, SHELL);
	k_release(b, g);
}

/* The lock brought a newer version: what is appended under it is read behind that. */
static void
test_appender_reads_on_under_a_lock(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", O_RDWR | O_APPEND, SHELL);
	k_read(b, f, 0, "old");
	other_writes(b, "f", "new");
	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, true), 0);
	assert_int_equal(k_write(b, f, SHELL, "!"), 0);
	k_read(b, f, 0, "new!");
	k_close(b, f, SHELL);
	assert_file(b, "f", "new!");
}

/* ---- the kernel's pages ---- */

static int
page(struct bench *b, struct file f, int64_t offset)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_READ, .ino = f.ino, .fh = f.fh,
	                                           .offset = offset, .size = 4096,
	                                           .for_page = true});
}

static void
assert_page(struct bench *b, struct file f, int64_t offset, const char *expected)
{
	assert_int_equal(page(b, f, offset), 0);
	assert_int_equal(b->data.len, strlen(expected));
	assert_memory_equal(b->data.data, expected, b->data.len);
}

static void
test_pages_show_nothing_uncommitted(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "committed");
	f = k_open(b, "f", O_RDWR, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "COMM"), 0);
	k_read(b, f, 0, "COMMitted");
	assert_page(b, f, 0, "committed");
	k_close(b, f, SHELL);
	assert_file(b, "f", "COMMitted");
}

/* Pages are the node's, whoever asks for them: none of them may be of another version. */
static void
test_pages_are_of_one_version(void **state)
{
	struct bench *b = *state;
	struct file f, g, late;

	other_writes(b, "f", "one");
	f = k_open(b, "f", O_RDONLY, SHELL);
	g = k_open(b, "f", O_RDONLY, OTHER);
	assert_page(b, f, 0, "one");
	other_writes(b, "f", "two");
	k_read(b, g, 0, "two");
	assert_page(b, g, 1, "ne");
	assert_page(b, f, 2, "e");
	k_close(b, f, SHELL);
	late = k_open(b, "f", O_RDONLY, CHILD);
	assert_page(b, late, 0, "one"); /* g may still have it mapped */
	k_close(b, g, OTHER);
	k_close(b, late, CHILD);
	late = k_open(b, "f", O_RDONLY, CHILD);
	assert_page(b, late, 0, "two");
	k_close(b, late, CHILD);
}

static void
test_pages_asked_for_at_once(void **state)
{
	struct bench *b = *state;
	struct mount_event read = {.kind = MOUNT_READ, .size = 4096, .for_page = true};
	struct file f, g;
	uint64_t first, second;

	other_writes(b, "f", "one");
	f = k_open(b, "f", O_RDONLY, SHELL);
	g = k_open(b, "f", O_RDONLY, OTHER);
	b->hold = true;
	read.ino = f.ino;
	read.fh = f.fh;
	first = bench_start(b, read);
	read.fh = g.fh;
	second = bench_start(b, read);
	bench_answer(b);
	other_writes(b, "f", "two");
	bench_answer(b);
	b->hold = false;
	assert_int_equal(bench_reply(b, first)->error, 0);
	assert_int_equal(bench_reply(b, second)->error, 0);
	assert_page(b, g, 0, "one");
	k_close(b, f, SHELL);
	k_close(b, g, OTHER);
}

/* The kernel's inode of a renamed file goes on with the pages that it has. */
static void
test_pages_of_a_renamed_file(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "one");
	f = k_open(b, "f", O_RDONLY, SHELL);
	assert_page(b, f, 0, "one");
	assert_int_equal(k_rename(b, "f", "g"), 0);
	other_writes(b, "g", "two");
	assert_page(b, f, 1, "ne");
	k_read(b, f, 0, "two");
	k_close(b, f, SHELL);
}

/* A mapping goes on when the session is lost: no process gets SIGBUS for it. */
static void
test_pages_outlive_the_session(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "one");
	f = k_open(b, "f", O_RDONLY, SHELL);
	assert_page(b, f, 0, "one");
	bench_new_session(b);
	assert_page(b, f, 1, "ne");
	k_release(b, f);
}

/* A signal is no reason for it either, not even in jeopardy; death is. */
static void
test_pages_and_signals(void **state)
{
	struct bench *b = *state;
	struct mount_event read = {.kind = MOUNT_READ, .size = 4096, .for_page = true};
	struct file f;
	uint64_t first, second;

	other_writes(b, "f", "one");
	f = k_open(b, "f", O_RDONLY, SHELL);
	b->hold = true;
	read.ino = f.ino;
	read.fh = f.fh;
	first = bench_start(b, read);
	second = bench_start(b, read);
	bench_state(b, CLIENT_JEOPARDY);
	bench_interrupt(b, first);
	bench_kill(b, second);
	bench_wait(b, 5000);
	assert_false(bench_answered(b, first));
	assert_int_equal(bench_reply(b, second)->error, EINTR);
	bench_state(b, CLIENT_SAFE);
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, first)->error, 0);
	b->hold = false;
	k_close(b, f, SHELL);
}

/* ---- deleted elsewhere ---- */

static void
test_first_read_after_a_deletion_elsewhere(void **state)
{
	struct bench *b = *state;
	struct file f, g, h;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDONLY, SHELL);
	g = k_open(b, "f", O_RDWR | O_APPEND, OTHER);
	h = k_open(b, "f", O_RDONLY, OTHER);
	assert_int_equal(k_write(b, g, OTHER, "!"), 0);
	other_deletes(b, "f");
	assert_page(b, h, 1, "bc");
	k_read(b, f, 1, "bc");
	k_read(b, f, 0, "abc");
	k_read(b, f, 3, "");
	k_read(b, g, 0, "abc!");
	assert_int_equal(k_flush(b, g, OTHER, 0), ESTALE);
	k_read(b, g, 0, "abc");
	assert_int_equal(b->fetched, 3);
	k_release(b, f);
	k_release(b, g);
	k_release(b, h);
	bench_wait(b, 1);
	assert_int_equal(mount_versions(b->mount), 0);
}

/* O_CREAT of a file that somebody else had just made is an open like any other. */
static void
test_created_elsewhere_and_deleted(void **state)
{
	struct bench *b = *state;
	struct mount_event create = {.kind = MOUNT_CREATE, .ino = NODE_ROOT, .mode = S_IFREG,
	                             .name = bytes_of("f"), .flags = O_RDWR | O_CREAT};
	struct mount_reply *r;
	struct file f;
	uint64_t call;

	other_writes(b, "f", "abc");
	r = bench_call(b, create);
	assert_int_equal(r->error, 0);
	f = (struct file){.ino = r->stat.ino, .fh = r->fh, .flags = O_RDWR};
	bench_asked(b, "create \"f\" | get_contents");
	other_deletes(b, "f");
	k_read(b, f, 0, "abc");
	k_close(b, f, SHELL);
	other_writes(b, "f", "def");
	b->hold = true;
	call = bench_start(b, create);
	bench_answer(b);
	other_deletes(b, "f");
	bench_answer(b);
	assert_int_equal(bench_reply(b, call)->error, ESTALE); /* the kernel tries again */
	b->hold = false;
	bench_wait(b, 1);
	assert_int_equal(mount_versions(b->mount), 0);
}

/* ---- deleted here ---- */

/* Python's TemporaryFile, and every other program that unlinks what it goes on using. */
static void
test_deleted_file_is_written_on(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "tmp", O_RDWR | O_CREAT | O_EXCL, SHELL);

	assert_int_equal(k_unlink(b, "tmp"), 0);
	buffer_reset(&b->trace);
	assert_int_equal(k_write(b, f, SHELL, "temporary"), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 9);
	assert_int_equal(k_stat(b, f.ino, SHELL).nlink, 0);
	k_read(b, f, 0, "temporary");
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_FSYNC, .ino = f.ino,
	                                                     .fh = f.fh}), 0);
	assert_int_equal(k_stat(b, f.ino, OTHER).size, 9);
	assert_int_equal(k_ftruncate(b, f, 4), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 4);
	k_read(b, f, 0, "temp");
	k_close(b, f, SHELL);
	bench_asked(b, ""); /* the cell knows nothing of it */
	assert_int_equal(k_lookup(b, "tmp"), 0);
}

static void
test_deleted_file_keeps_its_size_limit(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "tmp", O_RDWR | O_CREAT, SHELL);
	struct file g = k_open(b, "tmp", O_WRONLY | O_APPEND, SHELL);

	assert_int_equal(k_unlink(b, "tmp"), 0);
	assert_int_equal(k_write_at(b, f, SHELL, BIG - 1, "x"), 0);
	assert_int_equal(k_write_at(b, g, SHELL, 0, "y"), 0);
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	assert_int_equal(k_write_at(b, g, SHELL, 0, "z"), EFBIG);
	assert_int_equal(k_flush(b, g, SHELL, 0), EFBIG);
	k_release(b, f);
	k_release(b, g);
}

/* Two descriptors of a deleted file are as ever: each commits whole, and a lost race is told. */
static void
test_deleted_file_is_shared(void **state)
{
	struct bench *b = *state;
	struct file f, g, a;

	other_writes(b, "f", "base");
	f = k_open(b, "f", O_RDWR, SHELL);
	g = k_open(b, "f", O_RDWR, OTHER);
	a = k_open(b, "f", O_WRONLY | O_APPEND, OTHER);
	assert_int_equal(k_unlink(b, "f"), 0);
	assert_int_equal(k_write(b, f, SHELL, "F"), 0);
	assert_int_equal(k_write(b, g, OTHER, "G"), 0);
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	assert_int_equal(k_flush(b, g, OTHER, 0), ECANCELED);
	k_read(b, g, 0, "Fase");
	assert_int_equal(k_write(b, a, OTHER, "!"), 0);
	assert_int_equal(k_flush(b, a, OTHER, 0), 0);
	k_read(b, g, 0, "Fase!");
	k_read(b, f, 1, "ase");
	k_release(b, f);
	k_release(b, g);
	k_release(b, a);
	bench_wait(b, 1);
	assert_int_equal(mount_versions(b->mount), 0);
}

/* What was written before the deletion and not committed is not lost either. */
static void
test_deleted_with_uncommitted_writes(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL), g;

	g = k_open(b, "f", O_RDONLY, OTHER);
	assert_int_equal(k_write(b, f, SHELL, "abc"), 0);
	assert_int_equal(k_unlink(b, "f"), 0);
	k_read(b, f, 0, "abc");
	k_read(b, g, 0, "");
	k_close(b, f, SHELL);
	k_read(b, g, 0, "abc");
	k_close(b, g, OTHER);
}

/* A commit that is under way while the name goes is part of what lives on. */
static void
test_deleted_behind_a_commit(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);
	struct file g = k_open(b, "f", O_RDONLY, OTHER);
	uint64_t sync, gone;

	assert_int_equal(k_write(b, f, SHELL, "abc"), 0);
	b->hold = true;
	gone = bench_start(b, (struct mount_event){.kind = MOUNT_UNLINK, .ino = NODE_ROOT,
	                                           .name = bytes_of("f")});
	bench_answer(b); /* the lookup */
	bench_answer(b); /* the contents */
	sync = bench_start(b, (struct mount_event){.kind = MOUNT_FSYNC, .ino = f.ino, .fh = f.fh});
	assert_int_equal(b->pending_n, 2);
	b->hold = false;
	bench_answer_with(b, RC_NOENT); /* the deletion: somebody was quicker with that name */
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, gone)->error, ENOENT);
	assert_int_equal(bench_reply(b, sync)->error, 0);
	assert_int_equal(k_unlink(b, "f"), 0);
	k_read(b, g, 0, "abc");
	k_close(b, f, SHELL);
	k_close(b, g, OTHER);
}

static void
test_time_of_a_deleted_file(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);
	struct mount_event times = {.kind = MOUNT_SETATTR, .ino = f.ino, .fh = f.fh,
	                            .set = SET_MTIME, .mtime_ns = 5};

	assert_int_equal(k_unlink(b, "f"), 0);
	assert_int_equal(bench_error(b, times), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).mtime_ns, 5);
	k_close(b, f, SHELL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_readers_share_one_version),
		TEST(test_read_copies_nothing),
		TEST(test_what_is_known_is_not_sent_again),
		TEST(test_writers_fetch_nothing),
		TEST(test_same_as_what_is_unknown),
		TEST(test_first_look_is_at_the_newest),
		TEST(test_appender_reads_on_under_a_lock),
		TEST(test_pages_show_nothing_uncommitted),
		TEST(test_pages_are_of_one_version),
		TEST(test_pages_asked_for_at_once),
		TEST(test_pages_of_a_renamed_file),
		TEST(test_pages_outlive_the_session),
		TEST(test_pages_and_signals),
		TEST(test_first_read_after_a_deletion_elsewhere),
		TEST(test_created_elsewhere_and_deleted),
		TEST(test_deleted_file_is_written_on),
		TEST(test_deleted_file_keeps_its_size_limit),
		TEST(test_deleted_file_is_shared),
		TEST(test_deleted_with_uncommitted_writes),
		TEST(test_deleted_behind_a_commit),
		TEST(test_time_of_a_deleted_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
