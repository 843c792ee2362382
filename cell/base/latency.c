#include "cell/base/latency.h"
#include "cell/base/exposition.h"

/* clang-format off */
static const uint64_t bounds_us[LATENCY_BUCKETS - 1] = {
    500, 1000, 2500, 5000, 10000, 25000, 50000,
    100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000,
};
/* clang-format on */

void
latency_note(struct latency *l, span_t took)
{
	const uint64_t us = took.ns > 0 ? (uint64_t)took.ns / 1000 : 0;
	int i = 0;

	while (i < LATENCY_BUCKETS - 1 && us > bounds_us[i])
		i++;
	l->counts[i]++;
	l->sum_us += us;
}

void
latency_add(struct latency *to, const struct latency *later, const struct latency *earlier)
{
	for (int i = 0; i < LATENCY_BUCKETS; i++)
		to->counts[i] += later->counts[i] - earlier->counts[i];
	to->sum_us += later->sum_us - earlier->sum_us;
}

uint64_t
latency_quantile_us(const struct latency *l, unsigned permille)
{
	uint64_t all = 0, n = 0;

	for (int i = 0; i < LATENCY_BUCKETS; i++)
		all += l->counts[i];
	if (all == 0)
		return 0;
	for (int i = 0; i < LATENCY_BUCKETS - 1; i++) {
		n += l->counts[i];
		if (n * 1000 >= all * permille)
			return bounds_us[i];
	}
	return bounds_us[LATENCY_BUCKETS - 2];
}

void
latency_expose(struct buffer *to, const char *name, const char *help, const struct latency *l)
{
	uint64_t n = 0;

	exposition_begin(to, name, "histogram", help);
	for (int i = 0; i < LATENCY_BUCKETS - 1; i++) {
		n += l->counts[i];
		buffer_printf(to, "%s_bucket{le=\"%g\"} %llu\n", name, (double)bounds_us[i] / 1e6,
		              (unsigned long long)n);
	}
	n += l->counts[LATENCY_BUCKETS - 1];
	buffer_printf(to, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.6f\n%s_count %llu\n", name,
	              (unsigned long long)n, name, (double)l->sum_us / 1e6, name,
	              (unsigned long long)n);
}
