/* A peer that connects without end: its handshakes have a budget, and wait; those of others do not,
 * and what waits ends like every handshake that takes too long. */
#include <signal.h>

#include "cell/net/stream.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "tests/unit/transport_pair.h"
#include "tests/unit/unit.h"

static const uint8_t ann[NOISE_KEY] = {1}, bob[NOISE_KEY] = {2};
static const mono_t begin = {1000000000};

static mono_t
later(int64_t ms)
{
	return mono_add(begin, span_ms(ms));
}

/* As many as may be made at `now`. */
static int
use_up(struct handshake_budget *b, const uint8_t *key, mono_t now, mono_t *again)
{
	int n = 0;

	while (handshake_budget_take(b, key, now, again))
		n++;
	return n;
}

TEST(test_budget)
{
	struct handshake_budget b;
	mono_t again;

	handshake_budget_init(&b);
	assert_int_equal(use_up(&b, ann, begin, &again), HANDSHAKES_AHEAD + 1);
	assert_int_equal(again.ns, later(HANDSHAKE_MS).ns);
	assert_int_equal(use_up(&b, ann, later(HANDSHAKE_MS - 1), &again), 0);
	assert_int_equal(use_up(&b, ann, again, &again), 1);
	assert_int_equal(use_up(&b, bob, begin, &again), HANDSHAKES_AHEAD + 1);
	assert_int_equal(use_up(&b, NULL, begin, &again), HANDSHAKES_AHEAD + 1);
	assert_int_equal(use_up(&b, ann, later(11 * HANDSHAKE_MS), &again), 10);
	handshake_budget_free(&b);
}

TEST(test_keys_are_forgotten)
{
	struct handshake_budget b;
	mono_t again;

	handshake_budget_init(&b);
	for (uint8_t i = 1; i < 200; i++)
		assert_true(handshake_budget_take(&b, (uint8_t[NOISE_KEY]){i}, begin, &again));
	assert_true(handshake_budget_take(&b, NULL, later(HANDSHAKE_MS), &again));
	assert_int_equal(b.n, 1);
	handshake_budget_free(&b);
}

/* What the key of the pair's client may have is used up until `ms` from now. */
static void
overdraw(int64_t ms)
{
	const uint8_t *key = p.server.knows ? p.client.pair.public : NULL;
	mono_t again;

	use_up(&p.server.transport->handshakes, key, mono_add(clock_now(), span_ms(ms)), &again);
}

/* A client with another key is let in meanwhile. */
static void
let_another_in(void)
{
	struct side other = {0};

	side_start(&other, &p.loop, 7, 3);
	transport_connect(other.transport, p.address, CHANNEL_CLIENT, p.server.pair.public);
	UNTIL(&p, other.opened_n == 1);
	transport_stop(other.transport, on_stopped, &other);
	UNTIL(&p, other.stopped);
	buffer_free(&other.got);
	buffer_free(&other.datagram);
}

PAIR_TEST(test_one_waits_and_others_do_not)
{
	overdraw(3600 * 1000);
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, !TAILQ_EMPTY(&p.server.transport->waiting));
	let_another_in();
	assert_int_equal(p.client.opened_n, 0);
	UNTIL(&p, p.client.closed_n == 1);
	UNTIL(&p, TAILQ_EMPTY(&p.server.transport->waiting));
}

PAIR_TEST(test_those_that_wait_come_later)
{
	overdraw(PATIENCE_MS / 4);
	for (int i = 0; i < 3; i++)
		connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.opened_n == 3);
}

PAIR_TEST(test_strangers_share_one)
{
	p.server.knows = false;
	overdraw(3600 * 1000);
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, !TAILQ_EMPTY(&p.server.transport->waiting));
	p.server.knows = true;
	let_another_in();
}

int
main(void)
{
	log_start("test_handshakes", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
