/* The facts about its caller that a call needs. The kernel names only the thread. Uncommitted
 * writes, files being created and locks belong to a process, and looking up the process of a thread
 * costs as much as a small read: so the driver is asked for it only where the outcome depends on
 * it. */
#include <fcntl.h>
#include "fs/mount/internal.h"

/* True if the file has uncommitted writes: the process that made them must see them. */
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

/* An open that truncates needs its process, and the number of descriptors on the file which that
 * process had before: when only so many are left, the new one is closed (commit.c). */
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
	struct mount *own = (struct mount *)m; /* bsd/sys/tree.h is not const-correct */

	switch (event->kind) {
	case MOUNT_CREATE:
	case MOUNT_MKDIR:
	case MOUNT_MKNOD:
	case MOUNT_SETATTR:
	case MOUNT_SETXATTR: /* may take a lock; the process that made the node gets no EPERM */
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
		return call_wants_fate(own, event->call) ? WANTS_FATE : 0;
	default:
		return 0;
	}
}
