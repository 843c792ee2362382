/* Key files: one line "KIND BASE64URL", mode 0600 or refused. The cell's signing key
 * (DATADIR/signing.key) is an Ed25519 key; its public half stands in the cell file. */
#ifndef LSFS_IO_KEYFILE_H
#define LSFS_IO_KEYFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIGN_SECRET = 64, SIGN_PUBLIC = 32, SIGNATURE_SIZE = 64 };

/* Makes a new key and writes it atomically, mode 0600, never over an existing file. 0 or -errno. */
int keyfile_create_signing(const char *path, uint8_t secret[SIGN_SECRET],
                           uint8_t public_key[SIGN_PUBLIC]);
/* Reads it. False with one line in `why`: missing, readable by others, damaged. */
bool keyfile_read_signing(const char *path, uint8_t secret[SIGN_SECRET], char *why,
                          size_t why_size);

/* Unpadded base64url of keys and signatures, to and from text; false when malformed. */
bool key_to_text(const uint8_t *key, size_t len, char *text, size_t text_size);
bool key_from_text(const char *text, uint8_t *key, size_t len);

#endif
