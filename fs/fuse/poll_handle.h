/* Callers of poll(2) that wait: what the kernel needs to be told so that it asks again. */
#ifndef LSFS_FS_FUSE_POLL_HANDLE_H
#define LSFS_FS_FUSE_POLL_HANDLE_H

#include <bsd/sys/tree.h>
#include <stdint.h>
#include "fs/fuse/fuse_api.h"

/* One for each handle at most: a notification wakes all callers that poll it. */
struct poll_handle {
	RB_ENTRY(poll_handle) link;
	uint64_t fh;
	struct fuse_pollhandle *fuse;
};

struct poll_handles {
	RB_HEAD(poll_handle_tree, poll_handle) by_fh;
};

/* Initializes the table of a new device: no caller waits. */
void poll_handles_init(struct poll_handles *p);
/* Frees all. */
void poll_handles_fini(struct poll_handles *p);
/* A caller waits for this handle; takes `fuse` over. */
void poll_handle_begin(struct poll_handles *p, uint64_t fh, struct fuse_pollhandle *fuse);
/* Tells the kernel to poll the handle again, if a caller waits for it. Never waits itself. */
void poll_handle_wake(struct poll_handles *p, uint64_t fh);
/* The handle is released: no caller waits. */
void poll_handle_end(struct poll_handles *p, uint64_t fh);

#endif
