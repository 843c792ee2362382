/* Key files: one line, mode 0600 or refused.
 *
 *   signing BASE64URL           the cell's, Ed25519: signs sequencers (DATADIR/signing.key)
 *   replica BASE64URL           a replica's, Curve25519 (DATADIR/replica.key)
 *   principal NAME BASE64URL    a principal's, Curve25519 (admin.key, /etc/lsfs/key)
 *
 * The public halves stand in the cell file, or are told to the cell. */
#ifndef LSFS_IO_KEYFILE_H
#define LSFS_IO_KEYFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/wire/noise.h"

enum { SIGN_SECRET = 64, SIGN_PUBLIC = 32, SIGNATURE_SIZE = 64 };

/* Makes a new key and writes it atomically, mode 0600, never over an existing file. 0 or -errno. */
int keyfile_create_signing(const char *path, uint8_t secret[SIGN_SECRET],
                           uint8_t public_key[SIGN_PUBLIC]);
/* Reads it. False with one line in `why`: missing, readable by others, damaged. */
bool keyfile_read_signing(const char *path, uint8_t secret[SIGN_SECRET], char *why,
                          size_t why_size);

/* The same for the keys of the secure channel. `name` is the principal's, NULL for a replica; reading
 * a principal's key tells its name (LIMIT_PRINCIPAL + 1 bytes) unless `name` is NULL. */
int keyfile_create_channel(const char *path, const char *name, struct noise_pair *pair);
bool keyfile_read_replica(const char *path, struct noise_pair *pair, char *why, size_t why_size);
bool keyfile_read_principal(const char *path, char *name, struct noise_pair *pair, char *why,
                            size_t why_size);

/* Unpadded base64url of keys and signatures, to and from text; false when malformed. */
bool key_to_text(const uint8_t *key, size_t len, char *text, size_t text_size);
bool key_from_text(const char *text, uint8_t *key, size_t len);

#endif
