/* Key files: one line, mode 0600 or refused.
 *
 *   signing BASE64URL           the cell's, Ed25519: signs sequencers (DATADIR/signing.key)
 *   replica BASE64URL           a replica's, Curve25519 (DATADIR/replica.key)
 *   principal NAME BASE64URL    a principal's, Curve25519 (admin.key, /etc/lsfs/key)
 *
 * The public halves stand in the cell file, or are told to the cell. */
#ifndef LSFS_CONFIG_KEY_FILE_H
#define LSFS_CONFIG_KEY_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/limit.h"
#include "cell/wire/noise.h"

enum { SIGN_SECRET = 64, SIGN_PUBLIC = 32, SIGNATURE_SIZE = 64 };

/* Room for a public or secret half as text, with its NUL. */
enum { KEY_TEXT = 44 };

/* Makes a new key and writes it atomically, mode 0600, never over an existing file. 0 or -errno. */
int key_file_create_signing(const char *path, uint8_t secret[SIGN_SECRET],
                            uint8_t public_key[SIGN_PUBLIC]);
/* The same key in another place: each data directory has the cell's. */
int key_file_copy_signing(const char *path, const uint8_t secret[SIGN_SECRET]);
/* Reads it. False with one line in `why`: missing, readable by others, damaged. */
bool key_file_read_signing(const char *path, uint8_t secret[SIGN_SECRET], char *why,
                           size_t why_size);

/* The same for the keys of the secure channel. `name` is the principal's, NULL for a replica;
 * reading a principal's key tells its name (LIMIT_PRINCIPAL + 1 bytes) unless `name` is NULL. */
int key_file_create_channel(const char *path, const char *name, struct noise_pair *pair);
bool key_file_read_replica(const char *path, struct noise_pair *pair, char *why, size_t why_size);
bool key_file_read_principal(const char *path, char *name, struct noise_pair *pair, char *why,
                             size_t why_size);

enum key_kind { KEY_SIGNING, KEY_REPLICA, KEY_PRINCIPAL };

/* What may be told of a key. */
struct key_public {
	enum key_kind kind;
	char name[LIMIT_PRINCIPAL + 1]; /* a principal's; else empty */
	uint8_t public_key[32];
};

/* The public half of whatever key file this is. */
bool key_file_read_public(const char *path, struct key_public *key, char *why, size_t why_size);

/* Principals' names: 1..64 bytes, no '/', '*', '#', blanks or control characters. */
bool key_principal_valid(const char *name);

/* Unpadded base64url of keys and signatures, to and from text; false when malformed. */
bool key_to_text(const uint8_t *key, size_t len, char *text, size_t text_size);
bool key_from_text(const char *text, uint8_t *key, size_t len);

#endif
