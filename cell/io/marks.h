/* What this replica's log held at least, written behind it: DIRECTORY/marks. Each line is written
 * after the log's own sync and is not synced itself, so it costs next to nothing and is never ahead
 * of the log; a log that holds less was damaged, replaced or restored from an old copy. */
#ifndef LSFS_IO_MARKS_H
#define LSFS_IO_MARKS_H

#include <stdbool.h>
#include "cell/wire/types.h"

#define MARKS_FILE "marks"

struct marks {
	uint64_t incarnation; /* the highest that was begun */
	struct ballot ballot; /* the highest that was promised */
	uint64_t slot;        /* the highest that was accepted */
};

struct marks_file {
	int fd;
	int turn; /* which of the two lines is written next */
};

/* Reads the marks; all zero when there is no file yet. False with one line in `why`. */
bool marks_read(const char *directory, struct marks *marks, char *why, size_t why_size);
/* Opens or creates the file and writes the marks into it, synced. 0 or -errno. */
int marks_open(struct marks_file *f, const char *directory, const struct marks *marks);
/* Writes behind; an error is as if it had not been called. */
void marks_write(struct marks_file *f, const struct marks *marks);
void marks_close(struct marks_file *f);

#endif
