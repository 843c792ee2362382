/* Connections over TCP, all of them through the secure channel (wire/channel.h), on one libuv loop:
 * whole frames in, whole frames out. This module does not decide which keys are accepted: its user
 * does, in `opened`. A connection is reported to the user only when its peer has proved a key. An
 * accepted connection whose peer proves none is closed and logged; repetitions are logged ever more
 * rarely.
 *
 * The frames sent in one turn of the loop are written at its end, as few records and one write.
 * Callbacks may call every function here; no function calls a callback before it returns. */
#ifndef LSFS_NET_TRANSPORT_H
#define LSFS_NET_TRANSPORT_H

#include <uv.h>
#include "cell/base/mono.h"
#include "cell/wire/channel.h"

struct transport;

/* The pace of a log line that may be repeated endlessly: the first is printed, then one after 1, 2,
 * 4 ... seconds, at most 10 minutes; after 10 seconds without a repetition it starts over. */
struct pace {
	mono_t next, last; /* instants of the next line to be printed and of the last line at all */
	struct backoff pause;
	unsigned held; /* lines not printed since the last printed one */
};
/* True when the line is to be printed now. *held: lines not printed since the last one. */
bool pace_allows(struct pace *p, mono_t now, unsigned *held);

struct transport_callbacks {
	/* The peer of `conn` has proved that it holds `key`: a replica's or a principal's, by
	 * `role`; for an outgoing connection it is the key given to transport_connect. False
	 * refuses the peer: the connection is closed after the frames sent within this call. */
	bool (*opened)(void *user, uint64_t conn, enum channel_role role,
	               const uint8_t key[NOISE_KEY]);
	/* One whole frame was received; valid until the return. */
	void (*frame)(void *user, uint64_t conn, struct bytes frame);
	/* An accepted connection of a client holds `bytes` of memory for an unfinished frame;
	 * called when that changes, and when the next frame begins (fresh). NULL: not called. */
	void (*unfinished)(void *user, uint64_t conn, size_t bytes, bool fresh);
	/* The connection has ended or could not be made, for the human-readable reason `why`, which
	 * is static. Not called after transport_close. */
	void (*closed)(void *user, uint64_t conn, const char *why);
	/* One frame was received as a datagram, on an open connection of a client; valid until the
	 * return. NULL: datagrams are neither sent nor received. */
	void (*datagram)(void *user, uint64_t conn, struct bytes frame);
	/* True if a peer with this key may be let in. Handshakes of each such key have a budget,
	 * and all others share one (net/stream.h). NULL: no handshake has a budget. */
	bool (*knows)(void *user, const uint8_t key[NOISE_KEY]);
	void *user;
};

/* The reasons given to `closed` for which a further attempt would fail as well: compare the
 * addresses. */
extern const char transport_unknown_key[]; /* no principal of the cell has our key */
extern const char transport_not_lasting[]; /* our principal may not have a lasting session */
extern const char transport_other_cell[];  /* the peer belongs to a cell with another id */

struct transport_config {
	uint8_t cell_id[CELL_ID];
	const struct noise_pair *own; /* copied */
	span_t patience; /* longest handshake, longest wait before a close; 0: the default */
	struct transport_callbacks callbacks;
};

/* Makes a transport on `loop`. 0 or a negative errno. The process must ignore SIGPIPE. */
int transport_new(struct transport **transport, uv_loop_t *loop,
                  const struct transport_config *config);
/* Listens on "HOST:PORT" ("[ADDR]:PORT" for IPv6; port 0: any). False with one line in `why`. */
bool transport_listen(struct transport *n, const char *address, char *why, size_t why_size);
/* The number of the port on which the transport listens. */
int transport_port(const struct transport *n);
/* Prints the numeric "ADDRESS:PORT" on which the transport listens; true when that is a loopback
 * address, which only this machine reaches. */
bool transport_listening(const struct transport *n, char *to, size_t size);
/* Begins to connect, as `role`, to the peer that must hold `key`; `opened` or `closed` reports the
 * result. Returns the connection's number, which is never reused. */
uint64_t transport_connect(struct transport *n, const char *address, enum channel_role role,
                           const uint8_t key[NOISE_KEY]);
/* Sends one or more whole frames, which are copied; dropped when the connection is not open. When
 * TRANSPORT_QUEUE_MAX bytes are unsent, since the peer does not read, the connection is closed;
 * when LIMIT_PRINCIPAL_UNSENT bytes are, to all clients of one key, that which has most of them. */
void transport_send(struct transport *n, uint64_t conn, struct bytes frames);
/* Sends a frame of at most DATAGRAM_PLAIN bytes (wire/datagram.h) beside the connection, as a
 * datagram, which may be lost. A replica can answer a client's only: they go to where the last one
 * has come from. */
void transport_send_datagram(struct transport *n, uint64_t conn, struct bytes frame);
/* Stops reading from the connection (on), or resumes it (off); idempotent. Frames that were read
 * before are still handed out. */
void transport_hold(struct transport *n, uint64_t conn, bool on);
/* Bytes sent to the connection that the kernel has not accepted yet. */
size_t transport_unsent_bytes(struct transport *n, uint64_t conn);
/* Has the connection probed while idle: it is closed when the peer's machine does not answer for
 * TRANSPORT_PROBED_S. */
void transport_probe(struct transport *n, uint64_t conn);
/* The key that the peer has proved; valid until the connection is closed. NULL: not open. */
const uint8_t *transport_key(struct transport *n, uint64_t conn);
/* Closes the connection once the sent frames are written. No further callback is made for it; true
 * when `closed` would have been called. */
bool transport_close(struct transport *n, uint64_t conn);
/* Closes all connections likewise, frees the transport and calls `stopped`, unless it is NULL, with
 * nothing left on the loop. No other callback is made meanwhile. */
void transport_stop(struct transport *n, void (*stopped)(void *user), void *user);

enum {
	TRANSPORT_QUEUE_MAX = LIMIT_UNSENT,
	TRANSPORT_PROBED_S = 8,
	TRANSPORT_PATIENCE_MS = 5000, /* default of transport_config.patience */
	TRANSPORT_UNPROVED_MAX = 256, /* connections without a proved key; of the address that has
	                               * most of them one is closed, by lot */
};

#endif
