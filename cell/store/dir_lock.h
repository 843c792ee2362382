/* One process per data directory: a kernel lock on DIRECTORY/lock, which ends with the process in
 * every case. The file also names the process. */
#ifndef LSFS_STORE_DIR_LOCK_H
#define LSFS_STORE_DIR_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DIR_LOCK_FILE "lock"

struct dir_lock {
	int fd;
};

/* Takes the lock. False with one line in `why`: "DIRECTORY: in use by process N". */
bool dir_lock_take(struct dir_lock *lock, const char *directory, char *why, size_t why_size);
/* The same for a reader, which changes nothing in the directory: nobody can take the lock
 * meanwhile, but others can share it. A directory without a lock file, a copy, is nobody's and is
 * not locked. */
bool dir_lock_share(struct dir_lock *lock, const char *directory, char *why, size_t why_size);
/* Releases a lock that was taken or shared. */
void dir_lock_release(struct dir_lock *lock);
/* The living process that holds the lock; 0: none. The test takes the lock for a moment, for which
 * another process that wants it waits. */
pid_t dir_lock_holder(const char *directory);

#endif
