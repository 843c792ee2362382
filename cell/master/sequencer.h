/* Sequencers: "/ls/CELL/PATH:LOCKGEN:MODE:INSTANCE:FENCE:SIGNATURE" (Chubby,
 * section 2.4). Read from the right, so that a path may hold colons. Pure: libsodium computes. */
#ifndef LSFS_MASTER_SEQUENCER_H
#define LSFS_MASTER_SEQUENCER_H

#include <stdbool.h>
#include "cell/base/bytes.h"
#include "cell/wire/types.h"

struct sequencer {
	struct bytes path; /* with "/ls/CELL"; a view into the text */
	uint64_t lock_generation, instance, fence;
	enum lock_mode mode;
	struct bytes body; /* what is signed: everything before the last colon */
	uint8_t signature[64];
};

/* Appends the signed form of `body` (body, colon, signature) to `out`. */
void sequencer_sign(struct bytes body, const uint8_t secret[64], struct buffer *out);
/* Splits a sequencer; false when it is not one. Does not check the signature. */
bool sequencer_parse(struct bytes text, struct sequencer *s);
/* Did the cell with this public key issue it? */
bool sequencer_verify(const struct sequencer *s, const uint8_t public_key[32]);

#endif
