/* How often a replica asks for the cell's signing key when it is given another one, or none; and
 * what it takes for a key. */
#include <sodium.h>
#include <string.h>

#include "cell/server/gateway.h"
#include "cell/server/joining.h"
#include "cell/wire/codec.h"
#include "tests/unit/still_clock.h"
#include "tests/unit/unit.h"

enum { LONG_S = 600, LONGEST_MS = 6250 };

static uint64_t conns, asked_n;
static mono_t asked_at, longest_from;
static span_t longest;

static uint64_t
io_connect(void *user, const char *address, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	(void)user;
	(void)address;
	(void)role;
	(void)key;
	return ++conns;
}

static void
io_send(void *user, uint64_t conn, struct bytes frames)
{
	(void)user;
	(void)conn;
	(void)frames;
	if (asked_n++ > 0 && mono_since(now, asked_at).ns > longest.ns) {
		longest = mono_since(now, asked_at);
		longest_from = asked_at;
	}
	asked_at = now;
}

static const struct server_io io = {.now = io_now, .connect = io_connect, .send = io_send};

static int kept_n;

static void
keep(void *user, struct bytes key)
{
	(void)user;
	assert_int_equal(key.len, SIGN_SECRET);
	kept_n++;
}

static void
expelled(void *user)
{
	(void)user;
	fail_msg("no member has said so");
}

/* It goes on for as long as it runs, and every few seconds only. */
TEST(test_pauses_grow)
{
	struct identity identity = {.replica = 2, .cell_file = {.replicas_n = 2}};
	struct joining *j;

	identity.cell_file.replicas[0] =
	    (struct cell_file_replica){.id = 1, .role = MEMBER_VOTER, .public_key = "one"};
	identity.cell_file.replicas[1] =
	    (struct cell_file_replica){.id = 2, .role = MEMBER_LEARNER, .public_key = "two"};
	j = joining_new(&io, &(struct joining_config){&identity, keep, expelled, NULL});
	for (uint64_t conn = 1; conn <= conns; conn++)
		joining_opened(j, conn, conn == 1 ? CHANNEL_REPLICA : CHANNEL_BULK,
		               identity.cell_file.replicas[0].public_key);
	while (mono_before(now, (mono_t){span_s(LONG_S).ns})) {
		joining_timeout(j);
		assert_true(mono_before(now, joining_deadline(j)));
		now = joining_deadline(j);
	}
	assert_in_range(asked_n, LONG_S * 1000 / LONGEST_MS, LONG_S * 1000 / 5000 + 6);
	assert_in_range(span_to_ms(longest), 5001, LONGEST_MS);
	assert_true(longest_from.ns > 0);
	assert_int_equal(kept_n, 0);
	joining_free(j);
}

/* A key that is cut off is none, even where its last byte stands behind the frame. */
TEST(test_keys_that_are_cut_off)
{
	static const uint8_t seed[crypto_sign_SEEDBYTES] = "a cell";
	struct identity identity = {.replica = 2, .cell_file = {.replicas_n = 1}};
	uint8_t secret[SIGN_SECRET], cut[2 * SIGN_SECRET];
	struct buffer frame = BUFFER(sizeof cut - 1);
	struct joining *j;

	crypto_sign_seed_keypair(identity.cell_file.signing_public, secret, seed);
	identity.cell_file.replicas[0] =
	    (struct cell_file_replica){.id = 1, .role = MEMBER_VOTER, .public_key = "one"};
	conns = 0;
	j = joining_new(&io, &(struct joining_config){&identity, keep, expelled, NULL});
	joining_opened(j, 1, CHANNEL_REPLICA, identity.cell_file.replicas[0].public_key);
	wire_put_frame(&frame,
	               &(struct message){MSG_secret, .secret = {{secret, SIGN_SECRET - 1}}});
	memcpy(cut, frame.data, frame.len);
	cut[frame.len] = secret[SIGN_SECRET - 1];
	joining_frame(j, 1, (struct bytes){cut, frame.len});
	assert_int_equal(kept_n, 0);
	buffer_reset(&frame);
	wire_put_frame(&frame, &(struct message){MSG_secret, .secret = {{secret, SIGN_SECRET}}});
	joining_frame(j, 1, buffer_view(&frame));
	assert_int_equal(kept_n, 1);
	buffer_free(&frame);
	joining_free(j);
}
