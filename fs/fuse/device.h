/* The FUSE device: its descriptor on the loop, its requests to the engine, the engine's replies
 * and notifications to the kernel. */
#ifndef LSFS_FS_FUSE_DEVICE_H
#define LSFS_FS_FUSE_DEVICE_H

#include <uv.h>
#include "cell/sys/mountinfo.h"
#include "fs/engine.h"
#include "fs/fuse/reply.h"

struct device_config {
	uid_t uid; /* of the mounting user */
	gid_t gid;
	const char *source;  /* what the mount table shows; NULL: "lsfs" */
	const char *options; /* "allow_other,ro": for the kernel's mount; may be NULL */
	void (*ready)(void *user); /* INIT was answered */
	/* The mount is gone, or broken: nothing more will be read. */
	void (*ended)(void *user, bool broken);
	void *user;
};

struct device {
	struct device_config config;
	struct fuse_session *fuse;
	struct fuse_buf request;
	struct engine *engine;
	struct replies replies;
	struct mountinfo mounted; /* id 0: not mounted, or a test's socket */
	mono_t looks_until; /* of the window in which `looks` counts */
	unsigned looks;     /* at the signals of interrupted callers */
	uv_poll_t poll;
	bool polling;
	bool answering_init; /* the next thing written is the reply to INIT */
	bool gone;           /* the kernel has ended the connection: nothing is mounted any more */
	bool refused;        /* the kernel cannot do what we need */
	bool has_epochs;     /* the kernel knows the notification that makes all names doubtful */
};

/* 0 or -errno (a line was logged). */
int device_init(struct device *d, const struct device_config *config);
/* Mounts at `mountpoint` (canonical). 0 or -errno, logged. */
int device_mount(struct device *d, const char *mountpoint);
/* Instead of device_mount: speaks on a socket that keeps message boundaries; takes it over. */
int device_attach(struct device *d, int fd);

/* Begins to read: requests go to the engine. 0 or -errno. */
int device_start(struct device *d, uv_loop_t *loop, struct engine *engine);
/* Reads what is there already, then no more; closes its handle on the loop. */
void device_stop(struct device *d);
/* After the loop has ended: unmounts if we are still mounted, closes the descriptor, frees. */
void device_fini(struct device *d);

/* The engine's output goes here: struct engine_output with `user` = the device. */
void device_reply(void *device, const struct mount_reply *reply);
void device_stale_inode(void *device, uint64_t ino);
void device_forget_names(void *device);

#endif
