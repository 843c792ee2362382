/* Open files and directories. */
#include <errno.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/sys/sequencer_ioctl.h"
#include "fs/fuse/ops.h"
#include "fs/fuse/poll_handle.h"

static_assert(sizeof(struct lsfs_sequencer) > LIMIT_SEQUENCER, "it holds every sequencer");

/* Valid replies: OPENED, STATUS with an error. */
void
op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_OPEN,
	                                    .ino = ino,
	                                    .flags = file->flags,
	                                    .descriptors = 0});
}

/* Valid replies: CREATED, STATUS with an error. */
void
op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
          struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_CREATE,
	                                    .ino = parent,
	                                    .name = bytes_of(name),
	                                    .mode = mode,
	                                    .flags = file->flags});
}

/* A read(2) carries its caller's lock owner, a read for the page cache none. Valid replies: DATA,
 * STATUS with an error. */
void
op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_READ,
	                                    .ino = ino,
	                                    .fh = file->fh,
	                                    .size = size,
	                                    .offset = offset,
	                                    .for_page = file->lock_owner == 0,
	                                    .flags = file->flags});
}

/* Valid replies: COUNT, STATUS with an error. */
void
op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
         struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_WRITE,
	                                    .ino = ino,
	                                    .fh = file->fh,
	                                    .lock_owner = file->lock_owner,
	                                    .data = {(const uint8_t *)data, size},
	                                    .size = size,
	                                    .offset = offset,
	                                    .flags = file->flags});
}

/* Valid replies: STATUS. */
void
op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_FLUSH,
	                                    .ino = ino,
	                                    .fh = file->fh,
	                                    .lock_owner = file->lock_owner,
	                                    .fate = FATE_UNKNOWN,
	                                    .descriptors = -1});
}

/* Valid replies: STATUS. */
void
op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *file)
{
	(void)datasync;
	ops_call(req, &(struct mount_event){.kind = MOUNT_FSYNC, .ino = ino, .fh = file->fh});
}

/* The kernel waits for no answer to RELEASE, but needs one. Valid replies: STATUS. */
void
op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	poll_handle_end(&ops_device(req)->poll_handles, file->fh);
	ops_call(req, &(struct mount_event){.kind = MOUNT_RELEASE,
	                                    .ino = ino,
	                                    .fh = file->fh,
	                                    .lock_owner = file->lock_owner});
}

/* Valid replies: OPENED, STATUS with an error. */
void
op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	ops_call(req,
	         &(struct mount_event){.kind = MOUNT_OPENDIR, .ino = ino, .flags = file->flags});
}

/* Valid replies: LISTING, STATUS with an error. */
void
op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_READDIR,
	                                    .ino = ino,
	                                    .fh = file->fh,
	                                    .size = size,
	                                    .offset = offset});
}

/* Valid replies: STATUS. */
void
op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_RELEASEDIR, .ino = ino, .fh = file->fh});
}

/* Answered at once: every change of a directory was durable before its call was answered. Valid
 * replies: STATUS. */
void
op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *file)
{
	(void)ino;
	(void)datasync;
	(void)file;
	fuse_reply_err(req, 0);
}

/* Refused: files are small and are committed whole, so no space can be reserved in them. */
void
op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
             struct fuse_file_info *file)
{
	(void)ino;
	(void)mode;
	(void)offset;
	(void)length;
	(void)file;
	fuse_reply_err(req, EOPNOTSUPP);
}

/* Refused with EINVAL, at which cp and cat read and write instead. Without this operation, or with
 * EOPNOTSUPP, the kernel would copy through its page cache, which may hold an older version of the
 * file (the one that a mapping shows). */
void
op_copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset,
                   struct fuse_file_info *from_file, fuse_ino_t to, off_t to_offset,
                   struct fuse_file_info *to_file, size_t size, int flags)
{
	(void)from;
	(void)from_offset;
	(void)from_file;
	(void)to;
	(void)to_offset;
	(void)to_file;
	(void)size;
	(void)flags;
	fuse_reply_err(req, EINVAL);
}

/* Tools try ioctls of other filesystems, and expect an error for an unknown one. Valid replies:
 * STATUS. */
void
op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg, struct fuse_file_info *file,
         unsigned flags, const void *in, size_t in_size, size_t out_size)
{
	const struct lsfs_sequencer *sequencer = in;

	(void)arg;
	(void)flags;
	(void)out_size;
	if (command != LSFS_SET_SEQUENCER || in_size != sizeof *sequencer) {
		fuse_reply_err(req, ENOTTY);
		return;
	}
	ops_call(req, &(struct mount_event){
	                  .kind = MOUNT_GUARD,
	                  .ino = ino,
	                  .fh = file->fh,
	                  .data = {(const uint8_t *)sequencer->text,
	                           strnlen(sequencer->text, sizeof sequencer->text)},
	              });
}
