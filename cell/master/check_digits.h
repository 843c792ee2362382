/* The check digits of a handle (Chubby, section 2.2): they prove which rights a subject of a
 * session had on a node when it opened it. Every master of the cell can compute them, and nobody
 * else. */
#ifndef LSFS_MASTER_CHECK_DIGITS_H
#define LSFS_MASTER_CHECK_DIGITS_H

#include "cell/base/bytes.h"
#include "cell/base/limit.h"
#include "cell/tree/tree.h"

enum { CHECK_SECRET = 64 }; /* bytes of the cell's signing key, which is their key, too */

/* Computes the check digits of these rights of the requester. */
void check_digits(const uint8_t secret[CHECK_SECRET], const struct requester *who, uint64_t node,
                  uint8_t rights, uint8_t digits[LIMIT_CHECK]);
/* True if these are the check digits of them, by one of the `n` secrets. */
bool check_digits_genuine(const uint8_t (*secrets)[CHECK_SECRET], int n,
                          const struct requester *who, uint64_t node, uint8_t rights,
                          struct bytes digits);

#endif
