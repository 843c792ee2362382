/* When and how a buffer is committed. */
#ifndef LSFS_FS_MOUNT_COMMIT_H
#define LSFS_FS_MOUNT_COMMIT_H

#include "fs/mount/handle.h"

/* Commits the buffer, if it holds anything, and goes on with `next`; c->error is the result, a
 * positive errno or 0. The call must have entered the handle. */
void commit(struct mount *m, struct call *c, call_next *next);
/* Commits in the background: the request is sent now, unless a commit of the handle is under way.
 * An error is kept for commit_owed. */
void commit_behind(struct mount *m, struct handle *h);
/* The error that fsync, unlock or close still has to return, 0 if there is none; it is returned
 * once. */
int commit_owed(struct handle *h);
/* FLUSH: a close by one of those that have the handle open. */
void commit_flush(struct mount *m, struct call *c);
/* The part of mount_wants for FLUSH. */
unsigned commit_wants(struct handle *h, const struct mount_event *e);
/* FSYNC: commits, and returns what is owed. */
void commit_fsync(struct mount *m, struct call *c);

#endif
