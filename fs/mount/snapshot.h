/* What a handle shows: the contents as they were at one moment. */
#ifndef LSFS_FS_MOUNT_SNAPSHOT_H
#define LSFS_FS_MOUNT_SNAPSHOT_H

#include "fs/mount/handle.h"

void snapshot_read(struct mount *m, struct call *c);
/* Fetches the snapshot anew; c->error tells, then c->next runs. The handle was entered. */
void snapshot_fetch(struct mount *m, struct call *c, call_next *next);
/* Asks for the contents, unless the version in memory is still that of the cell. */
void snapshot_ask(struct mount *m, struct call *c, const struct inode *i, call_then *then);
/* Takes over what the answer, which is no error, tells of the node: the contents are c->version
 * now. 0, or EIO if it makes no sense. */
int snapshot_learn(struct mount *m, struct call *c, const struct client_answer *a);
void snapshot_drop(struct mount *m, struct handle *h);
/* The node's version with its generation is the handle's snapshot now; `v` is counted for it. */
void snapshot_set(struct mount *m, struct handle *h, struct version *v);
/* It is what there was at the open: to be renewed by whatever looks at the contents first. */
void snapshot_opened(struct mount *m, struct handle *h, struct version *v);
/* As stat shows it to the process that writes through the handle. */
size_t snapshot_size(const struct handle *h);

#endif
