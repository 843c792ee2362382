/* The cell file of a data directory follows the members; a disk that fails at that has failed. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "cell/server/cell_file_writer.h"

static char directory[] = "/tmp/test_cell_file_writer.XXXXXX", path[64];
static int broken; /* errno of each fsync; 0: it works */
static char told[300];
static bool stopped;

/* In the place of libc's. */
int
fsync(int fd)
{
	if (broken == 0)
		return (int)syscall(SYS_fsync, fd);
	errno = broken;
	return -1;
}

static void
on_failed(void *user, const char *why)
{
	(void)user;
	snprintf(told, sizeof told, "%s", why);
}

static void
on_stopped(void *user)
{
	(void)user;
	stopped = true;
}

/* Replica 1 hears of a second member, while fsync fails so. The version in the file then. */
static uint64_t
follow(int error)
{
	struct cell_file cell_file = {.name = "a", .has_admin = true, .replicas_n = 1};
	struct cell_file_replica list[2] = {{.id = 1, .role = MEMBER_VOTER, .address = "a:1"},
	                                    {.id = 2, .role = MEMBER_LEARNER, .address = "b:1"}};
	struct cell_file_writer_config config = {.directory = directory, .cell_file = &cell_file,
	                                         .self = 1, .failed = on_failed};
	struct cell_file_writer *c;
	uv_loop_t loop;
	char why[200];

	memset(list[1].public_key, 7, sizeof list[1].public_key);
	cell_file.replicas[0] = list[0];
	broken = 0;
	unlink(path);
	assert_int_equal(cell_file_write(path, &cell_file), 0);
	assert_int_equal(uv_loop_init(&loop), 0);
	c = cell_file_writer_new(&loop, &config);
	broken = error;
	told[0] = '\0';
	stopped = false;
	cell_file_writer_follow(c, 9, list, 2);
	cell_file_writer_stop(c, on_stopped, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	broken = 0;
	assert_true(stopped);
	assert_int_equal(uv_loop_close(&loop), 0);
	assert_true(cell_file_read(path, &cell_file, why, sizeof why));
	return cell_file.version;
}

static void
test_follows(void **state)
{
	(void)state;
	assert_int_equal(follow(0), 9);
	assert_string_equal(told, "");
}

static void
test_a_failed_sync_is_one_of_the_disk(void **state)
{
	(void)state;
	assert_int_equal(follow(EIO), 0);
	assert_non_null(strstr(told, "cell.conf: Input/output error"));
}

/* It waits for room, and is no word against the disk. */
static void
test_no_room_is_no_failure(void **state)
{
	(void)state;
	assert_int_equal(follow(ENOSPC), 0);
	assert_string_equal(told, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_follows),
	    cmocka_unit_test(test_a_failed_sync_is_one_of_the_disk),
	    cmocka_unit_test(test_no_room_is_no_failure),
	};
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	snprintf(path, sizeof path, "%s/cell.conf", directory);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
