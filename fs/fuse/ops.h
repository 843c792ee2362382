/* The table of FUSE operations. Each operation turns libfuse's arguments into a mount_event, parks
 * the request first of all (so that it can be interrupted), and passes the event to the engine. The
 * answer comes back through reply_send. */
#ifndef LSFS_FS_FUSE_OPS_H
#define LSFS_FS_FUSE_OPS_H

#include "fs/fuse/device.h"

extern const struct fuse_lowlevel_ops ops_table;

/* Every op_ function answers its request through reply_send, once; its valid replies are listed at
 * its definition. */

/* Fills in the caller's ids, parks the request and passes the event to the engine. */
void ops_call(fuse_req_t req, struct mount_event *event);

static inline struct device *
ops_device(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* INIT: requests capabilities of the kernel (device.c). */
void device_on_init(void *device, struct fuse_conn_info *conn);

/* ops_name.c: names and attributes */
void op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count);
void op_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets);
void op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
void op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
                struct fuse_file_info *file);
void op_access(fuse_req_t req, fuse_ino_t ino, int mask);
void op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
               const char *new_name, unsigned flags);
void op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
void op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name);
void op_statfs(fuse_req_t req, fuse_ino_t ino);

/* ops_file.c: open files and directories */
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
void op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
               struct fuse_file_info *file);
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
             struct fuse_file_info *file);
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
              struct fuse_file_info *file);
void op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *file);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
void op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
                struct fuse_file_info *file);
void op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file);
void op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *file);
void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
                  struct fuse_file_info *file);
void op_copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset,
                        struct fuse_file_info *from_file, fuse_ino_t to, off_t to_offset,
                        struct fuse_file_info *to_file, size_t size, int flags);
void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg,
              struct fuse_file_info *file, unsigned flags, const void *in, size_t in_size,
              size_t out_size);

/* ops_poll.c */
void op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file,
             struct fuse_pollhandle *handle);

/* ops_lock.c */
void op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, int how);
void op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock,
              int wait);
void op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock);

/* ops_xattr.c */
void op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
                 int flags);
void op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);

#endif
