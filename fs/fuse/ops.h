/* Operations that stand in files of their own, and the functions that all of them use. */
#ifndef LSFS_FS_FUSE_OPS_H
#define LSFS_FS_FUSE_OPS_H

#include "fs/fuse/device.h"

/* Parks the request, with the caller's ids, and passes the event to the engine. */
void ops_call(fuse_req_t req, struct mount_event *event);
/* A call flock(2), of an event that names the handle, with its second argument. */
void ops_flock(fuse_req_t req, struct mount_event event, int how);
/* The calls of <lsfs.h>. */
void ops_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg,
               struct fuse_file_info *file, unsigned flags, const void *in, size_t in_size,
               size_t out_size);

#endif
