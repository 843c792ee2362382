/* Locks, their holders, and lock-delays. */
#ifndef LSFS_TREE_LOCK_TABLE_H
#define LSFS_TREE_LOCK_TABLE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "cell/base/keyed.h"
#include "cell/tree/apply.h"

struct holder;
struct lock;
struct node;
struct session;

/* ---- lock_delay.c ----
 *
 * Lock-delay (Chubby, section 2.4): a lock whose holder's session expired stays closed for a while,
 * so that messages which the holder had sent before do not meet the next holder's work. */

struct lock_delay {
	enum lock_mode mode; /* of the holder that left the delay; LOCK_NONE: none stands */
	uint64_t began;      /* log index of the command that began it */
	uint64_t generation; /* lock generation at that time */
	int64_t seconds;
	uint64_t slots; /* bits: those of the holders that left it */
};

RB_HEAD(delayed_locks, lock);
KEYED_PROTOTYPE(delayed_locks, lock, in_delayed)

struct lock_delays {
	struct delayed_locks by_node;
};

/* True if a delay stands against taking the lock in this mode. */
bool lock_delay_blocks(const struct lock *l, enum lock_mode mode);
/* Sets the delay that stands; of mode LOCK_NONE: none. */
void lock_delay_set(struct tree *t, struct lock *l, struct lock_delay delay);
/* Begins the lock-delay of `h`, which is about to be removed. */
void lock_delay_begin(struct execution *x, const struct holder *h);

/* ---- lock_slots.c ---- */

/* How many more may share the node's lock, as far as its slots go. */
size_t lock_slots_room(const struct node *n);
/* The lowest slot that is neither held nor delayed; -1 if there is none. */
int lock_slots_lowest(const struct lock *l);

/* ---- lock_table.c ----
 *
 * Locks (Chubby, section 2.4): every node is one, held by one owner as exclusive or by many as
 * shared. */

/* A lock that is held or delayed. */
struct lock {
	RB_ENTRY(lock) in_tree;    /* by node */
	RB_ENTRY(lock) in_delayed; /* by node, while a delay stands */
	struct node *node;
	uint64_t epoch; /* in which it was no longer free, or an earlier one; not stored */
	uint64_t fence; /* the last one given on it */
	uint64_t slots; /* bits: those of the holders */
	struct lock_delay delay;
	RB_HEAD(lock_holders, holder) holders;
	TAILQ_HEAD(holders_in_order, holder) in_order; /* by place */
	size_t holders_n;
	uint16_t delays[LIMIT_LOCK_DELAY_S + 1]; /* how many holders have this lock-delay */
};

/* An owner, of a session, that holds a lock. */
struct holder {
	RB_ENTRY(holder) in_lock;    /* by session, owner */
	RB_ENTRY(holder) in_session; /* by node, owner */
	TAILQ_ENTRY(holder) in_order;
	struct lock *lock;
	struct session *session;
	uint64_t owner, acquisition;
	uint64_t place;             /* greater than those of all holders before it */
	uint64_t generation, fence; /* as this acquisition got them */
	enum lock_mode mode;
	int64_t delay_s;
	int slot; /* -1: none was free */
	/* As the last conversion found the holder; mode LOCK_NONE: there was none. */
	uint64_t earlier_acquisition, earlier_generation, earlier_fence;
	enum lock_mode earlier_mode;
	int64_t since_ns; /* time of day of the acquisition */
	uint32_t pid;
};

RB_HEAD(locks, lock);
RB_HEAD(session_holders, holder);
KEYED_PROTOTYPE(locks, lock, in_tree)
RB_PROTOTYPE(lock_holders, holder, in_lock, )
RB_PROTOTYPE(session_holders, holder, in_session, )

struct tree_locks {
	struct locks by_node;
	size_t held_n;
	uint64_t last_fence; /* greater than or equal to all fences given */
};

/* The holder (session, owner); NULL when there is none, or when there is no lock. */
struct holder *holder_find(const struct lock *l, uint64_t session, uint64_t owner);
/* A new holder, without a mode. */
struct holder *holder_add(struct tree *t, struct lock *l, struct session *s, uint64_t owner,
                          uint64_t place);
/* Gives a holder that has none a slot, or -1. */
void holder_set_slot(struct holder *h, int slot);
/* Sets the holder's lock-delay. */
void holder_set_delay(struct holder *h, int64_t seconds);
/* The node's lock, made if there is none. */
struct lock *lock_of(struct tree *t, struct node *n);
/* Frees the lock if no holder and no delay is left. */
void lock_settle(struct tree *t, struct lock *l);
/* The mode in which the lock (NULL: a free one) is held: LOCK_NONE when it is free or delayed. */
enum lock_mode lock_mode_of(const struct lock *l);
/* Takes the holder out; a lock that then is free, without a delay, is freed, too. */
void holder_remove(struct tree *t, struct holder *h);
/* The node is deleted: no holders, no delay. */
void lock_end_node(struct tree *t, struct node *n);
/* The session has ended: its locks are freed, after their delay if it expired, up to as many pieces
 * in all as this command may take away. */
void lock_end_session(struct execution *x, struct session *s, size_t most);
/* Frees all locks and holders: the tree ends. */
void lock_table_free(struct tree *t);
/* Skips that many fences. */
void lock_skip_fences(struct tree *t, uint64_t fences);

#endif
