/* flock, fcntl and open-file-description (OFD) locks; requests of the last two are identical. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include "fs/fuse/ops.h"

/* Valid replies: STATUS. */
void
op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, int how)
{
	struct mount_event event = {
	    .kind = MOUNT_FLOCK,
	    .ino = ino,
	    .fh = file->fh,
	    .lock_owner = file->lock_owner,
	    .wait = !(how & LOCK_NB),
	    .whole = true,
	};

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

static enum lock_mode
mode_of(const struct flock *lock)
{
	switch (lock->l_type) {
	case F_RDLCK:
		return LOCK_SHARED;
	case F_WRLCK:
		return LOCK_EXCLUSIVE;
	default:
		return LOCK_NONE;
	}
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
	    .lock_mode = mode_of(lock),
	    .whole = lock->l_start == 0 && lock->l_len == 0,
	};
}

/* Valid replies: STATUS. */
void
op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock, int wait)
{
	struct mount_event event = range_event(MOUNT_SETLK, ino, file, lock);

	event.wait = wait != 0;
	ops_call(req, &event);
}

/* Valid replies: LOCK, STATUS with an error. */
void
op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *file, struct flock *lock)
{
	struct mount_event event = range_event(MOUNT_GETLK, ino, file, lock);

	ops_call(req, &event);
}
