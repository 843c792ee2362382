/* When and how a buffer is committed. */
#ifndef LSFS_FS_MOUNT_COMMIT_H
#define LSFS_FS_MOUNT_COMMIT_H

#include "fs/mount/handle.h"

/* Commits what the buffer holds, if anything, and goes on with `next`; c->error tells. Entered. */
void commit(struct mount *m, struct call *c, call_next *next);
/* The same, with nobody waiting: it is sent now unless the handle is busy with a commit. */
void commit_behind(struct mount *m, struct handle *h);
/* What is told once more by fsync, unlock and close. */
int commit_owed(struct handle *h);
void commit_flush(struct mount *m, struct call *c);
unsigned commit_wants(struct handle *h, const struct mount_event *e); /* FLUSH: mount_wants */
void commit_fsync(struct mount *m, struct call *c);

#endif
