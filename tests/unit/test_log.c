/* The log: who writes into it never waits for who reads it. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/base/must.h"
#include "cell/sys/log.h"

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

/* ---- stderr ---- */

struct redirected {
	int ends[2], saved;
};

/* What is written to stderr comes out of ends[0], if it is read. */
static void
redirect(struct redirected *r, bool socket)
{
	assert_int_equal(socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, r->ends) : pipe(r->ends), 0);
	assert_int_equal(fcntl(r->ends[0], F_SETFL, O_NONBLOCK), 0);
	r->saved = dup(STDERR_FILENO);
	assert_int_equal(dup2(r->ends[1], STDERR_FILENO), STDERR_FILENO);
	log_never_block();
}

static void
restore(struct redirected *r)
{
	log_end_never_blocking();
	dup2(r->saved, STDERR_FILENO);
	close(r->saved);
	close(r->ends[0]);
	close(r->ends[1]);
}

/* Everything that is there; counts its lines. */
static int
drain(const struct redirected *r, char *last, size_t size)
{
	static char text[1 << 20];
	size_t len = 0;
	int lines = 0;
	ssize_t n;

	while ((n = read(r->ends[0], text + len, sizeof text - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		snprintf(last, size, "%s", line);
		lines++;
	}
	return lines;
}

/* A name neither ends the line nor gives commands to a terminal. */
TEST(test_control_characters)
{
	char last[LOG_LINE_MAX];
	struct redirected r;

	redirect(&r, false);
	log_info("%s", "a\n\x1b[2J\x7f|\xc2\x9b"
	               "2J|\x9b|\xc3\xa4|\xe2\x82\xac|\xe2");
	assert_int_equal(drain(&r, last, sizeof last), 1);
	assert_string_equal(last, "test_log: a??[2J?|??2J|?|\xc3\xa4|\xe2\x82\xac|?");
	restore(&r);
}

static void
nobody_reads_stderr(bool socket)
{
	enum { SENT = 10000 };
	char last[LOG_LINE_MAX], padding[200];
	struct redirected r;
	unsigned long lost;
	int arrived;

	memset(padding, 'x', sizeof padding);
	redirect(&r, socket);
	for (int i = 0; i < SENT; i++)
		log_warn("line %d %.199s", i, padding); /* else it waits for ever */
	assert_int_equal(fcntl(STDERR_FILENO, F_GETFL) & O_NONBLOCK, 0); /* others use it, too */
	arrived = drain(&r, last, sizeof last);
	assert_in_range(arrived, 10, SENT - 1);
	log_info("again");
	assert_int_equal(drain(&r, last, sizeof last), 2);
	assert_string_equal(last, "test_log: again");
	for (int i = 0; i < SENT; i++)
		log_warn("line %d %.199s", i, padding);
	arrived = drain(&r, last, sizeof last);
	log_info("once more");
	assert_true(read(r.ends[0], last, sizeof last - 1) > 0);
	assert_int_equal(sscanf(last, "test_log: %lu messages were lost", &lost), 1);
	assert_int_equal(lost, SENT - arrived);
	restore(&r);
}

/* The journal gets priorities, and adds our name itself; who only has its variable does not.
 * The first test: later ones choose the log of the system. */
TEST(test_journal)
{
	char last[LOG_LINE_MAX], stream[64];
	struct redirected r;
	struct stat st;

	redirect(&r, true);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
	         (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	log_start("test_log", LEVEL_INFO);
	log_error("a: b");
	assert_int_equal(drain(&r, last, sizeof last), 1);
	assert_string_equal(last, "<3>a: b");
	log_info("c");
	assert_int_equal(drain(&r, last, sizeof last), 1);
	assert_string_equal(last, "<6>c");
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_start("test_log", LEVEL_INFO);
	log_warn("d");
	assert_int_equal(drain(&r, last, sizeof last), 1);
	assert_string_equal(last, "test_log: d");
	unsetenv("JOURNAL_STREAM");
	restore(&r);
}

TEST(test_nobody_reads_a_pipe)
{
	nobody_reads_stderr(false);
}

TEST(test_nobody_reads_a_socket)
{
	nobody_reads_stderr(true);
}

/* What a service says again at once is counted. JSON is JSON whatever the message holds. */
TEST(test_service_and_json)
{
	char name[] = "dc1";
	char line[LOG_LINE_MAX], text[256];
	struct redirected r;
	int ms;

	redirect(&r, false);
	log_as(LOG_SERVICE);
	for (int i = 0; i < 5; i++)
		log_warn("a: b");
	assert_int_equal(drain(&r, line, sizeof line), 1);
	assert_int_equal(sscanf(line, "20%*2d-%*2d-%*2dT%*2d:%*2d:%*2d.%3dZ %255[^\n]", &ms, text),
	                 2);
	assert_string_equal(text, "test_log: a: b");
	log_warn("c");
	assert_int_equal(drain(&r, line, sizeof line), 2);
	assert_non_null(strstr(line, "Z test_log: c"));

	log_as(LOG_JSON);
	log_about(name, 3);
	name[0] = '\0'; /* the identity of a replica is freed before it starts again */
	log_warn("a \"b\" \\ \n");
	assert_int_equal(drain(&r, line, sizeof line), 1);
	assert_int_equal(strncmp(line, "{\"time\": \"20", 12), 0);
	assert_non_null(strstr(line, "Z\", \"level\": \"warning\", \"program\": \"test_log\", "
	                             "\"cell\": \"dc1\", \"replica\": 3, "
	                             "\"message\": \"a \\\"b\\\" \\\\ ?\"}"));
	for (int i = 0; i < 3; i++)
		log_info("%01990d\"", 0); /* too long: cut, and an object nevertheless */
	assert_int_equal(drain(&r, line, sizeof line), 1);
	assert_string_equal(line + strlen(line) - 3, "0\"}");
	log_info("again");
	assert_int_equal(drain(&r, line, sizeof line), 2);
	log_as(LOG_PLAIN);
	restore(&r);
}

/* ---- the system's log ---- */

TEST(test_nobody_reads)
{
	int fd = make_socket(), told, arrived = 0;
	unsigned long lost;

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

TEST(test_the_log_starts_anew)
{
	int fd = make_socket();

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
TEST(test_a_flood_is_cut)
{
	int fd = make_socket(), arrived = 0;

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
	int failed;

	log_start("test_log", LEVEL_INFO);
	must(mkdtemp(directory));
	snprintf(path, sizeof path, "%s/log", directory);
	failed = unit_run(NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
