/* The cell file of a data directory follows the members, one writing at a time; a disk that fails
 * at that has failed. */
#include <stdio.h>
#include <string.h>

#include "cell/server/internal.h"
#include "tests/unit/still_clock.h"
#include "tests/unit/unit.h"

static struct cell_file written;
static struct sign_keys written_keys;
static int writings;
static char failed[64];

static void
io_write_cell_file(void *user, const struct cell_file *cell_file, const struct sign_keys *keys)
{
	(void)user;
	written = *cell_file;
	written_keys = *keys;
	writings++;
}

static void
io_fail(struct store *user, const char *why)
{
	(void)user;
	snprintf(failed, sizeof failed, "%s", why);
}

static int lines;

static void
io_log(void *user, enum log_level level, const char *line)
{
	(void)user;
	(void)level;
	(void)line;
	lines++;
}

static const struct server_io io = {.clock = {.now = io_now, .log = io_log},
                                    .directory.write_cell_file = io_write_cell_file,
                                    .store.fail = io_fail};

static const struct cell_file_replica list[] = {
    {.id = 1, .role = MEMBER_VOTER, .address = "a:1"},
    {.id = 2, .role = MEMBER_LEARNER, .address = "b:1"},
    {.id = 3, .role = MEMBER_REMOVED, .address = "c:1"},
};

static struct cell_file_writer *
start(void)
{
	struct identity identity = {
	    .cell_file = {.name = "a", .has_admin = true, .replicas_n = 1},
	    .replica = 1,
	    .signing = {.n = 1, .secret = {{'f'}}},
	};

	identity.cell_file.replicas[0] = list[0];
	writings = 0;
	failed[0] = '\0';
	return cell_file_writer_new(&io, &identity);
}

TEST(test_follows)
{
	struct cell_file_writer *c = start();

	cell_file_writer_follow(c, 9, list, 3);
	assert_int_equal(writings, 1);
	assert_int_equal(written.version, 9);
	assert_int_equal(written.replicas_n, 2); /* not the one that was removed */
	assert_string_equal(written.name, "a");
	cell_file_writer_follow(c, 10, list, 1);
	cell_file_writer_follow(c, 11, list, 2);
	cell_file_writer_follow(c, 7, list, 1);
	assert_int_equal(writings, 1); /* one is under way */
	cell_file_writer_written(c, RC_OK, true, NULL);
	assert_int_equal(writings, 2);
	assert_int_equal(written.version, 11);
	assert_int_equal(written.replicas_n, 2);
	cell_file_writer_written(c, RC_OK, true, NULL);
	assert_int_equal(writings, 2);
	assert_int_equal(cell_file_writer_version(c), 11);
	assert_string_equal(failed, "");
	cell_file_writer_free(c);
}

/* They are on disk when a writing that began after them has succeeded. */
TEST(test_signing_keys)
{
	static const uint8_t newest[SIGN_PUBLIC] = {'n'}, former[SIGN_PUBLIC] = {'f'};
	const struct sign_keys two = {.n = 2, .secret = {{'n'}, {'f'}}};
	struct cell_file_writer *c = start();

	cell_file_writer_follow(c, 9, list, 3);
	assert_int_equal(written_keys.n, 1);
	cell_file_writer_set_keys(c, &two, NULL, NULL, 0);
	assert_int_equal(writings, 1);
	cell_file_writer_written(c, RC_OK, true, NULL);
	assert_int_equal(cell_file_writer_keys(c)->n, 1);
	assert_int_equal(writings, 2);
	assert_memory_equal(&written_keys, &two, sizeof two);
	assert_false(written.has_former);
	cell_file_writer_written(c, RC_NOSPC, false, "cell.conf: No space left on device");
	assert_int_equal(cell_file_writer_keys(c)->n, 1);
	cell_file_writer_set_keys(c, &two, newest, former, 8);
	assert_int_equal(writings, 3);
	assert_memory_equal(written.signing_public, newest, SIGN_PUBLIC);
	assert_memory_equal(written.former_public, former, SIGN_PUBLIC);
	assert_int_equal(written.key_version, 8);
	cell_file_writer_written(c, RC_OK, true, NULL);
	assert_memory_equal(cell_file_writer_keys(c), &two, sizeof two);
	assert_int_equal(written.version, 9);
	cell_file_writer_free(c);
}

/* It has to find its own key there. */
TEST(test_keeps_itself)
{
	struct cell_file_writer *c = start();

	cell_file_writer_follow(c, 9, list + 1, 2);
	assert_int_equal(writings, 0);
	cell_file_writer_free(c);
}

TEST(test_a_failed_sync_is_one_of_the_disk)
{
	struct cell_file_writer *c = start();

	cell_file_writer_follow(c, 9, list, 2);
	cell_file_writer_written(c, RC_IO, false, "cell.conf: Input/output error");
	assert_string_equal(failed, "cell.conf: Input/output error");
	cell_file_writer_free(c);
}

/* It waits for room, and is no word against the disk. */
TEST(test_no_room_is_no_failure)
{
	struct cell_file_writer *c = start();

	cell_file_writer_follow(c, 9, list, 2);
	cell_file_writer_written(c, RC_NOSPC, false, "cell.conf: No space left on device");
	assert_string_equal(failed, "");
	cell_file_writer_free(c);
}

/* Without room for it, it is tried again every few seconds; that it is out of date is said once. */
TEST(test_tries_again)
{
	struct cell_file_writer *c = start();

	lines = 0;
	cell_file_writer_follow(c, 9, list, 3);
	for (int i = 1; i <= 3; i++) {
		assert_int_equal(writings, i);
		assert_true(mono_is_never(cell_file_writer_deadline(c)));
		cell_file_writer_written(c, RC_NOSPC, false, "no room");
		assert_true(mono_before(now, cell_file_writer_deadline(c)));
		cell_file_writer_timeout(c, now);
		assert_int_equal(writings, i);
		now = cell_file_writer_deadline(c);
		cell_file_writer_timeout(c, now);
	}
	assert_int_equal(lines, 1);
	assert_int_equal(written.version, 9);
	cell_file_writer_written(c, RC_OK, true, NULL);
	assert_true(mono_is_never(cell_file_writer_deadline(c)));
	cell_file_writer_free(c);
}
