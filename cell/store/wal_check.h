/* Checks SQLite's write-ahead log (WAL). SQLite uses its frames up to the first one whose checksum
 * is wrong and silently drops the rest, as it must after a crash in the middle of a write. If the
 * rest had been synced, this is damage; and since a checkpoint may have moved frames of the rest
 * into the database before, the database may then be a mixture of old and new pages. To tell the
 * two cases apart, the number of synced frames is recorded (cell/store/watermark.h). */
#ifndef LSFS_STORE_WAL_CHECK_H
#define LSFS_STORE_WAL_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* The extent of a WAL. The salt changes whenever SQLite begins the file anew. `frames` is 0 when
 * the extent is unknown. */
struct wal_extent {
	uint64_t salt;
	uint32_t frames;
};

/* Counts the frames that SQLite would use, up to the last commit; 0 for a missing or empty file.
 * False when the file can't be read or its header is damaged. */
bool wal_check(const char *path, struct wal_extent *found);
/* The salt of an open WAL; 0 when it has no header. */
uint64_t wal_salt(int fd);

#endif
