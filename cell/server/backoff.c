#include "cell/server/backoff.h"

#include <string.h>

void
backoff_init(struct backoff *b, int64_t first_ms, int64_t longest_ms, const uint8_t key[32])
{
	uint64_t seed;

	memcpy(&seed, key, sizeof seed);
	*b = (struct backoff){first_ms, longest_ms, first_ms, rng_seeded(seed)};
}

mono_t
backoff_next(struct backoff *b, mono_t now)
{
	const int64_t pause_ms = b->pause_ms;
	const uint64_t longer_ms = rng_below(&b->rng, (uint64_t)pause_ms / 4 + 1);

	b->pause_ms = 2 * pause_ms < b->longest_ms ? 2 * pause_ms : b->longest_ms;
	return mono_add(now, span_ms(pause_ms + (int64_t)longer_ms));
}

void
backoff_reset(struct backoff *b)
{
	b->pause_ms = b->first_ms;
}
