/* Noise_IK_25519_ChaChaPoly_SHA256 (The Noise Protocol Framework, revision 34), pure: bytes in,
 * bytes out. The initiator knows the responder's static key beforehand; the responder learns the
 * initiator's in the first message. Ephemeral keys are passed in, so that a handshake replays. All
 * arithmetic is libsodium's.
 *
 *   initiator                      responder
 *   noise_start, noise_write  -->  noise_start, noise_read
 *   noise_read                <--  noise_write
 *   then noise_seal and noise_open, each direction with keys and a counter of its own. */
#ifndef LSFS_WIRE_NOISE_H
#define LSFS_WIRE_NOISE_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/base/bytes.h"

enum {
	NOISE_KEY = 32,
	NOISE_TAG = 16,
	NOISE_PLAIN_MAX = 65535 - NOISE_TAG, /* section 3: a message has at most 65,535 bytes */
};

/* A key pair; `secret` is clamped by the arithmetic, `public` belongs to it. */
struct noise_pair {
	uint8_t secret[NOISE_KEY], public[NOISE_KEY];
};

/* The key pair of a secret key. */
struct noise_pair noise_pair_of(const uint8_t secret[NOISE_KEY]);

/* Section 5.1: a key and the number of messages sealed with it. */
struct noise_cipher {
	uint8_t key[NOISE_KEY];
	bool keyed;
	uint64_t count;
};

/* The keys of datagrams beside the channel (wire/datagram.h). */
struct noise_datagrams {
	uint64_t id; /* the same on both sides; 0 if there are none */
	uint8_t sending[NOISE_KEY], receiving[NOISE_KEY];
};

struct noise {
	bool initiator;
	int message; /* handshake messages done: 0, 1, 2 (done) */
	bool failed; /* latched: nothing is read or written any more */
	/* The secrets of these are wiped when the handshake is done. */
	struct noise_pair own, ephemeral;
	uint8_t remote[NOISE_KEY]; /* the peer's static key: known, or from message 1 */
	uint8_t remote_ephemeral[NOISE_KEY];
	uint8_t chaining[32], hash[32]; /* `hash` names the whole conversation when it is done */
	struct noise_cipher handshake, sending, receiving;
	struct noise_datagrams datagrams;
};

/* Starts a handshake. `remote` is the responder's static key for an initiator, NULL for a
 * responder. */
void noise_start(struct noise *n, bool initiator, struct bytes prologue,
                 const struct noise_pair *own, const uint8_t ephemeral_secret[NOISE_KEY],
                 const uint8_t *remote);
/* Appends this side's next handshake message with its payload. False (and failed) when it is not
 * this side's turn or a key is refused (an all-zero shared secret). */
bool noise_write(struct noise *n, struct bytes payload, struct buffer *out);
/* Reads the peer's next handshake message and appends its payload. False (and failed) for any other
 * bytes. */
bool noise_read(struct noise *n, struct bytes message, struct buffer *payload);
/* True when both messages are done: messages can be sealed and opened. */
bool noise_done(const struct noise *n);

/* Transport messages, at most NOISE_PLAIN_MAX bytes of plain text each. Keys are replaced
 * automatically after every NOISE_REKEY messages of a direction (section 11.3). Messages are in
 * order: after a lost, repeated or changed one noise_open fails for ever. */
enum { NOISE_REKEY = 1 << 16 };
/* Appends the sealed message; false: `out` has no room. Only when the handshake is done. */
bool noise_seal(struct noise *n, struct bytes plain, struct buffer *out);
/* Appends the plain text of a sealed message. False: it is no such message. */
bool noise_open(struct noise *n, struct bytes sealed, struct buffer *plain);

/* Wipes all secrets. */
void noise_end(struct noise *n);

#endif
