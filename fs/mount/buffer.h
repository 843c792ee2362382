/* The buffer of a handle: its uncommitted writes. */
#ifndef LSFS_FS_MOUNT_BUFFER_H
#define LSFS_FS_MOUNT_BUFFER_H

#include "fs/mount/handle.h"

/* WRITE: into the buffer, or refused. */
void buffer_write(struct mount *m, struct call *c);
/* SETATTR of the size with a handle. */
void buffer_truncate(struct mount *m, struct call *c);
/* Discards uncommitted writes. */
void buffer_drop(struct mount *m, struct handle *h);
/* True if this owner, or this process, has written into the buffer. */
bool buffer_written_by(const struct handle *h, uint64_t lock_owner, pid_t pid);
/* True if another one has, too. */
bool buffer_written_by_others(const struct handle *h, uint64_t lock_owner, pid_t pid);
/* Notes who writes. */
void buffer_add_writer(struct handle *h, const struct mount_event *e);
/* The process that the event's thread belongs to, if that thread was the last to write for the
 * process; 0 if that is unknown. */
pid_t buffer_knows_process(const struct handle *h, const struct mount_event *e);
/* A handle with uncommitted writes on the node: the one numbered `fh`, or one that process `pid`
 * has written or truncated through; NULL if there is none. */
struct handle *buffer_of_process(const struct inode *i, uint64_t fh, pid_t pid);

/* Discards the buffer after a writer was killed: the handle is as it was after the open. */
void buffer_revert(struct mount *m, struct handle *h);

#endif
