/* The secure channel, pure: bytes from the peer in, bytes for the peer and plain text out.
 *
 *   preamble   8 bytes, plain: "lsfs", major version, role, minor version. Both sides send one.
 *   cell       16 bytes, plain: the cell's id. Zeros in an answer: the responder is of another one,
 *              whose id a stranger is not told.
 *   handshake  Noise IK (wire/noise.h): 96 bytes from the initiator, 48 back. Its prologue is the
 *              initiator's preamble and the cell's id, so that no handshake works for another
 *              version, role or cell.
 *   records    u16 length and a sealed message, in each direction.
 *
 * A responder keeps nothing but this struct, and says nothing beyond its handshake message, until
 * the initiator's first record has opened: only then did the peer prove that it is there now (a
 * first message can be a replay). So the initiator sends an empty record at once.
 *
 * A preamble of another major version is answered by a preamble with ours and the end. Minor
 * versions understand each other: each side knows what the other speaks, and sends no more. */
#ifndef LSFS_WIRE_CHANNEL_H
#define LSFS_WIRE_CHANNEL_H

#include "cell/base/limit.h"
#include "cell/wire/noise.h"

enum {
	CHANNEL_VERSION = 1,
	CHANNEL_PREAMBLE = 8,
	CHANNEL_FIRST = 96,  /* bytes of the initiator's handshake message */
	CHANNEL_SECOND = 48, /* and of the responder's */
};

/* Why a connection to a replica, or from a peer, of another cell fails. */
#define CHANNEL_OTHER_CELL "it is of another cell"

/* A replica's second connection to another one carries its bulk. */
enum channel_role { CHANNEL_CLIENT = 1, CHANNEL_REPLICA = 2, CHANNEL_BULK = 3 };

enum channel_state {
	CHANNEL_GREETING,  /* waiting for the peer's preamble */
	CHANNEL_NAMING,    /* waiting for the cell that it is of */
	CHANNEL_SHAKING,   /* waiting for its handshake message */
	CHANNEL_PROVING,   /* responder: waiting for the first record */
	CHANNEL_OPEN,
	CHANNEL_FAILED,    /* close the connection after what is in `out` is sent */
};

struct channel_config {
	bool initiator;
	enum channel_role role;           /* as what the initiator comes; a responder learns it */
	uint8_t cell_id[CELL_ID];
	const struct noise_pair *own;
	uint8_t ephemeral_secret[NOISE_KEY];
	const uint8_t *remote;            /* the responder's static key; NULL for a responder */
};

struct channel {
	enum channel_state state;
	bool initiator;
	enum channel_role role;
	uint16_t minor;                     /* what the peer speaks of the major version */
	uint8_t cell_id[CELL_ID];
	uint8_t preamble[CHANNEL_PREAMBLE]; /* the initiator's */
	struct noise_pair own;
	uint8_t ephemeral_secret[NOISE_KEY];
	struct noise noise;
	struct buffer in;                   /* at most one message that is not whole yet */
	const char *why;                    /* of a failure, for people; static */
};

/* Starts it; appends to `out` what goes to the peer first. */
void channel_start(struct channel *c, const struct channel_config *config, struct buffer *out);

/* Handles bytes from the peer: appends answers for it to `out` and opened plain text to `plain`
 * (a stream: records are no boundaries). Call channel_peer once the state is CHANNEL_OPEN and close
 * the connection if that key is not welcome in that role. */
enum channel_state channel_receive(struct channel *c, struct bytes from, struct buffer *out,
                                   struct buffer *plain);

/* Seals plain text for the peer, in as many records as it takes. Only when CHANNEL_OPEN. */
void channel_send(struct channel *c, struct bytes plain, struct buffer *out);

/* The peer's static key: authenticated when the state is CHANNEL_OPEN. */
const uint8_t *channel_peer(const struct channel *c);

/* Wipes the secrets and frees what is buffered. */
void channel_end(struct channel *c);

#endif
