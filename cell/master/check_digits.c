#include "cell/master/check_digits.h"
#include <sodium.h>
#include "cell/base/must.h"

static_assert(LIMIT_CHECK >= crypto_generichash_BYTES_MIN, "BLAKE2b");
static_assert(CHECK_SECRET <= crypto_generichash_KEYBYTES_MAX, "BLAKE2b");

/* The purpose keeps them apart from all else that is derived from the key. */
void
check_digits(const uint8_t secret[CHECK_SECRET], const struct requester *who, uint64_t node,
             uint8_t rights, uint8_t digits[LIMIT_CHECK])
{
	struct buffer text = BUFFER(64 + LIMIT_PRINCIPAL);

	buffer_put_bytes(&text, bytes_of("lsfs check digits"));
	buffer_put_u64(&text, who->session);
	buffer_put_u64(&text, node);
	buffer_put_u8(&text, rights);
	buffer_put_bytes(&text, who->user);
	must(!text.failed);
	must(crypto_generichash(digits, LIMIT_CHECK, text.data, text.len, secret, CHECK_SECRET) ==
	     0);
	buffer_free(&text);
}

bool
check_digits_genuine(const uint8_t (*secrets)[CHECK_SECRET], int n, const struct requester *who,
                     uint64_t node, uint8_t rights, struct bytes digits)
{
	uint8_t right[LIMIT_CHECK];
	bool genuine = false;

	for (int i = 0; i < n && !genuine; i++) {
		check_digits(secrets[i], who, node, rights, right);
		genuine = digits.len == LIMIT_CHECK &&
		          sodium_memcmp(right, digits.data, LIMIT_CHECK) == 0;
	}
	return genuine;
}
