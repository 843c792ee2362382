/* The gate by itself: what the transcripts of the master (cell/caching.txt, cell/requests.txt) do
 * not reach. */
#include <time.h>

#include "tests/unit/unit.h"

#include "cell/base/limit.h"
#include "cell/master/gate.h"

enum { READER = 5, WRITER = 6 };

static bool
enter(struct gate *g, struct gate_pass *p, uint64_t a, uint64_t b)
{
	struct footprint changes = {0};

	footprint_add(&changes, a);
	footprint_add(&changes, b);
	return gate_enter(g, p, &changes);
}

static struct gate_pass *
writer(void)
{
	static uint64_t number;

	return gate_pass_new(NULL, WRITER, ++number);
}

static void
copy(struct gate *g, struct gate_session *s, uint64_t key)
{
	assert_true(gate_may_copy(g, s, key));
	gate_copy(g, s, key, ++s->leaves);
}

static const struct gate_notice *
told(struct gate *g, struct gate_session *s)
{
	assert_ptr_equal(gate_untold(g), s);
	return gate_told(g, s, (mono_t){0});
}

TEST(test_refused_commands_go_first)
{
	struct gate_pass *first = writer(), *second = writer(), *third = writer(),
	                 *other = writer();
	struct gate g;

	gate_init(&g);
	assert_true(enter(&g, first, 1, 10) && enter(&g, second, 1, 11));
	gate_proposed(&g, first);
	gate_proposed(&g, second);
	gate_refused(&g, second);
	gate_refused(&g, first);
	assert_false(enter(&g, first, 1, 12)); /* was refused behind the second one */
	assert_false(enter(&g, third, 1, 13));
	assert_false(enter(&g, other, 10, 14)); /* the key of its first attempt is held, too */
	assert_true(enter(&g, second, 1, 11));
	gate_proposed(&g, second);
	assert_ptr_equal(first->list, &g.ready);
	assert_false(enter(&g, third, 1, 13));
	assert_true(enter(&g, first, 1, 12));
	gate_proposed(&g, first);
	assert_true(enter(&g, third, 1, 13) && enter(&g, other, 10, 14));
	gate_leave(&g, first);
	gate_leave(&g, second);
	gate_leave(&g, third);
	gate_leave(&g, other);
	gate_clear(&g);
}

/* The time in which so many commands come to one key, of which a session has a copy. */
static clock_t
time_to_wait(int n)
{
	struct gate_session reader;
	struct gate g;
	clock_t began;

	gate_init(&g);
	gate_session_init(&reader, READER);
	copy(&g, &reader, 1);
	began = clock();
	for (int i = 0; i < n; i++)
		assert_false(enter(&g, writer(), 1, 2));
	began = clock() - began;
	while (!TAILQ_EMPTY(&g.blocked))
		gate_leave(&g, TAILQ_FIRST(&g.blocked));
	gate_forget(&g, &reader);
	gate_clear(&g);
	return began;
}

TEST(test_a_command_does_not_cost_more_behind_many)
{
	assert_true(time_to_wait(20000) < 50 * (time_to_wait(1000) + 100));
}

/* Two commands wait for the same copy; one of them goes. */
TEST(test_commands_share_what_they_wait_for)
{
	struct gate_pass *first = writer(), *second = writer();
	struct gate_session reader;
	struct gate g;

	gate_init(&g);
	gate_session_init(&reader, READER);
	copy(&g, &reader, 1);
	copy(&g, &reader, 2);
	assert_false(enter(&g, first, 1, 1));
	assert_int_equal(told(&g, &reader)->number, 1);
	assert_false(enter(&g, second, 1, 2));
	assert_int_equal(told(&g, &reader)->number, 2);
	gate_leave(&g, first);
	assert_false(gate_may_copy(&g, &reader, 1));
	assert_true(gate_acknowledge(&g, &reader, 1));
	assert_ptr_equal(second->list, &g.blocked);
	assert_true(gate_acknowledge(&g, &reader, 2));
	assert_ptr_equal(second->list, &g.ready);
	assert_false(gate_acknowledge(&g, &reader, 3));
	gate_leave(&g, second);
	assert_true(gate_may_copy(&g, &reader, 1));
	gate_clear(&g);
}

TEST(test_a_session_that_acknowledges_nothing_drops_everything)
{
	const uint64_t last = LIMIT_NOTICES + 2;
	struct gate_session reader;
	struct gate_pass *p;
	struct gate g;

	gate_init(&g);
	gate_session_init(&reader, READER);
	for (uint64_t key = 1; key <= last; key++)
		copy(&g, &reader, key);
	for (uint64_t key = 1; key <= LIMIT_NOTICES; key++) {
		assert_false(enter(&g, p = writer(), key, key));
		assert_int_equal(told(&g, &reader)->everything, key == LIMIT_NOTICES);
		gate_leave(&g, p);
	}
	assert_false(enter(&g, p = writer(), last, last));
	assert_null(gate_untold(&g));
	gate_leave(&g, p);
	assert_false(gate_may_copy(&g, &reader, last + 1));
	assert_true(gate_acknowledge(&g, &reader, LIMIT_NOTICES));
	assert_int_equal(reader.copies_n, 0);
	assert_true(gate_may_copy(&g, &reader, last + 1));
	gate_clear(&g);
}

TEST(test_copies_have_a_limit)
{
	struct gate_session reader;
	struct gate g;

	gate_init(&g);
	gate_session_init(&reader, READER);
	for (uint64_t key = 1; key <= LIMIT_COPIES; key++)
		copy(&g, &reader, key);
	assert_true(gate_may_copy(&g, &reader, 1));
	assert_false(gate_may_copy(&g, &reader, LIMIT_COPIES + 1));
	gate_give_back(&g, &reader, 1, 0);
	assert_false(gate_may_copy(&g, &reader, LIMIT_COPIES + 1));
	gate_give_back(&g, &reader, 1, 1);
	assert_true(gate_may_copy(&g, &reader, LIMIT_COPIES + 1));
	gate_forget(&g, &reader);
	gate_clear(&g);
}
