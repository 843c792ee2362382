#include "cell/config/key_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/base/principal.h"
#include "cell/sys/file.h"
#include "cell/sys/secret.h"

enum { SECRET = 32, KEY_FILE_MAX = 512 };

static_assert(SECRET == crypto_sign_SEEDBYTES, "one kind of line for all secrets");
static_assert((int)SECRET == (int)NOISE_KEY, "one kind of line for all secrets");
static_assert(SIGN_SECRET == crypto_sign_SECRETKEYBYTES, "libsodium's layout");
static_assert(SIGN_PUBLIC == crypto_sign_PUBLICKEYBYTES, "libsodium's layout");
static_assert(SIGNATURE_SIZE == crypto_sign_BYTES, "libsodium's layout");

/* A key file's one line. The secret of a signing key is its Ed25519 seed. */
struct key_line {
	enum key_kind kind;
	char name[LIMIT_PRINCIPAL + 1];
	uint8_t secret[SECRET];
};

static const char no_key_file[] = "damaged: not a key file's line";

static const char *const kinds[] = {
    [KEY_SIGNING] = "signing",
    [KEY_REPLICA] = "replica",
    [KEY_PRINCIPAL] = "principal",
};

/* ---- text ---- */

bool
key_to_text(const uint8_t *key, size_t len, char *text, size_t text_size)
{
	const int variant = sodium_base64_VARIANT_URLSAFE_NO_PADDING;

	if (text_size < sodium_base64_encoded_len(len, variant))
		return false;
	sodium_bin2base64(text, text_size, key, len, variant);
	return true;
}

void
key_put_setting(struct buffer *to, const char *name, const uint8_t *key, size_t len)
{
	char text[KEY_TEXT];

	must(key_to_text(key, len, text, sizeof text));
	buffer_printf(to, "%s = %s\n", name, text);
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

bool
key_principal_valid(const char *name)
{
	return principal_name_valid(bytes_of(name));
}

/* ---- writing ---- */

static void
put_line(struct buffer *text, const struct key_line *key)
{
	char secret[KEY_TEXT];

	key_to_text(key->secret, SECRET, secret, sizeof secret);
	buffer_printf(text, "%s %s%s%s\n", kinds[key->kind], key->name,
	              key->kind == KEY_PRINCIPAL ? " " : "", secret);
	sodium_memzero(secret, sizeof secret);
}

static int
put_text(const char *path, struct buffer *text,
         int (*put)(const char *path, struct bytes contents, mode_t mode))
{
	const int rc = text->failed ? -EFBIG : put(path, buffer_view(text), 0600);

	if (text->data != NULL)
		sodium_memzero(text->data, text->room);
	buffer_free(text);
	return rc;
}

static int
write_key(const char *path, const struct key_line *key)
{
	struct buffer text = BUFFER(KEY_FILE_MAX);

	put_line(&text, key);
	return put_text(path, &text, file_create);
}

int
key_file_replace_signing(const char *path, const struct sign_keys *keys)
{
	struct buffer text = BUFFER(KEY_FILE_MAX);
	struct key_line key = {.kind = KEY_SIGNING};

	for (int i = 0; i < keys->n; i++) {
		crypto_sign_ed25519_sk_to_seed(key.secret, keys->secret[i]);
		put_line(&text, &key);
	}
	sodium_memzero(&key, sizeof key);
	return put_text(path, &text, file_replace);
}

int
key_file_copy_signing(const char *path, const uint8_t secret[SIGN_SECRET])
{
	struct key_line key = {.kind = KEY_SIGNING};
	int rc;

	crypto_sign_ed25519_sk_to_seed(key.secret, secret);
	rc = write_key(path, &key);
	sodium_memzero(&key, sizeof key);
	return rc;
}

int
key_file_create_signing(const char *path, uint8_t secret[SIGN_SECRET],
                        uint8_t public_key[SIGN_PUBLIC])
{
	if (sodium_init() < 0 || !secret_hide_process())
		return -EIO;
	crypto_sign_keypair(public_key, secret);
	return key_file_copy_signing(path, secret);
}

/* Draws keys until the text of the public half is no option of a command to which it is given. */
static struct noise_pair
new_pair(uint8_t secret[SECRET])
{
	struct noise_pair pair;
	char text[KEY_TEXT] = "";

	do {
		randombytes_buf(secret, SECRET);
		pair = noise_pair_of(secret);
		key_to_text(pair.public, sizeof pair.public, text, sizeof text);
	} while (text[0] == '-');
	return pair;
}

int
key_file_create_channel(const char *path, const char *name, struct noise_pair *pair)
{
	struct key_line key = {.kind = name ? KEY_PRINCIPAL : KEY_REPLICA};
	int rc;

	if (name != NULL && !key_principal_valid(name))
		return -EINVAL;
	if (sodium_init() < 0 || !secret_hide_process())
		return -EIO;
	if (name != NULL)
		strcpy(key.name, name);
	*pair = new_pair(key.secret);
	rc = write_key(path, &key);
	sodium_memzero(&key, sizeof key);
	return rc;
}

/* ---- reading ---- */

/* Reads the whole file, of which no copy is left elsewhere. */
static int
read_whole(int fd, char text[KEY_FILE_MAX + 1])
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, KEY_FILE_MAX + 1 - len)) != 0) {
		if (n < 0 && errno != EINTR)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
		if (len > KEY_FILE_MAX)
			return -EFBIG;
	}
	text[len] = '\0';
	return strlen(text) == len ? 0 : -EBADMSG;
}

/* Reads a key file; false, with one line in `why`, also when others than its owner have access to
 * the file. */
static bool
read_text(const char *path, char text[KEY_FILE_MAX + 1], char *why, size_t why_size)
{
	int fd = file_open(path, O_RDONLY);
	struct stat st = {0};
	int rc = fd >= 0 && fstat(fd, &st) < 0 ? -errno : fd;

	if (rc < 0) {
		snprintf(why, why_size, "%s: %s", path, file_why(rc));
	} else if ((st.st_mode & 077) != 0) {
		snprintf(why, why_size, "%s: others may read or write it (mode %04o; chmod 600)",
		         path, (unsigned)(st.st_mode & 07777));
		rc = -EPERM;
	} else if ((rc = read_whole(fd, text)) < 0) {
		snprintf(why, why_size, "%s: %s", path,
		         rc == -EFBIG     ? "too long for a key file"
		         : rc == -EBADMSG ? no_key_file
		                          : strerror(-rc));
	}
	if (fd >= 0)
		close(fd);
	return rc >= 0;
}

/* Parses "KIND [NAME] BASE64URL"; overwrites the separators in `line`. */
static bool
parse_line(char *line, struct key_line *key)
{
	const char *kind = strsep(&line, " ");
	char *name = NULL;
	size_t at = 0;

	while (at < sizeof kinds / sizeof kinds[0] && strcmp(kinds[at], kind) != 0)
		at++;
	if (at == sizeof kinds / sizeof kinds[0])
		return false;
	key->kind = (enum key_kind)at;
	if (key->kind == KEY_PRINCIPAL && line != NULL)
		name = strsep(&line, " ");
	if (line == NULL || (name != NULL && !key_principal_valid(name)))
		return false;
	if (name != NULL)
		strcpy(key->name, name);
	return key_from_text(line, key->secret, SECRET);
}

/* Parses the lines of a file, each of which ends with a newline, or the only one without. Only
 * signing keys may be several. Returns their number; 0: the text is no key file's. */
static int
parse_lines(char *text, struct key_line lines[SIGN_KEYS])
{
	int n = 0;

	while (*text != '\0') {
		char *line = strsep(&text, "\n");

		if (n == SIGN_KEYS || !parse_line(line, &lines[n]))
			return 0;
		n++;
		if (text == NULL)
			break;
	}
	for (int i = 0; n > 1 && i < n; i++)
		if (lines[i].kind != KEY_SIGNING)
			return 0;
	return n;
}

/* Returns the number of keys in the file; 0, with one line in `why`, when none can be used. */
static int
read_any(const char *path, struct key_line lines[SIGN_KEYS], char *why, size_t why_size)
{
	char text[KEY_FILE_MAX + 1];
	int n = 0;

	memset(lines, 0, SIGN_KEYS * sizeof *lines);
	if (sodium_init() < 0) {
		snprintf(why, why_size, "no source of random numbers");
		return 0;
	}
	if (!secret_hide_process()) {
		snprintf(why, why_size, "core dumps can't be switched off: %s", strerror(errno));
		return 0;
	}
	if (read_text(path, text, why, why_size)) {
		n = parse_lines(text, lines);
		if (n == 0)
			snprintf(why, why_size, "%s: %s", path, no_key_file);
	}
	if (n == 0)
		sodium_memzero(lines, SIGN_KEYS * sizeof *lines);
	sodium_memzero(text, sizeof text);
	return n;
}

static int
read_kind(const char *path, enum key_kind kind, struct key_line lines[SIGN_KEYS], char *why,
          size_t why_size)
{
	const int n = read_any(path, lines, why, why_size);

	if (n == 0 || lines[0].kind == kind)
		return n;
	snprintf(why, why_size, "%s: a %s key where a %s key is needed", path, kinds[lines[0].kind],
	         kinds[kind]);
	sodium_memzero(lines, SIGN_KEYS * sizeof *lines);
	return 0;
}

bool
key_file_read_signing(const char *path, struct sign_keys *keys, char *why, size_t why_size)
{
	uint8_t public_key[SIGN_PUBLIC];
	struct key_line lines[SIGN_KEYS];

	keys->n = read_kind(path, KEY_SIGNING, lines, why, why_size);
	for (int i = 0; i < keys->n; i++)
		crypto_sign_seed_keypair(public_key, keys->secret[i], lines[i].secret);
	sodium_memzero(lines, sizeof lines);
	return keys->n > 0;
}

bool
key_file_read_replica(const char *path, struct noise_pair *pair, char *why, size_t why_size)
{
	struct key_line lines[SIGN_KEYS];

	if (read_kind(path, KEY_REPLICA, lines, why, why_size) == 0)
		return false;
	*pair = noise_pair_of(lines[0].secret);
	sodium_memzero(lines, sizeof lines);
	return true;
}

bool
key_file_read_principal(const char *path, char *name, struct noise_pair *pair, char *why,
                        size_t why_size)
{
	struct key_line lines[SIGN_KEYS];

	if (read_kind(path, KEY_PRINCIPAL, lines, why, why_size) == 0)
		return false;
	if (name != NULL)
		strcpy(name, lines[0].name);
	*pair = noise_pair_of(lines[0].secret);
	sodium_memzero(lines, sizeof lines);
	return true;
}

bool
key_file_read_public(const char *path, struct key_public *to, char *why, size_t why_size)
{
	uint8_t secret[SIGN_SECRET];
	struct noise_pair pair;
	struct key_line lines[SIGN_KEYS];

	if (read_any(path, lines, why, why_size) == 0)
		return false;
	*to = (struct key_public){.kind = lines[0].kind};
	strcpy(to->name, lines[0].name);
	if (lines[0].kind == KEY_SIGNING) {
		crypto_sign_seed_keypair(to->public_key, secret, lines[0].secret);
	} else {
		pair = noise_pair_of(lines[0].secret);
		memcpy(to->public_key, pair.public, sizeof to->public_key);
	}
	sodium_memzero(secret, sizeof secret);
	sodium_memzero(&pair, sizeof pair);
	sodium_memzero(lines, sizeof lines);
	return true;
}
