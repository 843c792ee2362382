/* The inside of the net, shared by its files and nobody else.
 *
 *   transport.c  all of them: listening, finding, deadlines, the end
 *   stream.c     one connection: bytes through the channel, frames, the way out
 *   dialer.c     from an address to a connection
 *
 *   SHAKING --key proved--> OPEN --transport_close--> LINGERING --all is sent--.
 *      |                     |                      `----too late--------+--> CLOSING
 *      `--broken, too late---`---------------------broken----------------' */
#ifndef LSFS_NET_STREAM_H
#define LSFS_NET_STREAM_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <netdb.h>
#include "cell/net/transport.h"

enum stream_state { STREAM_SHAKING, STREAM_OPEN, STREAM_LINGERING, STREAM_CLOSING };

/* How a connection of our own making comes about. */
struct dialer {
	enum channel_role role;
	uint8_t key[NOISE_KEY];
	uv_getaddrinfo_t resolving;
	bool busy;                  /* resolving */
	uv_connect_t connecting;
	struct addrinfo *found, *next;
};

struct stream {
	RB_ENTRY(stream) node;
	TAILQ_ENTRY(stream) timed;  /* SHAKING and LINGERING: in net.timed */
	TAILQ_ENTRY(stream) unsent; /* while `out` is not empty: in net.unsent */
	struct transport *transport;
	uint64_t id;
	enum stream_state state;
	bool tell;                  /* the user is to hear of its end */
	const char *why;            /* it ended; static */
	mono_t deadline;
	struct dialer *dialer;      /* NULL: accepted */
	uv_tcp_t tcp;
	struct channel channel;
	uint32_t frame_max;
	uint64_t turn;              /* of the loop, in which it was read last */
	struct buffer in;           /* the beginning of a frame */
	struct buffer out;          /* frames for the end of the turn */
};

RB_HEAD(stream_tree, stream);
TAILQ_HEAD(stream_list, stream);

enum { READ_SIZE = 64 * 1024 };

struct transport {
	uv_loop_t *loop;
	struct transport_config config;
	struct noise_pair own;
	struct stream_tree streams; /* by id, until their handles are closed */
	struct stream_list timed;   /* in the order of their deadlines */
	struct stream_list unsent;
	uint64_t last_id;
	int unproved_n;             /* accepted and SHAKING */
	uv_tcp_t *listener;
	uv_timer_t timer;
	uv_prepare_t prepare;
	uv_idle_t idle;
	int handles_n;              /* on the loop, those of streams apart */
	uint64_t turn;              /* of the loop */
	mono_t turn_end;            /* clients that have had theirs wait for the next one */
	bool turn_runs;             /* a client was read in it */
	struct pace refusals;       /* in the log */
	struct buffer plain, sealed; /* of the call that runs */
	uint8_t bytes[READ_SIZE];    /* what was read just now */
	bool stopping;
	void (*stopped)(void *user);
	void *stopped_user;
};

/* net.c. NULL: there is none of that number. */
struct stream *transport_find(struct transport *n, uint64_t id);
/* A deadline of one patience from now on, or none. */
void transport_time(struct stream *s);
void transport_untime(struct stream *s);
void transport_unsent(struct stream *s);
void transport_refused(struct stream *s, const char *why);
/* Its handle is closed: the last that is heard of it. */
void transport_gone(struct stream *s);

/* stream.c. `dialer` is taken over; NULL: to be accepted. */
struct stream *stream_new(struct transport *n, struct dialer *dialer);
/* It is connected: the handshake begins. */
void stream_start(struct stream *s);
void stream_flush(struct stream *s);
/* See transport_probe. */
void stream_probe(struct stream *s);
/* Last words, then the end. */
void stream_linger(struct stream *s);
void stream_end(struct stream *s, const char *why);
void stream_free(struct stream *s);

/* dial.c. "HOST:PORT" in its parts; false when it is not that. */
bool dialer_split(const char *address, char host[NI_MAXHOST], char port[NI_MAXSERV]);
void dialer_start(struct stream *s, const char *address);
void dialer_free(struct dialer *d);

#endif
