/* Small files that are written whole or not at all, also when the machine crashes meanwhile. */
#ifndef LSFS_SYS_FILE_H
#define LSFS_SYS_FILE_H

#include <sys/types.h>
#include "cell/base/bytes.h"

/* The suffix of the temporary file. A crash during file_create or file_replace leaves PATH with
 * this suffix behind; the next attempt overwrites it. */
#define FILE_UNFINISHED ".new"

/* Creates `path` with these contents and permissions: a temporary file is written and synced, then
 * moved to `path`, then the directory is synced. Never over an existing file (-EEXIST), whoever
 * else writes it meanwhile. 0 or -errno. */
int file_create(const char *path, struct bytes contents, mode_t mode);

/* Like file_create, but replaces an existing file: a crash leaves the old contents or the new ones,
 * whole. 0 or -errno. */
int file_replace(const char *path, struct bytes contents, mode_t mode);

/* Opens the regular file `path`, close-on-exec, with these further flags of open(2); one that it
 * creates has the mode 0600. Never waits: anything else by that name, as a FIFO that nobody writes,
 * is refused. A descriptor, or -errno; file_why tells people why. */
int file_open(const char *path, int flags);
/* The reason of this negative result of file_open. */
const char *file_why(int rc);

/* Reads a whole file of at most `limit` bytes into an empty buffer. 0 or -errno; -EFBIG when the
 * file is larger. */
int file_read(int fd, size_t limit, struct buffer *to);

/* Writes all of `data` at `offset`. 0 or -errno; a write that makes no progress is -EIO. */
int file_write_at(int fd, struct bytes data, off_t offset);

/* Syncs a directory, so that earlier creations, renames and removals of files in it survive a
 * crash. 0 or -errno. */
int file_sync_directory(const char *path);

/* Syncs the directory that a file or directory is in; if it may be written to, but not read, the
 * whole filesystem. 0 or -errno. */
int file_sync_above(const char *path);

/* Makes a directory that survives a crash. 0 or -errno: -EEXIST when there is one. */
int file_make_directory(const char *path, mode_t mode);

/* Syncs a file. 0 or -errno. */
int file_sync(const char *path);
/* Renames a file, which survives a crash only after file_sync_directory. 0 or -errno. */
int file_rename(const char *from, const char *to);
/* Removes a file, likewise. 0, also when there is no such file, or -errno. */
int file_remove(const char *path);

#endif
