/* One process per data directory: a lock on DIRECTORY/lock, which also names its holder. The lock
 * is the kernel's, so it ends with the process, however that ends. */
#ifndef LSFS_IO_DIRLOCK_H
#define LSFS_IO_DIRLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DIRLOCK_FILE "lock"

struct dirlock { int fd; };

/* False with one line in `why`: "DIRECTORY: in use by process N". */
bool dirlock_take(struct dirlock *lock, const char *directory, char *why, size_t why_size);
void dirlock_release(struct dirlock *lock);
/* The living process that has the lock; 0: nobody has. (Somebody who takes it at this very moment
 * may be told that it is in use.) */
pid_t dirlock_holder(const char *directory);

#endif
