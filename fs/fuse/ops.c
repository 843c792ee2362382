#include "fs/fuse/ops.h"
#include "fs/fuse/proc.h"

/* Fills in facts about the caller's process: its descriptors, and whether it is being killed. They
 * are read by the calling thread's id, which exists during the call; the first thread of the
 * process may have ended already. */
static void
learn_caller(const struct device *d, struct mount_event *event)
{
	const unsigned wants = engine_wants(d->engine, event);

	if (wants & WANTS_PROCESS)
		event->pid = proc_of_thread(event->thread);
	if (wants & WANTS_FATE)
		event->fate = proc_fate(event->thread);
	if (wants & WANTS_DESCRIPTORS)
		event->descriptors = proc_descriptors(event->thread, event->ino, &d->mounted);
}

void
ops_call(fuse_req_t req, struct mount_event *event)
{
	struct device *d = ops_device(req);
	const struct fuse_ctx *caller = fuse_req_ctx(req);

	event->uid = caller->uid;
	event->gid = caller->gid;
	event->user = users_name(&d->users, caller->uid);
	event->thread = caller->pid;
	learn_caller(d, event);
	reply_park(&d->replies, req, event);
	engine_call(d->engine, event);
}

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
