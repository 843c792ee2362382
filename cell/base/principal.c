#include "cell/base/principal.h"
#include "cell/base/limit.h"

bool
principal_name_valid(struct bytes name)
{
	if (name.len < 1 || name.len > LIMIT_PRINCIPAL || name.data[0] == '@')
		return false;
	for (size_t i = 0; i < name.len; i++) {
		const uint8_t c = name.data[i];

		if (c <= ' ' || c == 0x7f || c == '/' || c == '*' || c == '#')
			return false;
	}
	return true;
}

bool
principal_host_valid(struct bytes host)
{
	for (size_t i = 0; i < host.len; i++)
		if (host.data[i] <= ' ' || host.data[i] > '~')
			return false;
	return host.len <= LIMIT_HOST;
}
