/* What tests of the network share: keys, ports, and a loop that runs until something happened. */
#ifndef LSFS_TESTS_NET_FIXTURE_H
#define LSFS_TESTS_NET_FIXTURE_H

#include <uv.h>
#include "cell/base/mono.h"
#include "cell/sys/clock.h"
#include "cell/wire/noise.h"
#include "tests/unit/unit.h"

/* Runs p->loop until the condition holds; a test that has waited for 20 s in vain fails. */
#define UNTIL(p, condition)                                            \
	do {                                                           \
		mono_t limit_ = mono_add(clock_now(), span_s(20));     \
		while (!(condition)) {                                 \
			uv_run(&(p)->loop, UV_RUN_ONCE);               \
			assert_true(mono_before(clock_now(), limit_)); \
		}                                                      \
	} while (0)

/* A key, the same for the same seed. */
struct noise_pair pair_of(uint8_t seed);

/* A port of the loopback that is kept for this process until it ends: no other process gets it, and
 * this one can bind it as libuv does (SO_REUSEADDR). */
int free_port(void);

#endif
