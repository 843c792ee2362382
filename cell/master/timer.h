/* Timers, sorted by the instant at which they expire. A timer belongs to the part of the state that
 * it is embedded in. */
#ifndef LSFS_MASTER_TIMER_H
#define LSFS_MASTER_TIMER_H

#include <bsd/sys/tree.h>
#include "cell/base/mono.h"

struct master;

enum timer_kind {
	TIMER_BARRIER,
	TIMER_SESSION,
	TIMER_DELAY,
	TIMER_TTL,
	TIMER_SETTING,
	TIMER_IDLE,
	TIMER_CACHE
};

/* Sorted by (at, kind, id), so that timers of one instant expire in an order that does not depend
 * on addresses. */
struct timer {
	RB_ENTRY(timer) link;
	mono_t at; /* MONO_NEVER: not set, and not in the tree */
	enum timer_kind kind;
	uint64_t id; /* of the session, the node or the setting */
};

RB_HEAD(timer_tree, timer);

struct timers {
	struct timer_tree by_time;
	mono_t next; /* the earliest of them; MONO_NEVER if none is set */
};

/* Initializes the timers of a new master. */
void m_timer_init(struct master *m);

/* A timer that is not set. */
struct timer m_timer(enum timer_kind kind, uint64_t id);
/* Sets the timer, whether or not it was set, to expire at `at`; MONO_NEVER stops it. */
void m_timer_set(struct master *m, struct timer *t, mono_t at);
/* Stops the timer, if it is set. */
void m_timer_off(struct master *m, struct timer *t);
/* The first timer that has expired by now; NULL if none has. It stays set. */
struct timer *m_timer_due(struct master *m);

#endif
