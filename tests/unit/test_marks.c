/* The marks behind the databases: what is written goes to the disk by itself. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/store/watermark.h"

static char directory[] = "/tmp/test_marks.XXXXXX";
static int begun_n, begun_fd;

/* In the place of libc's. */
int
sync_file_range(int fd, off_t offset, off_t len, unsigned flags)
{
	assert_int_equal(offset + len, 0);              /* all of the file */
	assert_int_equal(flags, SYNC_FILE_RANGE_WRITE); /* without waiting */
	begun_n++;
	begun_fd = fd;
	return 0;
}

/* Not half a minute later, when the kernel thinks of it, and not with each commit of the log. */
TEST(test_on_their_way_with_the_state)
{
	struct watermark marks = {.incarnation = 3}, of_state = {0}, read;
	struct watermark_file log, rows;

	assert_int_equal(watermark_open(&log, directory, WATERMARK_LOG, &marks), 0);
	assert_int_equal(watermark_open(&rows, directory, WATERMARK_STATE, &of_state), 0);
	marks.slot = 9;
	watermark_write(&log, &marks);
	assert_int_equal(begun_n, 0);
	watermark_write(&rows, &of_state);
	assert_int_equal(begun_n, 1);
	assert_int_equal(begun_fd, rows.fd);
	assert_int_equal(watermark_read(directory, WATERMARK_LOG, &read), 0);
	assert_int_equal(read.slot, 9);
	watermark_close(&log);
	watermark_close(&rows);
}

int
main(void)
{
	char path[64];
	int failed;

	if (mkdtemp(directory) == NULL)
		return 1;
	failed = unit_run(NULL, NULL);
	snprintf(path, sizeof path, "%s/" WATERMARK_FILE, directory);
	unlink(path);
	rmdir(directory);
	return failed;
}
