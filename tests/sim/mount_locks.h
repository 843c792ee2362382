/* The locks that a mount has. */
#ifndef LSFS_TESTS_SIM_MOUNT_LOCKS_H
#define LSFS_TESTS_SIM_MOUNT_LOCKS_H

#include <stdint.h>

struct mount;

/* Calls `each` for every lock that is held. */
void mount_locks_each(struct mount *m,
                      void (*each)(void *user, uint64_t node, uint64_t acquisition), void *user);

#endif
