#include "cell/config/sign_keys.h"

#include <string.h>

int
sign_keys_find(const struct sign_keys *keys, const uint8_t public_key[SIGN_PUBLIC])
{
	for (int i = 0; i < keys->n; i++)
		if (memcmp(sign_public(keys->secret[i]), public_key, SIGN_PUBLIC) == 0)
			return i;
	return -1;
}
