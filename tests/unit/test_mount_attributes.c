/* Extended attributes, chmod, chown, times, statfs. */
#include <stdio.h>
#include <sys/xattr.h>
#include "tests/unit/mount_bench.h"

static int
setattr_error(struct bench *b, struct mount_event e)
{
	e.kind = MOUNT_SETATTR;
	return bench_error(b, e);
}

static void
assert_names(struct bench *b, uint64_t ino, const char *expected)
{
	struct mount_event list = {.kind = MOUNT_LISTXATTR, .ino = ino};

	assert_int_equal(bench_error(b, list), 0);
	for (size_t n = 0; n < b->data.len; n++)
		if (b->data.data[n] == 0)
			b->data.data[n] = ' ';
	buffer_put_u8(&b->data, 0);
	assert_string_equal((char *)b->data.data, expected);
}

#define NODE_NAMES \
	"user.ls.acl.read user.ls.acl.write user.ls.acl.change user.ls.lock_delay " \
	"user.ls.lock_generation user.ls.lock "

static void
test_names(void **state)
{
	struct bench *b = *state;
	uint64_t f, d = new_directory(b->cell, NODE_ROOT, "d");

	other_writes(b, "f", "abc");
	f = k_lookup(b, "f");
	assert_names(b, d, "user.ls.instance user.ls.acl_generation user.ls.ephemeral " NODE_NAMES);
	assert_names(b, f, "user.ls.instance user.ls.content_generation user.ls.acl_generation "
	                   "user.ls.checksum user.ls.ephemeral " NODE_NAMES);
	assert_int_equal(k_setxattr(b, d, "user.ls.lock", "exclusive"), 0);
	assert_names(b, d, "user.ls.instance user.ls.acl_generation user.ls.ephemeral " NODE_NAMES
	                   "user.ls.lock_holders user.ls.sequencer user.ls.fence ");
	other_locks(b, f, LOCK_EXCLUSIVE); /* another session's: no sequencer here */
	assert_names(b, f, "user.ls.instance user.ls.content_generation user.ls.acl_generation "
	                   "user.ls.checksum user.ls.ephemeral " NODE_NAMES
	                   "user.ls.lock_holders ");
}

static void
test_values(void **state)
{
	struct bench *b = *state;
	char instance[32];
	uint64_t f;

	other_writes(b, "f", "abc");
	f = k_lookup(b, "f");
	snprintf(instance, sizeof instance, "%llu", (unsigned long long)f);
	assert_int_equal(k_getxattr(b, f, "user.ls.instance", instance), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.content_generation", "2"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.acl_generation", "1"), 0);
	/* as xxh64sum prints it */
	assert_int_equal(k_getxattr(b, f, "user.ls.checksum", "44bc2cf5ad770999"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.ephemeral", "0"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.lock", "free"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.lock_generation", "0"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.lock_delay", "15"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.acl.read", "everyone"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.lock_holders", NULL), ENODATA);
	assert_int_equal(k_getxattr(b, f, "user.ls.sequencer", NULL), ENODATA);
	assert_int_equal(k_getxattr(b, f, "user.ls.fence", NULL), ENODATA);
	assert_int_equal(k_getxattr(b, NODE_ROOT, "user.ls.checksum", NULL), ENODATA);
}

static void
test_lock_values(void **state)
{
	struct bench *b = *state;
	struct file f = k_open(b, "f", O_RDWR | O_CREAT, SHELL);
	char holder[128];

	assert_int_equal(k_flock(b, f, LOCK_SHARED, false), 0);
	assert_int_equal(k_getxattr(b, f.ino, "user.ls.lock", "shared 1"), 0);
	assert_int_equal(k_getxattr(b, f.ino, "user.ls.lock_generation", "1"), 0);
	assert_int_equal(k_getxattr(b, f.ino, "user.ls.fence", NULL), 0);
	assert_int_equal(k_getxattr(b, f.ino, "user.ls.sequencer", NULL), 0);
	assert_int_equal(k_getxattr(b, f.ino, "user.ls.lock_holders", NULL), 0);
	buffer_put_u8(&b->data, 0);
	snprintf(holder, sizeof holder, "%llu ", (unsigned long long)b->session);
	assert_ptr_equal(strstr((char *)b->data.data, holder), b->data.data);
	snprintf(holder, sizeof holder, " %d shared ", SHELL);
	assert_non_null(strstr((char *)b->data.data, holder));
	k_close(b, f, SHELL);
}

/* mv and cp -a copy attributes to what they have just made, whichever thread of theirs does it. */
static void
test_read_only_for_the_maker(void **state)
{
	struct bench *b = *state;
	struct mount_reply *made = bench_call(b, (struct mount_event){
		.kind = MOUNT_MKDIR, .ino = NODE_ROOT, .name = bytes_of("d"), .mode = 0777});
	struct mount_event copy = {.kind = MOUNT_SETXATTR, .ino = made->stat.ino,
	                           .name = bytes_of("user.ls.instance"), .data = bytes_of("1"),
	                           .pid = SHELL + 1};

	assert_int_equal(made->error, 0);
	assert_int_equal(bench_error(b, copy), EOPNOTSUPP);
	copy.pid = CHILD;
	assert_int_equal(bench_error(b, copy), EPERM);
}

static void
test_refusals(void **state)
{
	struct bench *b = *state;
	struct mount_event create = {.kind = MOUNT_SETXATTR, .ino = NODE_ROOT,
	                             .name = bytes_of("user.ls.lock_delay"),
	                             .data = bytes_of("1"), .flags = XATTR_CREATE};
	struct mount_event gone = {.kind = MOUNT_REMOVEXATTR, .ino = NODE_ROOT};

	buffer_reset(&b->trace);
	assert_int_equal(k_getxattr(b, NODE_ROOT, "security.selinux", NULL), EOPNOTSUPP);
	assert_int_equal(k_getxattr(b, NODE_ROOT, "system.posix_acl_access", NULL), EOPNOTSUPP);
	assert_int_equal(k_getxattr(b, NODE_ROOT, "user.mine", NULL), ENODATA);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "system.posix_acl_access", "x"), EOPNOTSUPP);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.mine", "x"), EOPNOTSUPP);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.instance", "7"), EPERM);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.lock_delay", "soon"), EINVAL);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.lock_delay", ""), EINVAL);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.lock_delay", "61"), ERANGE);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.lock_delay", "-1"), ERANGE);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.lock_delay", "99999999999999999999"),
	                 ERANGE);
	assert_int_equal(k_setxattr(b, NODE_ROOT, "user.ls.acl.read", ""), EINVAL);
	assert_int_equal(bench_error(b, create), EEXIST);
	gone.name = bytes_of("user.mine");
	assert_int_equal(bench_error(b, gone), ENODATA);
	gone.name = bytes_of("user.ls.instance");
	assert_int_equal(bench_error(b, gone), EPERM);
	bench_asked(b, ""); /* all of it from memory */
}

static void
test_settable(void **state)
{
	struct bench *b = *state;
	struct mount_event gone = {.kind = MOUNT_REMOVEXATTR,
	                           .name = bytes_of("user.ls.lock_delay")};
	uint64_t f;

	other_writes(b, "f", "abc");
	f = k_lookup(b, "f");
	assert_int_equal(k_setxattr(b, f, "user.ls.lock_delay", "0"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.lock_delay", "0"), 0);
	gone.ino = f;
	assert_int_equal(bench_error(b, gone), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.lock_delay", "15"), 0);
	assert_int_equal(k_setxattr(b, f, "user.ls.acl.write", "admin"), 0);
	assert_int_equal(k_getxattr(b, f, "user.ls.acl.write", "admin"), 0);
	assert_int_equal(k_setxattr(b, f, "user.ls.acl.write", "nobody"), ENOENT);
}

static void
test_chmod_chown(void **state)
{
	struct bench *b = *state;
	uint64_t f;

	other_writes(b, "f", "abc");
	f = k_lookup(b, "f");
	assert_int_equal(setattr_error(b, (struct mount_event){.ino = f, .set = SET_MODE,
	                                                       .mode = 0644}), 0);
	assert_int_equal(setattr_error(b, (struct mount_event){.ino = f, .set = SET_MODE,
	                                                       .mode = 01777}), 0);
	assert_false(k_stat(b, f, SHELL).mode & S_ISVTX);
	assert_int_equal(setattr_error(b, (struct mount_event){.ino = f, .set = SET_MODE,
	                                                       .mode = 0600}), EPERM);
	assert_int_equal(setattr_error(b, (struct mount_event){
		.ino = f, .set = SET_UID | SET_GID, .set_uid = 1000, .set_gid = 1000}), 0);
	assert_int_equal(setattr_error(b, (struct mount_event){.ino = f, .set = SET_UID,
	                                                       .set_uid = 0}), EPERM);
	assert_int_equal(setattr_error(b, (struct mount_event){.ino = f, .set = SET_GID,
	                                                       .set_gid = 7}), EPERM);
}

static void
test_quiet(void **state)
{
	struct bench *b = bench_new(&(struct mount_config){.cell = "local", .quiet = true});
	struct mount_event e = {.set = SET_MODE | SET_UID, .mode = 0, .set_uid = 7};

	(void)state;
	other_writes(b, "f", "abc");
	e.ino = k_lookup(b, "f");
	assert_int_equal(setattr_error(b, e), 0);
	assert_int_equal(k_stat(b, e.ino, SHELL).mode, S_IFREG | 0644);
	bench_free(b);
}

static void
test_times(void **state)
{
	struct bench *b = *state;
	struct mount_event e = {.set = SET_MTIME | SET_ATIME, .mtime_ns = 5};

	other_writes(b, "f", "abc");
	e.ino = k_lookup(b, "f");
	assert_int_equal(setattr_error(b, e), 0);
	assert_int_equal(k_stat(b, e.ino, SHELL).mtime_ns, 5);
	e.set = SET_ATIME;
	e.mtime_ns = 9;
	assert_int_equal(setattr_error(b, e), 0);
	assert_int_equal(k_stat(b, e.ino, SHELL).mtime_ns, 5);
	e.set = SET_MTIME | SET_MTIME_NOW;
	assert_int_equal(setattr_error(b, e), 0);
	assert_true(k_stat(b, e.ino, SHELL).mtime_ns > 5);
}

static void
test_statfs(void **state)
{
	struct bench *b = *state;
	struct mount_reply *r;

	other_writes(b, "f", "abc");
	r = bench_call(b, (struct mount_event){.kind = MOUNT_STATFS, .ino = NODE_ROOT});
	assert_int_equal(r->error, 0);
	assert_int_equal(r->kind, MOUNT_STATS);
	assert_true(r->bytes >= 3 && r->bytes_quota > r->bytes);
	assert_true(r->nodes >= 5 && r->nodes_quota > r->nodes);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_names),
		TEST(test_values),
		TEST(test_lock_values),
		TEST(test_read_only_for_the_maker), TEST(test_refusals),
		TEST(test_settable),
		TEST(test_chmod_chown),
		cmocka_unit_test(test_quiet),
		TEST(test_times),
		TEST(test_statfs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
