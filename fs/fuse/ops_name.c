/* Names and attributes. */
#include <sys/stat.h>
#include "fs/fuse/ops.h"

/* Valid replies: ENTRY, STATUS with an error. */
void
op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_LOOKUP,
	                                    .ino = parent,
	                                    .name = bytes_of(name)});
}

/* FORGET has no reply, so it is not parked. */
static void
forget(struct device *d, fuse_ino_t ino, uint64_t count)
{
	engine_call(d->engine,
	            &(struct mount_event){.kind = MOUNT_FORGET, .ino = ino, .count = count});
}

void
op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	forget(ops_device(req), ino, count);
	fuse_reply_none(req);
}

void
op_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < n; i++)
		forget(ops_device(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* Valid replies: ATTR, STATUS with an error. */
void
op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_GETATTR,
	                                    .ino = ino,
	                                    .fh = file ? file->fh : 0});
}

static unsigned
set_of(int to_set)
{
	static const struct {
		int fuse;
		unsigned ours;
	} bits[] = {
	    {FUSE_SET_ATTR_MODE, SET_MODE},   {FUSE_SET_ATTR_UID, SET_UID},
	    {FUSE_SET_ATTR_GID, SET_GID},     {FUSE_SET_ATTR_SIZE, SET_SIZE},
	    {FUSE_SET_ATTR_MTIME, SET_MTIME}, {FUSE_SET_ATTR_MTIME_NOW, SET_MTIME_NOW},
	    {FUSE_SET_ATTR_ATIME, SET_ATIME}, {FUSE_SET_ATTR_ATIME_NOW, SET_ATIME},
	};
	unsigned set = 0;

	for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
		if (to_set & bits[i].fuse)
			set |= bits[i].ours;
	if (set & SET_MTIME_NOW) /* the kernel sets both bits then */
		set &= ~(unsigned)SET_MTIME;
	return set;
}

/* Times outside of the years 1677 to 2262 are clamped to the range of 64-bit nanoseconds. */
static int64_t
nanoseconds(const struct timespec *t)
{
	int64_t ns;

	if (__builtin_mul_overflow((int64_t)t->tv_sec, (int64_t)1000000000, &ns) ||
	    __builtin_add_overflow(ns, (int64_t)t->tv_nsec, &ns))
		return t->tv_sec < 0 ? INT64_MIN : INT64_MAX;
	return ns;
}

/* Valid replies: ATTR, STATUS with an error. */
void
op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
           struct fuse_file_info *file)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_SETATTR,
	                                    .ino = ino,
	                                    .fh = file ? file->fh : 0,
	                                    .set = set_of(to_set),
	                                    .mode = attr->st_mode,
	                                    .set_uid = attr->st_uid,
	                                    .set_gid = attr->st_gid,
	                                    .set_size = (uint64_t)attr->st_size,
	                                    .mtime_ns = nanoseconds(&attr->st_mtim)});
}

/* Valid replies: STATUS. */
void
op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_ACCESS, .ino = ino, .flags = mask});
}

/* Valid replies: ENTRY, STATUS with an error. */
void
op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_MKDIR,
	                                    .ino = parent,
	                                    .name = bytes_of(name),
	                                    .mode = mode});
}

/* Valid replies: STATUS. */
void
op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_UNLINK,
	                                    .ino = parent,
	                                    .name = bytes_of(name)});
}

/* Valid replies: STATUS. */
void
op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	ops_call(req,
	         &(struct mount_event){.kind = MOUNT_RMDIR, .ino = parent, .name = bytes_of(name)});
}

/* Valid replies: STATUS. */
void
op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
          const char *new_name, unsigned flags)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_RENAME,
	                                    .ino = parent,
	                                    .name = bytes_of(name),
	                                    .new_ino = new_parent,
	                                    .new_name = bytes_of(new_name),
	                                    .flags = (int)flags});
}

/* Refused: a cell has only files and directories, each with one name. Valid replies: STATUS with an
 * error. */
static void
refuse(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_REFUSED,
	                                    .ino = parent,
	                                    .name = bytes_of(name)});
}

/* Valid replies: ENTRY, STATUS with an error. */
void
op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)device;
	if (S_ISREG(mode))
		ops_call(req, &(struct mount_event){.kind = MOUNT_MKNOD,
		                                    .ino = parent,
		                                    .name = bytes_of(name),
		                                    .mode = mode});
	else
		refuse(req, parent, name);
}

void
op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	refuse(req, parent, name);
}

void
op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	(void)ino;
	refuse(req, new_parent, new_name);
}

/* Valid replies: STATS, STATUS with an error. */
void
op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	ops_call(req, &(struct mount_event){.kind = MOUNT_STATFS, .ino = ino});
}
