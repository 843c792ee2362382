/* The table of FUSE operations. Each operation turns libfuse's arguments into a mount_event, parks
 * the request first of all (so that it can be interrupted), and passes the event to the engine. The
 * answer comes back through reply_send, once; the valid replies are listed at each. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "cell/sys/lsfs_ioctl.h"
#include "fs/fuse/device.h"
#include "fs/fuse/poll_handle.h"
#include "fs/fuse/proc.h"

static struct device *
ops_device(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* Parks the request, with the caller's ids, and passes the event to the engine. */
static void
ops_call(fuse_req_t req, struct mount_event *event)
{
	struct device *d = ops_device(req);
	const struct fuse_ctx *caller = fuse_req_ctx(req);
	unsigned wants;

	event->uid = caller->uid;
	event->gid = caller->gid;
	event->user = users_name(&d->users, caller->uid);
	event->thread = caller->pid;
	event->again = d->again;
	/* Facts about the caller's process are read by the id of the calling thread, which exists
	 * during the call; the first thread of the process may have ended already. */
	wants = engine_wants(d->engine, event);
	if (wants & WANTS_PROCESS)
		event->pid = proc_of_thread(&d->callers, event->thread);
	if (wants & WANTS_FATE)
		event->fate = proc_fate(&d->callers, event->thread);
	if (wants & WANTS_DESCRIPTORS)
		event->has_other =
		    proc_has_descriptor(event->thread, event->ino,
		                        engine_shown(d->engine, event->ino), &d->mounted);
	reply_park(&d->replies, req, event);
	engine_call(d->engine, event);
}

#define OPS_CALL(req, ...) ops_call(req, &(struct mount_event){__VA_ARGS__})

/* ---- open files and directories ---- */

/* Valid replies: OPENED, STATUS with an error. */
static void
op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_OPEN, .ino = ino, .flags = file->flags);
}

/* Valid replies: CREATED, STATUS with an error. */
static void
op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
          struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_CREATE, .ino = parent, .name = bytes_of(name), .mode = mode,
	         .flags = file->flags);
}

/* A read(2) carries its caller's lock owner, a read for the page cache none. Valid replies: DATA,
 * STATUS with an error. */
static void
op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_READ, .ino = ino, .fh = file->fh, .size = size,
	         .offset = offset, .for_page = file->lock_owner == 0, .flags = file->flags);
}

/* Valid replies: COUNT, STATUS with an error. */
static void
op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset,
         struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_WRITE, .ino = ino, .fh = file->fh,
	         .lock_owner = file->lock_owner, .data = {(const uint8_t *)data, size},
	         .size = size, .offset = offset, .flags = file->flags);
}

/* Valid replies: STATUS. */
static void
op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_FLUSH, .ino = ino, .fh = file->fh,
	         .lock_owner = file->lock_owner, .fate = FATE_UNKNOWN);
}

/* Valid replies: STATUS. */
static void
op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *file)
{
	(void)datasync;
	OPS_CALL(req, .kind = MOUNT_FSYNC, .ino = ino, .fh = file->fh);
}

/* The kernel waits for no answer to RELEASE, but needs one. Valid replies: STATUS. */
static void
op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	poll_handle_end(&ops_device(req)->poll_handles, file->fh);
	OPS_CALL(req, .kind = MOUNT_RELEASE, .ino = ino, .fh = file->fh,
	         .lock_owner = file->lock_owner);
}

/* Valid replies: OPENED, STATUS with an error. */
static void
op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_OPENDIR, .ino = ino, .flags = file->flags);
}

/* Valid replies: LISTING, STATUS with an error. */
static void
op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_READDIR, .ino = ino, .fh = file->fh, .size = size,
	         .offset = offset);
}

/* Valid replies: STATUS. */
static void
op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_RELEASEDIR, .ino = ino, .fh = file->fh);
}

/* Answered at once: every change of a directory was durable before its call was answered. Valid
 * replies: STATUS. */
static void
op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *file)
{
	(void)ino;
	(void)datasync;
	(void)file;
	fuse_reply_err(req, 0);
}

/* Refused: files are small and are committed whole, so no space can be reserved in them. */
static void
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
 * file (the one that a mapping shows). To another mount it copies so without asking. */
static void
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

/* ---- names and attributes ---- */

/* Valid replies: ENTRY, STATUS with an error. */
static void
op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	OPS_CALL(req, .kind = MOUNT_LOOKUP, .ino = parent, .name = bytes_of(name));
}

/* FORGET has no reply, so it is not parked. */
static void
forget(struct device *d, fuse_ino_t ino, uint64_t count)
{
	engine_call(d->engine,
	            &(struct mount_event){.kind = MOUNT_FORGET, .ino = ino, .count = count});
}

static void
op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	forget(ops_device(req), ino, count);
	fuse_reply_none(req);
}

static void
op_forget_multi(fuse_req_t req, size_t n, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < n; i++)
		forget(ops_device(req), forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

/* Valid replies: ATTR, STATUS with an error. */
static void
op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_GETATTR, .ino = ino, .fh = file ? file->fh : 0);
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
static void
op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
           struct fuse_file_info *file)
{
	OPS_CALL(req, .kind = MOUNT_SETATTR, .ino = ino, .fh = file ? file->fh : 0,
	         .set = set_of(to_set), .mode = attr->st_mode, .set_uid = attr->st_uid,
	         .set_gid = attr->st_gid, .set_size = (uint64_t)attr->st_size,
	         .mtime_ns = nanoseconds(&attr->st_mtim));
}

/* Valid replies: STATUS. */
static void
op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	OPS_CALL(req, .kind = MOUNT_ACCESS, .ino = ino, .flags = mask);
}

/* Valid replies: ENTRY, STATUS with an error. */
static void
op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	OPS_CALL(req, .kind = MOUNT_MKDIR, .ino = parent, .name = bytes_of(name), .mode = mode);
}

/* Valid replies: STATUS. */
static void
op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	OPS_CALL(req, .kind = MOUNT_UNLINK, .ino = parent, .name = bytes_of(name));
}

/* Valid replies: STATUS. */
static void
op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	OPS_CALL(req, .kind = MOUNT_RMDIR, .ino = parent, .name = bytes_of(name));
}

/* Valid replies: STATUS. */
static void
op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
          const char *new_name, unsigned flags)
{
	OPS_CALL(req, .kind = MOUNT_RENAME, .ino = parent, .name = bytes_of(name),
	         .new_ino = new_parent, .new_name = bytes_of(new_name), .flags = (int)flags);
}

/* Refused: a cell has only files and directories, each with one name. Valid replies: STATUS with an
 * error. */
static void
refuse(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	OPS_CALL(req, .kind = MOUNT_REFUSED, .ino = parent, .name = bytes_of(name));
}

/* Valid replies: ENTRY, STATUS with an error. */
static void
op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	(void)device;
	if (S_ISREG(mode))
		OPS_CALL(req, .kind = MOUNT_MKNOD, .ino = parent, .name = bytes_of(name),
		         .mode = mode);
	else
		refuse(req, parent, name);
}

static void
op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	(void)target;
	refuse(req, parent, name);
}

static void
op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t new_parent, const char *new_name)
{
	(void)ino;
	refuse(req, new_parent, new_name);
}

/* Valid replies: STATS, STATUS with an error. */
static void
op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	OPS_CALL(req, .kind = MOUNT_STATFS, .ino = ino);
}

/* ---- locks ---- */

/* flock, fcntl and open-file-description (OFD) locks; requests of the last two are identical. */

/* A call flock(2), of an event that names the handle, with its second argument. */
static void
ops_flock(fuse_req_t req, struct mount_event event, int how)
{
	event.kind = MOUNT_FLOCK;
	event.wait = !(how & LOCK_NB);
	event.whole = true;
	switch (how & ~LOCK_NB) {
	case LOCK_SH:
		event.lock_mode = LOCK_SHARED;
		break;
	case LOCK_EX:
		event.lock_mode = LOCK_EXCLUSIVE;
		break;
	case LOCK_UN:
		event.lock_mode = LOCK_NONE;
		break;
	default:
		fuse_reply_err(req, EINVAL);
		return;
	}
	ops_call(req, &event);
}

/* Valid replies: STATUS. */
static void
op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, int how)
{
	ops_flock(req, (struct mount_event){.ino = ino, .fh = file->fh}, how);
}

static struct mount_event
range_event(enum mount_event_kind kind, fuse_ino_t ino, const struct fuse_file_info *file,
            const struct flock *lock)
{
	return (struct mount_event){
	    .kind = kind,
	    .ino = ino,
	    .fh = file->fh,
	    .lock_owner = file->lock_owner,
	    .lock_mode = lock->l_type == F_RDLCK   ? LOCK_SHARED
	                 : lock->l_type == F_WRLCK ? LOCK_EXCLUSIVE
	                                           : LOCK_NONE,
	    .whole = lock->l_start == 0 && lock->l_len == 0,
	};
}

/* Valid replies: STATUS. */
static void
op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock, int wait)
{
	struct mount_event event = range_event(MOUNT_SETLK, ino, file, lock);

	event.wait = wait != 0;
	ops_call(req, &event);
}

/* Valid replies: LOCK, STATUS with an error. */
static void
op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock)
{
	struct mount_event event = range_event(MOUNT_GETLK, ino, file, lock);

	ops_call(req, &event);
}

/* ---- poll ---- */

/* With a handle the caller waits, and is to be woken up when there is more. Valid replies: POLLED,
 * STATUS with an error. */
static void
op_poll(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct fuse_pollhandle *handle)
{
	struct device *d = ops_device(req);

	if (handle != NULL)
		poll_handle_begin(&d->poll_handles, file->fh, handle, d->replies.request);
	OPS_CALL(req, .kind = MOUNT_POLL, .ino = ino, .fh = file->fh, .wait = handle != NULL);
}

/* ---- extended attributes: their requests name the inode, but no open handle ---- */

/* Valid replies: DATA, STATUS with an error. */
static void
op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	OPS_CALL(req, .kind = MOUNT_GETXATTR, .ino = ino, .name = bytes_of(name), .size = size);
}

/* Valid replies: STATUS. */
static void
op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size,
            int flags)
{
	OPS_CALL(req, .kind = MOUNT_SETXATTR, .ino = ino, .name = bytes_of(name),
	         .data = {(const uint8_t *)value, size}, .flags = flags);
}

/* Valid replies: DATA, STATUS with an error. */
static void
op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	OPS_CALL(req, .kind = MOUNT_LISTXATTR, .ino = ino, .size = size);
}

/* Valid replies: STATUS. */
static void
op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	OPS_CALL(req, .kind = MOUNT_REMOVEXATTR, .ino = ino, .name = bytes_of(name));
}

/* ---- the calls of <lsfs.h> ---- */

/* Tools try ioctls of other filesystems, and expect an error for an unknown one. Valid replies:
 * STATUS; of NUMBER: DATA, STATUS with an error. */
static void
op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *arg, struct fuse_file_info *file,
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

/* ---- the table ---- */

/* An operation that is missing here is answered ENOSYS by libfuse, and the kernel then never sends
 * it again on this mount. That is right for operations with a fallback (lseek for holes, bmap), and
 * wrong for all others. */
const struct fuse_lowlevel_ops ops_table = {
    .init = device_on_init,
    .lookup = op_lookup,
    .forget = op_forget,
    .forget_multi = op_forget_multi,
    .getattr = op_getattr,
    .setattr = op_setattr,
    .access = op_access,
    .mkdir = op_mkdir,
    .unlink = op_unlink,
    .rmdir = op_rmdir,
    .rename = op_rename,
    .mknod = op_mknod,
    .symlink = op_symlink,
    .link = op_link,
    .statfs = op_statfs,
    .open = op_open,
    .create = op_create,
    .read = op_read,
    .write = op_write,
    .flush = op_flush,
    .fsync = op_fsync,
    .release = op_release,
    .opendir = op_opendir,
    .readdir = op_readdir,
    .releasedir = op_releasedir,
    .fsyncdir = op_fsyncdir,
    .fallocate = op_fallocate,
    .copy_file_range = op_copy_file_range,
    .ioctl = op_ioctl,
    .poll = op_poll,
    .flock = op_flock,
    .setlk = op_setlk,
    .getlk = op_getlk,
    .getxattr = op_getxattr,
    .setxattr = op_setxattr,
    .listxattr = op_listxattr,
    .removexattr = op_removexattr,
};
