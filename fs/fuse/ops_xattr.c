/* Extended attributes. Their requests name the inode, but no open handle. */
#include "fs/fuse/ops.h"

/* Valid replies: DATA, STATUS with an error. */
void
op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_GETXATTR,
	                                    .ino = ino,
	                                    .name = bytes_of(name),
	                                    .size = size});
}

/* Valid replies: STATUS. */
void
op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
            int flags)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_SETXATTR,
	                                    .ino = ino,
	                                    .name = bytes_of(name),
	                                    .data = {(const uint8_t *)value, size},
	                                    .flags = flags});
}

/* Valid replies: DATA, STATUS with an error. */
void
op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_LISTXATTR, .ino = ino, .size = size});
}

/* Valid replies: STATUS. */
void
op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_REMOVEXATTR,
	                                    .ino = ino,
	                                    .name = bytes_of(name)});
}
