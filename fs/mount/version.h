/* Contents in memory: immutable, shared by all that look at them, counted. */
#ifndef LSFS_FS_MOUNT_VERSION_H
#define LSFS_FS_MOUNT_VERSION_H

#include "cell/base/bytes.h"
#include "fs/mount/call.h"

struct version {
	unsigned refs;
	uint64_t node;
	uint64_t generation;
	struct bytes data; /* its own */
};

struct versions {
	size_t n;                 /* in memory */
	struct version **viewed;  /* what replies of this step point to; counted */
	size_t viewed_n, viewed_room;
};

/* The version of this node and generation, counted: one in memory, or one with a copy of `data`. */
struct version *version_get(struct mount *m, uint64_t node, uint64_t generation,
                            struct bytes data);
/* The same, but takes the buffer's bytes over. */
struct version *version_take(struct mount *m, uint64_t node, uint64_t generation,
                             struct buffer *data);
struct version *version_ref(struct version *v);         /* NULL stays NULL */
void version_put(struct mount *m, struct version *v);   /* may be NULL */
/* Puts `v`, which is counted for it, in place of what is there. */
void version_set(struct mount *m, struct version **at, struct version *v);
/* Answers a READ from it, without a copy. */
void version_answer(struct mount *m, struct call *c, struct version *v);
void version_views_end(struct mount *m); /* the last step's replies are written */
void versions_free(struct mount *m);
struct bytes bytes_slice(struct bytes b, int64_t offset, size_t size);

#endif
