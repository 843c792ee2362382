/* A thousand sessions whose KeepAlives arrive together are not answered together: neither after a
 * fail-over, when all of them return at once, nor after a pause. */
#include <stdlib.h>
#include <string.h>
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

enum {
	MANY = 1000,
	WINDOW_MS = 100,
	HOLD_MS = WORLD_LEASE_MS / 3,
	SPREAD_MS = 1000, /* a millisecond for each session */
	MEAN = MANY * WINDOW_MS / SPREAD_MS,
};

struct crowd {
	struct bare_world *w;
	struct bare_client clients[MANY];
};

/* Forgets the frames that were taken: to look for one in the inbox takes long. */
static void
forget_taken(struct bare_world *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->inbox_n; i++)
		if (w->inbox[i].taken)
			free((void *)w->inbox[i].frame.data);
		else
			w->inbox[kept++] = w->inbox[i];
	w->inbox_n = kept;
}

static struct crowd *
crowd_new(uint64_t seed)
{
	struct crowd *c = calloc(1, sizeof *c);

	assert_non_null(c);
	c->w = world_new(seed);
	for (uint32_t i = 0; i < MANY; i++) {
		c->clients[i].world = c->w;
		memcpy(c->clients[i].nonce, &i, sizeof i);
		bare_attach(&c->clients[i]);
		forget_taken(c->w);
	}
	return c;
}

static void
crowd_free(struct crowd *c)
{
	world_free(c->w);
	free(c);
}

/* Each client whose KeepAlive was answered sends the next one, if it is to. Returns how many. */
static unsigned
take_answers(struct crowd *c, bool send)
{
	unsigned n = 0;

	for (int i = 0; i < MANY; i++)
		while (bare_take(&c->clients[i], MSG_keepalive_reply) != NULL) {
			if (send)
				bare_send_keepalive(&c->clients[i]);
			n++;
		}
	forget_taken(c->w);
	return n;
}

static void
send_all(struct crowd *c)
{
	for (int i = 0; i < MANY; i++)
		bare_send_keepalive(&c->clients[i]);
}

/* All return to the new master: the first KeepAlive of each is answered at once. */
static void
return_all(struct crowd *c)
{
	for (int i = 0; i < MANY; i++) {
		bare_attach(&c->clients[i]);
		forget_taken(c->w);
	}
	send_all(c);
	assert_int_equal(take_answers(c, true), MANY);
}

struct round {
	unsigned answers, most; /* in all; in a window */
};

static struct round
play(struct crowd *c, int ms, bool send)
{
	struct round r = {0};

	for (int t = 0; t < ms; t += WINDOW_MS) {
		unsigned n;

		world_pass_ms(c->w, WINDOW_MS);
		n = take_answers(c, send);
		r.answers += n;
		r.most = n > r.most ? n : r.most;
	}
	return r;
}

TEST(test_sessions_that_return_at_once)
{
	struct crowd *c = crowd_new(1);
	struct round r;

	world_restart(c->w);
	return_all(c);
	r = play(c, HOLD_MS - SPREAD_MS - WINDOW_MS, true);
	assert_int_equal(r.answers, 0);
	r = play(c, SPREAD_MS + 2 * WINDOW_MS, true);
	assert_int_equal(r.answers, MANY);
	assert_in_range(r.most, 1, MEAN * 3 / 2);
	r = play(c, HOLD_MS, true); /* and so they stay */
	assert_in_range(r.answers, MANY * 9 / 10, MANY * 11 / 10);
	assert_in_range(r.most, 1, MEAN * 3 / 2);
	crowd_free(c);
}

/* What a pause has brought together takes some rounds to come apart. */
TEST(test_burst_comes_apart)
{
	struct crowd *c = crowd_new(2);
	struct round r;

	send_all(c);
	take_answers(c, true);
	play(c, HOLD_MS + WINDOW_MS, false);
	send_all(c);
	r = play(c, HOLD_MS + WINDOW_MS, true);
	assert_in_range(r.answers, MANY, MANY * 11 / 10);
	assert_in_range(r.most, 1, MANY / 3);
	play(c, 8 * HOLD_MS, true);
	r = play(c, HOLD_MS, true);
	assert_in_range(r.most, 1, MEAN * 3 / 2);
	crowd_free(c);
}
