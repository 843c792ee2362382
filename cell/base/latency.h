/* How long things took: a histogram, whose buckets are those that monitoring systems expect. */
#ifndef LSFS_BASE_LATENCY_H
#define LSFS_BASE_LATENCY_H

#include "cell/base/bytes.h"
#include "cell/base/mono.h"

enum { LATENCY_BUCKETS = 15 };

struct latency {
	uint64_t counts[LATENCY_BUCKETS]; /* the last one has no bound */
	uint64_t sum_us;
};

/* Counts one that took this long. */
void latency_note(struct latency *l, span_t took);
/* Adds those that were noted in `later` and not yet in `earlier`, which is the same at an earlier
 * time. */
void latency_add(struct latency *to, const struct latency *later, const struct latency *earlier);
/* The time, in us, that this many of a thousand did not exceed: the bound of a bucket, and for the
 * last one of that before it. 0: none was noted. */
uint64_t latency_quantile_us(const struct latency *l, unsigned permille);
/* A histogram as Prometheus reads it, in seconds. */
void latency_expose(struct buffer *to, const char *name, const char *help, const struct latency *l);

#endif
