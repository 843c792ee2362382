/* One owner's lock on one node, and the three kinds of owners. */
#ifndef LSFS_FS_MOUNT_MOUNT_LOCK_H
#define LSFS_FS_MOUNT_MOUNT_LOCK_H

#include "fs/mount/handle.h"

enum lock_kind { LOCK_FLOCK, LOCK_RECORD, LOCK_ATTRIBUTE };
enum lock_ask { ASK_NONE, ASK_SENT, ASK_QUEUED, ASK_GIVING_BACK };

/* One owner's lock on one node: what it holds and what it has asked for. */
struct mount_lock {
	TAILQ_ENTRY(mount_lock) of_inode, kept;
	struct inode *inode;
	enum lock_kind kind;
	uint64_t key;            /* flock: fh; record: lock_owner; attribute: uid */
	uint64_t owner;          /* its name at the cell, never used again */
	unsigned refs;           /* of calls */
	enum lock_mode mode;     /* held */
	uint64_t acquisition;    /* by which it is held */
	enum lock_ask ask;
	enum lock_mode asked;
	uint64_t asked_acquisition, asked_fh;
	bool wait;
	struct call *caller;     /* who waits for the answer; NULL: it was interrupted */
	bool granted;            /* while nobody waits for it any more */
	bool is_kept;
	mono_t kept_until;       /* the place in the queue, for a caller that comes again */
	unsigned releasing;
	struct call_list queue;  /* further calls of the same owner */
	uint64_t *handles;       /* record: the handles through which it was taken */
	size_t handles_n, handles_room;
};

struct mount_locks {
	uint64_t next_owner, next_acquisition;
	struct lock_list kept; /* whose places in the queue are kept, by their end */
};

/* Of a mount that begins. */
void locks_begin(struct mount_locks *locks);
struct mount_lock *lock_find(struct inode *i, enum lock_kind kind, uint64_t key);
struct mount_lock *lock_get(struct mount *m, struct inode *i, enum lock_kind kind, uint64_t key);
void lock_refer(struct call *c, struct mount_lock *l);
void lock_put(struct mount *m, struct mount_lock *l);
bool lock_active(const struct mount_lock *l); /* held or asked for */
/* Asks for c->mode (c->event.wait) on behalf of the call, and answers it. */
void lock_acquire(struct mount *m, struct call *c);
/* Frees what is held, and answers the call with c->error if that went well. */
void lock_unlock(struct mount *m, struct call *c);
/* Takes back what is asked for; who waits for it is told EBADF. */
void lock_withdraw(struct mount *m, struct mount_lock *l);
/* Frees and gives back all of it, with nobody waiting. */
void lock_drop(struct mount *m, struct mount_lock *l);
/* The cell has taken it away, with the node or the session: waiting calls get ESTALE. */
void lock_die(struct mount *m, struct mount_lock *l);
void lock_interrupted(struct mount *m, struct mount_lock *l);
void lock_grant(struct mount *m, const struct client_grant *g);
/* Gives back the place that is kept for a caller who did not come again. */
void lock_stop_waiting(struct mount *m, struct mount_lock *l);
void lock_timeout(struct mount *m);

void flock_call(struct mount *m, struct call *c);
void flock_flushed(struct mount *m, struct handle *h);
void flock_released(struct mount *m, struct handle *h);
void record_lock_call(struct mount *m, struct call *c);
void record_lock_get(struct mount *m, struct call *c);
bool record_lock_through(const struct handle *h);
struct mount_lock *record_lock_of(struct handle *h, uint64_t lock_owner);
/* Commits what its handles hold, then frees it; the call is answered. */
void record_lock_free(struct mount *m, struct call *c, struct mount_lock *l);
void record_lock_released(struct mount *m, struct handle *h);
void record_lock_gained(struct mount_lock *l, struct handle *h);
void attribute_lock_set(struct mount *m, struct call *c, enum lock_mode mode);

#endif
