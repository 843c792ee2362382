/* Key files, mostly of one line: one that others than its owner may read or write is refused.
 *
 *   signing BASE64URL           the cell's, Ed25519: signs sequencers (DATADIR/signing.key)
 *   replica BASE64URL           a replica's, Curve25519 (DATADIR/replica.key)
 *   principal NAME BASE64URL    a principal's, Curve25519 (admin.key, /etc/lsfs/key)
 *
 * After a rotation a file of signing keys has a line for each that is still of use.
 *
 * BASE64URL is the secret half. The cell file holds the public halves of the cell's key, of the
 * replicas' keys and of admin's key.
 *
 * A process that makes or reads a key leaves no core dump (sys/secret.h). */
#ifndef LSFS_CONFIG_KEY_FILE_H
#define LSFS_CONFIG_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/wire/noise.h"

/* Signing keys of a cell, of Ed25519. */
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

/* Room for a public or secret half as text, with its NUL. */
enum { KEY_TEXT = 44 };

/* Makes a new signing key and writes its file atomically, mode 0600, never over an existing file
 * (-EEXIST). 0 or -errno. */
int key_file_create_signing(const char *path, uint8_t secret[SIGN_SECRET],
                            uint8_t public_key[SIGN_PUBLIC]);
/* Writes an existing signing key likewise: each data directory holds a copy of the cell's. */
int key_file_copy_signing(const char *path, const uint8_t secret[SIGN_SECRET]);
/* Replaces the file, so that it has these signing keys, one at least. 0 or -errno. */
int key_file_replace_signing(const char *path, const struct sign_keys *keys);
/* Reads signing keys. False with one line in `why`: missing, readable by others, damaged. */
bool key_file_read_signing(const char *path, struct sign_keys *keys, char *why, size_t why_size);

/* Makes a key of the secure channel and writes its file, like key_file_create_signing. `name` is
 * the principal's name, NULL for a replica's key; -EINVAL when it is no principal's name. */
int key_file_create_channel(const char *path, const char *name, struct noise_pair *pair);
/* Reads a replica's key of the secure channel. False with one line in `why`. */
bool key_file_read_replica(const char *path, struct noise_pair *pair, char *why, size_t why_size);
/* Reads a principal's key of the secure channel, and puts the principal's name into `name`
 * (LIMIT_PRINCIPAL + 1 bytes) unless that is NULL. False with one line in `why`. */
bool key_file_read_principal(const char *path, char *name, struct noise_pair *pair, char *why,
                             size_t why_size);

enum key_kind { KEY_SIGNING, KEY_REPLICA, KEY_PRINCIPAL };

/* The part of a key file that is no secret. */
struct key_public {
	enum key_kind kind;
	char name[LIMIT_PRINCIPAL + 1]; /* of a principal; else empty */
	uint8_t public_key[32];
};

/* The public half of a key file of any kind; of several keys, the first. False with one line in
 * `why`. */
bool key_file_read_public(const char *path, struct key_public *key, char *why, size_t why_size);

/* True for a valid name of a principal: 1..64 bytes, no '/', '*', '#', blanks or control
 * characters. */
bool key_principal_valid(const char *name);

/* Unpadded base64url of a key or a signature. False when `text` is too small. */
bool key_to_text(const uint8_t *key, size_t len, char *text, size_t text_size);
/* The bytes of such a text. False when it is malformed or does not give exactly `len` bytes. */
bool key_from_text(const char *text, uint8_t *key, size_t len);
/* Appends the line "NAME = KEY" of a cell file. */
void key_put_setting(struct buffer *to, const char *name, const uint8_t *key, size_t len);

#endif
