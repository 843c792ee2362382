/* The snapshot of a handle: the contents of its file at one moment. */
#ifndef LSFS_FS_MOUNT_SNAPSHOT_H
#define LSFS_FS_MOUNT_SNAPSHOT_H

#include "fs/mount/handle.h"

/* READ. */
void snapshot_read(struct mount *m, struct call *c);
/* Fetches the snapshot, then runs c->next, with a positive errno or 0 in c->error. The call must
 * have entered the handle. */
void snapshot_fetch(struct mount *m, struct call *c, call_next *next);
/* Requests the contents of the node; they are not sent if c->version, the latest in memory, is
 * current. */
void snapshot_ask(struct mount *m, struct call *c, const struct inode *i, call_then *then);
/* Takes over the answer to snapshot_ask, which must not be an error: attributes, and the contents
 * as c->version. 0, or EIO if the answer is invalid. */
int snapshot_learn(struct mount *m, struct call *c, const struct client_answer *a);
/* The handle has none from now on. */
void snapshot_drop(struct mount *m, struct handle *h);
/* Makes `v` the handle's snapshot; takes over the reference to it. */
void snapshot_set(struct mount *m, struct handle *h, struct version *v);
/* As snapshot_set, for the version at the open: it is renewed by the first read or write that needs
 * the contents. */
void snapshot_opened(struct mount *m, struct handle *h, struct version *v);
/* The size that stat shows to the process that writes through the handle. */
size_t snapshot_size(const struct handle *h);

#endif
