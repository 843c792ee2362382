/* A small seeded generator (SplitMix64) for jitter and for the simulator, never for keys. Each pure
 * part owns a generator seeded by its driver, so the same seed repeats a run. */
#ifndef LSFS_BASE_RNG_H
#define LSFS_BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

/* A generator whose sequence depends only on `seed`. */
struct rng rng_seeded(uint64_t seed);
/* The next 64 pseudorandom bits. */
uint64_t rng_next(struct rng *r);
/* Uniform in [0, bound); 0 when bound is 0. */
uint64_t rng_below(struct rng *r, uint64_t bound);
/* True with probability permille / 1000. */
bool rng_chance(struct rng *r, unsigned permille);

#endif
