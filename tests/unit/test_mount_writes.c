/* When what was written is committed: the sequences of requests that shells and tools cause. */
#include "tests/unit/mount_bench.h"

enum { TRUNC = O_WRONLY | O_TRUNC, BIG = LIMIT_CONTENTS };

/* The shell closes one of its two descriptors before it writes: no empty file may be seen. */
static void
test_echo_over_a_file(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_file(b, "f", "old");
	bench_asked(b, "lookup \"f\" | get_attr");
	assert_int_equal(k_write(b, f, SHELL, "x\n"), 0);
	bench_asked(b, "");
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	bench_asked(b, "set_contents any \"x\n\"");
	k_release(b, f);
	bench_asked(b, "");
}

static void
test_echo_into_a_new_file(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "new", TRUNC | O_CREAT, SHELL);

	bench_asked(b, "lookup \"new\" | create \"new\"");
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_int_equal(k_write(b, f, SHELL, "x\n"), 0);
	k_close(b, f, SHELL);
	bench_asked(b, "set_contents any \"x\n\"");
}

static void
test_truncation_alone(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	bench_asked(b, "lookup \"f\" | get_attr");
	assert_int_equal(bench_flush_wants(b, f, SHELL),
	                 WANTS_PROCESS | WANTS_FATE | WANTS_DESCRIPTORS);
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_int_equal(k_flush(b, f, CHILD, 0), 0); /* not by who opened it */
	bench_asked(b, "");
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	bench_asked(b, "set_contents any \"\"");
	k_release(b, f);
	bench_asked(b, "");
}

static struct file
truncated(struct bench *b, const char *name, int descriptors)
{
	struct file f = {.ino = k_lookup(b, name), .flags = TRUNC};
	struct mount_event open = {.kind = MOUNT_OPEN, .ino = f.ino, .pid = SHELL, .flags = TRUNC,
	                           .descriptors = descriptors};

	f.fh = bench_call(b, open)->fh;
	return f;
}

/* `: > f` while the shell has the same file open otherwise: those descriptors were there before,
 * so they say nothing of what is still to come. */
static void
test_truncation_beside_other_descriptors(void **state)
{
	struct bench *b = *state;
	struct mount_event open = {.kind = MOUNT_OPEN, .flags = TRUNC, .thread = SHELL};
	struct file before, f;

	other_writes(b, "f", "old");
	open.ino = k_lookup(b, "f");
	assert_int_equal(mount_wants(b->mount, &open), WANTS_PROCESS);
	before = k_open(b, "f", O_RDONLY, SHELL);
	assert_int_equal(mount_wants(b->mount, &open), WANTS_PROCESS | WANTS_DESCRIPTORS);
	f = truncated(b, "f", 1);
	assert_int_equal(k_flush(b, f, SHELL, 2), 0); /* as in `echo x > f` */
	assert_file(b, "f", "old");
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_file(b, "f", "");
	k_release(b, f);
	f = truncated(b, "f", -1); /* who can't be looked at is not looked at later either */
	assert_int_equal(k_flush(b, f, SHELL, -1), 0);
	bench_asked(b, "lookup \"f\" | lookup \"f\" | get_contents | lookup \"f\" | get_attr | "
	               "set_contents any \"\" | lookup \"f\" | get_attr | set_contents any \"\"");
	k_release(b, f);
	k_close(b, before, SHELL);
}

/* The kernel names threads; what was written and by whom it was opened is the process's. */
static void
test_threads_are_one_process(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", O_WRONLY, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "12345"), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL + 1).size, 5);
	assert_int_equal(k_stat(b, f.ino, CHILD + 1).size, 3);
	assert_int_equal(k_write_at(b, f, SHELL + 1, 5, "6"), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 6);
	assert_int_equal(k_flush(b, f, CHILD, 0), 0);
	assert_file(b, "f", "old");
	k_close(b, f, SHELL + 2);
	assert_file(b, "f", "123456");
}

static void
test_truncation_closed_by_another_thread(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL + 1);
	assert_int_equal(k_flush(b, f, CHILD + 1, 0), 0);
	assert_file(b, "f", "old");
	assert_int_equal(k_flush(b, f, SHELL + 2, 0), 0);
	assert_file(b, "f", "");
	k_release(b, f);
}

static unsigned
wants(struct bench *b, struct file f, enum mount_event_kind kind, pid_t thread)
{
	return mount_wants(b->mount, &(struct mount_event){
		.kind = kind, .ino = f.ino, .fh = f.fh, .thread = thread, .flags = O_RDWR,
		.lock_owner = (uint64_t)(thread - thread % THREADS) + 1});
}

/* Asking costs time: nothing is asked where nothing hangs on it. */
static void
test_the_process_is_asked_for_only_where_it_matters(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", O_RDWR, SHELL);
	assert_int_equal(wants(b, f, MOUNT_OPEN, SHELL), 0);
	assert_int_equal(wants(b, f, MOUNT_GETATTR, SHELL), 0);
	assert_int_equal(wants(b, f, MOUNT_FLUSH, SHELL), 0);
	assert_int_equal(wants(b, f, MOUNT_SETATTR, SHELL), WANTS_PROCESS);
	assert_int_equal(wants(b, f, MOUNT_WRITE, SHELL), WANTS_PROCESS);
	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	assert_int_equal(wants(b, f, MOUNT_READ, SHELL), 0);
	assert_int_equal(wants(b, f, MOUNT_WRITE, SHELL), 0);
	assert_int_equal(wants(b, f, MOUNT_WRITE, SHELL + 1), WANTS_PROCESS);
	assert_int_equal(wants(b, f, MOUNT_GETATTR, CHILD), WANTS_PROCESS);
	k_close(b, f, SHELL);
	assert_int_equal(wants(b, (struct file){.ino = f.ino}, MOUNT_GETATTR, SHELL), 0);
}

/* A write waits behind a commit, which ends the buffer that told whose thread it is. */
static void
test_write_behind_a_commit(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);
	uint64_t fsync, write;

	assert_int_equal(k_write(b, f, SHELL, "1"), 0);
	b->hold = true;
	fsync = bench_start(b, (struct mount_event){.kind = MOUNT_FSYNC, .ino = f.ino, .fh = f.fh});
	write = bench_start(b, (struct mount_event){
		.kind = MOUNT_WRITE, .ino = f.ino, .fh = f.fh, .offset = 1, .data = bytes_of("2"),
		.lock_owner = SHELL + 1});
	bench_answer_all(b);
	b->hold = false;
	assert_int_equal(bench_reply(b, fsync)->error, 0);
	assert_int_equal(bench_reply(b, write)->error, 0);
	assert_int_equal(k_stat(b, f.ino, SHELL + 1).size, 2);
	k_close(b, f, SHELL);
}

static void
test_truncation_of_unknown_descriptors(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_flush(b, f, SHELL, -1), 0);
	assert_file(b, "f", "");
	k_release(b, f);
}

/* `: > new`: it is empty already. */
static void
test_truncation_of_a_new_file(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "new", TRUNC | O_CREAT, SHELL);

	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	k_close(b, f, SHELL);
	bench_asked(b, "lookup \"new\" | create \"new\"");
}

static void
test_truncation_at_last_by_release(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	bench_asked(b, "lookup \"f\" | get_attr");
	k_release(b, f);
	bench_asked(b, "&set_contents any \"\"");
	assert_file(b, "f", "");
}

static void
test_append(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "a\n");
	f = k_open(b, "f", O_WRONLY | O_APPEND, SHELL);
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_int_equal(k_write_at(b, f, SHELL, 2, "b\n"), 0);
	other_writes(b, "f", "z\n");
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 4);
	k_close(b, f, SHELL);
	bench_asked(b, "lookup \"f\" | get_attr | append \"b\n\"");
	assert_file(b, "f", "z\nb\n");
}

static void
test_append_reads_its_own(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "a");
	f = k_open(b, "f", O_RDWR | O_APPEND, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "b"), 0);
	k_read(b, f, 0, "ab");
	assert_int_equal(k_write(b, f, SHELL, "c"), 0);
	k_read(b, f, 1, "bc");
	k_close(b, f, SHELL);
	assert_file(b, "f", "abc");
}

static void
test_dd_in_pieces(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_int_equal(k_write_at(b, f, SHELL, 0, "aa"), 0);
	assert_int_equal(k_write_at(b, f, SHELL, 2, "bb"), 0);
	assert_int_equal(k_write_at(b, f, SHELL, 5, "c"), 0);
	bench_asked(b, "lookup \"f\" | get_attr");
	assert_int_equal(bench_error(b, (struct mount_event){.kind = MOUNT_FSYNC, .ino = f.ino,
	                                                     .fh = f.fh}), 0);
	k_close(b, f, SHELL);
	assert_int_equal(attr_of(b->cell, f.ino).size, 6); /* with a hole of a zero byte */
	buffer_reset(&b->trace);
}

/* A child's close of an inherited descriptor commits what the child wrote into the same buffer. */
static void
test_group_with_a_child(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write_at(b, f, SHELL, 0, "a\n"), 0);
	bench_asked(b, "lookup \"f\" | get_attr");
	assert_int_equal(k_write_at(b, f, CHILD, 2, "c\n"), 0);
	assert_int_equal(k_flush(b, f, CHILD, 0), 0);
	bench_asked(b, "set_contents any \"a\nc\n\"");
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	bench_asked(b, "");
	k_release(b, f);
}

/* Who only inherited the descriptor and closes it says nothing about what is in the buffer. */
static void
test_child_that_wrote_nothing(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", TRUNC | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "half"), 0);
	assert_int_equal(k_flush(b, f, CHILD, 0), 0);
	assert_file(b, "f", "");
	assert_int_equal(k_write_at(b, f, SHELL, 4, " whole"), 0);
	k_close(b, f, SHELL);
	assert_file(b, "f", "half whole");
}

static int
truncate_to(struct bench *b, uint64_t ino, uint64_t size)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_SETATTR, .ino = ino,
	                                           .set = SET_SIZE | SET_MTIME | SET_MTIME_NOW,
	                                           .set_size = size});
}

static void
test_truncate_tool(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "abcdef");
	f = k_open(b, "f", O_WRONLY, SHELL);
	assert_int_equal(k_ftruncate(b, f, 3), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 3);
	assert_int_equal(k_stat(b, f.ino, OTHER).size, 6);
	buffer_reset(&b->trace);
	k_close(b, f, SHELL);
	bench_asked(b, "set_contents =2 \"abc\"");
}

static void
test_truncate_of_a_path(void **state)
{
	struct bench *b = *state;
	uint64_t ino;

	other_writes(b, "f", "abcdef");
	ino = k_lookup(b, "f");
	assert_int_equal(truncate_to(b, ino, 2), 0);
	bench_asked(b, "lookup \"f\" | get_contents | set_contents =2 \"ab\"");
	assert_int_equal(truncate_to(b, ino, 0), 0);
	bench_asked(b, "set_contents any \"\"");
	assert_int_equal(truncate_to(b, ino, BIG + 1), EFBIG);
}

/* Another write that comes between is no reason to fail: it is cut as well. */
static void
test_truncate_of_a_path_tries_again(void **state)
{
	struct bench *b = *state;
	uint64_t ino, call;

	other_writes(b, "f", "abcdef");
	ino = k_lookup(b, "f");
	b->hold = true;
	call = bench_start(b, (struct mount_event){.kind = MOUNT_SETATTR, .ino = ino,
	                                           .set = SET_SIZE, .set_size = 2});
	bench_answer(b);
	other_writes(b, "f", "xyz");
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, call)->error, 0);
	assert_file(b, "f", "xy");
}

/* One process, two ways: the descriptor's writes and the truncation by name become one buffer. */
static void
test_truncate_of_a_path_by_its_writer(void **state)
{
	struct bench *b = *state;
	struct mount_event cut = {.kind = MOUNT_SETATTR, .pid = SHELL + 1, .set = SET_SIZE};
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "abcdef"), 0);
	buffer_reset(&b->trace);
	cut.ino = f.ino;
	cut.set_size = 3;
	assert_int_equal(bench_call(b, cut)->error, 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 3);
	k_read(b, f, 0, "abc");
	cut.set_size = 5;
	assert_int_equal(bench_call(b, cut)->stat.size, 5);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 5);
	assert_int_equal(k_write_at(b, f, SHELL, 4, "E"), 0);
	bench_asked(b, "");
	k_close(b, f, SHELL);
	assert_int_equal(attr_of(b->cell, f.ino).size, 5);
	assert_int_equal(truncate_to(b, f.ino, 3), 0); /* nothing is left in a buffer */
	assert_file(b, "f", "abc");
}

static void
test_read_modify_write(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDWR, SHELL);
	assert_int_equal(k_write_at(b, f, SHELL, 1, "X"), 0);
	bench_asked(b, "lookup \"f\" | get_contents | get_contents but 2");
	k_close(b, f, SHELL);
	bench_asked(b, "set_contents =2 \"aXc\"");
}

/* The guard is what the handle read, not what was there when it wrote. */
static void
test_lost_compare_and_swap(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDWR, SHELL);
	k_read(b, f, 0, "abc");
	other_writes(b, "f", "new");
	assert_int_equal(k_write_at(b, f, SHELL, 0, "X"), 0);
	assert_int_equal(k_flush(b, f, SHELL, 0), ECANCELED);
	assert_file(b, "f", "new");
	k_read(b, f, 1, "ew"); /* renewed: what it had is worth nothing */
	assert_int_equal(k_flush(b, f, SHELL, 0), ECANCELED); /* told once more */
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	assert_int_equal(k_write_at(b, f, SHELL, 0, "X"), 0);
	k_close(b, f, SHELL);
	assert_file(b, "f", "Xew");
}

/* An error of fsync was heard: it is not told again. */
static void
test_fsync_tells_once(void **state)
{
	struct bench *b = *state;
	struct mount_event sync = {.kind = MOUNT_FSYNC};
	struct file f;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDWR, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "X"), 0);
	other_writes(b, "f", "new");
	sync.ino = f.ino;
	sync.fh = f.fh;
	assert_int_equal(bench_error(b, sync), ECANCELED);
	k_close(b, f, SHELL);
}

/* Only the first commit after O_TRUNC is unconditional. */
static void
test_second_commit_is_guarded(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", TRUNC | O_CREAT, SHELL);

	other_writes(b, "f", "between");
	assert_int_equal(k_write(b, f, SHELL, "one"), 0);
	assert_int_equal(k_flush(b, f, SHELL, 1), 0);
	assert_file(b, "f", "one");
	other_writes(b, "f", "between");
	assert_int_equal(k_write_at(b, f, SHELL, 3, "two"), 0);
	assert_int_equal(k_flush(b, f, SHELL, 0), ECANCELED);
	assert_file(b, "f", "between");
	k_release(b, f);
}

/* The flags are the call's: RWF_DSYNC, and fcntl(F_SETFL) long after the open. */
static void
test_flags_of_a_write(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "a\n");
	f = k_open(b, "f", O_RDWR, SHELL);
	f.flags |= O_DSYNC;
	assert_int_equal(k_write(b, f, SHELL, "A"), 0);
	assert_file(b, "f", "A\n");
	f.flags = O_RDWR | O_APPEND;
	other_writes(b, "f", "b\n");
	assert_int_equal(k_write_at(b, f, SHELL, 2, "c\n"), 0);
	other_writes(b, "f", "longer\n");
	k_close(b, f, SHELL);
	assert_file(b, "f", "longer\nc\n");
}

/* Appended first, then edited in place: one buffer. */
static void
test_append_then_overwrite(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "abc");
	f = k_open(b, "f", O_RDWR | O_APPEND, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "def"), 0);
	f.flags = O_RDWR;
	assert_int_equal(k_write_at(b, f, SHELL, 1, "B"), 0);
	k_read(b, f, 0, "aBcdef");
	k_close(b, f, SHELL);
	assert_file(b, "f", "aBcdef");
}

static void
test_cp_with_times(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_WRONLY | O_CREAT | O_EXCL, SHELL);
	struct mount_event times = {.kind = MOUNT_SETATTR, .ino = f.ino, .set = SET_MTIME,
	                            .mtime_ns = 86400ll * SECOND_NS};

	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	assert_int_equal(bench_error(b, times), 0);
	k_close(b, f, SHELL);
	assert_true(attr_of(b->cell, f.ino).mtime_ns == times.mtime_ns);
	assert_file(b, "f", "x");
}

/* The time is that of the contents: what is written after it was set has another. */
static void
test_times_of_a_dirty_file(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);
	struct mount_event times = {.kind = MOUNT_SETATTR, .ino = f.ino, .pid = SHELL,
	                            .set = SET_MTIME, .mtime_ns = 5};

	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	assert_int_equal(bench_error(b, times), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).mtime_ns, 5);
	assert_int_equal(k_write(b, f, SHELL, "y"), 0);
	assert_true(k_stat(b, f.ino, SHELL).mtime_ns != 5);
	k_close(b, f, SHELL);
	assert_true(attr_of(b->cell, f.ino).mtime_ns != 5);
}

/* sed -i and editors: a temporary file is written and renamed over the old one. */
static void
test_safe_save(void **state)
{
	struct bench *b = *state;
	struct file old, f;
	uint64_t ino;

	other_writes(b, "f", "old");
	old = k_open(b, "f", O_RDONLY, OTHER);
	k_read(b, old, 0, "old");
	ino = old.ino;
	f = k_open(b, "tmp", O_RDWR | O_CREAT | O_EXCL, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "new"), 0);
	k_close(b, f, SHELL);
	buffer_reset(&b->trace);
	assert_int_equal(k_rename(b, "tmp", "f"), 0);
	bench_asked(b, "lookup \"tmp\" | rename \"tmp\" \"f\"");
	assert_int_equal(k_lookup(b, "f"), ino);
	assert_int_equal(k_lookup(b, "tmp"), 0);
	k_read(b, old, 1, "ld"); /* goes on in its version */
	k_read(b, old, 0, "new");
	k_close(b, old, OTHER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_echo_over_a_file),
		TEST(test_echo_into_a_new_file),
		TEST(test_truncation_alone),
		TEST(test_truncation_beside_other_descriptors),
		TEST(test_threads_are_one_process),
		TEST(test_truncation_closed_by_another_thread),
		TEST(test_the_process_is_asked_for_only_where_it_matters),
		TEST(test_write_behind_a_commit),
		TEST(test_truncation_of_unknown_descriptors),
		TEST(test_truncation_of_a_new_file),
		TEST(test_truncation_at_last_by_release),
		TEST(test_append),
		TEST(test_append_reads_its_own),
		TEST(test_dd_in_pieces),
		TEST(test_group_with_a_child),
		TEST(test_child_that_wrote_nothing),
		TEST(test_truncate_tool),
		TEST(test_truncate_of_a_path),
		TEST(test_truncate_of_a_path_tries_again),
		TEST(test_truncate_of_a_path_by_its_writer),
		TEST(test_read_modify_write),
		TEST(test_lost_compare_and_swap),
		TEST(test_fsync_tells_once),
		TEST(test_second_commit_is_guarded),
		TEST(test_flags_of_a_write),
		TEST(test_append_then_overwrite),
		TEST(test_cp_with_times),
		TEST(test_times_of_a_dirty_file),
		TEST(test_safe_save),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
