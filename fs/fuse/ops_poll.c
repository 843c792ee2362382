#include "fs/fuse/ops.h"

/* With a handle the caller waits, and is to be woken up when there is more. Valid replies: POLLED,
 * STATUS with an error. */
void
op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct fuse_pollhandle *handle)
{
	if (handle != NULL)
		poll_handle_begin(&ops_device(req)->poll_handles, file->fh, handle);
	ops_call(req, &(struct mount_event){.kind = MOUNT_POLL,
	                                    .ino = ino,
	                                    .fh = file->fh,
	                                    .wait = handle != NULL});
}
