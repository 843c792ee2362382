/* Small files that are there whole or not at all, also after a crash in the middle. */
#ifndef LSFS_SYS_FILE_H
#define LSFS_SYS_FILE_H

#include <sys/types.h>
#include "cell/base/bytes.h"

/* What file_create leaves behind when the machine stops in the middle: PATH with this suffix. The
 * next attempt begins by overwriting it. */
#define FILE_UNFINISHED ".new"

/* Creates `path` with these contents and permissions: written under another name, synced, moved
 * into place, the directory synced. Refuses to overwrite (-EEXIST). 0 or -errno. */
int file_create(const char *path, struct bytes contents, mode_t mode);

/* The same in the place of what is there, if anything is: the old contents or the new ones. */
int file_replace(const char *path, struct bytes contents, mode_t mode);

/* All of a file of at most `limit` bytes into an empty buffer. 0 or -errno; -EFBIG if it is
 * larger. */
int file_read(int fd, size_t limit, struct buffer *to);

/* Writes all of it at `offset`. 0 or -errno; a short write is -EIO. */
int file_write_at(int fd, struct bytes data, off_t offset);

/* Makes what was created, renamed or removed in the directory lasting. 0 or -errno. */
int file_sync_directory(const char *path);

/* The steps by which a file takes another one's place; each is lasting only after
 * file_sync_directory. 0 or -errno; one that is missing: removing it is done, the others answer
 * -ENOENT. */
int file_sync(const char *path);
int file_rename(const char *from, const char *to);
int file_remove(const char *path);

#endif
