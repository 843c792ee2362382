/* Frames that wait: the connections take turns, and each keeps its order. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/server/inbox.h"
#include "tests/unit/unit.h"

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

	assert_true(inbox_take(in, ready, &not_ready, &p));
	assert_int_equal(p.conn, conn);
	assert_true(bytes_equal(p.frame, bytes_of(frame)));
	queued_frame_free(&p);
}

TEST(test_turns)
{
	struct inbox in;

	inbox_init(&in);
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

TEST(test_not_ready)
{
	struct inbox in;
	struct queued_frame p;
	uint64_t one = 1;

	inbox_init(&in);
	put(&in, 1, "1");
	put(&in, 2, "22");
	put(&in, 1, "333");
	assert_int_equal(in.bytes, 6);
	assert_int_equal(inbox_bytes(&in, 1), 4);
	assert_true(inbox_has(&in, ready, &one));
	assert_next(&in, 1, 2, "22");
	assert_false(inbox_has(&in, ready, &one));
	assert_false(inbox_take(&in, ready, &one, &p));
	assert_true(in.bytes > 0);
	assert_next(&in, 0, 1, "1");
	inbox_drop(&in, 1);
	inbox_drop(&in, 7);
	assert_int_equal(in.bytes, 0);
}
