/* The lock that is set through the attribute user.ls.lock, for directories and scripts: neither has
 * an open file that could own a lock. Its owner is this mount's session and the local user. */
#include "fs/mount/internal.h"

void
attribute_lock_set(struct mount *m, struct call *c, enum lock_mode mode)
{
	struct mount_lock *l;

	c->mode = mode;
	c->event.wait = false;
	c->event.fh = 0;
	if (mode != LOCK_NONE) {
		lock_refer(c, lock_get(m, c->inode, LOCK_ATTRIBUTE, c->event.uid));
		lock_acquire(m, c);
		return;
	}
	l = lock_find(c->inode, LOCK_ATTRIBUTE, c->event.uid);
	if (l == NULL) {
		call_status(m, c, 0);
		return;
	}
	lock_refer(c, l);
	lock_unlock(m, c);
}
