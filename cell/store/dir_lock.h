/* One process per data directory: a lock on DIRECTORY/lock, which also names its holder. The lock
 * is the kernel's, so it ends with the process, however that ends. */
#ifndef LSFS_STORE_DIR_LOCK_H
#define LSFS_STORE_DIR_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DIR_LOCK_FILE "lock"

struct dir_lock { int fd; };

/* False with one line in `why`: "DIRECTORY: in use by process N". */
bool dir_lock_take(struct dir_lock *lock, const char *directory, char *why, size_t why_size);
void dir_lock_release(struct dir_lock *lock);
/* The living process that has the lock; 0: nobody has. (Somebody who takes it at this very moment
 * may be told that it is in use.) */
pid_t dir_lock_holder(const char *directory);

#endif
