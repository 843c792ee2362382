/* Run records: who serves a mount point, and what a killed one leaves to the next. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/sys/mountinfo.h"
#include "cell/sys/run_dir.h"

static char base[] = "/tmp/lsfs-rundir.XXXXXX";

static struct run_record
sample(void)
{
	struct run_record r = {.source = "/data dir", .cell = "dc1", .key = "/k", .session = 77};

	snprintf(r.mountpoint, sizeof r.mountpoint, "%s/m n", base);
	for (int i = 0; i < LIMIT_NONCE; i++)
		r.nonce[i] = (uint8_t)(i * 17);
	return r;
}

TEST(test_one_owner)
{
	struct run_record r = sample(), seen, earlier;
	struct run_file file, other;
	bool alive;

	assert_false(run_dir_read(r.mountpoint, &seen, &alive));
	assert_int_equal(run_dir_own(r.mountpoint, &file, &earlier), 0);
	assert_int_equal(earlier.session, 0);
	assert_int_equal(run_dir_write(&file, &r), 0);
	assert_int_equal(run_dir_own(r.mountpoint, &other, &earlier), -EBUSY);
	assert_true(run_dir_read(r.mountpoint, &seen, &alive));
	assert_true(alive);
	assert_string_equal(seen.source, r.source);
	assert_string_equal(seen.cell, r.cell);
	assert_string_equal(seen.key, r.key);
	assert_int_equal(seen.session, 77);
	assert_int_equal(seen.pid, getpid());
	assert_memory_equal(seen.nonce, r.nonce, sizeof r.nonce);
	run_dir_drop(&file);
	assert_false(run_dir_read(r.mountpoint, &seen, &alive));
}

/* A child takes the record and is killed: nobody owns it, and its session is there to be ended. */
TEST(test_killed_owner)
{
	struct run_record r = sample(), earlier;
	struct run_file file;
	int ready[2];
	char byte;
	bool alive;
	pid_t child;

	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		if (run_dir_own(r.mountpoint, &file, &earlier) || run_dir_write(&file, &r))
			_exit(1);
		(void)!write(ready[1], "x", 1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(run_dir_own(r.mountpoint, &file, &earlier), -EBUSY);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(run_dir_read(r.mountpoint, &earlier, &alive));
	assert_false(alive);
	memset(&earlier, 0, sizeof earlier);
	assert_int_equal(run_dir_own(r.mountpoint, &file, &earlier), 0);
	assert_int_equal(earlier.session, 77);
	assert_memory_equal(earlier.nonce, r.nonce, sizeof r.nonce);
	run_dir_drop(&file);
	close(ready[0]);
}

/* The nonce is a secret: a directory that others may read is refused. (Root's has a fixed place, so
 * root becomes somebody else for a moment.) */
TEST(test_open_directory)
{
	struct run_record r = sample(), earlier;
	struct run_file file;
	struct stat st;
	char directory[64];
	uid_t us = geteuid();

	snprintf(directory, sizeof directory, "%s/lsfs", base);
	assert_int_equal(chmod(base, 0711), 0);
	assert_true(mkdir(directory, 0777) == 0 || errno == EEXIST);
	assert_int_equal(chmod(directory, 0775), 0);
	if (us == 0) {
		assert_int_equal(chown(directory, 65534, (gid_t)-1), 0);
		assert_int_equal(seteuid(65534), 0);
	}
	assert_int_equal(run_dir_own(r.mountpoint, &file, &earlier), -EPERM);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(run_dir_own(r.mountpoint, &file, &earlier), 0);
	assert_int_equal(stat(directory, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	run_dir_drop(&file);
	assert_int_equal(seteuid(us), 0);
}

TEST(test_damaged_record)
{
	static const char nonsense[] =
	    "\nsession\nnonce 12\npid x\nmountpoint\n\xff\xfe 7\nsession -1";
	struct run_record r = sample(), seen;
	struct run_file file;
	bool alive;

	assert_int_equal(run_dir_own(r.mountpoint, &file, &seen), 0);
	assert_true(pwrite(file.fd, nonsense, sizeof nonsense, 0) > 0);
	assert_false(run_dir_read(r.mountpoint, &seen, &alive));
	run_dir_drop(&file);
	r.mountpoint[3] = '\n';
	assert_int_equal(run_dir_own(r.mountpoint, &file, &seen), -EINVAL);
}

static bool
count(void *user, const struct run_record *record, bool alive)
{
	(void)record;
	*(int *)user += alive;
	return true;
}

TEST(test_each)
{
	struct run_record r = sample(), earlier;
	struct run_file files[3];
	int before = 0, n = 0;

	run_dir_each(count, &before);
	for (int i = 0; i < 3; i++) {
		snprintf(r.mountpoint, sizeof r.mountpoint, "%s/each%d", base, i);
		assert_int_equal(run_dir_own(r.mountpoint, &files[i], &earlier), 0);
		assert_int_equal(run_dir_write(&files[i], &r), 0);
	}
	run_dir_each(count, &n);
	assert_int_equal(n, before + 3);
	for (int i = 0; i < 3; i++)
		run_dir_drop(&files[i]);
}

TEST(test_canonical)
{
	char path[256], link[256], seen[PATH_MAX], expected[256];

	snprintf(path, sizeof path, "%s/./x//../missing/", base);
	assert_int_equal(mountinfo_canonical(path, seen), -ENOENT); /* x is missing, too */
	snprintf(path, sizeof path, "%s/.//missing//", base);
	snprintf(expected, sizeof expected, "%s/missing", base);
	assert_int_equal(mountinfo_canonical(path, seen), 0);
	assert_string_equal(seen, expected);
	snprintf(link, sizeof link, "%s/link", base);
	assert_int_equal(symlink("missing", link), 0);
	assert_int_equal(mountinfo_canonical(link, seen), 0);
	assert_string_equal(seen, expected);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(symlink("link", link), 0);
	assert_int_equal(mountinfo_canonical(link, seen), -ELOOP);
	assert_int_equal(unlink(link), 0);
	assert_int_equal(mountinfo_canonical("/", seen), 0);
	assert_string_equal(seen, "/");
	assert_int_equal(mountinfo_canonical("/missing", seen), 0);
	assert_string_equal(seen, "/missing");
	assert_int_equal(mountinfo_canonical("", seen), -ENOENT);
}

TEST(test_mount_table)
{
	struct mountinfo proc, same;

	assert_true(mountinfo_at("/proc", &proc));
	assert_string_equal(proc.type, "proc");
	assert_true(mountinfo_by_id(0, proc.id, &same));
	assert_string_equal(same.path, "/proc");
	assert_false(mountinfo_at("/proc/self", &same));
}

static int
setup(void **state)
{
	(void)state;
	if (!mkdtemp(base))
		return -1;
	return setenv("XDG_RUNTIME_DIR", base, 1);
}

static int
teardown(void **state)
{
	char directory[64];

	(void)state;
	snprintf(directory, sizeof directory, "%s/lsfs", base);
	rmdir(directory);
	return rmdir(base);
}

int
main(void)
{
	return unit_run(setup, teardown);
}
