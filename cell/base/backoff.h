/* The pauses between attempts of something that may never succeed: each is twice as long as the one
 * before, up to a longest one. */
#ifndef LSFS_BASE_BACKOFF_H
#define LSFS_BASE_BACKOFF_H

#include "cell/base/mono.h"

struct backoff {
	span_t first, longest;
	span_t next;
};

/* The next pause is the first one again. */
static inline void
backoff_reset(struct backoff *b)
{
	b->next = b->first.ns < b->longest.ns ? b->first : b->longest;
}

/* The pauses from `first` to `longest`. */
static inline struct backoff
backoff_of(span_t first, span_t longest)
{
	struct backoff b = {first, longest, first};

	backoff_reset(&b);
	return b;
}

/* The pause before the next attempt. */
static inline span_t
backoff_take(struct backoff *b)
{
	const span_t pause = b->next;

	b->next.ns = 2 * pause.ns < b->longest.ns ? 2 * pause.ns : b->longest.ns;
	return pause;
}

#endif
