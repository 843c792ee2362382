/* The watermark: a lower bound of the contents of log.db and state.db, in DIRECTORY/marks. Each
 * line is written after a sync of its database and is not synced itself: its write-back is begun,
 * and no thread waits for it. So it costs next to nothing and is never ahead of the database. A
 * database that holds less than its watermark was damaged, replaced or restored from an old
 * copy. */
#ifndef LSFS_STORE_WATERMARK_H
#define LSFS_STORE_WATERMARK_H

#include <stdbool.h>
#include "cell/store/wal_check.h"
#include "cell/wire/types.h"

#define WATERMARK_FILE "marks"

/* The database that a line belongs to, whose writer thread writes it. */
enum watermark_of { WATERMARK_LOG, WATERMARK_STATE };

struct watermark {
	uint64_t count; /* number of the line; the higher one of the two is the newer */
	struct wal_extent wal;
	/* of log.db only: */
	uint64_t incarnation; /* the highest that was begun */
	struct ballot ballot; /* the highest that was promised */
	uint64_t slot;        /* the highest that was accepted */
};

struct watermark_file {
	int fd;
	enum watermark_of of;
	int turn; /* which of the two lines is written next */
};

/* Reads the watermark of a database; all zero when there is no file yet. 0, or -errno: -EBADMSG
 * when both its lines are damaged. */
int watermark_read(const char *directory, enum watermark_of of, struct watermark *watermark);
/* Opens or creates the file and writes the watermark into it, synced. 0 or -errno. */
int watermark_open(struct watermark_file *f, const char *directory, enum watermark_of of,
                   struct watermark *watermark);
/* Writes the next line, unsynced, and raises watermark->count. An error is ignored: an older lower
 * bound is still one. */
void watermark_write(struct watermark_file *f, struct watermark *watermark);
/* Closes the file. */
void watermark_close(struct watermark_file *f);

#endif
