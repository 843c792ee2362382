/* Counting, appending, and a write load whose acknowledged part can be verified after a crash. */
#include "tests/e2e/stress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int times;

static void
count(const char *path, int i)
{
	(void)i;
	for (int n = 0; n < times; n++) {
		char text[32] = "";
		int fd = open_file(path), len;

		check(flock(fd, LOCK_EX) == 0, "flock");
		check(pread(fd, text, sizeof text - 1, 0) >= 0, "pread");
		len = snprintf(text, sizeof text, "%d\n", atoi(text) + 1);
		check(pwrite(fd, text, len, 0) == len, "pwrite");
		check(flock(fd, LOCK_UN) == 0, "unlock");
		check(close(fd) == 0, "close");
	}
}

int
stress_count(int argc, char **argv)
{
	int processes = atoi(argv[1]);

	times = atoi(argv[argc - 1]);
	for (int i = 0; i < processes; i++)
		spawn(count, argv[0], i);
	join(processes);
	return 0;
}

static void
append(const char *path, int i)
{
	for (int n = 0; n < times; n++) {
		char line[64];
		int len = snprintf(line, sizeof line, "writer %d line %d end\n", i, n);
		int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0644);

		check(fd >= 0, "open");
		check(write(fd, line, len) == len, "write");
		check(close(fd) == 0, "close");
	}
}

int
stress_append(int argc, char **argv)
{
	int processes = atoi(argv[1]), *next = calloc(processes, sizeof *next), i, n, lines = 0;
	char line[128];
	FILE *f;

	times = atoi(argv[argc - 1]);
	for (i = 0; i < processes; i++)
		spawn(append, argv[0], i);
	join(processes);

	f = fopen(argv[0], "r");
	check(f != NULL, "open %s", argv[0]);
	while (fgets(line, sizeof line, f)) {
		char end[8] = "";

		check(sscanf(line, "writer %d line %d %7s", &i, &n, end) == 3, "torn: %s", line);
		check(strcmp(end, "end") == 0 && i < processes, "torn: %s", line);
		check(n == next[i], "writer %d: line %d where %d was due", i, n, next[i]);
		next[i]++;
		lines++;
	}
	fclose(f);
	free(next);
	check(lines == processes * times, "%d lines", lines);
	return 0;
}

/* Each file holds one number and the log is a list of "FILE NUMBER" lines, one write(2) each, made
 * after close(2) had returned 0, or after the number was read: what was read stays, too. */
static const char *log_path;

static void
acknowledged(int log, int i, long n)
{
	char line[64];
	int len = snprintf(line, sizeof line, "%d %ld\n", i, n);

	check(write(log, line, len) == len, "log");
}

static void
load(const char *dir, int i)
{
	char path[512], text[64];
	int log = open(log_path, O_WRONLY | O_APPEND | O_CREAT, 0644);
	long n = 0;
	FILE *f;

	check(log >= 0, "open %s", log_path);
	snprintf(path, sizeof path, "%s/%d", dir, i);
	f = fopen(path, "r");
	if (f) {
		if (fscanf(f, "%ld", &n) != 1) {
			check(ferror(f) && (errno == ENOTCONN || errno == ECONNABORTED),
			      "%s holds no number", path);
			return; /* the mount has died */
		}
		fclose(f);
		acknowledged(log, i, n);
	}
	for (;;) {
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		int len = snprintf(text, sizeof text, "%ld\n", ++n);

		if (fd < 0 || write(fd, text, len) != len || close(fd) != 0)
			return; /* the mount has died */
		acknowledged(log, i, n);
	}
}

int
stress_load(int argc, char **argv)
{
	log_path = argv[argc - 1];
	for (int i = 0; i < 4; i++)
		spawn(load, argv[0], i);
	join(4);
	return 0;
}

int
stress_verify(int argc, char **argv)
{
	long last[4] = {0}, n;
	char line[64], path[512];
	FILE *log = fopen(argv[argc - 1], "r");
	int i;

	if (!log)
		return 0;
	while (fgets(line, sizeof line, log))
		if (sscanf(line, "%d %ld", &i, &n) == 2 && i >= 0 && i < 4 && n > last[i])
			last[i] = n;
	fclose(log);
	for (i = 0; i < 4; i++) {
		FILE *f;

		snprintf(path, sizeof path, "%s/%d", argv[0], i);
		f = fopen(path, "r");
		check(f != NULL || last[i] == 0, "%s is missing, %ld was acknowledged", path,
		      last[i]);
		if (!f)
			continue;
		check(fscanf(f, "%ld", &n) == 1, "%s holds no number", path);
		/* the write under way when the mount died may have been committed too */
		check(n >= last[i] && n <= last[i] + 1, "%s holds %ld, %ld was acknowledged", path,
		      n, last[i]);
		fclose(f);
	}
	return 0;
}
