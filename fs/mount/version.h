/* Versions of contents in memory: immutable, shared by all their readers, reference-counted. */
#ifndef LSFS_FS_MOUNT_VERSION_H
#define LSFS_FS_MOUNT_VERSION_H

#include "cell/base/bytes.h"
#include "fs/mount/call.h"

struct version {
	unsigned refs;
	uint64_t node;
	uint64_t generation;
	struct bytes data; /* owned by the version */
};

struct versions {
	size_t n;                /* number in memory */
	struct version **viewed; /* those that replies of this step point to; counted */
	size_t viewed_n, viewed_room;
};

/* The version of this node and generation, with a reference for the caller: one in memory, or a new
 * one with a copy of `data`. */
struct version *version_get(struct mount *m, uint64_t node, uint64_t generation, struct bytes data);
/* The same of the inode's node, but a new version takes over the bytes of the buffer. */
struct version *version_take(struct mount *m, struct inode *i, uint64_t generation,
                             struct buffer *data);
/* Adds a reference; accepts NULL. */
struct version *version_ref(struct version *v);
/* Drops a reference; accepts NULL. */
void version_put(struct mount *m, struct version *v);
/* Replaces *at by `v` and drops the old reference; takes over the caller's reference to `v`. */
void version_set(struct mount *m, struct version **at, struct version *v);
/* Answers a READ from `v`, without a copy. */
void version_answer(struct mount *m, struct call *c, struct version *v);
/* Called at the next step: drops the references of the views in replies. */
void version_views_end(struct mount *m);
/* Frees what is kept beside the versions themselves. */
void versions_free(struct mount *m);
/* The part of `b` at the offset, of at most `size` bytes. */
struct bytes bytes_slice(struct bytes b, int64_t offset, size_t size);

#endif
