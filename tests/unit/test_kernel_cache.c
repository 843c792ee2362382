/* How long the kernel keeps an answer: half of what is left of the leave to cache, at most a
 * second; and nothing that would outlast the leave by the kernel's rounding. */
#include "tests/unit/unit.h"

#include "cell/base/rng.h"
#include "fs/mount/kernel_cache.h"

enum { MS = 1000000, JIFFY = 10 * MS };

static int64_t
kept(int64_t left)
{
	return kernel_cache_timeout((span_t){left}).ns;
}

TEST(test_half_of_the_leave)
{
	assert_int_equal(kept(1000 * (int64_t)MS), 500 * MS);
	assert_int_equal(kept(1500 * (int64_t)MS + 2), 750 * MS + 1);
}

TEST(test_a_second_at_most)
{
	assert_int_equal(kept(2000 * (int64_t)MS), 1000 * MS);
	assert_int_equal(kept(2000 * (int64_t)MS - 2), 1000 * MS - 1);
	assert_int_equal(kept(60000 * (int64_t)MS), 1000 * MS);
	assert_int_equal(kept(INT64_MAX), 1000 * MS);
}

TEST(test_nothing_without_leave)
{
	assert_int_equal(kept(0), 0);
	assert_int_equal(kept(-1), 0);
	assert_int_equal(kept(INT64_MIN), 0);
}

TEST(test_nothing_below_a_jiffy)
{
	assert_int_equal(kept(1), 0);
	assert_int_equal(kept(2 * JIFFY - 1), 0);
	assert_int_equal(kept(2 * JIFFY), JIFFY);
}

/* The kernel rounds up to its next jiffy. */
TEST(test_never_longer_than_the_leave)
{
	struct rng r = rng_seeded(1);

	for (int i = 0; i < 100000; i++) {
		const int64_t left = (int64_t)rng_below(&r, 5000 * (uint64_t)MS);

		assert_true(kept(left) == 0 || kept(left) + JIFFY <= left);
	}
}
