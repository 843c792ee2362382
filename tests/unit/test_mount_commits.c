/* What becomes of what was written and not yet committed: writers that are killed, files that get
 * too big, readers meanwhile, calls that are interrupted, a session that ends. */
#include "tests/unit/mount_bench.h"

enum { TRUNC = O_WRONLY | O_TRUNC, BIG = LIMIT_CONTENTS };

/* ---- killed writers, limits, modes ---- */

static void
test_killed_writer_commits_nothing(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "hal"), 0);
	assert_int_equal(bench_flush_wants(b, f, SHELL), WANTS_PROCESS | WANTS_FATE);
	assert_int_equal(bench_flush_wants(b, f, OTHER), WANTS_PROCESS);
	assert_int_equal(k_flush_killed(b, f, SHELL), 0);
	k_release(b, f);
	assert_file(b, "f", "old");
}

static void
test_killed_before_writing(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_flush_killed(b, f, SHELL), 0);
	k_release(b, f);
	assert_file(b, "f", "old");
}

/* What another process wrote into the same buffer is committed by its own close, or not at all. */
static void
test_killed_beside_another_writer(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", TRUNC | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "mine"), 0);
	assert_int_equal(k_write_at(b, f, CHILD, 4, " hal"), 0);
	assert_int_equal(k_flush_killed(b, f, CHILD), 0);
	assert_file(b, "f", "");
	k_release(b, f);
	assert_file(b, "f", "");
}

/* Who opened the file for the one who was killed has not written. */
static void
test_killed_writer_of_another_opener(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write(b, f, CHILD, "half"), 0);
	assert_int_equal(k_flush_killed(b, f, CHILD), 0);
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	assert_file(b, "f", "old");
	assert_int_equal(k_write_at(b, f, OTHER, 0, "whole"), 0); /* begins with nothing */
	k_close(b, f, OTHER);
	assert_file(b, "f", "whole");
}

/* Who only opened and truncated does not commit what another one is still writing. */
static void
test_opener_closes_before_its_writer(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write(b, f, CHILD, "ha"), 0);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 2);
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	assert_file(b, "f", "old");
	assert_int_equal(k_write_at(b, f, CHILD, 2, "lf"), 0);
	k_close(b, f, CHILD);
	assert_file(b, "f", "half");
}

static void
test_release_is_the_last_resort(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", TRUNC | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	buffer_reset(&b->trace);
	k_release(b, f);
	bench_asked(b, "&set_contents any \"x\"");
	assert_file(b, "f", "x");
}

static void
test_too_big(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL), g;

	assert_int_equal(k_write_at(b, f, SHELL, BIG, "x"), EFBIG);
	assert_int_equal(k_write_at(b, f, SHELL, BIG - 1, "x"), 0);
	assert_int_equal(k_ftruncate(b, f, BIG + 1), EFBIG);
	k_close(b, f, SHELL);
	g = k_open(b, "f", O_WRONLY | O_APPEND, SHELL);
	assert_int_equal(k_write(b, g, SHELL, "x"), EFBIG);
	k_close(b, g, SHELL);
}

/* A copy that failed leaves what was there: the beginning of it is nobody's contents. */
static void
test_refused_write_commits_nothing(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "beginning"), 0);
	assert_int_equal(k_write_at(b, f, SHELL, BIG, "x"), EFBIG);
	assert_int_equal(k_flush(b, f, SHELL, 0), EFBIG);
	k_release(b, f);
	assert_file(b, "f", "old");

	f = k_open(b, "f", TRUNC, SHELL); /* the very first write */
	assert_int_equal(k_write_at(b, f, SHELL, BIG, "x"), EFBIG);
	assert_int_equal(k_flush(b, f, SHELL, 0), EFBIG);
	k_release(b, f);
	assert_file(b, "f", "old");
}

static void
test_refused_write_at_release(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write_at(b, f, SHELL, BIG, "x"), EFBIG);
	k_release(b, f);
	assert_file(b, "f", "old");
}

/* Who cuts the file and begins again has heard. */
static void
test_refused_write_and_a_fresh_start(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", TRUNC | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "beginning"), 0);
	assert_int_equal(k_write_at(b, f, SHELL, BIG, "x"), EFBIG);
	assert_int_equal(k_ftruncate(b, f, 0), 0);
	assert_int_equal(k_write(b, f, SHELL, "less"), 0);
	k_close(b, f, SHELL);
	assert_file(b, "f", "less");
}

/* What stands against an appender is the size now, not when it last looked. */
static void
test_appender_learns_that_there_is_room(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL), g;

	assert_int_equal(k_write_at(b, f, SHELL, BIG - 1, "x"), 0);
	k_close(b, f, SHELL);
	g = k_open(b, "f", O_WRONLY | O_APPEND, SHELL);
	assert_int_equal(k_write(b, g, SHELL, "x"), EFBIG);
	other_writes(b, "f", "");
	assert_int_equal(k_write(b, g, SHELL, "x"), 0);
	k_close(b, g, SHELL);
	assert_file(b, "f", "x");
}

static void
test_commit_at_write(void **state)
{
	struct bench *b =
	    bench_new(&(struct mount_config){.cell = "local", .commit_at_write = true});
	struct file f;

	(void)state;
	other_writes(b, "f", "old");
	f = k_open(b, "f", TRUNC, SHELL);
	assert_int_equal(k_write(b, f, SHELL, "a"), 0);
	assert_int_equal(k_write_at(b, f, SHELL, 1, "b"), 0);
	bench_asked(b, "lookup \"f\" | get_attr | set_contents any \"a\" | set_contents =3 \"ab\"");
	other_writes(b, "f", "new");
	assert_int_equal(k_write_at(b, f, SHELL, 2, "c"), ECANCELED);
	k_close(b, f, SHELL);
	bench_free(b);
}

/* ---- snapshots ---- */

static void
test_reader_sees_one_version(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "one");
	f = k_open(b, "f", O_RDONLY, SHELL);
	bench_asked(b, "lookup \"f\" | get_contents");
	k_read(b, f, 0, "one");
	other_writes(b, "f", "twice");
	k_read(b, f, 1, "ne");
	k_read(b, f, 3, ""); /* the end, of the version it read */
	bench_asked(b, "get_contents but 2");
	k_read(b, f, 3, "ce"); /* a second time in a row: tail -f */
	k_read(b, f, 5, "");
	bench_asked(b, "get_contents but 2");
	k_read(b, f, 0, "twice");
	bench_asked(b, "get_contents but 3");
	k_close(b, f, SHELL);
	bench_asked(b, "");
}

static void
test_stat_of_uncommitted(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", TRUNC | O_CREAT, SHELL);

	assert_int_equal(k_write(b, f, SHELL, "abc"), 0);
	buffer_reset(&b->trace);
	assert_int_equal(k_stat(b, f.ino, SHELL).size, 3);
	bench_asked(b, "");
	assert_int_equal(k_stat(b, f.ino, OTHER).size, 0);
	bench_asked(b, "get_attr");
	k_close(b, f, SHELL);
	assert_int_equal(k_stat(b, f.ino, OTHER).size, 3);
}

/* A read through the handle that truncated commits that first. */
static void
test_read_after_truncation(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "old");
	f = k_open(b, "f", O_RDWR | O_TRUNC, SHELL);
	k_read(b, f, 0, "");
	assert_file(b, "f", "");
	k_close(b, f, SHELL);
}

/* ---- order, interrupts, deaths ---- */

/* While a commit is under way the handle's other calls wait behind it; other handles do not. */
static void
test_calls_wait_behind_a_commit(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL), g = k_open(b, "f", O_RDWR, OTHER);
	uint64_t flush, write, read;

	assert_int_equal(k_write(b, f, SHELL, "abc"), 0);
	b->hold = true;
	flush = bench_start(b, (struct mount_event){.kind = MOUNT_FLUSH, .fh = f.fh,
	                                            .lock_owner = SHELL + 1});
	write = bench_start(b, (struct mount_event){.kind = MOUNT_WRITE, .fh = f.fh, .offset = 1,
	                                            .data = bytes_of("X"), .pid = CHILD,
	                                            .lock_owner = CHILD + 1});
	read = bench_start(b, (struct mount_event){.kind = MOUNT_READ, .fh = g.fh, .size = 10});
	assert_false(bench_answered(b, write));
	assert_int_equal(b->pending_n, 2);
	bench_answer(b);
	assert_true(bench_answered(b, flush) && bench_answered(b, write));
	assert_false(bench_answered(b, read));
	bench_answer_all(b);
	assert_int_equal(bench_reply(b, read)->error, 0);
	assert_file(b, "f", "abc");
	b->hold = false;
	k_flush(b, f, CHILD, 0);
	assert_file(b, "f", "aXc");
	k_release(b, f);
	k_release(b, g);
}

static void
test_interrupted_commit(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);
	uint64_t flush;

	assert_int_equal(k_write(b, f, SHELL, "abc"), 0);
	b->hold = true;
	flush = bench_start(b, (struct mount_event){.kind = MOUNT_FLUSH, .fh = f.fh,
	                                            .lock_owner = SHELL + 1});
	bench_kill(b, flush);
	assert_int_equal(bench_reply(b, flush)->error, EINTR);
	k_release(b, f); /* commits nothing again */
	assert_int_equal(b->pending_n, 1);
	bench_answer_all(b);
	assert_file(b, "f", "abc");
}

/* Everything that a close leaves to do is sent at once, before anything that comes later. */
static void
test_release_sends_all_at_once(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);

	assert_int_equal(k_flock(b, f, LOCK_EXCLUSIVE, false), 0);
	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	buffer_reset(&b->trace);
	b->hold = true;
	k_release(b, f);
	bench_asked(b, "&set_contents =1 \"x\" | &release");
	bench_answer_all(b);
	assert_lock(b, f.ino, LOCK_STATE_FREE);
}

static void
test_session_death_takes_the_buffer(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL), g;

	assert_int_equal(k_write(b, f, SHELL, "x"), 0);
	bench_new_session(b);
	assert_true(b->forget_names);
	assert_int_equal(k_write(b, f, SHELL, "y"), ESTALE);
	assert_int_equal(k_flush(b, f, SHELL, 0), ESTALE);
	assert_int_equal(k_flush(b, f, SHELL, 0), 0);
	buffer_reset(&b->trace);
	k_release(b, f);
	bench_asked(b, "");
	assert_file(b, "f", "");
	g = k_open(b, "f", O_RDWR, SHELL);
	assert_int_equal(k_write(b, g, SHELL, "z"), 0);
	k_close(b, g, SHELL);
	assert_file(b, "f", "z");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_killed_writer_commits_nothing),
		TEST(test_killed_before_writing),
		TEST(test_killed_beside_another_writer),
		TEST(test_killed_writer_of_another_opener),
		TEST(test_opener_closes_before_its_writer),
		TEST(test_release_is_the_last_resort),
		TEST(test_too_big),
		TEST(test_refused_write_commits_nothing),
		TEST(test_refused_write_at_release),
		TEST(test_refused_write_and_a_fresh_start),
		TEST(test_appender_learns_that_there_is_room),
		cmocka_unit_test(test_commit_at_write),
		TEST(test_reader_sees_one_version),
		TEST(test_stat_of_uncommitted),
		TEST(test_read_after_truncation),
		TEST(test_calls_wait_behind_a_commit),
		TEST(test_interrupted_commit),
		TEST(test_release_sends_all_at_once),
		TEST(test_session_death_takes_the_buffer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
