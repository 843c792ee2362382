/* The watermark: a lower bound of the contents of log.db and state.db, in DIRECTORY/marks. Each
 * line is written after a sync of its database and is not synced itself: its write-back is begun
 * with the next line of state.db, and no thread waits for it. So it costs next to nothing and is
 * never ahead of the database. A database that holds less than its watermark was damaged, replaced
 * or restored from an old copy. */
#ifndef LSFS_STORE_WATERMARK_H
#define LSFS_STORE_WATERMARK_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/wire/types.h"

/* ---- wal_check.c ---- */

/* Checks SQLite's write-ahead log (WAL). SQLite uses its frames up to the first one whose checksum
 * is wrong and silently drops the rest, as it must after a crash in the middle of a write. If the
 * rest had been synced, this is damage; and since a checkpoint may have moved frames of the rest
 * into the database before, the database may then be a mixture of old and new pages. To tell the
 * two cases apart, the number of synced frames is recorded (cell/store/watermark.h). */

/* The extent of a WAL. The salt changes whenever SQLite starts the file over. `frames` is 0 when
 * the extent is unknown. */
struct wal_extent {
	uint64_t salt;
	uint32_t frames;
};

/* Counts the frames that SQLite would use, up to the last commit; 0 for a missing or empty file.
 * 0, or -errno when the file can't be opened: -EBADMSG when its header is damaged. */
int wal_check(const char *path, struct wal_extent *found);
/* The salt of an open WAL; 0 when it has no header. */
uint64_t wal_salt(int fd);

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
	uint64_t own, start;  /* incarnation and start of the replica's own mark; 0: not known */
};

struct watermark_file {
	int fd;
	enum watermark_of of;
	int turn; /* which of the two lines is written next */
};

/* Reads the watermark of a database; all zero when there is no file yet. 0, or -errno: -EBADMSG
 * when both its lines are damaged, or a sector can't be read. */
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
