/* The FUSE device: watches its descriptor on the loop, passes requests to the engine, and writes
 * the engine's replies and notifications to the kernel. */
#ifndef LSFS_FS_FUSE_DEVICE_H
#define LSFS_FS_FUSE_DEVICE_H

#include <uv.h>
#include "cell/sys/mountinfo.h"
#include "fs/engine.h"
#include "fs/fuse/interrupts.h"
#include "fs/fuse/poll_handle.h"
#include "fs/fuse/proc.h"
#include "fs/fuse/reply.h"
#include "fs/fuse/users.h"

struct device_config {
	uid_t uid; /* of the mounting user */
	gid_t gid;
	const char *source;        /* the source in the mount table; NULL: "lsfs" */
	const char *options;       /* for the kernel's mount, as "allow_other,ro"; may be NULL */
	void (*ready)(void *user); /* INIT was answered */
	/* The filesystem was unmounted, or its connection is broken: no request follows. */
	void (*ended)(void *user, bool broken);
	void *user;
};

struct device {
	struct device_config config;
	struct fuse_session *fuse;
	struct fuse_buf request;
	struct bytes init; /* the request INIT, as the kernel sent it; owned */
	struct engine *engine;
	struct replies replies;
	struct poll_handles poll_handles;
	struct mountinfo mounted; /* id 0: not mounted, or a test's socket */
	struct interrupts interrupts;
	struct users users;
	struct pidfds callers;
	uv_poll_t poll;
	bool polling;
	bool again;          /* the request that is being handled has waited in another process */
	bool answering_init; /* the next write is the reply to INIT */
	bool gone;           /* the kernel has ended the connection: the mount does not exist */
	bool refused;        /* the kernel lacks a capability that we need */
};

/* Prepares a device. 0 or -errno, logged. */
int device_init(struct device *d, const struct device_config *config);
/* Mounts at `mountpoint` (canonical). 0 or -errno, logged. */
int device_mount(struct device *d, const char *mountpoint);
/* For tests, instead of device_mount: uses a socket that keeps message boundaries, and takes it
 * over. 0 or -errno. */
int device_attach(struct device *d, int fd);

/* Begins to read requests and to pass them to the engine. 0 or -errno. */
int device_start(struct device *d, uv_loop_t *loop, struct engine *engine);
/* Reads the requests that have already arrived, then no more; closes its handle on the loop. */
void device_stop(struct device *d);

/* ---- another process goes on with the mount ---- */

/* Reads no requests until device_resume. */
void device_hold(struct device *d);
/* Reads requests again. */
void device_resume(struct device *d);
/* False while a request waits that cannot be made again. */
bool device_is_still(const struct device *d);
/* The image: the requests of the kernel that wait, as it sent them. */
void device_save(struct device *d, struct image *to);
/* Instead of device_mount: serves the mount at `mountpoint` (canonical), whose descriptor another
 * process had; takes that over. 0 or -errno, logged. */
int device_adopt(struct device *d, int fd, const char *mountpoint);
/* After device_start: makes the requests of an image again, of which INIT is the first. The kernel
 * already has the answers to some of them, and refuses second ones. False: the image is not valid;
 * with `dry` that is only checked. */
bool device_load(struct device *d, struct image *from, bool dry);
/* True if the mount is still the one that is served, so that it has to be unmounted at the end. */
bool device_is_mounted(const struct device *d);

/* Unmounts, if still mounted, closes the descriptor and frees. Call it after the loop has ended. */
void device_fini(struct device *d);

/* For struct engine_output, with the device as `user`: answers a parked request. */
void device_reply(void *device, const struct mount_reply *reply);
/* Likewise: invalidates the attributes of the inode in the kernel. */
void device_stale_inode(void *device, uint64_t ino);
/* Likewise: wakes the callers that poll the handle. */
void device_wake(void *device, uint64_t fh);

/* The operations (ops.c). */
extern const struct fuse_lowlevel_ops ops_table;
/* The operation INIT, which requests capabilities of the kernel. */
void device_on_init(void *device, struct fuse_conn_info *conn);

#endif
