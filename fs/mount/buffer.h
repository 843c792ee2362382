/* What was written through a handle and is not committed. */
#ifndef LSFS_FS_MOUNT_BUFFER_H
#define LSFS_FS_MOUNT_BUFFER_H

#include "fs/mount/handle.h"

void buffer_write(struct mount *m, struct call *c);
void buffer_truncate(struct mount *m, struct call *c); /* SETATTR with a handle */
void buffer_drop(struct mount *m, struct handle *h);
bool buffer_written_by(const struct handle *h, uint64_t lock_owner, pid_t pid);
bool buffer_written_by_others(const struct handle *h, uint64_t lock_owner, pid_t pid);
void buffer_add_writer(struct handle *h, const struct mount_event *e);
/* Whose thread the writer of this event is, if it was the last to write for its process. */
pid_t buffer_knows_process(const struct handle *h, const struct mount_event *e);
/* The handle of this process with uncommitted writes on the node, NULL if none. */
struct handle *buffer_of_process(const struct inode *i, uint64_t fh, pid_t pid);

/* The killed writer's part is void: what is left is what the handle began with. */
void buffer_revert(struct mount *m, struct handle *h);

#endif
