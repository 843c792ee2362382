/* Events of nodes and of the session. The mount watches each node that is open here while somebody
 * reads .cell/events, and each node whose handle was polled. An event is pending on every handle of
 * its node (POLLPRI), until that reads the contents anew or is used for a lock. */
#ifndef LSFS_FS_MOUNT_EVENT_WATCH_H
#define LSFS_FS_MOUNT_EVENT_WATCH_H

#include "fs/mount/mount.h"

struct call;
struct handle;
struct inode;
struct mount;

/* The handles of the node are others than before: begins or ends its watch, if that is due. */
void event_watch_follow(struct mount *m, struct inode *i);
/* Does so for all nodes: the file .cell/events is read now, or no more. */
void event_watch_follow_all(struct mount *m);
/* The session has ended, and all watches with it. */
void event_watch_forget_all(struct mount *m);
/* Handles an event of the session or of a node. */
void event_watch_told(struct mount *m, const struct mount_event *e);
/* The handle's caller has seen, or is about to see, the present state of the node. */
void event_watch_seen(struct handle *h);
/* The handle may have something for the callers of poll(2): the kernel asks again. */
void event_watch_wake(struct mount *m, struct handle *h);
/* Answers poll(2). */
void event_watch_poll(struct mount *m, struct call *c);

#endif
