/* Parked requests: those of the kernel that are not answered yet; and the translation of the
 * mount's replies for libfuse. Each request is answered exactly once: a reply to a call that is not
 * parked aborts the process. */
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
	size_t size; /* bytes of the caller's buffer, for requests that have one */
	int64_t offset;
};

RB_HEAD(parked_tree, parked);
TAILQ_HEAD(parked_queue, parked);

struct replies {
	struct parked_tree parked;
	struct parked_queue interrupted;
	uint64_t last_call;
	uid_t uid; /* owner of all nodes */
	gid_t gid;
};

/* Initializes *r without parked requests; all nodes belong to `uid` and `gid`. */
void replies_init(struct replies *r, uid_t uid, gid_t gid);
/* Answers all parked requests with ENOTCONN. */
void replies_fini(struct replies *r);

/* Parks the request and puts its number into event->call. Every operation begins with it: an
 * interrupt that arrived before is recorded here. */
void reply_park(struct replies *r, fuse_req_t req, struct mount_event *event);
/* The next parked call that was interrupted since the last call, with its thread; false: none. */
bool reply_interrupted(struct replies *r, struct mount_event *event);
/* Answers a parked call and frees it. */
void reply_send(struct replies *r, const struct mount_reply *reply);

#endif
