/* Monotonic time as a type: an instant and a span do not mix with each other or with integers.
 *
 * Instants are nanoseconds of CLOCK_BOOTTIME, which also counts while a machine is suspended (else
 * a lease would outlast a suspension). Only drivers read the clock; pure code receives an instant
 * with each event. */
#ifndef LSFS_BASE_MONO_H
#define LSFS_BASE_MONO_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
typedef struct { int64_t ns; } mono_t; /* an instant */
typedef struct { int64_t ns; } span_t; /* a distance between two instants */

/* Never: later than every instant. The value of a deadline that is not set. */
#define MONO_NEVER ((mono_t){INT64_MAX})

static inline span_t span_ms(int64_t ms) { return (span_t){ms * 1000000}; }
static inline span_t span_s(int64_t s) { return (span_t){s * 1000000000}; }
static inline int64_t span_to_ms(span_t d) { return d.ns / 1000000; }

static inline mono_t
mono_add(mono_t t, span_t d)
{
	return t.ns == INT64_MAX ? MONO_NEVER : (mono_t){t.ns + d.ns};
}

static inline span_t
mono_since(mono_t later, mono_t earlier)
{
	return (span_t){later.ns - earlier.ns};
}

static inline bool mono_before(mono_t a, mono_t b) { return a.ns < b.ns; }
static inline bool mono_reached(mono_t now, mono_t deadline) { return now.ns >= deadline.ns; }
static inline mono_t mono_min(mono_t a, mono_t b) { return a.ns < b.ns ? a : b; }
static inline mono_t mono_max(mono_t a, mono_t b) { return a.ns > b.ns ? a : b; }
static inline bool mono_is_never(mono_t t) { return t.ns == INT64_MAX; }
/* clang-format on */

/* The pauses between attempts of something that may never succeed: each is twice as long as the one
 * before, up to a longest one. */
struct backoff {
	span_t first, longest;
	span_t next;
};

/* The next pause is the first one again. */
static inline void
backoff_reset(struct backoff *b)
{
	b->next = b->first.ns < b->longest.ns ? b->first : b->longest;
}

/* The pauses from `first` to `longest`. */
static inline struct backoff
backoff_of(span_t first, span_t longest)
{
	struct backoff b = {first, longest, first};

	backoff_reset(&b);
	return b;
}

/* The pause before the next attempt. */
static inline span_t
backoff_take(struct backoff *b)
{
	const span_t pause = b->next;

	b->next.ns = 2 * pause.ns < b->longest.ns ? 2 * pause.ns : b->longest.ns;
	return pause;
}

#endif
