/* The lock of one owner on one node, and the three kinds of owners. */
#ifndef LSFS_FS_MOUNT_MOUNT_LOCK_H
#define LSFS_FS_MOUNT_MOUNT_LOCK_H

#include "fs/mount/handle.h"

enum lock_kind { LOCK_FLOCK, LOCK_RECORD, LOCK_ATTRIBUTE };
enum lock_ask {
	ASK_NONE,
	ASK_SENT,   /* the cell has not answered yet */
	ASK_QUEUED, /* the cell has queued the request, or granted it to no caller (`granted`) */
	ASK_GIVING_BACK, /* the cell has not answered the cancel yet */
};

/* The lock of one owner on one node: the mode that it holds, and the request that it has made. */
struct mount_lock {
	TAILQ_ENTRY(mount_lock) of_inode, kept;
	struct inode *inode;
	enum lock_kind kind;
	uint64_t key;         /* flock: fh; record: lock_owner; attribute: uid */
	uint64_t owner;       /* its number at the cell, never used again */
	unsigned refs;        /* of calls */
	enum lock_mode mode;  /* held */
	uint64_t acquisition; /* by which the mode is held */
	enum lock_ask ask;    /* the request: */
	enum lock_mode asked;
	uint64_t asked_acquisition;
	uint64_t asked_fh;   /* the handle of its call */
	bool wait;           /* in the lock's queue, if another owner has the lock */
	struct call *caller; /* the call that it answers; NULL: that was interrupted */
	bool granted;        /* after the call was interrupted */
	bool is_kept;
	mono_t kept_until;      /* until then a repeated call takes over the request */
	unsigned releasing;     /* releases that the cell has not answered yet */
	uint64_t question;      /* the token of a get_lock, to see if it still has */
	uint64_t in_question;   /* this acquisition; the token 0: nothing is asked */
	struct call_list queue; /* further calls of the same owner */
	uint64_t *handles;      /* record: the handles through which it was taken */
	size_t handles_n, handles_room;
};

struct mount_locks {
	uint64_t next_owner, next_acquisition;
	struct lock_list kept; /* whose interrupted requests are kept, in order of kept_until */
};

/* The lock of this kind on the inode, by its key; NULL if there is none. */
struct mount_lock *lock_find(struct inode *i, enum lock_kind kind, uint64_t key);
/* The same; it is made if there is none. */
struct mount_lock *lock_get(struct mount *m, struct inode *i, enum lock_kind kind, uint64_t key);
/* Puts a lock that was loaded from an image among those whose requests are kept until that time. */
void lock_keep_until(struct mount *m, struct mount_lock *l, mono_t until);
/* Numbers the first acquisition of a new owner. */
void lock_number(struct mount *m, struct acquire *a);
/* The call refers to the lock, which lives at least as long as the call. */
void lock_refer(struct call *c, struct mount_lock *l);
/* Drops a reference; frees a lock without any that is neither held nor requested. */
void lock_put(struct mount *m, struct mount_lock *l);
/* True if it is held or requested. */
bool lock_active(const struct mount_lock *l);
/* Requests c->mode (waiting for it if c->event.wait) for the call, and answers the call. */
void lock_acquire(struct mount *m, struct call *c);
/* Releases what is held. The call is answered with the error of the release, else with c->error. */
void lock_unlock(struct mount *m, struct call *c);
/* Answers the calls that wait for their turn through this handle; NULL: all of them. */
void lock_empty_queue(struct mount *m, struct mount_lock *l, const struct handle *through,
                      int error);
/* Cancels the request of this lock; calls that wait for it through the same handle are answered
 * with the error. */
void lock_withdraw(struct mount *m, struct mount_lock *l, int error);
/* Releases the lock and cancels its request, in the background. */
void lock_drop(struct mount *m, struct mount_lock *l);
/* The lock was lost with its node or session: waiting calls are answered ESTALE. */
void lock_die(struct mount *m, struct mount_lock *l);
/* The call that waits for the lock was interrupted: its place in the queue is kept for a while, or
 * is that of another call of its owner that asks for the same. But a conversion to shared needs
 * nobody's leave, and others may share the lock already: it goes on. Returns the call's error. */
int lock_interrupted(struct mount *m, struct mount_lock *l);
/* Starts the next calls of the lock's owner, once it has no request under way. */
void lock_next(struct mount *m, struct mount_lock *l);
/* The request is not kept any more for a call that was interrupted. */
void lock_unkeep(struct mount *m, struct mount_lock *l);
/* The cell has granted the request. The call is answered; if the call was interrupted, the grant is
 * recorded for as long as the request is kept. */
void lock_came(struct mount *m, struct mount_lock *l);
/* The cell has refused the request: its call, if it still waits, has this error. */
void lock_refused(struct mount *m, struct mount_lock *l, int error);
/* Releases in the background what the owner holds. */
void lock_release_behind(struct mount *m, struct mount_lock *l);
/* Cancels a request that is kept, before the interrupted caller has repeated its call. */
void lock_stop_waiting(struct mount *m, struct mount_lock *l);
/* Cancels the requests whose interrupted callers have not repeated their calls in time. */
void lock_timeout(struct mount *m);

/* ---- lost_lock.c ---- */

/* The cell has released what the owner held, because the owner waits for a conversion, and another
 * holder waited for one before: they would wait for each other. By flock(2) the owner goes on
 * waiting; by fcntl(2) its calls fail. */
void lock_given_up(struct mount *m, struct mount_lock *l);
/* The cell has granted an acquisition, has refused it for good, or an operator has ended it. */
void lock_grant(struct mount *m, const struct client_grant *g);
/* An operator has ended this acquisition of the lock's owner. */
void lock_taken_away(struct mount *m, struct mount_lock *l, uint64_t acquisition);
/* Asks the cell whether the lock is held. */
void lock_look(struct mount *m, struct mount_lock *l);
/* Asks it for all locks, on a new connection. */
void lock_ask_again(struct mount *m);

/* ---- file_lock.c ---- */

/* FLOCK. */
void flock_call(struct mount *m, struct call *c);
/* A FLUSH through the handle: its interrupted call will not be repeated. */
void flock_flushed(struct mount *m, struct handle *h);
/* The handle is released: its lock is dropped. */
void flock_released(struct mount *m, struct handle *h);
/* The handle was poisoned: no call waits for a lock through it any more. */
void file_lock_poisoned(struct mount *m, struct handle *h);
/* SETLK. */
void record_lock_call(struct mount *m, struct call *c);
/* GETLK. */
void record_lock_get(struct mount *m, struct call *c);
/* True if a record lock was taken or requested through the handle. */
bool record_lock_through(const struct handle *h);
/* The record lock that this owner holds, or has kept a request for; NULL if there is none. */
struct mount_lock *record_lock_of(struct handle *h, uint64_t lock_owner);
/* Commits the buffers of the lock's handles, then releases the lock and answers the call. */
void record_lock_free(struct mount *m, struct call *c, struct mount_lock *l);
/* The handle is released: locks that were taken through no other handle are dropped. */
void record_lock_released(struct mount *m, struct handle *h);
/* The lock was also taken through this handle. */
void record_lock_gained(struct mount_lock *l, struct handle *h);
/* A transaction has taken the lock of the node exclusively, as SETXATTR of user.ls.lock would. */
struct mount_lock *attribute_lock_took(struct mount *m, uint64_t node, uid_t uid, uint64_t owner,
                                       uint64_t acquisition);
/* SETXATTR of user.ls.lock. */
void attribute_lock_set(struct mount *m, struct call *c, enum lock_mode mode);

#endif
