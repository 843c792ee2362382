/* limit quorum|echo CLIENTS SECONDS DIRECTORY: what the machine allows, to measure beside a cell.
 *
 * quorum: three processes with an SQLite database each (write-ahead log, synchronous=FULL). The
 * first sends so many rows to the two others over TCP, commits them itself, and goes on when one of
 * the others has, too: a replicated commit without consensus, clients or a filesystem, in batches
 * as they would be at best. echo: a byte to another process and back. One line:
 *
 *   OPERATIONS a second, MEDIAN and P99 of the time that one took, in us */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sqlite3.h>

#include "tests/bench/times.h"

enum { ROW = 256 };

struct database {
	sqlite3 *handle;
	sqlite3_stmt *insert;
};

static int clients;
static const char *directory;
static bool echoes;

static void
run(struct database *d, const char *sql)
{
	times_check(sqlite3_exec(d->handle, sql, NULL, NULL, NULL) == SQLITE_OK, "SQL", sql);
}

static void
make(struct database *d, int number)
{
	char path[512];

	snprintf(path, sizeof path, "%s/limit.%d.db", directory, number);
	times_check(sqlite3_open(path, &d->handle) == SQLITE_OK, "open", path);
	run(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
	       "CREATE TABLE IF NOT EXISTS rows (slot INTEGER PRIMARY KEY, payload BLOB)");
	times_check(sqlite3_prepare_v2(d->handle, "INSERT INTO rows (payload) VALUES (?)", -1,
	                               &d->insert, NULL) == SQLITE_OK,
	            "prepare", "");
}

static void
commit(struct database *d, const char *rows)
{
	run(d, "BEGIN IMMEDIATE");
	for (int i = 0; i < clients; i++) {
		sqlite3_bind_blob(d->insert, 1, rows + (size_t)i * ROW, ROW, SQLITE_STATIC);
		times_check(sqlite3_step(d->insert) == SQLITE_DONE, "insert", "");
		sqlite3_reset(d->insert);
	}
	run(d, "COMMIT");
}

static bool
receive(int fd, char *to, size_t n)
{
	return recv(fd, to, n, MSG_WAITALL) == (ssize_t)n;
}

static void
give(int fd, const char *from, size_t n)
{
	times_check(send(fd, from, n, MSG_NOSIGNAL) == (ssize_t)n, "send", "");
}

_Noreturn static void
follow(int fd, int number)
{
	char *rows = calloc((size_t)clients, ROW);
	struct database d;

	times_check(rows != NULL, "memory", "");
	if (!echoes)
		make(&d, number);
	while (receive(fd, rows, echoes ? 1 : (size_t)clients * ROW)) {
		if (!echoes)
			commit(&d, rows);
		give(fd, rows, 1);
	}
	_exit(0);
}

/* A process at the other end of a connection over loopback. */
static int
begin(int number)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), fd, on = 1;

	times_check(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0 &&
	                getsockname(listener, (struct sockaddr *)&at, &len) == 0,
	            "listen", "");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	times_check(connect(fd, (struct sockaddr *)&at, len) == 0, "connect", "");
	times_check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "nodelay", "");
	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fd);
		fd = accept(listener, NULL, NULL);
		times_check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
		            "nodelay", "");
		follow(fd, number);
	}
	close(listener);
	return fd;
}

/* One of the two has it; what the other one says of earlier batches is read as well. */
static void
await(const int fds[2], size_t had[2], size_t wanted)
{
	struct pollfd ready[2] = {{.fd = fds[0], .events = POLLIN},
	                          {.fd = fds[1], .events = POLLIN}};
	char said[64];

	while (had[0] < wanted && had[1] < wanted) {
		times_check(poll(ready, 2, -1) > 0, "poll", "");
		for (int i = 0; i < 2; i++) {
			ssize_t n = recv(fds[i], said, sizeof said, MSG_DONTWAIT);

			had[i] += n > 0 ? (size_t)n : 0;
		}
	}
}

int
main(int argc, char **argv)
{
	double began, end, before;
	size_t n = 0, had[2] = {0, 0};
	struct database own;
	char *rows;
	int fds[2];

	if (argc != 5 || (clients = atoi(argv[2])) < 1) {
		fprintf(stderr, "usage: limit quorum|echo CLIENTS SECONDS DIRECTORY\n");
		return 2;
	}
	echoes = strcmp(argv[1], "echo") == 0;
	directory = argv[4];
	rows = calloc((size_t)clients, ROW);
	times_check(rows != NULL, "memory", "");
	for (int i = 0; i < 2; i++)
		fds[i] = begin(i + 1);
	if (!echoes)
		make(&own, 0);
	began = before = times_now();
	end = began + atof(argv[3]) * 1e6;
	while (before < end) {
		double after;

		for (int i = 0; i < (echoes ? 1 : 2); i++)
			give(fds[i], rows, echoes ? 1 : (size_t)clients * ROW);
		if (!echoes)
			commit(&own, rows);
		await(fds, had, ++n);
		after = times_now();
		times_add(after - before);
		before = after;
	}
	times_report(before - began, echoes ? 1 : clients);
	return 0;
}
