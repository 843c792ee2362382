#include "cell/wire/channel.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/wire/schema.h"

static_assert(CHANNEL_FIRST == 2 * NOISE_KEY + 2 * NOISE_TAG, "e, s and no payload");
static_assert(CHANNEL_SECOND == NOISE_KEY + NOISE_TAG, "e and no payload");

static const char another_key[] = "the handshake failed: another key";

static const uint8_t magic[4] = {'l', 's', 'f', 's'};

static void
put_preamble(uint8_t preamble[CHANNEL_PREAMBLE], enum channel_role role)
{
	memset(preamble, 0, CHANNEL_PREAMBLE);
	memcpy(preamble, magic, sizeof magic);
	preamble[4] = CHANNEL_VERSION;
	preamble[5] = (uint8_t)role;
	preamble[6] = WIRE_MINOR & 0xff;
	preamble[7] = WIRE_MINOR >> 8;
}

static void
start_noise(struct channel *c, const uint8_t *remote)
{
	uint8_t prologue[CHANNEL_PREAMBLE + CELL_ID];

	memcpy(prologue, c->preamble, CHANNEL_PREAMBLE);
	memcpy(prologue + CHANNEL_PREAMBLE, c->cell_id, CELL_ID);
	noise_start(&c->noise, c->initiator, (struct bytes){prologue, sizeof prologue}, &c->own,
	            c->ephemeral_secret, remote);
	sodium_memzero(c->ephemeral_secret, sizeof c->ephemeral_secret);
	sodium_memzero(&c->own, sizeof c->own);
}

static void
fail(struct channel *c, const char *why)
{
	c->state = CHANNEL_FAILED;
	c->why = why;
}

void
channel_start(struct channel *c, const struct channel_config *config, struct buffer *out)
{
	must((config->remote != NULL) == config->initiator);
	memset(c, 0, sizeof *c);
	c->state = CHANNEL_GREETING;
	c->initiator = config->initiator;
	c->role = config->role;
	c->own = *config->own;
	memcpy(c->cell_id, config->cell_id, CELL_ID);
	memcpy(c->ephemeral_secret, config->ephemeral_secret, NOISE_KEY);
	c->in = BUFFER(2 + 65535);
	if (!c->initiator)
		return;
	put_preamble(c->preamble, c->role);
	start_noise(c, config->remote);
	buffer_put(out, c->preamble, CHANNEL_PREAMBLE);
	buffer_put(out, c->cell_id, CELL_ID);
	if (!noise_write(&c->noise, (struct bytes){0}, out))
		fail(c, "the replica's key is not usable");
}

/* Each function handles one whole message of the state that it is named for. */

static void
greeted(struct channel *c, struct bytes preamble, struct buffer *out)
{
	uint8_t own[CHANNEL_PREAMBLE];

	if (memcmp(preamble.data, magic, sizeof magic) != 0) {
		fail(c, "the peer does not speak this protocol");
		return;
	}
	if (!c->initiator) {
		put_preamble(own, CHANNEL_REPLICA);
		buffer_put(out, own, sizeof own);
	}
	if (preamble.data[4] != CHANNEL_VERSION) {
		fail(c, "the peer speaks another version of the protocol");
		return;
	}
	c->minor = (uint16_t)(preamble.data[6] | preamble.data[7] << 8);
	c->state = CHANNEL_NAMING;
	if (c->initiator)
		return;
	c->role = preamble.data[5];
	memcpy(c->preamble, preamble.data, CHANNEL_PREAMBLE);
	if (c->role < CHANNEL_CLIENT || c->role > CHANNEL_HOST)
		fail(c, "the peer comes in an unknown role");
}

static void
named(struct channel *c, struct bytes id, struct buffer *out)
{
	static const uint8_t none[CELL_ID];
	const bool same = memcmp(id.data, c->cell_id, CELL_ID) == 0;

	if (!c->initiator)
		buffer_put(out, same ? c->cell_id : none, CELL_ID);
	if (!same) {
		fail(c, CHANNEL_OTHER_CELL);
		return;
	}
	if (!c->initiator)
		start_noise(c, NULL);
	c->state = CHANNEL_SHAKING;
}

static void
shaken(struct channel *c, struct bytes message, struct buffer *out)
{
	struct buffer nothing = BUFFER(0);
	bool good = noise_read(&c->noise, message, &nothing);

	buffer_free(&nothing);
	if (!good) {
		fail(c, another_key);
		return;
	}
	c->state = c->initiator ? CHANNEL_OPEN : CHANNEL_CLAIMED;
	if (c->initiator) {
		buffer_put_u16(out, NOISE_TAG);
		noise_seal(&c->noise, (struct bytes){0}, out);
	}
}

/* The length of the next whole message; 0 while `in` has too few bytes to know it. */
static size_t
message_length(const struct channel *c)
{
	switch (c->state) {
	case CHANNEL_GREETING:
		return CHANNEL_PREAMBLE;
	case CHANNEL_NAMING:
		return CELL_ID;
	case CHANNEL_SHAKING:
		return c->initiator ? CHANNEL_SECOND : CHANNEL_FIRST;
	case CHANNEL_CLAIMED:
		return 1; /* there is none: the initiator waits for the answer */
	default:
		return c->in.len < 2 ? 0 : 2u + (size_t)(c->in.data[0] | c->in.data[1] << 8);
	}
}

/* Moves bytes into `in` until it holds one whole message; false when more are needed. */
static bool
gather(struct channel *c, struct cursor *from)
{
	for (;;) {
		size_t length = message_length(c);
		size_t want = (length ? length : 2) - c->in.len;

		if (want == 0)
			return true;
		if (want > cursor_left(from))
			want = cursor_left(from);
		if (want == 0)
			return false;
		buffer_put_bytes(&c->in, cursor_bytes(from, want));
	}
}

enum channel_state
channel_receive(struct channel *c, struct bytes from, struct buffer *out, struct buffer *plain)
{
	struct cursor at = cursor_of(from);

	while (c->state != CHANNEL_FAILED && gather(c, &at)) {
		struct bytes message = buffer_view(&c->in);

		if (c->state == CHANNEL_GREETING) {
			greeted(c, message, out);
		} else if (c->state == CHANNEL_NAMING) {
			named(c, message, out);
		} else if (c->state == CHANNEL_SHAKING) {
			shaken(c, message, out);
		} else if (c->state == CHANNEL_CLAIMED) {
			fail(c, "the peer did not wait for an answer");
		} else if (noise_open(&c->noise, (struct bytes){message.data + 2, message.len - 2},
		                      plain)) {
			c->state = CHANNEL_OPEN;
		} else {
			fail(c, "a record was forged, repeated or lost");
		}
		buffer_reset(&c->in);
	}
	if (c->in.len == 0)
		buffer_free(&c->in); /* most connections are idle most of the time */
	if (plain->failed)
		fail(c, "the peer sent more than is taken");
	return c->state;
}

enum channel_state
channel_answer(struct channel *c, struct buffer *out)
{
	must(c->state == CHANNEL_CLAIMED);
	if (noise_write(&c->noise, (struct bytes){0}, out))
		c->state = CHANNEL_PROVING;
	else
		fail(c, another_key);
	return c->state;
}

void
channel_send(struct channel *c, struct bytes plain, struct buffer *out)
{
	must(c->state == CHANNEL_OPEN);
	while (plain.len > 0) {
		size_t len = plain.len < NOISE_PLAIN_MAX ? plain.len : NOISE_PLAIN_MAX;

		buffer_put_u16(out, (uint16_t)(len + NOISE_TAG));
		noise_seal(&c->noise, (struct bytes){plain.data, len}, out);
		plain.data += len;
		plain.len -= len;
	}
}

const uint8_t *
channel_peer(const struct channel *c)
{
	return c->noise.remote;
}

void
channel_end(struct channel *c)
{
	noise_end(&c->noise);
	sodium_memzero(&c->own, sizeof c->own);
	sodium_memzero(c->ephemeral_secret, sizeof c->ephemeral_secret);
	buffer_free(&c->in);
	fail(c, "closed");
}
