/* Signing keys of a cell, of Ed25519. */
#ifndef LSFS_CONFIG_SIGN_KEYS_H
#define LSFS_CONFIG_SIGN_KEYS_H

#include <stdint.h>
#include <string.h>

enum { SIGN_SECRET = 64, SIGN_PUBLIC = 32, SIGNATURE_SIZE = 64 };

/* The two in force, one that is being introduced, and the one that was introduced before it, which
 * may be in force already without this replica's knowing it. */
enum { SIGN_KEYS = 4 };
struct sign_keys {
	int n;
	uint8_t secret[SIGN_KEYS][SIGN_SECRET];
};

/* The public half of an Ed25519 secret key is its end. */
static inline const uint8_t *
sign_public(const uint8_t secret[SIGN_SECRET])
{
	return secret + SIGN_SECRET - SIGN_PUBLIC;
}
/* The place of the key with that public half; -1: it is not among them. */
static inline int
sign_keys_find(const struct sign_keys *keys, const uint8_t public_key[SIGN_PUBLIC])
{
	for (int i = 0; i < keys->n; i++)
		if (memcmp(sign_public(keys->secret[i]), public_key, SIGN_PUBLIC) == 0)
			return i;
	return -1;
}

#endif
