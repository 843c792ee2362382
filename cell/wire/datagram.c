#include "cell/wire/datagram.h"

#include <sodium.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/wire/codec.h"

enum { HEAD = DATAGRAM_ID + 8 };

/* ---- the window against replays ---- */

bool
replay_window_is_fresh(const struct replay_window *w, uint64_t number)
{
	if (number >= w->next)
		return number < UINT64_MAX;
	return w->next - number <= REPLAY_WINDOW && !(w->seen >> (w->next - 1 - number) & 1);
}

void
replay_window_take(struct replay_window *w, uint64_t number)
{
	must(replay_window_is_fresh(w, number));
	if (number >= w->next) {
		const uint64_t by = number + 1 - w->next;

		w->seen = by < REPLAY_WINDOW ? w->seen << by : 0;
		w->next = number + 1;
	}
	w->seen |= 1ull << (w->next - 1 - number);
}

/* ---- datagrams ---- */

struct datagrams
datagrams_of(const struct noise *n)
{
	must(noise_done(n));
	return (struct datagrams){.keys = n->datagrams};
}

static void
put_u64(uint8_t *to, uint64_t value)
{
	for (int i = 0; i < 8; i++)
		to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t
get_u64(const uint8_t *from)
{
	struct cursor c = cursor_of((struct bytes){from, 8});

	return cursor_u64(&c);
}

static void
nonce_of(const uint8_t *datagram, uint8_t nonce[12])
{
	memset(nonce, 0, 4);
	memcpy(nonce + 4, datagram + DATAGRAM_ID, 8);
}

bool
datagram_id(struct bytes datagram, uint64_t *id)
{
	if (datagram.len != DATAGRAM_SIZE)
		return false;
	*id = get_u64(datagram.data);
	return true;
}

void
datagram_seal(struct datagrams *d, struct bytes frame, uint8_t to[DATAGRAM_SIZE])
{
	uint8_t nonce[12], plain[DATAGRAM_PLAIN] = {0};

	must(d->keys.id != 0 && d->sealed < UINT64_MAX && frame.len <= sizeof plain);
	memcpy(plain, frame.data, frame.len);
	put_u64(to, d->keys.id);
	put_u64(to + DATAGRAM_ID, d->sealed++);
	nonce_of(to, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt(to + HEAD, NULL, plain, sizeof plain, to, HEAD,
	                                          NULL, nonce, d->keys.sending);
}

/* The number counts as taken only once the tag has proved it. */
bool
datagram_open(struct datagrams *d, struct bytes datagram, uint8_t plain[DATAGRAM_PLAIN],
              struct bytes *frame)
{
	uint64_t id, number;
	uint8_t nonce[12];
	long len;

	if (d->keys.id == 0 || !datagram_id(datagram, &id) || id != d->keys.id)
		return false;
	number = get_u64(datagram.data + DATAGRAM_ID);
	nonce_of(datagram.data, nonce);
	if (!replay_window_is_fresh(&d->window, number) ||
	    crypto_aead_chacha20poly1305_ietf_decrypt(plain, NULL, NULL, datagram.data + HEAD,
	                                              datagram.len - HEAD, datagram.data, HEAD,
	                                              nonce, d->keys.receiving) != 0)
		return false;
	replay_window_take(&d->window, number);
	len = wire_frame_length((struct bytes){plain, DATAGRAM_PLAIN});
	*frame = (struct bytes){plain, len > 0 ? (size_t)len : 0};
	return len > 0;
}
