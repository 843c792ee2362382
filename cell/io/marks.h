/* What log.db and state.db held at least, written behind them: DIRECTORY/marks. Each line is
 * written after the file's own sync and is not synced itself: its way to the disk is begun, and
 * nobody waits for it. So it costs next to nothing and is never ahead of the file; one that holds
 * less was damaged, replaced or restored from an old copy. */
#ifndef LSFS_IO_MARKS_H
#define LSFS_IO_MARKS_H

#include <stdbool.h>
#include "cell/io/wal.h"
#include "cell/wire/types.h"

#define MARKS_FILE "marks"

/* Whose line: each is written by the thread of its database. */
enum marks_of { MARKS_LOG, MARKS_STATE };

struct marks {
	uint64_t count;       /* of lines written; the higher one is the newer */
	struct wal_mark wal;
	/* of log.db: */
	uint64_t incarnation; /* the highest that was begun */
	struct ballot ballot; /* the highest that was promised */
	uint64_t slot;        /* the highest that was accepted */
};

struct marks_file {
	int fd;
	enum marks_of of;
	int turn; /* which of the two lines is written next */
};

/* Reads the marks; all zero when there is no file yet. 0, or -errno: -EBADMSG when both lines are
 * damaged. */
int marks_read(const char *directory, enum marks_of of, struct marks *marks);
/* Opens or creates the file and writes the marks into it, synced. 0 or -errno. */
int marks_open(struct marks_file *f, const char *directory, enum marks_of of,
               struct marks *marks);
/* Writes behind; an error is as if it had not been called. */
void marks_write(struct marks_file *f, struct marks *marks);
void marks_close(struct marks_file *f);

#endif
