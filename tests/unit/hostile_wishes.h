/* The operations that a hostile client asks for: small numbers that collide, acquisitions used
 * again, tickets copied from answers and altered. */
#ifndef LSFS_TESTS_HOSTILE_WISHES_H
#define LSFS_TESTS_HOSTILE_WISHES_H

#include "cell/base/rng.h"
#include "tests/unit/wire_values.h"

enum {
	WISHES_SESSIONS = 4,
	WISHES_FILES = 2, /* whose locks everybody wants */
	WISHES_TICKETS = 16,
};

struct wishes {
	struct rng rng;
	struct values values; /* what an operation points to */
	uint64_t sessions[WISHES_SESSIONS], files[WISHES_FILES];
	struct acquire tickets[WISHES_TICKETS], last;
	size_t tickets_n;
};

/* An operation; it may point into `values`. */
struct op wishes_op(struct wishes *w);
/* An acquisition that waits, with its ticket: one to be copied. */
void wishes_learn(struct wishes *w, const struct acquire *queued);

#endif
