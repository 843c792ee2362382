/* Lock-delay (Chubby, section 2.4): a lock whose holder's session expired stays closed for a while,
 * so that messages which the holder had sent before do not meet the next holder's work. */
#ifndef LSFS_TREE_LOCK_DELAY_H
#define LSFS_TREE_LOCK_DELAY_H

#include <bsd/sys/tree.h>
#include "cell/tree/apply.h"

struct holder;
struct lock;

struct lock_delay {
	enum lock_mode mode; /* of the holder that left the delay; LOCK_NONE: none stands */
	uint64_t began;      /* log index of the command that began it */
	uint64_t generation; /* lock generation at that time */
	int64_t seconds;
};

RB_HEAD(delayed_locks, lock);
RB_PROTOTYPE(delayed_locks, lock, in_delayed, )

struct lock_delays {
	struct delayed_locks by_node;
};

/* True if a delay stands against taking the lock in this mode. */
bool lock_delay_blocks(const struct lock *l, enum lock_mode mode);
/* Sets the delay that stands; of mode LOCK_NONE: none. */
void lock_delay_set(struct tree *t, struct lock *l, struct lock_delay delay);
/* `h`, which is about to be removed, leaves a delay behind. */
void lock_delay_begin(struct execution *x, const struct holder *h);

#endif
