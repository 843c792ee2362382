/* The secure channel hears arbitrary bytes, as either end, in pieces; or an honest handshake of
 * which bytes are changed on the way. No plain text comes out of a channel that is not open, and
 * one whose peer's bytes were changed never opens, or ends. */
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include "cell/base/must.h"
#include "cell/wire/channel.h"

enum { ANSWERS, ASKS, HONEST, MODES };

enum { ROOM = 1 << 20 };

struct end {
	struct channel channel;
	struct buffer out, plain;
};

static struct noise_pair
pair_of(uint8_t seed)
{
	uint8_t secret[NOISE_KEY];

	memset(secret, seed, sizeof secret);
	return noise_pair_of(secret);
}

static void
begin(struct end *e, bool initiator, const struct noise_pair *own, const struct noise_pair *peer)
{
	struct channel_config config = {.initiator = initiator,
	                                .role = CHANNEL_CLIENT,
	                                .own = own,
	                                .remote = initiator ? peer->public : NULL};

	memset(config.ephemeral_secret, own->secret[0] + 1, NOISE_KEY);
	e->out = e->plain = BUFFER(ROOM);
	channel_start(&e->channel, &config, &e->out);
}

static void
finish(struct end *e)
{
	channel_end(&e->channel);
	buffer_free(&e->out);
	buffer_free(&e->plain);
}

static void
receive(struct end *e, struct bytes from)
{
	const bool was_open = e->channel.state == CHANNEL_OPEN;

	if (e->channel.state == CHANNEL_FAILED)
		return;
	if (channel_receive(&e->channel, from, &e->out, &e->plain) == CHANNEL_CLAIMED)
		channel_answer(&e->channel, &e->out);
	must(was_open || e->channel.state == CHANNEL_OPEN || e->plain.len == 0);
}

/* Each piece is as long as its first byte says. */
static void
hear(struct end *e, const uint8_t *data, size_t len)
{
	while (len > 0) {
		const size_t most = len - 1, n = data[0] < most ? data[0] : most;

		receive(e, (struct bytes){data + 1, n});
		data += 1 + n;
		len -= 1 + n;
	}
}

/* Delivers all that `from` has sent; *changes of three bytes each name an offset in the stream, and
 * what is changed in the byte there. True if anything was. */
static bool
deliver(struct end *from, struct end *to, size_t *sent, const uint8_t *changes, size_t len)
{
	bool changed = false;

	for (size_t i = 0; i + 3 <= len; i += 3) {
		const size_t at = (size_t)(changes[i] << 8 | changes[i + 1]);

		if (at < *sent || at >= *sent + from->out.len || changes[i + 2] == 0)
			continue;
		from->out.data[at - *sent] ^= changes[i + 2];
		changed = true;
	}
	*sent += from->out.len;
	receive(to, buffer_view(&from->out));
	buffer_reset(&from->out);
	return changed;
}

static void
shake_hands(const uint8_t *changes, size_t len)
{
	const struct noise_pair pairs[2] = {pair_of(1), pair_of(3)};
	struct end a, b;
	size_t sent[2] = {0};
	bool changed = false;

	begin(&a, true, &pairs[0], &pairs[1]);
	begin(&b, false, &pairs[1], NULL);
	for (int i = 0; i < 4; i++) {
		changed |= deliver(&a, &b, &sent[0], changes, len);
		changed |= deliver(&b, &a, &sent[1], changes, len);
	}
	if (a.channel.state == CHANNEL_OPEN) {
		channel_send(&a.channel, (struct bytes){(const uint8_t *)"x", 1}, &a.out);
		changed |= deliver(&a, &b, &sent[0], changes, len);
	}
	must(changed || b.plain.len == 1);
	must(b.plain.len == 0 || memcmp(channel_peer(&b.channel), pairs[0].public, NOISE_KEY) == 0);
	finish(&a);
	finish(&b);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct noise_pair own = pair_of(1), peer = pair_of(3);
	struct end e;

	if (len == 0)
		return 0;
	if (data[0] % MODES == HONEST) {
		shake_hands(data + 1, len - 1);
		return 0;
	}
	begin(&e, data[0] % MODES == ASKS, &own, &peer);
	hear(&e, data + 1, len - 1);
	finish(&e);
	return 0;
}
