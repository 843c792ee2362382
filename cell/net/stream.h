/* The internals of cell/net, for its own files only. A stream is one connection.
 *
 *   transport.c  all connections: listening, look-up by number, deadlines, the end
 *   stream.c     one connection: encryption, frames, writing
 *   socket_options.c  what the kernel does for it
 *   handshakes.c those of accepted ones, each key's within a budget; the addresses of connections
 *                that have proved no key
 *   readers.c    the clients of a key, and what all of them have not read
 *   dialer.c     outgoing connections: from an address to a connected socket
 *   datagram_socket.c   KeepAlives beside it, over UDP
 *
 *   SHAKING --key proved--> OPEN --transport_close--> LINGERING --all is sent--.
 *      |                     |                      `---deadline-------+---> CLOSING
 *      `--broken, deadline---`---------------------broken--------------' */
#ifndef LSFS_NET_STREAM_H
#define LSFS_NET_STREAM_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <netdb.h>
#include "cell/base/limit.h"
#include "cell/base/mono.h"
#include "cell/net/transport.h"
#include "cell/wire/datagram.h"
#include "cell/wire/noise.h"

/* ---- handshakes.c: budgets ---- */

/* How many handshakes a replica makes with each key. A handshake costs more than a request, so a
 * client that connects without end would take the time of all others.
 *
 * After a fail-over all clients of a principal connect at once, some of them twice; beyond that
 * one in HANDSHAKE_MS is enough. Each key has a budget of its own, so a client that connects too
 * often delays nobody else. All keys that the cell does not know share one. The rule is that of a
 * leaky bucket (ITU-T I.371, the virtual scheduling algorithm). */

enum {
	HANDSHAKE_MS = 10,                               /* one handshake in this time, */
	HANDSHAKES_AHEAD = 4 * LIMIT_PRINCIPAL_SESSIONS, /* and this many ahead of it */
};

struct handshake_key;
RB_HEAD(handshake_keys, handshake_key);

struct handshake_budget {
	struct handshake_keys keys; /* those that have made one lately */
	size_t n;
};

/* No key has made any. */
void handshake_budget_init(struct handshake_budget *b);
/* Frees what it keeps of keys. */
void handshake_budget_free(struct handshake_budget *b);
/* Counts one more of the key, NULL: of one that is not known. False: there were too many; ask again
 * at *again. A key whose handshakes were all some time ago is forgotten. */
bool handshake_budget_take(struct handshake_budget *b, const uint8_t key[NOISE_KEY], mono_t now,
                           mono_t *again);

enum stream_state { STREAM_SHAKING, STREAM_OPEN, STREAM_LINGERING, STREAM_CLOSING };

/* The part of a stream that only outgoing connections have. */
struct dialer {
	enum channel_role role;
	uint8_t key[NOISE_KEY];
	char address[LIMIT_ADDRESS + 1];
	uv_getaddrinfo_t resolving;
	bool busy; /* `resolving` is under way */
	uv_connect_t connecting;
	struct addrinfo *found; /* owned: the addresses of the name; NULL: none, or not looked up */
	struct addrinfo known;  /* the address in their place */
	struct sockaddr_storage known_address;
	struct addrinfo *first, *at; /* where it began, and where it is; NULL: nowhere yet */
};

/* The clients of one key. */
struct reader {
	RB_ENTRY(reader) link;
	uint8_t key[NOISE_KEY];
	LIST_HEAD(, stream) connections; /* that were accepted and are OPEN; at least one */
	size_t unsent;                   /* bytes on all of them, as counted last */
};

/* Where the next connection to a peer begins. */
struct dialed {
	uint8_t key[NOISE_KEY];
	char address[LIMIT_ADDRESS + 1]; /* as it was given then */
	struct sockaddr_storage next;
	bool unanswered; /* it is used without a look-up: the last one gave no address */
};

enum { DIALED_KEPT = 2 * LIMIT_REPLICAS };

struct stream {
	RB_ENTRY(stream) node;
	TAILQ_ENTRY(stream) timed;   /* SHAKING and LINGERING: in transport.timed */
	TAILQ_ENTRY(stream) unsent;  /* while `listed` or `late` */
	TAILQ_ENTRY(stream) waiting; /* while it `waits` */
	struct transport *transport;
	uint64_t id;
	enum stream_state state;
	bool tell;       /* the callback `closed` is due at its end */
	const char *why; /* the reason of its end; static */
	mono_t deadline;
	struct dialer *dialer; /* NULL: accepted */
	bool waits;            /* an accepted one, CHANNEL_CLAIMED: for the budget of its key */
	bool stranger;         /* its key was not known when it connected */
	struct origin *origin; /* of an accepted one that is SHAKING; else NULL */
	uv_tcp_t tcp;
	struct channel channel;
	uint32_t frame_max;
	uint64_t turn;       /* of the loop, in which its socket was read last */
	struct buffer in;    /* an unfinished frame, decrypted */
	size_t unfinished;   /* bytes of memory for it, as reported last */
	struct buffer first; /* frames to be encrypted before those of `out` */
	struct buffer out;   /* frames to be encrypted, from `out_begin` on */
	size_t out_begin;
	bool listed; /* in transport.unsent: frames were added in this turn */
	bool late;   /* in transport.late: there are more earlier frames than one turn writes */

	/* Of a client's connection that was accepted and is OPEN. */
	struct reader *reader; /* else NULL */
	LIST_ENTRY(stream) beside;
	size_t counted; /* bytes unsent, as counted last */

	/* Of a client's connection that is OPEN. */
	RB_ENTRY(stream) by_datagram;
	struct datagrams datagrams;            /* id 0: none */
	uv_udp_t *datagram_socket;             /* of an outgoing connection; NULL: none yet */
	struct sockaddr_storage datagram_peer; /* of an accepted one: where they come from */
};

RB_HEAD(stream_tree, stream);
RB_HEAD(datagram_tree, stream);
RB_HEAD(origins, origin);
RB_HEAD(readers, reader);
TAILQ_HEAD(stream_list, stream);

enum { READ_SIZE = 64 * 1024 };

struct transport {
	uv_loop_t *loop;
	struct transport_config config;
	struct noise_pair *own;     /* owned; secret */
	struct stream_tree streams; /* by id, until their handles are closed */
	struct stream_list timed;   /* in the order of their deadlines */
	struct stream_list unsent, late;
	uint64_t last_id;
	int unproved_n;         /* accepted connections that are SHAKING */
	struct origins origins; /* of these */
	struct handshake_budget handshakes;
	struct stream_list waiting; /* for it */
	uv_timer_t admission;       /* while some wait */
	uv_tcp_t *listener;
	uv_udp_t *datagram_socket;        /* on the listener's port; NULL: none */
	struct datagram_tree by_datagram; /* connections by the ids of their datagrams */
	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_idle_t idle;
	struct readers readers;
	/* Of the peers dialed last; the number of entries made in it so far. */
	struct dialed dialed[DIALED_KEPT];
	unsigned dialed_n;
	int handles_n;                 /* open handles on the loop, without those of streams */
	uint64_t turn;                 /* number of the loop's turn */
	const struct stream *receives; /* the one whose frames are handed out now */
	mono_t turn_end;             /* from here on clients are read only a little in this turn */
	bool turn_runs;              /* a client was read in this turn, so turn_end is set */
	struct pace refusals;        /* of log lines about refused connections */
	struct buffer plain, sealed; /* decrypted and encrypted bytes of the call that runs */
	uint8_t bytes[READ_SIZE];    /* the buffer of each read */
	bool stopping;
	void (*stopped)(void *user);
	void *stopped_user;
};

/* ---- transport.c ---- */

/* The stream of this number; NULL: none. */
struct stream *transport_find(struct transport *n, uint64_t id);
/* Sets the stream's deadline to one patience (transport_config) from now. */
void transport_set_deadline(struct stream *s);
/* Removes its deadline. */
void transport_clear_deadline(struct stream *s);
/* Puts the stream into the list of those that are written at the end of the turn, unless it is in
 * one. */
void transport_list_unsent(struct stream *s);
/* The same for the list of those that are written by turns, a few at the end of each turn of the
 * loop. */
void transport_list_late(struct stream *s);
/* Takes it out of its list. */
void transport_unlist(struct stream *s);
/* Logs that the accepted connection is refused; repetitions are logged ever more rarely. */
void transport_refused(struct stream *s, const char *why);
/* Frees a handle that is closed and whose `data` is the transport, which counts it. */
void transport_handle_closed(uv_handle_t *handle);
/* Calls `closed` if that is due, and frees the stream, whose handle is closed now. */
void transport_stream_closed(struct stream *s);

/* ---- stream.c ---- */

/* A new stream in state SHAKING. Takes `dialer` over; NULL: an accepted connection. */
struct stream *stream_new(struct transport *n, struct dialer *dialer);
/* Begins the handshake on a connected socket. */
void stream_start(struct stream *s);
/* Continues to read from its socket. */
void stream_read(struct stream *s);
/* Answers the first message of a handshake. */
void stream_answer(struct stream *s);
/* Encrypts and writes frames: to a client a chunk of them, to a replica what the kernel takes. */
void stream_flush(struct stream *s);
/* Sends what waits, until a deadline, then ends the stream. */
void stream_linger(struct stream *s);
/* Bytes that were sent and that the kernel has not accepted. */
size_t stream_unsent(const struct stream *s);
/* Closes the stream at once; `why` is static, NULL when the user asked for it. */
void stream_end(struct stream *s, const char *why);
/* Frees a stream whose handle is closed. */
void stream_free(struct stream *s);

/* ---- socket_options.c ---- */

/* Sets the options of a connection that has become OPEN. */
void socket_options_set(struct stream *s);
/* See transport_probe. */
void socket_options_probe(struct stream *s);

/* ---- handshakes.c ---- */

/* The first message of its handshake was received: answers it, now or later. */
void handshakes_claimed(struct stream *s);
/* The stream no longer waits for an answer. */
void handshakes_leave(struct stream *s);

/* ---- handshakes.c: addresses of strangers ---- */

/* A connection was accepted, and has proved no key. */
void origins_join(struct stream *s);
/* The connection has proved a key, or ends. */
void origins_leave(struct stream *s);
/* One of the connections without a proved key, drawn by lot among those of the address that has
 * most; NULL: there is none. */
struct stream *origins_surplus(struct transport *n);

/* ---- readers.c ---- */

/* The connection of a client is OPEN. */
void readers_join(struct stream *s);
/* The connection is OPEN no longer. */
void readers_leave(struct stream *s);
/* The number of bytes unsent on it may have changed; those of others than clients do not count. */
void readers_count(struct stream *s);
/* The one with most unsent among the connections of the same key, when these may not have `len`
 * bytes more, all together; NULL: they may, or it is no client's. */
struct stream *readers_surplus(struct stream *s, size_t len);

/* ---- dialer.c ---- */

/* Splits "HOST:PORT"; false when `address` is not of that form. */
bool dialer_split(const char *address, char host[NI_MAXHOST], char port[NI_MAXSERV]);
/* Begins to look up and connect to `address`; calls stream_start or stream_end. */
void dialer_start(struct stream *s, const char *address);
/* The peer has proved its key: the next connection to it begins with the same address. */
void dialer_opened(struct stream *s);
/* The connection ends before that: the next one to the peer begins with the next address. */
void dialer_gives_up(struct stream *s);
/* Frees a dialer; NULL is ignored. */
void dialer_free(struct dialer *d);

/* ---- datagram_socket.c ---- */

/* Receives datagrams at this address, where the transport listens; it logs when that fails. */
void datagram_socket_listen(struct transport *n, const struct sockaddr *at);
/* Closes that socket. */
void datagram_socket_unlisten(struct transport *n);
/* The connection is open: datagrams are received for it. */
void datagram_socket_open(struct stream *s);
/* The connection ends. */
void datagram_socket_close(struct stream *s);

#endif
