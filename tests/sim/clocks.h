/* Time: each machine has a clock of its own. */
#ifndef LSFS_SIM_CLOCKS_H
#define LSFS_SIM_CLOCKS_H

#include "cell/base/mono.h"
#include "cell/base/rng.h"

#define MS ((int64_t)1000000)
#define SECOND ((int64_t)1000000000)

enum { CLOCK_PPM = 4970 }; /* of a clock against the simulator's: two differ by one percent */

/* A machine's own clock: another origin and another rate than the simulator's. */
struct local_clock {
	int64_t offset, ppm;
};

/* How far clocks may go wrong in a seed. Beyond the allowance leases prove nothing: what rests on
 * them is not asserted then, everything else is. */
enum clocks { CLOCKS_ALIKE, CLOCKS_DRIFT, CLOCKS_WILD };

mono_t clock_local(const struct local_clock *c, int64_t at);
/* When the local clock has reached `local`. */
int64_t clock_global(const struct local_clock *c, mono_t local);
/* From `at` on it runs at another rate; it never goes back. */
void clock_set_rate(struct local_clock *c, int64_t at, int64_t ppm);
/* It shows at `until` what it shows at `at`: a machine that stood still without noticing. */
void clock_stand_still(struct local_clock *c, int64_t at, int64_t until);
/* The time that a clock shows at the beginning, in nanoseconds. */
int64_t clock_draw_start(struct rng *r);
/* Two clocks of the cell differ by no more than they are allowed to; or by far more. */
int64_t clock_draw_rate(struct rng *r, enum clocks clocks);
/* How wrong a machine's time of day becomes: up to an hour, or by years. */
int64_t clock_draw_wall(struct rng *r);

#endif
