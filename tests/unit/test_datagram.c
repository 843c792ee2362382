/* Datagrams beside a channel: only the peer's are opened, each once, in any order. */
#include <string.h>

#include "cell/wire/codec.h"
#include "cell/wire/datagram.h"
#include "tests/unit/unit.h"

struct pair {
	struct datagrams client, server;
	uint8_t sent[DATAGRAM_SIZE];
	uint8_t plain[DATAGRAM_PLAIN];
	struct bytes frame;
};

static struct noise_pair
pair_of(uint8_t seed)
{
	uint8_t secret[NOISE_KEY];

	memset(secret, seed, sizeof secret);
	return noise_pair_of(secret);
}

static struct pair
pair_new(uint8_t seed)
{
	const struct noise_pair initiator = pair_of(1), responder = pair_of(2);
	struct buffer wire = BUFFER(4096), nothing = BUFFER(64);
	struct noise both[2];

	noise_start(&both[0], true, bytes_of("x"), &initiator, pair_of(seed).secret,
	            responder.public);
	noise_start(&both[1], false, bytes_of("x"), &responder, pair_of(4).secret, NULL);
	for (int i = 0; i < 2; i++) {
		buffer_reset(&wire);
		assert_true(noise_write(&both[i], (struct bytes){0}, &wire));
		assert_true(noise_read(&both[!i], buffer_view(&wire), &nothing));
	}
	buffer_free(&wire);
	buffer_free(&nothing);
	return (struct pair){.client = datagrams_of(&both[0]), .server = datagrams_of(&both[1])};
}

/* A KeepAlive with this number. */
static struct buffer
keepalive(uint64_t number)
{
	const struct message m = {.code = MSG_keepalive, .keepalive.sequence = number};
	struct buffer frame = BUFFER(DATAGRAM_PLAIN);

	wire_put_frame(&frame, &m);
	assert_false(frame.failed);
	return frame;
}

static struct bytes
seal(struct pair *p, uint64_t number)
{
	struct buffer frame = keepalive(number);

	datagram_seal(&p->client, buffer_view(&frame), p->sent);
	buffer_free(&frame);
	return (struct bytes){p->sent, sizeof p->sent};
}

static bool
is_opened(struct pair *p, struct bytes datagram)
{
	return datagram_open(&p->server, datagram, p->plain, &p->frame);
}

static uint64_t
number_in(struct pair *p)
{
	struct message m;

	assert_int_equal(wire_get_frame(p->frame, &m), RC_OK);
	assert_int_equal(m.code, MSG_keepalive);
	return m.keepalive.sequence;
}

TEST(test_there_and_back)
{
	struct pair p = pair_new(3);
	const struct message reply = {.code = MSG_keepalive_reply, .keepalive_reply.lease_ms = 12};
	struct buffer frame = BUFFER(DATAGRAM_PLAIN);
	struct message m;

	assert_true(is_opened(&p, seal(&p, 5)));
	assert_int_equal(number_in(&p), 5);
	wire_put_frame(&frame, &reply);
	assert_false(frame.failed); /* the answer fits as well */
	datagram_seal(&p.server, buffer_view(&frame), p.sent);
	assert_true(
	    datagram_open(&p.client, (struct bytes){p.sent, sizeof p.sent}, p.plain, &p.frame));
	assert_int_equal(wire_get_frame(p.frame, &m), RC_OK);
	assert_int_equal(m.keepalive_reply.lease_ms, 12);
	buffer_free(&frame);
}

TEST(test_each_once_in_any_order)
{
	struct pair p = pair_new(3);
	uint8_t all[3 * REPLAY_WINDOW][DATAGRAM_SIZE];
	enum { N = sizeof all / sizeof *all };

	for (uint64_t i = 0; i < N; i++)
		memcpy(all[i], seal(&p, i).data, DATAGRAM_SIZE);
	for (size_t i = 1; i < N; i += 2) /* each pair comes the other way round */
		for (size_t k = i + 1; k-- > i - 1;) {
			assert_true(is_opened(&p, (struct bytes){all[k], DATAGRAM_SIZE}));
			assert_int_equal(number_in(&p), k);
		}
	for (size_t i = 0; i < N; i++)
		assert_false(is_opened(&p, (struct bytes){all[i], DATAGRAM_SIZE}));
}

TEST(test_too_late)
{
	struct pair p = pair_new(3);
	uint8_t first[DATAGRAM_SIZE], second[DATAGRAM_SIZE];

	memcpy(first, seal(&p, 0).data, sizeof first);
	memcpy(second, seal(&p, 1).data, sizeof second);
	for (uint64_t i = 2; i <= REPLAY_WINDOW; i++)
		assert_true(is_opened(&p, seal(&p, i)));
	assert_false(is_opened(&p, (struct bytes){first, sizeof first})); /* 64 behind */
	assert_true(is_opened(&p, (struct bytes){second, sizeof second}));
}

TEST(test_every_changed_byte_is_refused)
{
	struct pair p = pair_new(3);
	struct bytes good = seal(&p, 0);

	for (size_t i = 0; i < DATAGRAM_SIZE; i++) {
		p.sent[i] ^= 0x10;
		assert_false(is_opened(&p, good));
		p.sent[i] ^= 0x10;
	}
	for (size_t len = 0; len < DATAGRAM_SIZE; len++)
		assert_false(is_opened(&p, (struct bytes){p.sent, len}));
	assert_true(is_opened(&p, good)); /* none of these counts as received */
}

TEST(test_others_are_refused)
{
	struct pair p = pair_new(3), other = pair_new(5);
	struct pair none = {0};
	const struct bytes sent = seal(&p, 0);

	assert_true(p.client.keys.id == p.server.keys.id);
	assert_true(p.client.keys.id != other.server.keys.id);
	assert_memory_not_equal(p.client.keys.sending, p.client.keys.receiving, NOISE_KEY);
	assert_false(is_opened(&other, sent));
	assert_false(is_opened(&none, sent));
	/* sent back to its sender */
	assert_false(datagram_open(&p.client, sent, p.plain, &p.frame));
	assert_true(is_opened(&p, sent));
}

/* The window alone: numbers up to the last one, and jumps of any length. */
TEST(test_window)
{
	struct replay_window w = {0};

	replay_window_take(&w, 0);
	assert_false(replay_window_is_fresh(&w, 0));
	replay_window_take(&w, 63);
	assert_false(replay_window_is_fresh(&w, 0));
	assert_true(replay_window_is_fresh(&w, 1));
	replay_window_take(&w, 64); /* 0 falls out, and stays refused */
	assert_false(replay_window_is_fresh(&w, 0));
	assert_true(replay_window_is_fresh(&w, 1));
	replay_window_take(&w, 1ull << 63);
	assert_false(replay_window_is_fresh(&w, 64));
	assert_true(replay_window_is_fresh(&w, (1ull << 63) - 63));
	assert_false(replay_window_is_fresh(&w, (1ull << 63) - 64));
	replay_window_take(&w, UINT64_MAX - 1);
	assert_false(replay_window_is_fresh(&w, UINT64_MAX));
	assert_false(replay_window_is_fresh(&w, UINT64_MAX - 1));
}
