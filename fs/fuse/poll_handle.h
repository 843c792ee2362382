/* Callers of poll(2) that wait: what the kernel needs to be told so that it asks again. */
#ifndef LSFS_FS_FUSE_POLL_HANDLE_H
#define LSFS_FS_FUSE_POLL_HANDLE_H

#include <bsd/sys/tree.h>
#include <stdint.h>
#include "cell/base/bytes.h"
#include "fs/fuse/fuse_api.h"

/* One for each handle at most: a notification wakes all callers that poll it. */
struct poll_handle {
	RB_ENTRY(poll_handle) link;
	uint64_t fh;
	struct fuse_pollhandle *fuse;
	struct bytes request; /* as the kernel sent it; owned */
};

struct poll_handles {
	RB_HEAD(poll_handle_tree, poll_handle) by_fh;
};

/* Frees all. */
void poll_handles_fini(struct poll_handles *p);
/* A caller waits for this handle; takes `fuse` over, and copies the request. */
void poll_handle_begin(struct poll_handles *p, uint64_t fh, struct fuse_pollhandle *fuse,
                       struct bytes request);
/* The next handle after this one (NULL: the first) for which a caller waits; NULL: none. */
const struct poll_handle *poll_handle_after(struct poll_handles *p, const struct poll_handle *h);
/* Tells the kernel to poll the handle again, if a caller waits for it. Never waits itself. */
void poll_handle_wake(struct poll_handles *p, uint64_t fh);
/* The handle is released: no caller waits. */
void poll_handle_end(struct poll_handles *p, uint64_t fh);

#endif
