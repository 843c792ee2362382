/* SQLite's write-ahead log, looked at from outside. SQLite takes its frames up to the first one
 * whose checksum is wrong and drops the rest without a word, as it must after a crash in the middle
 * of a write. When the rest had been synced that is damage; and since a checkpoint may have moved
 * frames of the rest into the database already, what one reads then may be a mixture of old and new
 * pages. So it is remembered how many frames were synced (cell/store/watermark.h). */
#ifndef LSFS_STORE_WAL_CHECK_H
#define LSFS_STORE_WAL_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* The salt changes whenever SQLite begins the file anew. No frames: nothing is known. */
struct wal_extent {
	uint64_t salt;
	uint32_t frames;
};

/* The frames that SQLite would take, up to the last commit. False when the file can't be read or
 * its head is damaged; one that is missing or empty has none. */
bool wal_check(const char *path, struct wal_extent *found);
/* The salt of an open file; 0: it has none. */
uint64_t wal_salt(int fd);

#endif
