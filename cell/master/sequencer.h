/* Sequencers: "/ls/CELL/PATH:LOCKGEN:MODE:INSTANCE:FENCE:SIGNATURE" (Chubby, section 2.4). A
 * sequencer is read from the right, so that a path may hold colons. */
#ifndef LSFS_MASTER_SEQUENCER_H
#define LSFS_MASTER_SEQUENCER_H

#include <stdbool.h>
#include "cell/base/bytes.h"
#include "cell/wire/types.h"

struct sequencer {
	struct bytes path; /* with "/ls/CELL"; this and `body` are views into the text */
	uint64_t lock_generation, instance, fence;
	enum lock_mode mode;
	struct bytes body; /* the signed part: everything before the last colon */
	uint8_t signature[64];
};

/* Appends the signed form of `body` (body, colon, signature) to `out`. `secret` is the cell's
 * signing key, of Ed25519. */
void sequencer_sign(struct bytes body, const uint8_t secret[64], struct buffer *out);
/* Splits a sequencer; false when the text is not one. The signature is not checked. */
bool sequencer_parse(struct bytes text, struct sequencer *s);
/* True when the cell with this public key has issued it. */
bool sequencer_verify(const struct sequencer *s, const uint8_t public_key[32]);

#endif
