/* Recognizes the kernel's second walk of a path that led to a dead node. */
#ifndef LSFS_FS_MOUNT_STALE_H
#define LSFS_FS_MOUNT_STALE_H

#include "fs/mount/call.h"

/* The errno for a call whose path led to a dead node: ESTALE, or ENOENT in the kernel's second
 * walk. */
int stale_path(struct mount *m, const struct call *c);
/* The events by which a second walk is recognized: a call arrives. */
void stale_called(struct mount *m, const struct mount_event *e);
/* The result of a lookup; 0: no such name. */
void stale_found(struct mount *m, const struct call *c, uint64_t ino);
/* The success of any other call. */
void stale_clear(struct mount *m, const struct call *c);

enum { STALE_WALKS = 64 };

struct stale_walk {
	pid_t thread; /* 0: none */
	enum mount_event_kind kind;
	uint64_t found; /* the node of the last name that was looked up; 0: none yet */
	mono_t until;
};

struct stale_walks {
	struct stale_walk ring[STALE_WALKS];
	size_t next;
	mono_t until; /* of the latest one: no walk is under way behind it */
};

#endif
