/* What log.db and state.db held at least, written behind them: DIRECTORY/marks. Each line is
 * written after the file's own sync and is not synced itself: its way to the disk is begun, and
 * nobody waits for it. So it costs next to nothing and is never ahead of the file; one that holds
 * less was damaged, replaced or restored from an old copy. */
#ifndef LSFS_STORE_WATERMARK_H
#define LSFS_STORE_WATERMARK_H

#include <stdbool.h>
#include "cell/store/wal_check.h"
#include "cell/wire/types.h"

#define WATERMARK_FILE "marks"

/* Whose line: each is written by the thread of its database. */
enum watermark_of { WATERMARK_LOG, WATERMARK_STATE };

struct watermark {
	uint64_t count;       /* of lines written; the higher one is the newer */
	struct wal_extent wal;
	/* of log.db: */
	uint64_t incarnation; /* the highest that was begun */
	struct ballot ballot; /* the highest that was promised */
	uint64_t slot;        /* the highest that was accepted */
};

struct watermark_file {
	int fd;
	enum watermark_of of;
	int turn; /* which of the two lines is written next */
};

/* Reads the watermark; all zero when there is no file yet. 0, or -errno: -EBADMSG when both lines
 * are damaged. */
int watermark_read(const char *directory, enum watermark_of of, struct watermark *watermark);
/* Opens or creates the file and writes the watermark into it, synced. 0 or -errno. */
int watermark_open(struct watermark_file *f, const char *directory, enum watermark_of of,
                   struct watermark *watermark);
/* Writes behind; an error is as if it had not been called. */
void watermark_write(struct watermark_file *f, struct watermark *watermark);
void watermark_close(struct watermark_file *f);

#endif
