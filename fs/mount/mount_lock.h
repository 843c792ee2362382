/* The lock of one owner on one node, and the three kinds of owners. */
#ifndef LSFS_FS_MOUNT_MOUNT_LOCK_H
#define LSFS_FS_MOUNT_MOUNT_LOCK_H

#include "fs/mount/handle.h"

enum lock_kind { LOCK_FLOCK, LOCK_RECORD, LOCK_ATTRIBUTE };
enum lock_ask { ASK_NONE, ASK_SENT, ASK_QUEUED, ASK_GIVING_BACK };

/* The lock of one owner on one node: the mode that it holds, and the request that it has made. */
struct mount_lock {
	TAILQ_ENTRY(mount_lock) of_inode, kept;
	struct inode *inode;
	enum lock_kind kind;
	uint64_t key;         /* flock: fh; record: lock_owner; attribute: uid */
	uint64_t owner;       /* its number at the cell, never used again */
	unsigned refs;        /* of calls */
	enum lock_mode mode;  /* held */
	uint64_t acquisition; /* whose grant is held */
	enum lock_ask ask;
	enum lock_mode asked;
	uint64_t asked_acquisition, asked_fh;
	bool wait;
	struct call *caller; /* that waits for the answer; NULL: it was interrupted */
	bool granted;        /* granted after the caller was interrupted */
	bool is_kept;
	mono_t kept_until; /* until then a repeated call takes over the request */
	unsigned releasing;
	struct call_list queue; /* further calls of the same owner */
	uint64_t *handles;      /* record: the handles through which it was taken */
	size_t handles_n, handles_room;
};

struct mount_locks {
	uint64_t next_owner, next_acquisition;
	struct lock_list kept; /* whose interrupted requests are kept, in order of kept_until */
};

/* Initializes the locks of a new mount. */
void locks_begin(struct mount_locks *locks);
struct mount_lock *lock_find(struct inode *i, enum lock_kind kind, uint64_t key);
struct mount_lock *lock_get(struct mount *m, struct inode *i, enum lock_kind kind, uint64_t key);
void lock_refer(struct call *c, struct mount_lock *l);
void lock_put(struct mount *m, struct mount_lock *l);
bool lock_active(const struct mount_lock *l); /* held or requested */
/* Requests c->mode (waiting for it if c->event.wait) for the call, and answers the call. */
void lock_acquire(struct mount *m, struct call *c);
/* Releases what is held. The call is answered with the error of the release, else with c->error. */
void lock_unlock(struct mount *m, struct call *c);
/* Cancels the request of this lock; a call that waits for it is answered EBADF. */
void lock_withdraw(struct mount *m, struct mount_lock *l);
/* Releases the lock and cancels its request, in the background. */
void lock_drop(struct mount *m, struct mount_lock *l);
/* The lock was lost with its node or session: waiting calls are answered ESTALE. */
void lock_die(struct mount *m, struct mount_lock *l);
void lock_interrupted(struct mount *m, struct mount_lock *l);
void lock_grant(struct mount *m, const struct client_grant *g);
/* Cancels a request that is kept, before the interrupted caller has repeated its call. */
void lock_stop_waiting(struct mount *m, struct mount_lock *l);
void lock_timeout(struct mount *m);

void flock_call(struct mount *m, struct call *c);
void flock_flushed(struct mount *m, struct handle *h);
void flock_released(struct mount *m, struct handle *h);
void record_lock_call(struct mount *m, struct call *c);
void record_lock_get(struct mount *m, struct call *c);
bool record_lock_through(const struct handle *h);
struct mount_lock *record_lock_of(struct handle *h, uint64_t lock_owner);
/* Commits the buffers of the lock's handles, then releases the lock and answers the call. */
void record_lock_free(struct mount *m, struct call *c, struct mount_lock *l);
void record_lock_released(struct mount *m, struct handle *h);
void record_lock_gained(struct mount_lock *l, struct handle *h);
void attribute_lock_set(struct mount *m, struct call *c, enum lock_mode mode);

#endif
