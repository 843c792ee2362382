/* The 64-bit checksum of file contents, log entries and stored rows: XXH64 with seed 0, so that
 * `xxh64sum FILE` prints what user.ls.checksum holds. It finds accidents, not forgers. */
#ifndef LSFS_BASE_CHECKSUM_H
#define LSFS_BASE_CHECKSUM_H

#include <stdint.h>
#include "cell/base/bytes.h"

uint64_t checksum(struct bytes v);
/* Continues from an earlier sum: the seed is `sum`. For digest chains. */
uint64_t checksum_chain(uint64_t sum, struct bytes v);

#endif
