#include "cell/base/checksum.h"

#include <xxhash.h>

uint64_t
checksum(struct bytes v)
{
	return checksum_chain(0, v);
}

uint64_t
checksum_chain(uint64_t sum, struct bytes v)
{
	return XXH64(v.data, v.len, sum);
}
