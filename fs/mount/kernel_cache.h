/* The replies of the mount that the kernel keeps, for at most a second: the names that lead to
 * nodes, and attributes. The kernel never has attributes that the client's cache has not: what is
 * dropped there is invalidated here. No name is invalidated, because the kernel would need a lock
 * for that, or for the lookup that follows, which a caller of this mount may hold while it waits
 * for the cell. So the kernel may have the name of a dead node: a call by it is answered ESTALE,
 * and the kernel looks the name up again. */
#ifndef LSFS_FS_MOUNT_KERNEL_CACHE_H
#define LSFS_FS_MOUNT_KERNEL_CACHE_H

#include "fs/mount/inode.h"

/* A reply that the kernel keeps, and that may not have been written yet. */
struct kernel_reply {
	uint64_t ino;
	span_t timeout;
	bool attributes; /* else a name */
};

struct kernel_cache {
	struct kernel_reply *replies;
	size_t replies_n, replies_room;
};

/* How long the kernel may keep something, when this much of the leave to cache is left. */
span_t kernel_cache_timeout(span_t left);
/* How long it keeps a name that a reply says to lead to the inode. */
span_t kernel_cache_name(struct mount *m, struct inode *i);
/* How long it keeps the attributes that the call is answered, of the inode that the call refers
 * to. */
span_t kernel_cache_attributes(struct mount *m, const struct call *c);
/* True if the kernel may still have a name that leads to the inode, though the node is deleted. */
bool kernel_cache_named(const struct mount *m, const struct inode *i);
/* A local rename: the kernel moves the name that leads to `from`, and calls by it are calls for
 * `to`. */
void kernel_cache_moved(const struct inode *from, struct inode *to);
/* The call takes the name away from the inode: the kernel knows, unless the call was answered
 * before. */
void kernel_cache_unnamed(struct inode *i, const struct call *c);
/* A call of this mount changes the inode's attributes: the kernel has none from now on. */
void kernel_cache_drop(struct mount *m, struct inode *i);
/* The client has dropped nodes from its cache. */
void kernel_cache_dropped(struct mount *m, const struct mount_event *e);
/* The kernel has all replies. */
void kernel_cache_written(struct mount *m);

#endif
