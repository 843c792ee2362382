/* The factor of lease_load.h: it follows the number of sessions up at once and down slowly, and
 * does not swing. */
#include "cell/master/session_lease.h"
#include "tests/unit/unit.h"

#define LEASE span_s(12)

enum { BEARABLE = 100 };

struct load {
	struct lease_load l;
	mono_t now;
};

static struct load
load_new(void)
{
	struct load a = {.now = {span_s(1000).ns}};

	lease_load_begin(&a.l, BEARABLE);
	return a;
}

/* So many KeepAlives each second. Returns the factor in the end. */
static unsigned
pass(struct load *a, int seconds, unsigned a_second)
{
	for (int64_t i = 0; i < (int64_t)seconds * a_second; i++) {
		a->now = mono_add(a->now, (span_t){span_s(1).ns / a_second});
		lease_load_answered(&a->l, a->now, LEASE);
	}
	return a->l.factor;
}

/* Sessions send fewer when their leases are longer, if they cache nothing. `a_second`: so many do
 * they send with the lease that is set. */
static unsigned
pass_sessions(struct load *a, int seconds, unsigned a_second)
{
	const mono_t end = mono_add(a->now, span_s(seconds));

	while (!mono_reached(a->now, end)) {
		a->now = mono_add(a->now, (span_t){span_s(1).ns / a_second * a->l.factor});
		lease_load_answered(&a->l, a->now, LEASE);
	}
	return a->l.factor;
}

TEST(test_bearable_load)
{
	struct load a = load_new();

	assert_int_equal(pass(&a, 60, BEARABLE * 9 / 10), 1);
}

TEST(test_grows_at_once_to_what_is_needed)
{
	struct load a = load_new();

	assert_int_equal(pass_sessions(&a, 6, BEARABLE * 29 / 10), 3);
	for (int i = 0; i < 20; i++)
		assert_int_equal(pass_sessions(&a, 10, BEARABLE * 29 / 10), 3);
}

TEST(test_shrinks_step_by_step)
{
	struct load a = load_new();

	unsigned factor = pass_sessions(&a, 60, BEARABLE * 9 / 2);

	assert_int_equal(factor, 5);
	while (factor > 1) {
		const unsigned next = pass_sessions(&a, 1, BEARABLE / 2);

		assert_in_range(next, factor - 1, factor);
		factor = next;
	}
	assert_true(mono_before(a.now, mono_add((mono_t){0}, span_s(1000 + 60 + 80))));
}

/* Whatever the number of sessions, the factor comes to rest. */
TEST(test_does_not_swing)
{
	for (unsigned sessions = BEARABLE / 2; sessions < 8 * BEARABLE; sessions += 7) {
		struct load a = load_new();
		const unsigned at_rest = pass_sessions(&a, 60, sessions);

		for (int i = 0; i < 30; i++)
			assert_int_equal(pass_sessions(&a, 2, sessions), at_rest);
		assert_true(at_rest == LEASE_LOAD_MOST || sessions / at_rest <= BEARABLE + 1);
	}
}

/* KeepAlives that do not become fewer make leases as long as they may be. */
TEST(test_load_that_longer_leases_do_not_help)
{
	struct load a = load_new();

	assert_int_equal(pass(&a, 30, BEARABLE * 2), LEASE_LOAD_MOST);
	assert_int_equal(pass(&a, 100, BEARABLE * 2), LEASE_LOAD_MOST);
}

TEST(test_silence)
{
	struct load a = load_new();

	pass(&a, 30, BEARABLE * 2);
	a.now = mono_add(a.now, span_s(100000));
	lease_load_pass(&a.l, a.now, LEASE);
	assert_int_equal(a.l.factor, 1);
	assert_int_equal(pass(&a, 30, BEARABLE / 2), 1);
	assert_int_equal(pass_sessions(&a, 20, BEARABLE * 3 / 2), 2);
}
