/* The log: who writes into it never waits for who reads it. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/base/must.h"
#include "cell/io/log.h"

static char directory[] = "/tmp/lsfs-log.XXXXXX", path[64];

/* Like the system's: somebody reads it now and then. */
static int
make_socket(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	unlink(path);
	snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
	return fd;
}

/* The message behind "<30>Jan  1 00:00:00 test_log[1]: "; "" if there is none. */
static const char *
next_message(int fd)
{
	static char message[4096];
	ssize_t n = recv(fd, message, sizeof message - 1, 0);
	char *text;

	message[n > 0 ? n : 0] = '\0';
	text = strstr(message, "]: ");
	return text ? text + 3 : "";
}

static void
test_nobody_reads(void **state)
{
	int fd = make_socket(), told, arrived = 0;
	unsigned long lost;

	(void)state;
	log_to_system(path);
	log_error("first: %s", "one\ntwo");
	assert_string_equal(next_message(fd), "first: one?two");
	for (told = 0; told < LIMIT_LOG_LINES - 10; told++)
		log_warn("line %d", told); /* would wait for ever after the first few */
	while (*next_message(fd))
		arrived++;
	assert_in_range(arrived, 1, LIMIT_LOG_LINES - 11);
	log_info("again");
	assert_int_equal(sscanf(next_message(fd), "%lu messages were lost", &lost), 1);
	assert_int_equal(lost, told - arrived);
	assert_string_equal(next_message(fd), "again");
	assert_string_equal(next_message(fd), "");
	close(fd);
}

static void
test_the_log_starts_anew(void **state)
{
	int fd = make_socket();

	(void)state;
	log_to_system(path);
	log_info("one");
	assert_string_equal(next_message(fd), "one");
	close(fd);
	log_info("two");
	fd = make_socket();
	log_info("three");
	assert_string_equal(next_message(fd), "1 messages were lost: the log did not take them");
	assert_string_equal(next_message(fd), "three");
	close(fd);
}

/* Also of a reader that takes all of it. */
static void
test_a_flood_is_cut(void **state)
{
	int fd = make_socket(), arrived = 0;

	(void)state;
	log_to_system(path);
	for (int i = 0; i < 3 * LIMIT_LOG_LINES; i++) {
		log_info("line %d", i);
		arrived += *next_message(fd) != '\0';
	}
	assert_in_range(arrived, 0, 2 * LIMIT_LOG_LINES);
	close(fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nobody_reads),
		cmocka_unit_test(test_the_log_starts_anew),
		cmocka_unit_test(test_a_flood_is_cut),
	};
	int failed;

	log_start("test_log", LEVEL_INFO);
	must(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/log", directory);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
