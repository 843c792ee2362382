#include "cell/wire/noise.h"

#include <assert.h>
#include <sodium.h>
#include <string.h>

#include "cell/base/must.h"

static const char protocol_name[] = "Noise_IK_25519_ChaChaPoly_SHA256";

/* ---- the symmetric state (section 5.2) ---- */

static void
mix_hash(struct noise *n, const uint8_t *data, size_t len)
{
	crypto_hash_sha256_state s;

	crypto_hash_sha256_init(&s);
	crypto_hash_sha256_update(&s, n->hash, sizeof n->hash);
	crypto_hash_sha256_update(&s, data, len);
	crypto_hash_sha256_final(&s, n->hash);
}

static void
hmac(const uint8_t key[32], const uint8_t *data, size_t len, uint8_t last, uint8_t out[32])
{
	crypto_auth_hmacsha256_state s;

	crypto_auth_hmacsha256_init(&s, key, 32);
	crypto_auth_hmacsha256_update(&s, data, len);
	if (last)
		crypto_auth_hmacsha256_update(&s, &last, 1);
	crypto_auth_hmacsha256_final(&s, out);
}

/* HKDF with two outputs (section 4.3). */
static void
derive(const uint8_t chaining[32], const uint8_t *material, size_t len, uint8_t first[32],
       uint8_t second[32])
{
	uint8_t secret[32], chained[33];

	hmac(chaining, material, len, 0, secret);
	hmac(secret, NULL, 0, 1, chained);
	chained[32] = 2;
	hmac(secret, chained, sizeof chained, 0, second);
	memcpy(first, chained, 32);
	sodium_memzero(secret, sizeof secret);
	sodium_memzero(chained, sizeof chained);
}

static void
set_key(struct noise_cipher *c, const uint8_t key[NOISE_KEY])
{
	memcpy(c->key, key, NOISE_KEY);
	c->keyed = true;
	c->count = 0;
}

/* MixKey with a Diffie-Hellman result. libsodium refuses points of small order, whose result would
 * be the same for every key. */
static bool
mix_shared(struct noise *n, const uint8_t secret[NOISE_KEY], const uint8_t public[NOISE_KEY])
{
	uint8_t shared[32], key[32];

	if (crypto_scalarmult_curve25519(shared, secret, public) != 0)
		return false;
	derive(n->chaining, shared, sizeof shared, n->chaining, key);
	set_key(&n->handshake, key);
	sodium_memzero(shared, sizeof shared);
	sodium_memzero(key, sizeof key);
	return true;
}

/* ---- the cipher state (section 5.1) ---- */

static void
nonce_of(uint64_t count, uint8_t nonce[12])
{
	memset(nonce, 0, 4);
	for (int i = 0; i < 8; i++)
		nonce[4 + i] = (uint8_t)(count >> (8 * i));
}

static void
encrypt(struct noise_cipher *c, struct bytes extra, struct bytes plain, struct buffer *out)
{
	uint8_t nonce[12];
	size_t at = out->len;
	static const uint8_t tag[NOISE_TAG];

	must(c->keyed);
	must(c->count < UINT64_MAX); /* section 5.1: the last nonce is reserved */
	nonce_of(c->count++, nonce);
	buffer_put_bytes(out, plain);
	buffer_put(out, tag, sizeof tag);
	if (out->failed)
		return;
	crypto_aead_chacha20poly1305_ietf_encrypt(out->data + at, NULL, out->data + at, plain.len,
	                                          extra.data, extra.len, NULL, nonce, c->key);
}

static bool
decrypt(struct noise_cipher *c, struct bytes extra, struct bytes sealed, struct buffer *plain)
{
	uint8_t nonce[12];
	size_t at = plain->len;

	must(c->keyed);
	if (sealed.len < NOISE_TAG || c->count == UINT64_MAX)
		return false;
	nonce_of(c->count, nonce);
	buffer_put(plain, sealed.data, sealed.len - NOISE_TAG); /* room for the plain text */
	if (plain->failed)
		return false;
	if (crypto_aead_chacha20poly1305_ietf_decrypt(plain->data + at, NULL, NULL, sealed.data,
	                                              sealed.len, extra.data, extra.len, nonce,
	                                              c->key) != 0) {
		plain->len = at;
		return false;
	}
	c->count++;
	return true;
}

/* ---- the handshake (section 7.5: IK) ----
 *
 *   <- s
 *   ...
 *   -> e, es, s, ss
 *   <- e, ee, se                                                                     */

struct noise_pair
noise_pair_of(const uint8_t secret[NOISE_KEY])
{
	struct noise_pair p;

	memcpy(p.secret, secret, NOISE_KEY);
	crypto_scalarmult_curve25519_base(p.public, p.secret);
	return p;
}

void
noise_start(struct noise *n, bool initiator, struct bytes prologue, const struct noise_pair *own,
            const uint8_t ephemeral_secret[NOISE_KEY], const uint8_t *remote)
{
	static_assert(sizeof protocol_name - 1 == 32, "the name is its own hash (section 5.2)");
	must((remote != NULL) == initiator);
	memset(n, 0, sizeof *n);
	n->initiator = initiator;
	n->own = *own;
	n->ephemeral = noise_pair_of(ephemeral_secret);
	memcpy(n->hash, protocol_name, sizeof n->hash);
	memcpy(n->chaining, n->hash, sizeof n->chaining);
	mix_hash(n, prologue.data, prologue.len);
	if (initiator)
		memcpy(n->remote, remote, NOISE_KEY);
	mix_hash(n, initiator ? n->remote : n->own.public, NOISE_KEY);
}

static void
put_encrypted(struct noise *n, struct bytes plain, struct buffer *out)
{
	size_t at = out->len;

	encrypt(&n->handshake, (struct bytes){n->hash, sizeof n->hash}, plain, out);
	if (!out->failed)
		mix_hash(n, out->data + at, out->len - at);
}

static bool
take_encrypted(struct noise *n, struct bytes sealed, struct buffer *plain)
{
	if (!decrypt(&n->handshake, (struct bytes){n->hash, sizeof n->hash}, sealed, plain))
		return false;
	mix_hash(n, sealed.data, sealed.len);
	return true;
}

/* Keys beside those of the channel, as Split makes them, but of a label instead of nothing. */
static void
derive_labelled(const struct noise *n, const char *label, uint8_t first[32], uint8_t second[32])
{
	derive(n->chaining, (const uint8_t *)label, strlen(label), first, second);
}

static void
derive_datagrams(struct noise *n)
{
	struct noise_datagrams *d = &n->datagrams;
	uint8_t id[32], unused[32];
	struct cursor c = cursor_of((struct bytes){id, sizeof id});

	derive_labelled(n, "lsfs datagrams", n->initiator ? d->sending : d->receiving,
	                n->initiator ? d->receiving : d->sending);
	derive_labelled(n, "lsfs datagrams: id", id, unused);
	d->id = cursor_u64(&c);
	sodium_memzero(unused, sizeof unused);
}

/* Split (section 5.2): makes a key for each direction. */
static void
finish(struct noise *n)
{
	uint8_t first[32], second[32];

	derive(n->chaining, NULL, 0, first, second);
	set_key(n->initiator ? &n->sending : &n->receiving, first);
	set_key(n->initiator ? &n->receiving : &n->sending, second);
	derive_datagrams(n);
	sodium_memzero(first, sizeof first);
	sodium_memzero(second, sizeof second);
	sodium_memzero(&n->handshake, sizeof n->handshake);
	sodium_memzero(&n->ephemeral, sizeof n->ephemeral);
	sodium_memzero(n->own.secret, sizeof n->own.secret);
	sodium_memzero(n->chaining, sizeof n->chaining);
}

static bool
write_first(struct noise *n, struct bytes payload, struct buffer *out)
{
	buffer_put(out, n->ephemeral.public, NOISE_KEY);
	mix_hash(n, n->ephemeral.public, NOISE_KEY);
	if (!mix_shared(n, n->ephemeral.secret, n->remote))
		return false;
	put_encrypted(n, (struct bytes){n->own.public, NOISE_KEY}, out);
	if (!mix_shared(n, n->own.secret, n->remote))
		return false;
	put_encrypted(n, payload, out);
	return true;
}

static bool
write_second(struct noise *n, struct bytes payload, struct buffer *out)
{
	buffer_put(out, n->ephemeral.public, NOISE_KEY);
	mix_hash(n, n->ephemeral.public, NOISE_KEY);
	if (!mix_shared(n, n->ephemeral.secret, n->remote_ephemeral) ||
	    !mix_shared(n, n->ephemeral.secret, n->remote))
		return false;
	put_encrypted(n, payload, out);
	return true;
}

static bool
read_first(struct noise *n, struct cursor *c, struct buffer *payload)
{
	struct buffer key = BUFFER(NOISE_KEY + NOISE_TAG);
	struct bytes ephemeral = cursor_bytes(c, NOISE_KEY);
	struct bytes identity = cursor_bytes(c, NOISE_KEY + NOISE_TAG);
	bool good;

	if (c->failed)
		return false;
	memcpy(n->remote_ephemeral, ephemeral.data, NOISE_KEY);
	mix_hash(n, n->remote_ephemeral, NOISE_KEY);
	good =
	    mix_shared(n, n->own.secret, n->remote_ephemeral) && take_encrypted(n, identity, &key);
	if (good)
		memcpy(n->remote, key.data, NOISE_KEY);
	buffer_free(&key);
	return good && mix_shared(n, n->own.secret, n->remote) &&
	       take_encrypted(n, cursor_bytes(c, cursor_left(c)), payload);
}

static bool
read_second(struct noise *n, struct cursor *c, struct buffer *payload)
{
	struct bytes ephemeral = cursor_bytes(c, NOISE_KEY);

	if (c->failed)
		return false;
	memcpy(n->remote_ephemeral, ephemeral.data, NOISE_KEY);
	mix_hash(n, n->remote_ephemeral, NOISE_KEY);
	return mix_shared(n, n->ephemeral.secret, n->remote_ephemeral) &&
	       mix_shared(n, n->own.secret, n->remote_ephemeral) &&
	       take_encrypted(n, cursor_bytes(c, cursor_left(c)), payload);
}

/* Counts a handshake message that was processed; latches the failure of one that was not. */
static bool
step(struct noise *n, bool good)
{
	if (!good) {
		n->failed = true;
		return false;
	}
	if (++n->message == 2)
		finish(n);
	return true;
}

bool
noise_write(struct noise *n, struct bytes payload, struct buffer *out)
{
	bool good = false;

	if (n->failed)
		return false;
	if (n->initiator && n->message == 0)
		good = write_first(n, payload, out);
	else if (!n->initiator && n->message == 1)
		good = write_second(n, payload, out);
	return step(n, good && !out->failed);
}

bool
noise_read(struct noise *n, struct bytes message, struct buffer *payload)
{
	struct cursor c = cursor_of(message);
	bool good = false;

	if (n->failed)
		return false;
	if (!n->initiator && n->message == 0)
		good = read_first(n, &c, payload);
	else if (n->initiator && n->message == 1)
		good = read_second(n, &c, payload);
	return step(n, good);
}

bool
noise_done(const struct noise *n)
{
	return !n->failed && n->message == 2;
}

/* ---- transport messages ---- */

/* REKEY: a new key, of which the old one cannot be computed (section 4.2). */
static void
rekey_if_due(struct noise_cipher *c)
{
	uint8_t nonce[12], sealed[NOISE_KEY + NOISE_TAG];
	static const uint8_t zeros[NOISE_KEY];

	must(c->keyed);
	if (c->count % NOISE_REKEY != 0)
		return;
	nonce_of(UINT64_MAX, nonce);
	crypto_aead_chacha20poly1305_ietf_encrypt(sealed, NULL, zeros, sizeof zeros, NULL, 0, NULL,
	                                          nonce, c->key);
	memcpy(c->key, sealed, NOISE_KEY);
	sodium_memzero(sealed, sizeof sealed);
}

bool
noise_seal(struct noise *n, struct bytes plain, struct buffer *out)
{
	must(noise_done(n));
	must(plain.len <= NOISE_PLAIN_MAX);
	encrypt(&n->sending, (struct bytes){0}, plain, out);
	rekey_if_due(&n->sending);
	return !out->failed;
}

bool
noise_open(struct noise *n, struct bytes sealed, struct buffer *plain)
{
	if (!noise_done(n))
		return false;
	if (!decrypt(&n->receiving, (struct bytes){0}, sealed, plain)) {
		n->failed = true;
		return false;
	}
	rekey_if_due(&n->receiving);
	return true;
}

void
noise_end(struct noise *n)
{
	sodium_memzero(n, sizeof *n);
	n->failed = true;
}
