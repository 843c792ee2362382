#include "cell/base/rng.h"

struct rng
rng_seeded(uint64_t seed)
{
	return (struct rng){.state = seed};
}

/* Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014), figure 16. */
uint64_t
rng_next(struct rng *r)
{
	uint64_t z = r->state += 0x9e3779b97f4a7c15u;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

uint64_t
rng_below(struct rng *r, uint64_t bound)
{
	uint64_t v, uneven;

	if (bound == 0)
		return 0;
	/* The lowest 2^64 mod bound values are drawn again: they would favour small results. */
	uneven = -bound % bound;
	do
		v = rng_next(r);
	while (v < uneven);
	return v % bound;
}

bool
rng_chance(struct rng *r, unsigned permille)
{
	return rng_below(r, 1000) < permille;
}
