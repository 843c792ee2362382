/* load WORKLOAD THREADS SECONDS DIRECTORY...: what so many threads do a second with files.
 *
 * The threads are spread over the directories, which may be several mounts of one cell. One line:
 *
 *   OPERATIONS a second, MEDIAN, P99 and LONGEST of the time that one took, in us
 *
 * It works on every filesystem; an operation that fails ends it. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/bench/times.h"

enum { LARGE = 256 * 1024, SMALL = 64, LISTED = 100 };

struct worker {
	const char *directory;
	char own[512], shared[512]; /* files */
	int fd;                     /* of the one or the other */
	size_t n;
};

static char contents[LARGE];

static void
put(const char *name, int flags, size_t size)
{
	int fd = open(name, O_WRONLY | O_CREAT | flags, 0666);

	times_check(fd >= 0, "open", name);
	times_check(write(fd, contents, size) == (ssize_t)size, "write", name);
	times_check(close(fd) == 0, "close", name);
}

static void
small(struct worker *w)
{
	put(w->own, O_TRUNC, SMALL);
}

static void
large(struct worker *w)
{
	put(w->own, O_TRUNC, LARGE);
}

static void
append(struct worker *w)
{
	char name[600];

	snprintf(name, sizeof name, "%s.%zu", w->shared, w->n / 512); /* before it is full */
	put(name, O_APPEND, 1);
}

static void
get(struct worker *w)
{
	char buffer[SMALL];
	int fd = open(w->shared, O_RDONLY);

	times_check(fd >= 0 && read(fd, buffer, sizeof buffer) >= 0, "read", w->shared);
	times_check(close(fd) == 0, "close", w->shared);
}

static void
attributes(struct worker *w)
{
	struct stat st;

	times_check(stat(w->shared, &st) == 0, "stat", w->shared);
}

static void
lock(struct worker *w)
{
	times_check(flock(w->fd, LOCK_EX) == 0 && flock(w->fd, LOCK_UN) == 0, "flock", w->own);
}

static void
create(struct worker *w)
{
	char name[600];
	int fd;

	snprintf(name, sizeof name, "%s.new", w->own);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
	times_check(fd >= 0, "create", name);
	times_check(close(fd) == 0 && unlink(name) == 0, "unlink", name);
}

static void
list(struct worker *w)
{
	DIR *d = opendir(w->directory);
	int n = 0;

	times_check(d != NULL, "opendir", w->directory);
	while (readdir(d) != NULL)
		n++;
	times_check(n >= LISTED, "readdir", w->directory);
	closedir(d);
}

static const struct workload {
	const char *name;
	void (*run)(struct worker *w);
	bool shares; /* the file that is locked */
} workloads[] = {
    {"write", small, false},   {"large", large, false}, {"append", append, false},
    {"read", get, false},      {"lock", lock, false},   {"stat", attributes, false},
    {"create", create, false}, {"list", list, false},   {"handoff", lock, true},
};

static const struct workload *workload;

static void
work(void *argument)
{
	struct worker *w = argument;

	workload->run(w);
	w->n++;
}

static void
prepare(struct worker *w, const char *directory, int i)
{
	w->directory = directory;
	snprintf(w->own, sizeof w->own, "%s/%d", directory, i);
	snprintf(w->shared, sizeof w->shared, "%s/shared", directory);
	put(w->own, 0, SMALL);
	put(w->shared, 0, SMALL);
	w->fd = open(workload->shares ? w->shared : w->own, O_RDWR);
	times_check(w->fd >= 0, "open", w->own);
}

int
main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	int threads = argc > 4 ? atoi(argv[2]) : 0;

	for (size_t i = 0; i < sizeof workloads / sizeof workloads[0] && argc > 4; i++) {
		if (strcmp(workloads[i].name, argv[1]) == 0)
			workload = &workloads[i];
	}
	if (workload == NULL || threads < 1 || threads > THREADS_MAX) {
		fprintf(stderr, "usage: load WORKLOAD THREADS SECONDS DIRECTORY...\n");
		return 2;
	}
	for (int i = 0; i < threads; i++)
		prepare(&workers[i], argv[4 + i % (argc - 4)], i);
	for (int i = 0; i < LISTED && workload->run == list; i++) {
		char name[600];

		snprintf(name, sizeof name, "%s/listed.%d", argv[4], i);
		put(name, 0, 0);
	}
	times_run(threads, atof(argv[3]), work, workers, sizeof *workers);
	return 0;
}
