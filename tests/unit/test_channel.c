/* Two ends of a channel: in pieces of every size, with other versions, roles, cells and keys, and
 * with noise on the line. */
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "cell/base/rng.h"
#include "cell/wire/channel.h"
#include "cell/wire/schema.h"
#include "tests/unit/unit.h"

struct end {
	struct channel channel;
	struct buffer out, plain;
};

struct ends {
	struct end client, server;
	struct noise_pair client_pair, server_pair;
};

static struct noise_pair
pair(uint8_t seed)
{
	uint8_t secret[NOISE_KEY];

	memset(secret, seed, sizeof secret);
	return noise_pair_of(secret);
}

static void
start(struct ends *e, uint8_t client_cell, uint8_t server_cell, const struct noise_pair *expected)
{
	struct channel_config client = {.initiator = true, .role = CHANNEL_CLIENT};
	struct channel_config server = {.initiator = false};

	e->client_pair = pair(1);
	e->server_pair = pair(2);
	client.own = &e->client_pair;
	client.remote = expected ? expected->public : e->server_pair.public;
	server.own = &e->server_pair;
	memset(client.cell_id, client_cell, sizeof client.cell_id);
	memset(server.cell_id, server_cell, sizeof server.cell_id);
	memset(client.ephemeral_secret, 3, NOISE_KEY);
	memset(server.ephemeral_secret, 4, NOISE_KEY);
	e->client.out = e->server.out = e->client.plain = e->server.plain = BUFFER(1 << 22);
	channel_start(&e->client.channel, &client, &e->client.out);
	channel_start(&e->server.channel, &server, &e->server.out);
}

static void
end(struct ends *e)
{
	channel_end(&e->client.channel);
	channel_end(&e->server.channel);
	buffer_free(&e->client.out);
	buffer_free(&e->server.out);
	buffer_free(&e->client.plain);
	buffer_free(&e->server.plain);
}

/* A responder answers at once. */
static void
hear(struct end *e, struct bytes from)
{
	if (channel_receive(&e->channel, from, &e->out, &e->plain) == CHANNEL_CLAIMED)
		channel_answer(&e->channel, &e->out);
}

/* Carries what one end has sent to the other, in pieces of at most `piece` bytes. */
static void
carry(struct end *from, struct end *to, size_t piece)
{
	struct bytes sent = buffer_take(&from->out);

	for (size_t at = 0; at < sent.len; at += piece) {
		size_t len = sent.len - at < piece ? sent.len - at : piece;

		hear(to, (struct bytes){sent.data + at, len});
	}
	free((void *)sent.data);
}

static void
settle(struct ends *e, size_t piece)
{
	while (e->client.out.len || e->server.out.len) {
		carry(&e->client, &e->server, piece);
		carry(&e->server, &e->client, piece);
	}
}

TEST(test_conversation_in_pieces)
{
	static const size_t pieces[] = {1, 2, 3, 7, 95, 97, 1000, 1 << 20};
	uint8_t *big = malloc(300000);

	memset(big, 'x', 300000);
	for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
		struct ends e;

		start(&e, 9, 9, NULL);
		settle(&e, pieces[i]);
		assert_int_equal(e.client.channel.state, CHANNEL_OPEN);
		assert_int_equal(e.server.channel.state, CHANNEL_OPEN);
		assert_int_equal(e.server.channel.role, CHANNEL_CLIENT);
		assert_memory_equal(channel_peer(&e.server.channel), e.client_pair.public, 32);
		assert_memory_equal(channel_peer(&e.client.channel), e.server_pair.public, 32);
		channel_send(&e.client.channel, (struct bytes){big, 300000}, &e.client.out);
		channel_send(&e.server.channel, bytes_of("hello"), &e.server.out);
		settle(&e, pieces[i]);
		assert_int_equal(e.server.plain.len, 300000);
		assert_memory_equal(e.server.plain.data, big, 300000);
		assert_true(bytes_equal(buffer_view(&e.client.plain), bytes_of("hello")));
		end(&e);
	}
	free(big);
}

static bool
knows(const struct channel *c, const struct noise_pair *pair)
{
	return memmem(c, sizeof *c, pair->secret, NOISE_KEY) != NULL;
}

/* Connections last for months: the static keys are needed for the handshake only. */
TEST(test_no_static_key_is_kept)
{
	struct ends e;

	start(&e, 9, 9, NULL);
	assert_true(knows(&e.client.channel, &e.client_pair));
	settle(&e, 1000);
	assert_int_equal(e.server.channel.state, CHANNEL_OPEN);
	assert_false(knows(&e.client.channel, &e.client_pair));
	assert_false(knows(&e.server.channel, &e.server_pair));
	end(&e);
}

TEST(test_another_cell_or_key)
{
	struct noise_pair other = pair(7);
	struct ends e;

	start(&e, 8, 9, NULL);
	carry(&e.client, &e.server, 1000);
	assert_int_equal(e.server.channel.state, CHANNEL_FAILED);
	assert_string_equal(e.server.channel.why, CHANNEL_OTHER_CELL);
	assert_int_equal(e.server.plain.len, 0);
	assert_int_equal(e.server.out.len, CHANNEL_PREAMBLE + CELL_ID);
	assert_memory_equal(e.server.out.data + CHANNEL_PREAMBLE, (uint8_t[CELL_ID]){0}, CELL_ID);
	carry(&e.server, &e.client, 1000);
	assert_int_equal(e.client.channel.state, CHANNEL_FAILED);
	assert_string_equal(e.client.channel.why, CHANNEL_OTHER_CELL);
	end(&e);
	start(&e, 9, 9, &other);
	settle(&e, 1000);
	assert_int_equal(e.server.channel.state, CHANNEL_FAILED);
	end(&e);
}

TEST(test_another_version)
{
	struct ends e;

	start(&e, 9, 9, NULL);
	e.client.out.data[4]++;
	carry(&e.client, &e.server, 1000);
	assert_int_equal(e.server.channel.state, CHANNEL_FAILED);
	assert_non_null(strstr(e.server.channel.why, "version"));
	assert_int_equal(e.server.out.len, CHANNEL_PREAMBLE); /* it tells its own, nothing else */
	e.server.out.data[4]++;
	carry(&e.server, &e.client, 1000);
	assert_int_equal(e.client.channel.state, CHANNEL_FAILED);
	assert_non_null(strstr(e.client.channel.why, "version"));
	end(&e);
}

/* A peer with more to say than we understand is let in, and known. */
TEST(test_another_minor_version)
{
	struct ends e;

	start(&e, 9, 9, NULL);
	settle(&e, 1000);
	assert_int_equal(e.server.channel.minor, WIRE_MINOR);
	assert_int_equal(e.client.channel.minor, WIRE_MINOR);
	end(&e);
	start(&e, 9, 9, NULL);
	carry(&e.client, &e.server, 1000);
	e.server.out.data[6] = 5;
	e.server.out.data[7] = 1;
	settle(&e, 1000);
	assert_int_equal(e.client.channel.state, CHANNEL_OPEN);
	assert_int_equal(e.client.channel.minor, 0x105);
	end(&e);
}

TEST(test_another_role_than_greeted)
{
	struct ends e;

	start(&e, 9, 9, NULL);
	e.client.out.data[5] = CHANNEL_REPLICA; /* the preamble is part of the prologue */
	carry(&e.client, &e.server, 1000);
	assert_int_equal(e.server.channel.state, CHANNEL_FAILED);
	end(&e);
}

TEST(test_nothing_before_the_proof)
{
	struct ends e;
	struct bytes first;

	start(&e, 9, 9, NULL);
	first = bytes_copy(buffer_view(&e.client.out));
	carry(&e.client, &e.server, 1000);
	assert_int_equal(e.server.channel.state, CHANNEL_PROVING);
	end(&e);

	/* the same first bytes again, by somebody who only recorded them */
	start(&e, 9, 9, NULL);
	memset(e.server.channel.ephemeral_secret, 5, NOISE_KEY);
	hear(&e.server, first);
	assert_int_equal(e.server.channel.state, CHANNEL_PROVING);
	assert_int_equal(e.server.out.len, CHANNEL_PREAMBLE + CELL_ID + CHANNEL_SECOND);
	channel_receive(&e.server.channel,
	                (struct bytes){(const uint8_t *)"\x10\0xxxxxxxxxxxxxxxx", 18},
	                &e.server.out, &e.server.plain);
	assert_int_equal(e.server.channel.state, CHANNEL_FAILED);
	assert_int_equal(e.server.plain.len, 0);
	free((void *)first.data);
	end(&e);
}

/* The responder's user is told whose first message it is, and says when to answer; the initiator
 * has nothing to say meanwhile. */
TEST(test_claimed)
{
	struct ends e;

	for (int spoken = 0; spoken < 2; spoken++) {
		start(&e, 9, 9, NULL);
		for (int i = 0; i < spoken; i++)
			buffer_put_bytes(&e.client.out, bytes_of("x"));
		channel_receive(&e.server.channel, buffer_view(&e.client.out), &e.server.out,
		                &e.server.plain);
		assert_int_equal(e.server.out.len, CHANNEL_PREAMBLE + CELL_ID);
		assert_int_equal(e.server.channel.state, spoken ? CHANNEL_FAILED : CHANNEL_CLAIMED);
		assert_memory_equal(channel_peer(&e.server.channel), e.client_pair.public,
		                    NOISE_KEY);
		end(&e);
	}
}

TEST(test_random_bytes)
{
	struct rng r = rng_seeded(1);

	for (int i = 0; i < 2000; i++) {
		struct ends e;
		uint8_t noise[400];
		size_t len = rng_below(&r, sizeof noise), at = rng_below(&r, 200);

		start(&e, 9, 9, NULL);
		if (at > e.client.out.len)
			at = e.client.out.len;
		for (size_t k = 0; k < len; k++)
			noise[k] = (uint8_t)rng_next(&r);
		if (rng_chance(&r, 500)) /* a good beginning */
			channel_receive(&e.server.channel, (struct bytes){e.client.out.data, at},
			                &e.server.out, &e.server.plain);
		channel_receive(&e.server.channel, (struct bytes){noise, len}, &e.server.out,
		                &e.server.plain);
		channel_receive(&e.client.channel, (struct bytes){noise, len}, &e.client.out,
		                &e.client.plain);
		assert_int_not_equal(e.server.channel.state, CHANNEL_OPEN);
		assert_int_not_equal(e.client.channel.state, CHANNEL_OPEN);
		assert_int_equal(e.server.plain.len + e.client.plain.len, 0);
		end(&e);
	}
}

int
main(void)
{
	if (sodium_init() < 0)
		return 1;
	return unit_run(NULL, NULL);
}
