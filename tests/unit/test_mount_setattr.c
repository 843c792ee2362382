/* chmod and utimens: what tools do to files, answered without breaking them. */
#include "tests/unit/mount_bench.h"

static int
set_mode(struct bench *b, uint64_t ino, mode_t mode, pid_t pid)
{
	return bench_error(b, (struct mount_event){.kind = MOUNT_SETATTR, .ino = ino, .pid = pid,
	                                           .set = SET_MODE, .mode = S_IFREG | mode});
}

/* install -m 600: CREATE with 0600, chmod 0600 behind the close; cp -p of a private file: any. */
static void
test_mode_of_creation(void **state)
{
	struct bench *b = *state;
	struct mount_reply *r = bench_call(b, (struct mount_event){
		.kind = MOUNT_CREATE, .ino = NODE_ROOT, .name = bytes_of("f"), .pid = SHELL,
		.mode = S_IFREG | 0600, .flags = O_WRONLY | O_CREAT | O_EXCL});
	struct file f = {.ino = r->stat.ino, .fh = r->fh, .opener = SHELL};

	assert_int_equal(r->error, 0);
	assert_int_equal(set_mode(b, f.ino, 0600, SHELL), 0);
	assert_int_equal(set_mode(b, f.ino, 0600, CHILD), EPERM);
	assert_int_equal(set_mode(b, f.ino, 0640, SHELL + 1), 0); /* another thread */
	assert_int_equal(set_mode(b, f.ino, 0755, SHELL), 0);
	k_close(b, f, SHELL);
	assert_int_equal(set_mode(b, f.ino, 0600, SHELL), 0);
	assert_int_equal(set_mode(b, f.ino, 0600, CHILD), EPERM);
}

/* cp -a and rsync make a directory, fill it, and say its mode at the end. */
static void
test_mode_of_a_new_directory(void **state)
{
	struct bench *b = *state;
	uint64_t ino = bench_call(b, (struct mount_event){
		.kind = MOUNT_MKDIR, .ino = NODE_ROOT, .name = bytes_of("d"), .mode = 0700,
		.pid = SHELL})->stat.ino;

	assert_int_equal(set_mode(b, ino, 0700, SHELL), 0);
	assert_int_equal(set_mode(b, ino, 0700, CHILD), EPERM);
}

/* tar --xattrs makes a file by mknod, gives it attributes, then opens it. */
static void
test_mknod(void **state)
{
	struct bench *b = *state;
	struct mount_event make = {.kind = MOUNT_MKNOD, .ino = NODE_ROOT, .name = bytes_of("f"),
	                           .mode = S_IFREG | 0600, .pid = SHELL};
	struct mount_reply *r = bench_call(b, make);

	assert_int_equal(r->error, 0);
	assert_int_equal(r->kind, MOUNT_ENTRY);
	assert_int_equal(r->stat.mode, S_IFREG | 0644);
	assert_int_equal(set_mode(b, r->stat.ino, 0600, SHELL), 0);
	assert_int_equal(bench_error(b, make), EEXIST);
	make.name = bytes_of("e");
	make.mode |= S_ISVTX;
	assert_int_equal(bench_error(b, make), EPERM);
	assert_int_equal(k_lookup(b, "e"), 0);
}

static void
test_mode_of_an_older_file(void **state)
{
	struct bench *b = *state;
	struct file f;

	other_writes(b, "f", "x");
	f = k_open(b, "f", O_WRONLY | O_CREAT, SHELL);
	assert_int_equal(set_mode(b, f.ino, 0600, SHELL), EPERM);
	assert_int_equal(set_mode(b, f.ino, 0666, SHELL), 0);
	k_close(b, f, SHELL);
}

/* cp -p and tar set the time of each directory: accepted, and it stays what it was. */
static void
test_time_of_a_directory(void **state)
{
	struct bench *b = *state;
	int64_t before = k_stat(b, NODE_ROOT, SHELL).mtime_ns;

	assert_int_equal(bench_error(b, (struct mount_event){
		.kind = MOUNT_SETATTR, .ino = NODE_ROOT, .set = SET_MTIME, .mtime_ns = 1}), 0);
	assert_int_equal(k_stat(b, NODE_ROOT, SHELL).mtime_ns, before);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_mode_of_creation),
		TEST(test_mode_of_a_new_directory),
		TEST(test_mknod),
		TEST(test_mode_of_an_older_file),
		TEST(test_time_of_a_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
