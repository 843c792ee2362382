/* What a call needs to know of its caller. The kernel names the thread; what belongs to a process
 * (its uncommitted writes, the file that it is creating, its lock) has to be asked for, and that
 * costs as much as a small read: so nothing is asked where nothing hangs on it. */
#include <fcntl.h>
#include "fs/mount/internal.h"

/* Then a process may have to see its own uncommitted writes. */
static bool
is_being_written(struct mount *m, const struct mount_event *e)
{
	const struct inode *i = inode_find(m, inode_where(m, e->ino));
	const struct handle *h;
	bool edited = false;

	if (i == NULL)
		return false;
	TAILQ_FOREACH(h, &i->handles, of_inode)
		edited |= h->edit != EDIT_NONE;
	return edited;
}

/* What a process has open of the file already is not what it is about to open. */
static unsigned
open_wants(struct mount *m, const struct mount_event *e)
{
	struct inode *i = inode_find(m, inode_where(m, e->ino));

	if (!(e->flags & O_TRUNC))
		return 0;
	return WANTS_PROCESS | (i && handle_after(i, 0) ? WANTS_DESCRIPTORS : 0);
}

static unsigned
handle_wants(struct mount *m, const struct mount_event *e)
{
	struct handle *h = handle_find(m, e->fh);

	if (h == NULL || h->inode == NULL)
		return 0;
	if (e->kind == MOUNT_FLUSH)
		return commit_wants(h, e);
	return buffer_knows_process(h, e) ? 0 : WANTS_PROCESS;
}

unsigned
mount_wants(const struct mount *m, const struct mount_event *event)
{
	struct mount *own = (struct mount *)m; /* the trees of bsd/sys/tree.h know no const */

	switch (event->kind) {
	case MOUNT_CREATE:
	case MOUNT_MKDIR:
	case MOUNT_MKNOD:
	case MOUNT_SETATTR:
	case MOUNT_SETXATTR: /* may take a lock; the maker of a node is spared EPERM */
		return WANTS_PROCESS;
	case MOUNT_OPEN:
		return open_wants(own, event);
	case MOUNT_FLOCK:
	case MOUNT_SETLK:
		return event->lock_mode != LOCK_NONE ? WANTS_PROCESS : 0;
	case MOUNT_GETATTR:
		return is_being_written(own, event) ? WANTS_PROCESS : 0;
	case MOUNT_WRITE:
	case MOUNT_FLUSH:
		return handle_wants(own, event);
	case MOUNT_INTERRUPT:
		return call_is_patient(own, event->call) ? WANTS_FATE : 0;
	default:
		return 0;
	}
}
