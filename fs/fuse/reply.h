/* Parked requests: those of the kernel that are not answered yet; and the translation of the
 * mount's replies for libfuse. Each request is answered exactly once: a reply to a call that is not
 * parked aborts the process. */
#ifndef LSFS_FS_FUSE_REPLY_H
#define LSFS_FS_FUSE_REPLY_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "fs/fuse/fuse_api.h"
#include "fs/mount/mount.h"

TAILQ_HEAD(parked_queue, parked);

struct parked {
	RB_ENTRY(parked) by_call;
	TAILQ_ENTRY(parked) by_interrupt;
	struct parked_queue *interrupts; /* in which it is; NULL: it was not interrupted */
	struct replies *replies;
	fuse_req_t req;
	uint64_t call;
	/* As the kernel sent it, if it may wait for a lock or an event; owned. */
	struct bytes request;
	enum mount_event_kind kind;
	bool by_ioctl;
	uint64_t ino;
	size_t size; /* bytes of the caller's buffer, for requests that have one */
	int64_t offset;
};

RB_HEAD(parked_tree, parked);

struct replies {
	struct parked_tree parked;
	struct parked_queue interrupted; /* and not looked at since */
	struct parked_queue seen;        /* and looked at, but still not answered */
	uint64_t last_call;
	struct bytes request; /* that is being handled, as the kernel sent it; not owned */
	uid_t uid;            /* owner of all nodes */
	gid_t gid;
};

/* Initializes *r without parked requests; all nodes belong to `uid` and `gid`. */
void replies_init(struct replies *r, uid_t uid, gid_t gid);
/* Answers all parked requests with ENOTCONN. */
void replies_fini(struct replies *r);

/* Parks the request and puts its number into event->call. Every operation begins with it: an
 * interrupt that arrived before is recorded here. */
void reply_park(struct replies *r, fuse_req_t req, struct mount_event *event);
/* The first interrupted call that was not looked at, and its thread; false if there is none. */
bool reply_interrupted(struct replies *r, struct mount_event *event);
/* Marks that call as looked at. */
void reply_seen(struct replies *r);
/* All interrupted calls are to be looked at again. */
void reply_look_again(struct replies *r);
/* True if an interrupted call was not looked at. */
bool reply_has_interrupted(const struct replies *r);
/* True if an interrupted call was looked at, and still waits. */
bool reply_has_seen(const struct replies *r);
/* False if a parked call can't be made again, because it does not wait for a lock or an event. */
bool reply_is_still(const struct replies *r);
/* The next parked call after this one (NULL: the first): the request, and whether its caller was
 * interrupted; NULL if there is none. */
const struct parked *reply_after(struct replies *r, const struct parked *p);
/* Answers a parked call and frees it. */
void reply_send(struct replies *r, const struct mount_reply *reply);

#endif
