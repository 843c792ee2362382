/* The calls of <lsfs.h>. */
#include <string.h>
#include "cell/sys/lsfs_ioctl.h"
#include "fs/fuse/ops.h"

/* Tools try ioctls of other filesystems, and expect an error for an unknown one. Valid replies:
 * STATUS; of NUMBER: DATA, STATUS with an error. */
void
ops_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg, struct fuse_file_info *file,
          unsigned flags, const void *in, size_t in_size, size_t out_size)
{
	struct mount_event event = {.ino = ino, .fh = file->fh, .by_ioctl = true};
	const struct lsfs_number *number = in;
	int how = 0;

	(void)arg;
	(void)flags;
	(void)out_size;
	if (command == LSFS_LOCK && in_size == sizeof how) {
		memcpy(&how, in, sizeof how);
		ops_flock(req, event, how);
		return;
	}
	if (command == LSFS_WATCH_TREE) {
		event.kind = MOUNT_WATCH_TREE;
	} else if (command == LSFS_POISON) {
		event.kind = MOUNT_POISON;
	} else if (command == LSFS_SET_SEQUENCER(in_size)) {
		event.kind = MOUNT_GUARD;
		event.data.data = in;
		event.data.len = strnlen(in, in_size);
	} else if (command == LSFS_NUMBER && in_size == sizeof *number) {
		event.kind = MOUNT_NUMBER;
		event.data.data = (const uint8_t *)number->name;
		event.data.len = strnlen(number->name, sizeof number->name);
		event.mode = number->ephemeral ? S_ISVTX : 0;
	} else {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	ops_call(req, &event);
}
