/* The 64-bit checksum of file contents, log entries and stored rows: XXH64 with seed 0, so that
 * `xxh64sum FILE` prints the value of user.ls.checksum. It detects accidents, not forgery. */
#ifndef LSFS_BASE_CHECKSUM_H
#define LSFS_BASE_CHECKSUM_H

#include <stdint.h>
#include "cell/base/bytes.h"

/* XXH64 of `v` with seed 0. */
uint64_t checksum(struct bytes v);
/* XXH64 of `v` with the earlier sum `sum` as its seed: for digest chains. */
uint64_t checksum_chain(uint64_t sum, struct bytes v);

#endif
