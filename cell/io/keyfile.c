#include "cell/io/keyfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/io/file.h"

enum { SEED = crypto_sign_SEEDBYTES, KEYFILE_MAX = 256 };

static_assert(SIGN_SECRET == crypto_sign_SECRETKEYBYTES, "libsodium's layout");
static_assert(SIGN_PUBLIC == crypto_sign_PUBLICKEYBYTES, "libsodium's layout");
static_assert(SIGNATURE_SIZE == crypto_sign_BYTES, "libsodium's layout");

static const char signing_kind[] = "ed25519-secret";

bool
key_to_text(const uint8_t *key, size_t len, char *text, size_t text_size)
{
	const int variant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

	if (text_size < sodium_base64_encoded_len(len, variant))
		return false;
	sodium_bin2base64(text, text_size, key, len, variant);
	return true;
}

bool
key_from_text(const char *text, uint8_t *key, size_t len)
{
	size_t got = 0;
	const char *end = NULL;

	if (sodium_base642bin(key, len, text, strlen(text), NULL, &got, &end,
	                      sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0)
		return false;
	return got == len && *end == '\0';
}

int
keyfile_create_signing(const char *path, uint8_t secret[SIGN_SECRET],
                       uint8_t public_key[SIGN_PUBLIC])
{
	uint8_t seed[SEED];
	char text[64], line[KEYFILE_MAX];
	int rc;

	if (sodium_init() < 0)
		return -EIO;
	crypto_sign_keypair(public_key, secret);
	crypto_sign_ed25519_sk_to_seed(seed, secret);
	key_to_text(seed, sizeof seed, text, sizeof text);
	snprintf(line, sizeof line, "%s %s\n", signing_kind, text);
	rc = file_create(path, bytes_of(line), 0600);
	sodium_memzero(seed, sizeof seed);
	sodium_memzero(text, sizeof text);
	sodium_memzero(line, sizeof line);
	return rc;
}

/* The one line of a key file that only its owner may read. */
static bool
read_line(const char *path, struct buffer *line, char *why, size_t why_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int rc = fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (rc < 0) {
		snprintf(why, why_size, "%s: %s", path, strerror(-rc));
	} else if (!S_ISREG(st.st_mode)) {
		snprintf(why, why_size, "%s: not a regular file", path);
		rc = -EINVAL;
	} else if ((st.st_mode & 077) != 0) {
		snprintf(why, why_size, "%s: others may read or write it (mode %04o; chmod 600)",
		         path, (unsigned)(st.st_mode & 07777));
		rc = -EPERM;
	} else if ((rc = file_read(fd, KEYFILE_MAX, line)) < 0) {
		snprintf(why, why_size, "%s: %s", path,
		         rc == -EFBIG ? "too long for a key file" : strerror(-rc));
	}
	if (fd >= 0)
		close(fd);
	return rc == 0;
}

/* "KIND BASE64URL\n" -> the seed. */
static bool
parse_line(struct buffer *line, uint8_t seed[SEED])
{
	const size_t kind_len = sizeof signing_kind - 1;
	char *text;

	buffer_put_u8(line, 0);
	text = (char *)line->data;
	if (strncmp(text, signing_kind, kind_len) != 0 || text[kind_len] != ' ')
		return false;
	text[strcspn(text, "\n")] = '\0';
	return key_from_text(text + kind_len + 1, seed, SEED);
}

bool
keyfile_read_signing(const char *path, uint8_t secret[SIGN_SECRET], char *why, size_t why_size)
{
	struct buffer line = BUFFER(KEYFILE_MAX + 1);
	uint8_t seed[SEED], public_key[SIGN_PUBLIC];
	bool ok = false;

	if (sodium_init() < 0) {
		snprintf(why, why_size, "no source of random numbers");
		return false;
	}
	if (read_line(path, &line, why, why_size)) {
		ok = parse_line(&line, seed);
		if (!ok)
			snprintf(why, why_size, "%s: damaged: not a line \"%s BASE64URL\"", path,
			         signing_kind);
	}
	if (ok)
		crypto_sign_seed_keypair(public_key, secret, seed);
	sodium_memzero(seed, sizeof seed);
	if (line.data != NULL)
		sodium_memzero(line.data, line.room);
	buffer_free(&line);
	return ok;
}
