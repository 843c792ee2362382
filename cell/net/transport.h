/* Connections over TCP, all of them through the secure channel (wire/channel.h), on one libuv loop:
 * whole frames in, whole frames out. Names nobody and decides nothing: whether a key is welcome is
 * for `opened` to say. Nothing of a connection reaches the user before its peer has proved its key;
 * who can't prove one is closed, with a line in the log, but for most that come again and again.
 *
 * What is sent in one turn of the loop leaves at its end, as few records and one write. Every
 * callback may call everything here; none is called from within. */
#ifndef LSFS_NET_TRANSPORT_H
#define LSFS_NET_TRANSPORT_H

#include <uv.h>
#include "cell/base/mono.h"
#include "cell/wire/channel.h"

struct transport;

/* A message that may come again and again: the first is told, then one of 1, 2, 4 ... seconds, of
 * 10 minutes in the end, until there was none for 10 seconds. */
struct pace {
	mono_t told, last;
	span_t pause;
	unsigned held; /* since `told` */
};
/* Is it to be told now? *held: how many were not, since the last one that was. */
bool pace_tells(struct pace *p, mono_t now, unsigned *held);

struct transport_callbacks {
	/* The peer of `conn` has proved that it holds `key` (a replica's or a principal's, by
	 * `role`: for a connection of our own making it is the key that was asked for). False:
	 * close it, after what was sent from within. */
	bool (*opened)(void *user, uint64_t conn, enum channel_role role,
	               const uint8_t key[NOISE_KEY]);
	void (*frame)(void *user, uint64_t conn, struct bytes frame);
	/* It is gone, or could not be made; `why` is for people, and static. Not called after
	 * transport_close. */
	void (*closed)(void *user, uint64_t conn, const char *why);
	void *user;
};

/* Reasons that no other attempt would change, among those that `closed` tells: compared by their
 * addresses. */
extern const char transport_unknown_key[]; /* the replica knows nobody by our key */
extern const char transport_other_cell[]; /* the cell's id is not the replica's */

struct transport_config {
	uint8_t cell_id[CELL_ID];
	const struct noise_pair *own; /* copied */
	span_t patience; /* for handshakes and for last words; 0: TRANSPORT_PATIENCE_MS */
	struct transport_callbacks callbacks;
};

/* 0 or a negative errno. The process must ignore SIGPIPE. */
int transport_new(struct transport **transport, uv_loop_t *loop,
                  const struct transport_config *config);
/* Listens on "HOST:PORT" ("[ADDR]:PORT" for IPv6; port 0: any). False with one line in `why`. */
bool transport_listen(struct transport *n, const char *address, char *why, size_t why_size);
/* The port that it listens on. */
int transport_port(const struct transport *n);
/* Where it listens, in numbers: "ADDRESS:PORT"; true: none but this machine gets there. */
bool transport_listening(const struct transport *n, char *to, size_t size);
/* Begins to connect, as `role`, to the peer that must hold `key`; answered by opened or closed. The
 * number is never used again. */
uint64_t transport_connect(struct transport *n, const char *address, enum channel_role role,
                           const uint8_t key[NOISE_KEY]);
/* One or more whole frames; copied. Dropped when the connection is not open. One whose peer does
 * not read (TRANSPORT_QUEUE_MAX bytes wait) is closed. */
void transport_send(struct transport *n, uint64_t conn, struct bytes frames);
/* Nothing more is read from it, or (off) again, if that is not so already; what was read before
 * still comes. */
void transport_hold(struct transport *n, uint64_t conn, bool on);
/* Bytes sent to it that have not left yet. */
size_t transport_unsent_bytes(struct transport *n, uint64_t conn);
/* Idle as it is, it is closed when its peer's machine is not heard for TRANSPORT_PROBED_S. */
void transport_probe(struct transport *n, uint64_t conn);
/* The key that its peer has proved, until it is closed; NULL: it is not open. */
const uint8_t *transport_key(struct transport *n, uint64_t conn);
/* Closes it after what was sent has gone out. No callback for it comes any more: true when `closed`
 * would have come. */
bool transport_close(struct transport *n, uint64_t conn);
/* Closes everything so; then calls `stopped`, with nothing left on the loop or in memory. No other
 * callback comes any more. */
void transport_stop(struct transport *n, void (*stopped)(void *user), void *user);

enum {
	TRANSPORT_QUEUE_MAX = LIMIT_UNSENT,
	TRANSPORT_PROBED_S = 8,
	TRANSPORT_PATIENCE_MS = 5000, /* a connection that is not open by then is closed */
	TRANSPORT_UNPROVED_MAX = 256, /* connections that have not proved a key; the oldest goes */
};

#endif
