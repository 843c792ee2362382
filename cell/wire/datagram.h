/* Datagrams beside a secure channel, pure: for KeepAlives that must not wait for TCP.
 *
 *   id       8 bytes: names the channel
 *   number   u64: 0, 1, 2 ... in each direction; the nonce
 *   sealed   one frame, filled up with zeros to DATAGRAM_PLAIN bytes, and the tag
 *
 * Id and keys come from the channel's handshake, by labels of their own: they tell nothing of the
 * channel's keys, nor do those of them, and the numbers are not the channel's. All datagrams have
 * the same length, so that an answer is never longer than what it answers. Each is opened once;
 * lost, doubled, delayed and forged ones change nothing. */
#ifndef LSFS_WIRE_DATAGRAM_H
#define LSFS_WIRE_DATAGRAM_H

#include "cell/wire/noise.h"
#include "cell/wire/replay_window.h"

enum {
	DATAGRAM_ID = 8,
	DATAGRAM_PLAIN = 48, /* a frame of KeepAlive, or its reply */
	DATAGRAM_SIZE = DATAGRAM_ID + 8 + DATAGRAM_PLAIN + NOISE_TAG,
};

/* The datagrams of one channel. Of zeros: none can be opened or sealed. */
struct datagrams {
	struct noise_datagrams keys;
	uint64_t sealed; /* the number of those that were */
	struct replay_window window;
};

/* The datagrams of a finished handshake; none were sealed or opened. */
struct datagrams datagrams_of(const struct noise *n);
/* The id in `datagram`; false if it has another length than a datagram. */
bool datagram_id(struct bytes datagram, uint64_t *id);
/* Seals a frame of at most DATAGRAM_PLAIN bytes. */
void datagram_seal(struct datagrams *d, struct bytes frame, uint8_t to[DATAGRAM_SIZE]);
/* Opens a datagram, whose frame is a view of `plain`. False, without any effect, for one that was
 * opened before, is too old, or was not sealed by the peer. */
bool datagram_open(struct datagrams *d, struct bytes datagram, uint8_t plain[DATAGRAM_PLAIN],
                   struct bytes *frame);

#endif
