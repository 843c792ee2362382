#include <sodium.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/base/must.h"
#include "cell/master/sequencer.h"

enum {
	SIGNATURE_TEXT = 86, /* 64 bytes in unpadded base64url */
	BASE64 = sodium_base64_VARIANT_URLSAFE_NO_PADDING,
};

static_assert(crypto_sign_BYTES == sizeof((struct sequencer *)0)->signature, "Ed25519");

void
sequencer_sign(struct bytes body, const uint8_t secret[64], struct buffer *out)
{
	uint8_t signature[crypto_sign_BYTES];
	char text[SIGNATURE_TEXT + 1];

	must(crypto_sign_detached(signature, NULL, body.data, body.len, secret) == 0);
	sodium_bin2base64(text, sizeof text, signature, sizeof signature, BASE64);
	buffer_put_bytes(out, body);
	buffer_put_u8(out, ':');
	buffer_put(out, text, SIGNATURE_TEXT);
}

/* Takes the field after the last colon off the end of *text. */
static bool
take_field(struct bytes *text, struct bytes *field)
{
	for (size_t i = text->len; i > 0; i--) {
		if (text->data[i - 1] != ':')
			continue;
		*field = (struct bytes){text->data + i, text->len - i};
		text->len = i - 1;
		return true;
	}
	return false;
}

/* A decimal number as it is written: without sign and leading zeros. */
static bool
take_number(struct bytes *text, uint64_t *number)
{
	struct bytes field;

	*number = 0;
	if (!take_field(text, &field) || field.len == 0)
		return false;
	if (field.data[0] == '0' && field.len > 1)
		return false;
	for (size_t i = 0; i < field.len; i++) {
		uint64_t digit = (uint64_t)field.data[i] - '0';

		if (field.data[i] < '0' || field.data[i] > '9')
			return false;
		if (*number > (UINT64_MAX - digit) / 10)
			return false;
		*number = *number * 10 + digit;
	}
	return true;
}

static bool
take_mode(struct bytes *text, enum lock_mode *mode)
{
	struct bytes field;

	if (!take_field(text, &field))
		return false;
	*mode = LOCK_NONE;
	if (bytes_equal(field, bytes_of("exclusive")))
		*mode = LOCK_EXCLUSIVE;
	else if (bytes_equal(field, bytes_of("shared")))
		*mode = LOCK_SHARED;
	return *mode != LOCK_NONE;
}

static bool
take_signature(struct bytes *text, uint8_t signature[64])
{
	struct bytes field;
	size_t len;

	if (!take_field(text, &field) || field.len != SIGNATURE_TEXT)
		return false;
	return sodium_base642bin(signature, crypto_sign_BYTES, (const char *)field.data, field.len,
	                         NULL, &len, NULL, BASE64) == 0 &&
	       len == crypto_sign_BYTES;
}

bool
sequencer_parse(struct bytes text, struct sequencer *s)
{
	static const char prefix[] = "/ls/";

	if (text.len > LIMIT_SEQUENCER || !take_signature(&text, s->signature))
		return false;
	s->body = text;
	if (!take_number(&text, &s->fence) || !take_number(&text, &s->instance) ||
	    !take_mode(&text, &s->mode) || !take_number(&text, &s->lock_generation))
		return false;
	s->path = text;
	return text.len > strlen(prefix) && memcmp(text.data, prefix, strlen(prefix)) == 0;
}

bool
sequencer_verify(const struct sequencer *s, const uint8_t public_key[32])
{
	return crypto_sign_verify_detached(s->signature, s->body.data, s->body.len, public_key) ==
	       0;
}
