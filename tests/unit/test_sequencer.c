/* Sequencers: signed, split from the right, verified; and whatever is not one is refused. */
#include <sodium.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/master/sequencer.h"
#include "tests/unit/unit.h"

static uint8_t public_key[32], secret[64];

static int
set_up(void **state)
{
	uint8_t seed[32] = {1, 2, 3};

	(void)state;
	assert_true(sodium_init() >= 0);
	return crypto_sign_seed_keypair(public_key, secret, seed);
}

static struct buffer
signed_text(const char *body)
{
	struct buffer text = BUFFER(LIMIT_SEQUENCER);

	sequencer_sign(bytes_of(body), secret, &text);
	assert_false(text.failed);
	return text;
}

TEST(test_round_trip)
{
	struct buffer text = signed_text("/ls/dc1/a/b:7:exclusive:42:18446744073709551615");
	struct sequencer s;

	assert_true(sequencer_parse(buffer_view(&text), &s));
	assert_true(bytes_equal(s.path, bytes_of("/ls/dc1/a/b")));
	assert_int_equal(s.lock_generation, 7);
	assert_int_equal(s.mode, LOCK_EXCLUSIVE);
	assert_int_equal(s.instance, 42);
	assert_true(s.fence == UINT64_MAX);
	assert_true(sequencer_verify(&s, public_key));
	buffer_free(&text);
}

TEST(test_path_with_colons)
{
	struct buffer text = signed_text("/ls/dc1/a:1:shared:2:3:x:7:shared:42:9");
	struct sequencer s;

	assert_true(sequencer_parse(buffer_view(&text), &s));
	assert_true(bytes_equal(s.path, bytes_of("/ls/dc1/a:1:shared:2:3:x")));
	assert_int_equal(s.mode, LOCK_SHARED);
	assert_int_equal(s.fence, 9);
	assert_true(sequencer_verify(&s, public_key));
	buffer_free(&text);
}

/* Any single changed byte makes it no sequencer, or not one of this cell. */
TEST(test_every_byte_counts)
{
	struct buffer text = signed_text("/ls/dc1/a:7:exclusive:42:9");
	struct sequencer s;

	for (size_t i = 0; i < text.len; i++) {
		text.data[i] ^= 1;
		if (sequencer_parse(buffer_view(&text), &s))
			assert_false(sequencer_verify(&s, public_key));
		text.data[i] ^= 1;
	}
	assert_true(sequencer_parse(buffer_view(&text), &s) && sequencer_verify(&s, public_key));
	buffer_free(&text);
}

TEST(test_other_key)
{
	struct buffer text = signed_text("/ls/dc1/a:7:exclusive:42:9");
	uint8_t other[32], other_secret[64], seed[32] = {9};
	struct sequencer s;

	crypto_sign_seed_keypair(other, other_secret, seed);
	assert_true(sequencer_parse(buffer_view(&text), &s));
	assert_false(sequencer_verify(&s, other));
	buffer_free(&text);
}

TEST(test_malformed)
{
	static const char *const bodies[] = {
	    "",
	    "/ls/dc1/a",
	    "/ls/dc1/a:7:exclusive:42:",
	    "/ls/dc1/a:7:exclusive:42:-1",
	    "/ls/dc1/a:7:exclusive:42:09",
	    "/ls/dc1/a:7:exclusive:42:18446744073709551616",
	    "/ls/dc1/a:7:exclusive:x:9",
	    "/ls/dc1/a:7:writer:42:9",
	    "/ls/dc1/a::shared:42:9",
	    "7:exclusive:42:9",
	    "/home/a:7:exclusive:42:9",
	    "/ls/:7:exclusive:42:9",
	};
	struct sequencer s;

	for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
		struct buffer text = signed_text(bodies[i]);

		assert_false(sequencer_parse(buffer_view(&text), &s));
		buffer_free(&text);
	}
}

TEST(test_truncated)
{
	struct buffer text = signed_text("/ls/dc1/a:7:exclusive:42:9");
	struct sequencer s;

	for (size_t len = 0; len < text.len; len++)
		assert_false(sequencer_parse((struct bytes){text.data, len}, &s));
	buffer_put_u8(&text, 'A');
	assert_false(sequencer_parse(buffer_view(&text), &s));
	buffer_free(&text);
}

int
main(void)
{
	return unit_run(set_up, NULL);
}
