/* The handshake and the transport against a public vector of this pattern (source:
 * github.com/haskell-cryptography/cacophony, vectors/cacophony.txt), and everything that has to be
 * refused. */
#include <stdlib.h>
#include <string.h>

#include <sodium.h>

#include "cell/wire/noise.h"
#include "tests/unit/unit.h"

static const char prologue[] = "4a6f686e2047616c74";
static const char init_static[] =
    "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1";
static const char init_ephemeral[] =
    "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a";
static const char resp_static[] =
    "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893";
static const char resp_ephemeral[] =
    "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b";
static const char handshake_hash[] =
    "0b0f68fb0c27e03ce9b97565995ed4838cc0581b762ef72b062f6a546419fad7";

/* Messages go forth and back, the initiator first. */
static const struct {
	const char *payload, *sealed;
} messages[] = {
    {"4c756477696720766f6e204d69736573",
     "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944718da798efbc"
     "d91528520204f904b9bd6c7413dccdc214d951e15253e39987f18146e8cd0873654207148333"
     "479d4d16c289f0294b29960a72f48e0b7bba2e89083169825e59642148d492020664ccf7"},
    {"4d757272617920526f746862617264",
     "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088435361e70b2ed4"
     "46e6c9ec387d1d6b3b840f194e373979d241b203c4acafccf5"},
    {"462e20412e20486179656b", "050e9f3c8fac16b68dbce8f8c4bfbf6617c897f9ada4aa29aa19c8"},
    {"4361726c204d656e676572", "344233a6cabb7141d80f3da2fedc311d9646bbb0f505afe403a667"},
    {"4a65616e2d426170746973746520536179",
     "62cdeeb172ad7ade7aa7d9e069da5790f12331bfa00177787a1d0810c67dc3b2b4"},
    {"457567656e2042f6686d20766f6e2042617765726b",
     "029bead1b40992327044d409d9a1f3ad8f36c3c452775d557e18bbeb2e8dfcead32d514024"},
};

enum { MESSAGES = sizeof messages / sizeof messages[0] };

static struct bytes
from_hex(const char *hex, uint8_t *to, size_t room)
{
	size_t len;

	assert_int_equal(sodium_hex2bin(to, room, hex, strlen(hex), NULL, &len, NULL), 0);
	return (struct bytes){to, len};
}

static struct noise_pair
pair_of_hex(const char *hex)
{
	uint8_t secret[NOISE_KEY];

	assert_int_equal(from_hex(hex, secret, sizeof secret).len, NOISE_KEY);
	return noise_pair_of(secret);
}

static void
start_both(struct noise *initiator, struct noise *responder)
{
	struct noise_pair init = pair_of_hex(init_static), resp = pair_of_hex(resp_static);
	uint8_t text[64];
	struct bytes name = from_hex(prologue, text, sizeof text);

	noise_start(initiator, true, name, &init, pair_of_hex(init_ephemeral).secret, resp.public);
	noise_start(responder, false, name, &resp, pair_of_hex(resp_ephemeral).secret, NULL);
}

/* One message from a to b; the bytes on the wire are left in `wire`. */
static bool
pass(struct noise *a, struct noise *b, struct bytes payload, struct buffer *wire,
     struct buffer *plain)
{
	buffer_reset(wire);
	buffer_reset(plain);
	if (!noise_done(a))
		return noise_write(a, payload, wire) && noise_read(b, buffer_view(wire), plain);
	return noise_seal(a, payload, wire) && noise_open(b, buffer_view(wire), plain);
}

TEST(test_vector)
{
	struct noise both[2];
	struct buffer wire = BUFFER(4096), plain = BUFFER(4096);
	uint8_t expected[512], text[512];

	start_both(&both[0], &both[1]);
	for (int i = 0; i < MESSAGES; i++) {
		struct bytes payload = from_hex(messages[i].payload, text, sizeof text);

		assert_true(pass(&both[i % 2], &both[(i + 1) % 2], payload, &wire, &plain));
		assert_true(bytes_equal(buffer_view(&wire),
		                        from_hex(messages[i].sealed, expected, sizeof expected)));
		assert_true(bytes_equal(buffer_view(&plain), payload));
		if (i == 1) {
			struct bytes hash = from_hex(handshake_hash, expected, sizeof expected);

			assert_memory_equal(both[0].hash, hash.data, 32);
			assert_memory_equal(both[1].hash, hash.data, 32);
			assert_memory_equal(both[1].remote, both[0].own.public, NOISE_KEY);
		}
	}
	buffer_free(&wire);
	buffer_free(&plain);
}

/* Every changed bit and every cut of each handshake message is refused; nothing after it works. */
TEST(test_damage)
{
	for (int message = 0; message < 2; message++) {
		for (size_t at = 0;; at++) {
			struct noise both[2];
			struct buffer wire = BUFFER(4096), plain = BUFFER(4096);
			struct bytes v;
			size_t len;

			start_both(&both[0], &both[1]);
			if (message == 1)
				assert_true(pass(&both[0], &both[1], bytes_of("x"), &wire, &plain));
			buffer_reset(&wire);
			buffer_reset(&plain);
			assert_true(noise_write(&both[message], bytes_of("x"), &wire));
			len = wire.len;
			if (at < len)
				wire.data[at] ^= (uint8_t)(1 << (at % 8));
			v = buffer_view(&wire);
			if (at >= len)
				v.len = at - len;
			/* the top bit of a Curve25519 key does not count, but its hash does */
			assert_false(noise_read(&both[1 - message], v, &plain));
			assert_int_equal(plain.len, 0);
			assert_false(noise_done(&both[1 - message]));
			assert_false(noise_read(&both[1 - message], buffer_view(&wire), &plain));
			buffer_free(&wire);
			buffer_free(&plain);
			if (at >= 2 * len - 1)
				break;
		}
	}
}

TEST(test_points_of_small_order)
{
	struct noise both[2];
	struct buffer wire = BUFFER(4096), plain = BUFFER(4096);

	start_both(&both[0], &both[1]);
	assert_true(noise_write(&both[0], bytes_of(""), &wire));
	memset(wire.data, 0, NOISE_KEY); /* the ephemeral key: every shared secret would be zero */
	assert_false(noise_read(&both[1], buffer_view(&wire), &plain));
	buffer_free(&wire);
	buffer_free(&plain);
}

TEST(test_other_prologue_or_key)
{
	struct noise_pair init = pair_of_hex(init_static), resp = pair_of_hex(resp_static);
	struct buffer wire = BUFFER(4096), plain = BUFFER(4096);
	struct noise a, b;

	noise_start(&a, true, bytes_of("cell one"), &init, init.secret, resp.public);
	noise_start(&b, false, bytes_of("cell two"), &resp, resp.secret, NULL);
	assert_false(pass(&a, &b, bytes_of(""), &wire, &plain));
	noise_start(&a, true, bytes_of("cell"), &init, init.secret, init.public);
	noise_start(&b, false, bytes_of("cell"), &resp, resp.secret, NULL);
	assert_false(pass(&a, &b, bytes_of(""), &wire, &plain));
	buffer_free(&wire);
	buffer_free(&plain);
}

TEST(test_turns)
{
	struct noise both[2];
	struct buffer wire = BUFFER(4096), plain = BUFFER(4096);

	start_both(&both[0], &both[1]);
	assert_false(noise_write(&both[1], bytes_of(""), &wire)); /* the responder does not begin */
	start_both(&both[0], &both[1]);
	assert_true(noise_write(&both[0], bytes_of(""), &wire));
	assert_false(noise_write(&both[0], bytes_of(""), &wire)); /* nor the initiator twice */
	assert_false(noise_open(&both[1], buffer_view(&wire), &plain));
	buffer_free(&wire);
	buffer_free(&plain);
}

static void
shake_hands(struct noise both[2], struct buffer *wire, struct buffer *plain)
{
	start_both(&both[0], &both[1]);
	assert_true(pass(&both[0], &both[1], bytes_of(""), wire, plain));
	assert_true(pass(&both[1], &both[0], bytes_of(""), wire, plain));
}

TEST(test_replay_and_loss)
{
	struct noise both[2];
	struct buffer wire = BUFFER(4096), plain = BUFFER(4096), second = BUFFER(4096);

	shake_hands(both, &wire, &plain);
	assert_true(pass(&both[0], &both[1], bytes_of("once"), &wire, &plain));
	assert_false(noise_open(&both[1], buffer_view(&wire), &plain)); /* repeated */

	shake_hands(both, &wire, &plain);
	buffer_reset(&wire);
	assert_true(noise_seal(&both[0], bytes_of("lost"), &wire));
	assert_true(noise_seal(&both[0], bytes_of("next"), &second));
	assert_false(noise_open(&both[1], buffer_view(&second), &plain));
	assert_false(noise_open(&both[1], buffer_view(&wire), &plain)); /* too late now */
	buffer_free(&wire);
	buffer_free(&plain);
	buffer_free(&second);
}

TEST(test_rekey_by_count)
{
	struct noise both[2];
	struct buffer wire = BUFFER(4096), plain = BUFFER(4096);
	uint8_t first_key[NOISE_KEY];

	shake_hands(both, &wire, &plain);
	memcpy(first_key, both[0].sending.key, NOISE_KEY);
	for (int i = 0; i < NOISE_REKEY + 10; i++)
		assert_true(pass(&both[0], &both[1], bytes_of("x"), &wire, &plain));
	assert_memory_not_equal(first_key, both[0].sending.key, NOISE_KEY);
	assert_memory_equal(both[1].receiving.key, both[0].sending.key, NOISE_KEY);
	buffer_free(&wire);
	buffer_free(&plain);
}

int
main(void)
{
	if (sodium_init() < 0)
		return 1;
	return unit_run(NULL, NULL);
}
