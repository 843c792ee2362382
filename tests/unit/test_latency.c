/* How long things took, and how long the commands of a master took. */
#include "tests/unit/unit.h"

#include <string.h>
#include "cell/page/last_hour.h"
#include "cell/replica/commit_times.h"

static mono_t
at_ms(int64_t ms)
{
	return mono_add((mono_t){0}, span_ms(ms));
}

TEST(test_quantiles)
{
	struct latency l = {0};

	assert_int_equal(latency_quantile_us(&l, 500), 0);
	for (int i = 0; i < 98; i++)
		latency_note(&l, span_ms(2));
	latency_note(&l, span_ms(40));
	latency_note(&l, span_s(60));
	assert_int_equal(latency_quantile_us(&l, 500), 2500);
	assert_int_equal(latency_quantile_us(&l, 980), 2500);
	assert_int_equal(latency_quantile_us(&l, 990), 50000);
	assert_int_equal(latency_quantile_us(&l, 1000), 10000000);
	assert_int_equal(l.sum_us, 98 * 2000 + 40000 + 60000000);
}

TEST(test_a_bound_is_in_its_bucket)
{
	struct latency l = {0};

	latency_note(&l, span_ms(5));
	assert_int_equal(latency_quantile_us(&l, 500), 5000);
	latency_note(&l, (span_t){-1});
	assert_int_equal(latency_quantile_us(&l, 500), 500);
}

TEST(test_a_histogram_is_cumulative)
{
	struct buffer text = BUFFER(4096);
	struct latency l = {0};

	latency_note(&l, span_ms(1));
	latency_note(&l, span_ms(3));
	latency_note(&l, span_s(11));
	latency_expose(&text, "a_seconds", "How long.", &l);
	buffer_put_u8(&text, 0);
	assert_non_null(strstr((const char *)text.data, "# TYPE a_seconds histogram\n"));
	assert_non_null(strstr((const char *)text.data, "a_seconds_bucket{le=\"0.0005\"} 0\n"
	                                                "a_seconds_bucket{le=\"0.001\"} 1\n"
	                                                "a_seconds_bucket{le=\"0.0025\"} 1\n"
	                                                "a_seconds_bucket{le=\"0.005\"} 2\n"));
	assert_non_null(strstr((const char *)text.data, "a_seconds_bucket{le=\"10\"} 2\n"
	                                                "a_seconds_bucket{le=\"+Inf\"} 3\n"
	                                                "a_seconds_sum 11.004000\n"
	                                                "a_seconds_count 3\n"));
	buffer_free(&text);
}

TEST(test_commands_are_timed_from_their_proposal)
{
	struct commit_times c = {0};

	for (int i = 0; i < 20; i++)
		commit_times_proposed(&c, 100 + (uint64_t)i, at_ms(i));
	commit_times_applied(&c, 99, at_ms(20));
	assert_int_equal(c.seen.sum_us, 0);
	commit_times_applied(&c, 101, at_ms(20));
	assert_int_equal(c.seen.sum_us, 20000 + 19000);
	commit_times_proposed(&c, 120, at_ms(30));
	commit_times_applied(&c, 119, at_ms(30));
	commit_times_applied(&c, 120, at_ms(37));
	assert_int_equal(latency_quantile_us(&c.seen, 1), 10000);
	assert_int_equal(c.n, 0);
	commit_times_forget(&c);
}

/* A former master's are not applied by it, and the slots of its next mastership are others. */
TEST(test_a_master_that_lost_them_forgets_them)
{
	struct commit_times c = {0};

	commit_times_proposed(&c, 5, at_ms(0));
	commit_times_forget(&c);
	commit_times_proposed(&c, 9, at_ms(1000));
	commit_times_applied(&c, 9, at_ms(1001));
	assert_int_equal(c.seen.sum_us, 1000);
	commit_times_forget(&c);
	assert_int_equal(c.seen.sum_us, 1000);
}

TEST(test_those_before_the_first_look_count)
{
	struct last_hour h = {0};
	struct latency l = {0};

	latency_note(&l, span_ms(1));
	last_hour_note(&h, at_ms(5000), 1, 1, &l, true);
	assert_int_equal(latency_quantile_us(&last_hour_ago(&h, 0)->commits, 990), 1000);
}

TEST(test_each_minute_has_its_own)
{
	struct last_hour h = {0};
	struct latency l = {0};

	last_hour_note(&h, at_ms(0), 1, 1, &l, true);
	latency_note(&l, span_ms(1));
	last_hour_note(&h, at_ms(59000), 2, 1, &l, true);
	latency_note(&l, span_ms(100));
	last_hour_note(&h, at_ms(61000), 3, 1, &l, true);
	assert_int_equal(latency_quantile_us(&last_hour_ago(&h, 1)->commits, 990), 1000);
	assert_int_equal(latency_quantile_us(&last_hour_ago(&h, 0)->commits, 10), 100000);
	assert_int_equal(latency_quantile_us(&last_hour_ago(&h, 2)->commits, 990), 0);
}
