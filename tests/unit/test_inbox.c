/* Frames that wait: principals take turns, and so do the connections of each, which keep their
 * order; and the budgets of several principals. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/server/internal.h"
#include "tests/unit/unit.h"

enum { BUDGET = 8 };

static const mono_t now = {1000000000};
static const uint8_t ann[INBOX_KEY] = "ann", bob[INBOX_KEY] = "bob";

static void
begin(struct inbox *in, const uint8_t *principal, uint64_t conns)
{
	inbox_init(in, BUDGET);
	for (uint64_t conn = 1; conn <= conns; conn++)
		inbox_connect(in, conn, principal);
}

static void
put(struct inbox *in, uint64_t conn, const char *frame)
{
	inbox_put(in, conn, bytes_copy(bytes_of(frame)));
}

/* All but those of the connection that `user` points to. */
static bool
ready(void *user, uint64_t conn, struct bytes frame)
{
	assert_true(frame.len > 0);
	return conn != *(uint64_t *)user;
}

static void
assert_next(struct inbox *in, uint64_t not_ready, uint64_t conn, const char *frame)
{
	struct queued_frame p;

	assert_true(inbox_take(in, now, ready, &not_ready, &p));
	assert_int_equal(p.conn, conn);
	assert_true(bytes_equal(p.frame, bytes_of(frame)));
	queued_frame_free(&p);
}

TEST(test_turns)
{
	struct inbox in;

	begin(&in, ann, 4);
	for (int i = 0; i < 1000; i++)
		put(&in, 1, "flood");
	put(&in, 2, "a");
	put(&in, 3, "x");
	put(&in, 2, "b");
	assert_next(&in, 0, 1, "flood");
	assert_next(&in, 0, 2, "a");
	assert_next(&in, 0, 3, "x");
	assert_next(&in, 0, 1, "flood");
	assert_next(&in, 0, 2, "b");
	assert_next(&in, 0, 1, "flood");
	assert_next(&in, 0, 1, "flood");
	put(&in, 4, "late");
	assert_next(&in, 0, 1, "flood");
	assert_next(&in, 0, 4, "late");
	inbox_free(&in);
	assert_int_equal(in.bytes, 0);
}

/* So many bytes of a frame have come. */
static size_t
part(struct inbox *in, uint64_t conn, bool session, size_t bytes, int64_t at_s)
{
	return inbox_set_unfinished(in, conn, session, bytes, false, mono_add(now, span_s(at_s)));
}

static void
assert_stalled(struct inbox *in, int64_t at_s, uint64_t expected)
{
	uint64_t conn = 0;

	assert_int_equal(inbox_stalled(in, mono_add(now, span_s(at_s)), &conn), expected != 0);
	assert_int_equal(conn, expected);
}

TEST(test_unfinished_frames)
{
	struct inbox in;

	begin(&in, ann, 3);
	inbox_connect(&in, 4, bob);
	assert_int_equal(part(&in, 1, true, 100, 0), 100);
	assert_int_equal(part(&in, 2, false, 1000, 0), 1000);
	assert_int_equal(part(&in, 3, true, 10, 0), 110);
	assert_int_equal(part(&in, 4, true, 5, 0), 5);
	assert_int_equal(part(&in, 9, true, 5, 0), 0);
	assert_int_equal(inbox_most_unfinished(&in), 1110);
	assert_int_equal(inbox_bytes_of_principal(&in, 1), 1110);
	assert_int_equal(part(&in, 2, true, 2000, 0), 2110); /* its session is open now */
	assert_int_equal(part(&in, 3, true, 0, 0), 2100);
	inbox_disconnect(&in, 1);
	assert_int_equal(inbox_most_unfinished(&in), 2000);
	inbox_free(&in);
	assert_int_equal(in.unfinished_bytes, 0);
}

TEST(test_a_frame_that_is_never_finished)
{
	struct inbox in;

	begin(&in, ann, 3);
	assert_true(mono_is_never(inbox_deadline(&in, now)));
	part(&in, 1, true, 100, 0);
	part(&in, 2, true, 100, 5);
	part(&in, 1, true, 200, 14); /* more of the same */
	inbox_set_unfinished(&in, 3, true, 100, true, now);
	inbox_set_unfinished(&in, 3, true, 100, true, mono_add(now, span_s(14)));
	assert_int_equal(inbox_deadline(&in, now).ns, mono_add(now, span_s(15)).ns);
	assert_stalled(&in, 14, 0);
	assert_stalled(&in, 15, 1);
	inbox_disconnect(&in, 1);
	assert_stalled(&in, 19, 0);
	part(&in, 2, true, 0, 19);
	assert_stalled(&in, 28, 0);
	assert_stalled(&in, 29, 3);
	inbox_free(&in);
}

/* Nothing may have been read from it: that is not its fault. */
TEST(test_an_unfinished_frame_behind_one_that_waits)
{
	struct inbox in;
	uint64_t none = 0;
	struct queued_frame p;

	begin(&in, ann, 1);
	put(&in, 1, "waits");
	part(&in, 1, true, 100, 0);
	assert_stalled(&in, 15, 0);
	assert_true(inbox_take(&in, mono_add(now, span_s(20)), ready, &none, &p));
	queued_frame_free(&p);
	assert_stalled(&in, 34, 0);
	assert_stalled(&in, 35, 1);
	inbox_free(&in);
}

TEST(test_not_ready)
{
	struct inbox in;
	struct queued_frame p;
	uint64_t one = 1;

	begin(&in, ann, 2);
	put(&in, 1, "1");
	put(&in, 2, "22");
	put(&in, 1, "333");
	assert_int_equal(in.bytes, 6);
	assert_int_equal(inbox_bytes(&in, 1), 4);
	assert_true(inbox_has(&in, now, ready, &one));
	assert_next(&in, 1, 2, "22");
	assert_false(inbox_has(&in, now, ready, &one));
	assert_false(inbox_take(&in, now, ready, &one, &p));
	assert_true(in.bytes > 0);
	assert_next(&in, 0, 1, "1");
	inbox_disconnect(&in, 1);
	inbox_disconnect(&in, 7);
	assert_int_equal(in.bytes, 0);
	assert_int_equal(inbox_put(&in, 1, bytes_copy(bytes_of("nobody's"))), 0);
	inbox_free(&in);
}

/* However many connections a principal has, another one has every second turn. */
TEST(test_principals)
{
	struct inbox in;

	begin(&in, ann, 100);
	inbox_connect(&in, 101, bob);
	for (uint64_t conn = 1; conn <= 100; conn++)
		put(&in, conn, "flood");
	put(&in, 101, "a");
	put(&in, 101, "b");
	assert_int_equal(inbox_connections(&in, ann), 100);
	assert_int_equal(inbox_connections_beside(&in, 7), 100);
	assert_int_equal(inbox_bytes_of_principal(&in, 1), 500);
	assert_next(&in, 0, 1, "flood");
	assert_next(&in, 0, 101, "a");
	assert_next(&in, 0, 2, "flood");
	assert_next(&in, 0, 101, "b");
	assert_next(&in, 0, 3, "flood");
	assert_next(&in, 0, 4, "flood");
	inbox_free(&in);
}

static mono_t
later(int64_t ms)
{
	return mono_add(now, span_ms(ms));
}

static void
charge(struct inbox *in, uint64_t conn, int n)
{
	while (n-- > 0)
		inbox_charge(in, conn, now, 100, INBOX_FREE);
}

/* When a part of the budget is there again after so many short frames. */
static mono_t
opens(int64_t frames)
{
	const int64_t ns = span_ms(INBOX_BUDGET_MS).ns;

	return mono_add(now, (span_t){frames * ns / BUDGET - ns / INBOX_AT_ONCE});
}

/* A principal that is alone has no budget. From the first frame of another one on it has, and its
 * frames wait, until the budget is renewed or it is alone again. */
TEST(test_budgets)
{
	uint64_t none = 0;
	struct inbox in;

	begin(&in, ann, 1);
	inbox_connect(&in, 2, bob);
	charge(&in, 1, 10 * BUDGET);
	assert_true(inbox_in_budget(&in, 1, now));
	charge(&in, 2, 1);
	assert_false(inbox_in_budget(&in, 1, now));
	assert_true(inbox_in_budget(&in, 2, now));
	assert_true(mono_is_never(inbox_deadline(&in, now)));
	put(&in, 1, "flood");
	assert_false(inbox_has(&in, now, ready, &none));
	assert_int_equal(inbox_deadline(&in, now).ns, opens(1 + BUDGET).ns);
	put(&in, 2, "b");
	assert_next(&in, 0, 2, "b");
	assert_true(inbox_has(&in, opens(1 + BUDGET), ready, &none));
	assert_true(mono_is_never(inbox_deadline(&in, opens(1 + BUDGET))));
	inbox_charge(&in, 1, later(INBOX_SHARED_MS - 1), 100, INBOX_FREE);
	for (int i = 1; i < BUDGET; i++)
		inbox_charge(&in, 1, later(INBOX_SHARED_MS - 1), 100, INBOX_FREE);
	assert_false(inbox_in_budget(&in, 1, later(INBOX_SHARED_MS - 1)));
	assert_int_equal(inbox_deadline(&in, later(INBOX_SHARED_MS - 1)).ns,
	                 later(INBOX_SHARED_MS).ns);
	assert_true(inbox_in_budget(&in, 1, later(INBOX_SHARED_MS)));
	inbox_free(&in);
}

/* A part of the budget is handled at once, and a long frame uses up the whole. */
TEST(test_the_size_of_a_budget)
{
	struct inbox in;

	begin(&in, ann, 1);
	inbox_connect(&in, 2, bob);
	charge(&in, 2, 1);
	charge(&in, 1, BUDGET / INBOX_AT_ONCE);
	assert_true(inbox_in_budget(&in, 1, now));
	charge(&in, 1, 1);
	assert_false(inbox_in_budget(&in, 1, now));
	assert_true(inbox_in_budget(&in, 1, opens(BUDGET / INBOX_AT_ONCE + 1)));
	inbox_charge(&in, 1, later(500), (BUDGET - 1) * INBOX_COUNTED, INBOX_FREE);
	assert_false(inbox_in_budget(&in, 1, later(500 + INBOX_BUDGET_MS / 2)));
	assert_true(inbox_in_budget(&in, 1, later(500 + INBOX_BUDGET_MS)));
	inbox_free(&in);
}

/* A principal with little under way and waiting is not charged, however often it sends. */
TEST(test_outside_a_budget)
{
	struct inbox in;

	begin(&in, ann, 1);
	inbox_connect(&in, 2, bob);
	charge(&in, 2, 1);
	for (int i = 0; i < 10 * BUDGET; i++)
		inbox_charge(&in, 1, now, 100, INBOX_FREE - 1);
	assert_true(inbox_in_budget(&in, 1, now));
	put(&in, 1, "a");
	for (int i = 0; i < BUDGET; i++)
		inbox_charge(&in, 1, now, 100, INBOX_FREE - 1);
	assert_false(inbox_in_budget(&in, 1, now));
	inbox_free(&in);
}

/* A principal that has gone is forgotten. */
TEST(test_gone)
{
	struct inbox in;

	begin(&in, ann, 2);
	inbox_connect(&in, 3, bob);
	charge(&in, 3, 1);
	charge(&in, 1, BUDGET);
	put(&in, 1, "x");
	inbox_disconnect(&in, 1);
	assert_false(inbox_in_budget(&in, 1, now));
	assert_false(inbox_in_budget(&in, 2, now));
	inbox_disconnect(&in, 2);
	assert_int_equal(inbox_connections(&in, ann), 0);
	assert_int_equal(in.bytes, 0);
	inbox_connect(&in, 4, ann);
	assert_true(inbox_in_budget(&in, 4, now));
	inbox_free(&in);
}

/* A client that has reason for each KeepAlive never has one too many, and another one waits for the
 * next second. Connections, and the two kinds, are counted apart. */
TEST(test_keepalives)
{
	struct inbox in;

	begin(&in, ann, 2);
	for (int ms = 0; ms < 100000; ms += 1000 / 3 / 2)
		assert_true(inbox_keepalive(&in, 1, later(ms), false));
	for (int ms = 0; ms < 100000; ms += 1000 / 24)
		assert_true(inbox_keepalive(&in, 1, later(ms), true));
	for (int i = 0; i < INBOX_KEEPALIVES; i++)
		assert_true(inbox_keepalive(&in, 2, now, false));
	assert_false(inbox_keepalive(&in, 2, now, false));
	assert_false(inbox_keepalive(&in, 2, later(INBOX_KEEPALIVES_MS - 1), false));
	assert_true(inbox_keepalive(&in, 2, later(INBOX_KEEPALIVES_MS - 1), true));
	assert_true(inbox_keepalive(&in, 2, later(INBOX_KEEPALIVES_MS), false));
	inbox_free(&in);
}
