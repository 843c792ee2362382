/* The secure channel, pure: bytes from the peer in, bytes for the peer and plain text out.
 *
 *   preamble   8 bytes, plain: "lsfs", major version, role, minor version. Both sides send one.
 *   cell       16 bytes, plain: the cell's id. Zeros in an answer: the responder belongs to another
 *              cell, whose id is not disclosed to strangers.
 *   handshake  Noise IK (wire/noise.h): 96 bytes from the initiator, 48 back. Its prologue is the
 *              initiator's preamble and the cell's id, so that no handshake works for another
 *              version, role or cell.
 *   records    u16 length and a sealed message, in each direction.
 *
 * A responder keeps nothing but this struct, and sends nothing but its handshake message, until it
 * has opened the initiator's first record: only that proves that the peer is there now, because a
 * first message can be a replay. So the initiator sends an empty record at once. The first message
 * already identifies its sender, at half the cost: the responder's user says when to do the rest.
 *
 * A preamble of another major version is answered by our preamble, and the connection ends. Minor
 * versions are compatible: each side knows the other's version, and sends only what that has. */
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

/* The reason when a connection to, or from, a peer of another cell fails. */
#define CHANNEL_OTHER_CELL "it is of another cell"

/* The role of a connection's initiator. A replica's second connection to another replica carries
 * its bulk. An operator on the host of a replica has the replica's key, and is no replica. */
enum channel_role { CHANNEL_CLIENT = 1, CHANNEL_REPLICA = 2, CHANNEL_BULK = 3, CHANNEL_HOST = 4 };

static inline bool
channel_role_is_replica(enum channel_role role)
{
	return role == CHANNEL_REPLICA || role == CHANNEL_BULK;
}

enum channel_state {
	CHANNEL_GREETING, /* waiting for the peer's preamble */
	CHANNEL_NAMING,   /* waiting for the id of its cell */
	CHANNEL_SHAKING,  /* waiting for its handshake message */
	CHANNEL_CLAIMED,  /* responder: the peer's key is known; waiting for channel_answer */
	CHANNEL_PROVING,  /* responder: waiting for the first record */
	CHANNEL_OPEN,
	CHANNEL_FAILED, /* close the connection after what is in `out` is sent */
};

struct channel_config {
	bool initiator;
	enum channel_role role; /* of the initiator; not used by a responder */
	uint8_t cell_id[CELL_ID];
	const struct noise_pair *own;
	uint8_t ephemeral_secret[NOISE_KEY];
	const uint8_t *remote; /* the responder's static key; NULL for a responder */
};

struct channel {
	enum channel_state state;
	bool initiator;
	enum channel_role role;
	uint16_t minor; /* the peer's minor version */
	uint8_t cell_id[CELL_ID];
	uint8_t preamble[CHANNEL_PREAMBLE]; /* the initiator's */
	struct noise_pair own;              /* until the handshake begins */
	uint8_t ephemeral_secret[NOISE_KEY];
	struct noise noise;
	struct buffer in; /* an incomplete message, at most one */
	const char *why;  /* the reason of a failure, for people; static */
};

/* Starts the channel; appends its first bytes for the peer to `out`. */
void channel_start(struct channel *c, const struct channel_config *config, struct buffer *out);

/* Handles bytes from the peer: appends answers for it to `out` and opened plain text to `plain` (a
 * stream: records are not message boundaries). When the state becomes CHANNEL_OPEN the caller must
 * check channel_peer, and close the connection if that key is not accepted in that role. */
enum channel_state channel_receive(struct channel *c, struct bytes from, struct buffer *out,
                                   struct buffer *plain);

/* Answers the first message of the peer, and goes on. Only when CHANNEL_CLAIMED. */
enum channel_state channel_answer(struct channel *c, struct buffer *out);

/* Seals plain text for the peer, in as many records as it needs. Only when CHANNEL_OPEN. */
void channel_send(struct channel *c, struct bytes plain, struct buffer *out);

/* The peer's static key: authenticated when the state is CHANNEL_OPEN. In CHANNEL_CLAIMED its owner
 * has made the first message, which may be a replay. */
const uint8_t *channel_peer(const struct channel *c);

/* Wipes the secrets and frees what is buffered. */
void channel_end(struct channel *c);

#endif
