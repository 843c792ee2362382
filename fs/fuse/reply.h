/* The requests of the kernel that are not answered yet, and how the mount's replies are written for
 * libfuse. Each request is answered exactly once: a reply to a call that is not parked ends us. */
#ifndef LSFS_FS_FUSE_REPLY_H
#define LSFS_FS_FUSE_REPLY_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "fs/fuse/fuse_api.h"
#include "fs/mount/mount.h"

struct parked {
	RB_ENTRY(parked) by_call;
	TAILQ_ENTRY(parked) by_interrupt; /* while `interrupted` */
	bool interrupted;
	struct replies *replies;
	fuse_req_t req;
	uint64_t call;
	enum mount_event_kind kind;
	size_t size; /* what the caller has room for, where it says so */
	int64_t offset;
};

RB_HEAD(parked_tree, parked);
TAILQ_HEAD(parked_queue, parked);

struct replies {
	struct parked_tree parked;
	struct parked_queue interrupted;
	uint64_t last_call;
	uid_t uid; /* whom all nodes belong to */
	gid_t gid;
};

void replies_init(struct replies *r, uid_t uid, gid_t gid);
/* Answers what is still parked with ENOTCONN. */
void replies_fini(struct replies *r);

/* Parks the request and gives event->call its number. Must be the first act of its operation: an
 * interrupt may have come before, and is noted now. */
void reply_park(struct replies *r, fuse_req_t req, struct mount_event *event);
/* A parked call that was interrupted since the last time, and its thread; false: none. */
bool reply_interrupted(struct replies *r, struct mount_event *event);
/* Answers a parked call, which is gone then. */
void reply_send(struct replies *r, const struct mount_reply *reply);

#endif
