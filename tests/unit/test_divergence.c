/* What the replicas have computed of their states, and what a majority agrees on. */
#include "cell/replica/divergence.h"
#include "tests/unit/unit.h"

enum { EVERY = 10, GOOD = 77, BAD = 66 };

/* Three voters and a learner, 4. */
static const struct px_members members = {
    .list = {{1, true}, {2, true}, {3, true}, {4, false}},
    .n = 4,
};

static struct divergence new (void)
{
	struct divergence d;

	divergence_init(&d, EVERY);
	return d;
}

/* The digest that is agreed on at `index`; 0: none is. */
static uint64_t
agreed(struct divergence *d, uint64_t index)
{
	uint64_t at, digest;

	if (!divergence_agreed(d, &members, &at, &digest))
		return 0;
	assert_int_equal(at, index);
	return digest;
}

TEST(test_places)
{
	struct divergence d = new ();

	assert_true(divergence_due(&d, 20));
	assert_false(divergence_due(&d, 21));
	divergence_init(&d, 0);
	assert_true(divergence_due(&d, DIVERGENCE_EVERY));
	assert_false(divergence_due(&d, DIVERGENCE_EVERY - 1));
}

TEST(test_agreement)
{
	struct divergence d = new ();

	assert_int_equal(agreed(&d, 0), 0);
	divergence_reported(&d, 1, 20, GOOD, 25);
	divergence_reported(&d, 1, 20, GOOD, 25); /* twice is once */
	divergence_reported(&d, 4, 20, GOOD, 25); /* has no vote */
	divergence_reported(&d, 2, 20, BAD, 25);
	assert_int_equal(agreed(&d, 0), 0);
	divergence_reported(&d, 3, 20, GOOD, 25);
	assert_int_equal(agreed(&d, 20), GOOD);
	assert_int_equal(agreed(&d, 0), 0); /* told once */
	divergence_reported(&d, 2, 20, GOOD, 25);
	assert_int_equal(agreed(&d, 0), 0);
	divergence_reported(&d, 2, 30, GOOD, 35);
	divergence_reported(&d, 3, 30, GOOD, 35);
	assert_int_equal(agreed(&d, 30), GOOD);
}

TEST(test_nonsense_is_not_heard)
{
	struct divergence d = new ();

	for (uint8_t replica = 1; replica <= 3; replica++) {
		divergence_reported(&d, replica, 21, GOOD, 100); /* no place */
		divergence_reported(&d, replica, 0, GOOD, 100);
		divergence_reported(&d, replica, 110, GOOD, 100); /* nobody can be there yet */
	}
	assert_int_equal(agreed(&d, 0), 0);
}

/* What is too old to be kept is too old to be agreed on. */
TEST(test_old_places_go)
{
	uint64_t far = 20 + EVERY * DIVERGENCE_KEPT;
	struct divergence d = new ();

	divergence_computed(&d, 20, GOOD);
	divergence_reported(&d, 1, 20, GOOD, far);
	assert_true(divergence_differ(&d, 20, BAD));
	divergence_computed(&d, far, GOOD);
	divergence_reported(&d, 2, 20, GOOD, far);
	divergence_reported(&d, 3, 20, GOOD, far);
	assert_int_equal(agreed(&d, 0), 0);
	assert_false(divergence_differ(&d, 20, BAD));
	assert_true(divergence_differ(&d, far, BAD));
}

TEST(test_comparing)
{
	struct divergence d = new ();

	divergence_reported(&d, 2, 20, GOOD, 100); /* others' are not ours */
	assert_false(divergence_differ(&d, 20, GOOD));
	assert_false(divergence_differ(&d, 20, BAD));
	divergence_computed(&d, 20, GOOD);
	assert_false(divergence_differ(&d, 20, GOOD));
	assert_true(divergence_differ(&d, 20, BAD));
	assert_false(divergence_differ(&d, 30, BAD));
}

/* Two of three are heard, and differ: no majority for anything. It may be that the third has not
 * told yet; in the end people have to know. */
TEST(test_dispute)
{
	struct divergence d = new ();
	mono_t now = {span_s(100).ns};

	divergence_reported(&d, 1, 20, GOOD, 25);
	divergence_reported(&d, 4, 20, BAD, 25); /* has no vote */
	assert_false(divergence_disputed(&d, &members, now));
	divergence_reported(&d, 2, 20, BAD, 25);
	assert_false(divergence_disputed(&d, &members, now));
	now = mono_add(now, span_s(DIVERGENCE_PATIENCE_S - 1));
	assert_false(divergence_disputed(&d, &members, now));
	now = mono_add(now, span_s(1));
	assert_true(divergence_disputed(&d, &members, now));
	assert_int_equal(d.disputed, 20);
	assert_false(divergence_disputed(&d, &members, now)); /* once */
	divergence_reported(&d, 3, 20, GOOD, 45);
	assert_int_equal(agreed(&d, 20), GOOD);
	assert_int_equal(d.disputed, 0);
}

TEST(test_no_dispute)
{
	struct divergence d = new ();
	mono_t now = {span_s(100).ns};

	divergence_reported(&d, 1, 20, GOOD, 25);
	divergence_reported(&d, 2, 20, BAD, 25);
	assert_false(divergence_disputed(&d, &members, now));
	divergence_reported(&d, 3, 20, GOOD, 25);
	now = mono_add(now, span_s(DIVERGENCE_PATIENCE_S));
	assert_false(divergence_disputed(&d, &members, now));
	assert_int_equal(agreed(&d, 20), GOOD);
	assert_false(divergence_disputed(&d, &members, now));
}

/* The next master asks for itself, and what was proposed before may not have been chosen. */
TEST(test_another_term)
{
	struct divergence d = new ();

	divergence_computed(&d, 20, GOOD);
	divergence_reported(&d, 1, 20, GOOD, 25);
	divergence_reported(&d, 2, 20, GOOD, 25);
	assert_int_equal(agreed(&d, 20), GOOD);
	divergence_forget(&d);
	assert_true(divergence_differ(&d, 20, BAD));
	divergence_reported(&d, 1, 20, GOOD, 25);
	assert_int_equal(agreed(&d, 0), 0);
	divergence_reported(&d, 3, 20, GOOD, 25);
	assert_int_equal(agreed(&d, 20), GOOD);
}
