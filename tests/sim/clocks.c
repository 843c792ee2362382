/* Each machine's own clock. */
#include "tests/sim/sim.h"

enum {
	WILD_PPM = 400000,
	START_S = 1000,
	HOUR_S = 3600,
	YEAR_S = 365 * 24 * HOUR_S,
};

mono_t
clock_local(const struct local_clock *c, int64_t at)
{
	return (mono_t){c->offset + at + at * c->ppm / 1000000};
}

int64_t
clock_global(const struct local_clock *c, mono_t local)
{
	__int128 away = (__int128)(local.ns - c->offset) * 1000000 / (1000000 + c->ppm);
	int64_t at = (int64_t)away;

	if (mono_is_never(local))
		return INT64_MAX;
	while (mono_before(clock_local(c, at), local))
		at++;
	return at;
}

void
clock_set_rate(struct local_clock *c, int64_t at, int64_t ppm)
{
	mono_t before = clock_local(c, at);

	c->ppm = ppm;
	c->offset += before.ns - clock_local(c, at).ns;
}

void
clock_stand_still(struct local_clock *c, int64_t at, int64_t until)
{
	c->offset -= clock_local(c, until).ns - clock_local(c, at).ns;
}

/* Some time after the machine's boot: a clock that stands still now and then is not yet negative at
 * the end. */
int64_t
clock_draw_start(struct rng *r)
{
	return (START_S + 1 + (int64_t)rng_below(r, 1000)) * SECOND;
}

int64_t
clock_draw_rate(struct rng *r, enum clocks clocks)
{
	int64_t most = clocks == CLOCKS_WILD ? WILD_PPM : CLOCK_PPM;

	if (clocks == CLOCKS_ALIKE)
		return 0;
	switch (rng_below(r, 4)) { /* the ends are where it hurts */
	case 0:
		return most;
	case 1:
		return -most;
	default:
		return (int64_t)rng_below(r, (uint64_t)(2 * most + 1)) - most;
	}
}

int64_t
clock_draw_wall(struct rng *r)
{
	int64_t most = rng_chance(r, 100) ? 50 * (int64_t)YEAR_S : HOUR_S;

	return (int64_t)rng_below(r, (uint64_t)(2 * most * SECOND)) - most * SECOND;
}
