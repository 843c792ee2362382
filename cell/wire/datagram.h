/* Datagrams beside a secure channel, pure: for KeepAlives that must not wait for TCP.
 *
 *   id       8 bytes: names the channel
 *   number   u64: 0, 1, 2 ... in each direction; the nonce
 *   sealed   one frame, filled up with zeros to DATAGRAM_PLAIN bytes, and the tag
 *
 * Id and keys come from the channel's handshake, by labels of their own: neither these nor the
 * channel's keys tell anything of the other, and the numbers are not the channel's. All datagrams
 * have the same length, so that an answer is never longer than what it answers. Each is opened
 * once; lost, doubled, delayed and forged ones change nothing. */
#ifndef LSFS_WIRE_DATAGRAM_H
#define LSFS_WIRE_DATAGRAM_H

#include "cell/wire/noise.h"

enum {
	DATAGRAM_ID = 8,
	DATAGRAM_PLAIN = 48, /* a frame of KeepAlive, or its reply */
	DATAGRAM_SIZE = DATAGRAM_ID + 8 + DATAGRAM_PLAIN + NOISE_TAG,
};

/* The window against replays. Datagrams may arrive in any order: each number is taken once, and a
 * number that is too far below the highest is not taken at all. A window of zeros has taken
 * nothing. */
enum { REPLAY_WINDOW = 64 };
struct replay_window {
	uint64_t next; /* above the highest number that was taken */
	uint64_t seen; /* bit i: the number next - 1 - i was taken */
};

/* True if the number may still be taken. */
bool replay_window_is_fresh(const struct replay_window *w, uint64_t number);
/* Takes a fresh number. */
void replay_window_take(struct replay_window *w, uint64_t number);

/* The datagrams of one channel. Zeros: none can be opened or sealed. */
struct datagrams {
	struct noise_datagrams keys;
	uint64_t sealed; /* how many were */
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
