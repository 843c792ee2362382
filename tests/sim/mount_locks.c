/* The locks that a mount has. Its names and those of the simulator do not go together. */
#include "tests/sim/mount_locks.h"
#include "fs/mount/internal.h"

void
mount_locks_each(struct mount *m, void (*each)(void *user, uint64_t node, uint64_t acquisition),
                 void *user)
{
	const struct mount_lock *l;
	struct inode *i;

	RB_FOREACH(i, inode_numbers, &m->inodes)
		TAILQ_FOREACH(l, &i->locks, of_inode)
			if (l->mode != LOCK_NONE)
				each(user, i->ino, l->acquisition);
}
