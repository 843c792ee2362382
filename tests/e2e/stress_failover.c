/* A steady writer: how long was there no success? */
#include "tests/e2e/stress.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Writes growing numbers into the file until the log is removed, and a line "TIME NUMBER" into the
 * log after each success. No call may fail. */
int
stress_steady(int argc, char **argv)
{
	int log = open(argv[argc - 1], O_WRONLY | O_APPEND | O_CREAT, 0644);
	char text[64];

	check(log >= 0, "open %s", argv[argc - 1]);
	for (long n = 1; access(argv[argc - 1], F_OK) == 0; n++) {
		int fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);
		int len = snprintf(text, sizeof text, "%ld\n", n);

		check(fd >= 0, "open");
		check(write(fd, text, len) == len, "write");
		check(close(fd) == 0, "close");
		len = snprintf(text, sizeof text, "%ld %ld\n", now_ms(), n);
		check(write(log, text, len) == len, "log");
	}
	return 0;
}

static int
by_size(const void *a, const void *b)
{
	return *(const long *)a < *(const long *)b ? -1 : *(const long *)a > *(const long *)b;
}

/* Reads such a log; prints the median of its `n` longest pauses in milliseconds. */
int
stress_pauses(int argc, char **argv)
{
	long *pauses = NULL, at, number, before = 0, expected = 1;
	size_t n = 0, room = 0, longest = (size_t)atol(argv[argc - 1]);
	FILE *log = fopen(argv[0], "r");

	check(log != NULL, "open %s", argv[0]);
	while (fscanf(log, "%ld %ld", &at, &number) == 2) {
		check(number == expected++, "number %ld is out of turn", number);
		if (n == room) {
			room = room ? room * 2 : 1024;
			pauses = realloc(pauses, room * sizeof *pauses);
			check(pauses != NULL, "memory");
		}
		if (before)
			pauses[n++] = at - before;
		before = at;
	}
	fclose(log);
	check(n >= longest && longest > 0, "only %zu pauses", n);
	qsort(pauses, n, sizeof *pauses, by_size);
	printf("%ld\n", pauses[n - 1 - longest / 2]);
	free(pauses);
	return 0;
}
