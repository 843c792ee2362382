/* The timers of lock-delays (Chubby, section 2.4). */
#ifndef LSFS_MASTER_DELAY_TIMER_H
#define LSFS_MASTER_DELAY_TIMER_H

#include <bsd/sys/tree.h>
#include "cell/master/timer.h"
#include "cell/tree/tree.h"

/* A lock-delay that runs. */
struct delay_timer {
	RB_ENTRY(delay_timer) link;
	uint64_t node, lock_generation, began;
	mono_t end;
	struct timer timer;
};

RB_HEAD(delay_tree, delay_timer);

struct delay_timers {
	struct delay_tree by_node;
	uint64_t inherited; /* of earlier epochs those on nodes up to here run; UINT64_MAX: all */
};

/* Initializes the delays of a new master. */
void m_delay_init(struct master *m);
/* An epoch begins: all delays that stand in the tree are to run. */
void m_delay_begin_epoch(struct master *m);
/* Runs the delays of earlier epochs, as many as the step has time for. */
void m_delay_inherit(struct master *m);
/* True when all of these run. */
bool m_delay_all_inherited(const struct master *m);
/* A lock-delay has begun: `note` says on which node and how long it is. */
void m_delay_begin(struct master *m, const struct tree_note *note);
/* The lock-delay of the node, if any, does not run any more. */
void m_delay_drop(struct master *m, uint64_t node);
/* The timer of the node's lock-delay has expired. */
void m_delay_timeout(struct master *m, uint64_t node);
/* Whole seconds left of the node's lock-delay, rounded up; 1 while only its commit is missing. */
int64_t m_delay_left_s(struct master *m, uint64_t node);
/* Drops all delays: the mastership is lost. */
void m_delay_clear(struct master *m);

#endif
