/* The pauses between repetitions of a request, which may never be answered as it should: each is
 * twice as long as the one before, up to a longest one, and by a random part of up to a quarter
 * longer than that, so that replicas which were started together do not ask together. */
#ifndef LSFS_SERVER_BACKOFF_H
#define LSFS_SERVER_BACKOFF_H

#include "cell/base/mono.h"
#include "cell/base/rng.h"

struct backoff {
	int64_t first_ms, longest_ms;
	int64_t pause_ms; /* the next one */
	struct rng rng;
};

/* `key`: of the replica, for random parts of its own. */
void backoff_init(struct backoff *b, int64_t first_ms, int64_t longest_ms, const uint8_t key[32]);
/* The time of the next repetition, after one at `now`. */
mono_t backoff_next(struct backoff *b, mono_t now);
/* The next pause is the first one again. */
void backoff_reset(struct backoff *b);

#endif
