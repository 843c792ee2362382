/* What the parts of replica_cell share: replicas and clients send, the cell's clock delivers. */
#ifndef LSFS_TESTS_REPLICA_CELL_INSIDE_H
#define LSFS_TESTS_REPLICA_CELL_INSIDE_H

#include "tests/unit/replica_cell.h"

enum { WIRE_MS = 1, SYNC_MS = 2, COPY_MS = 50 };

struct cell_conn {
	int client; /* -1: the operator */
	const char *principal;
	bool aside, open_here, open_there; /* at the client; at the replica */
	uint8_t replica;
	uint64_t life;
};

enum post_kind {
	TO_PEER,      /* replica, from, frame */
	DURABLE,      /* replica, number: ticket */
	SAVED,        /* replica, number: index */
	COPIED,       /* replica, from: whose state it gets */
	CONNECT,      /* number: conn */
	HANG_UP,      /* conn: the client has closed it */
	TO_REPLICA,   /* conn, frame */
	CONNECTED,    /* conn */
	TO_CLIENT,    /* conn, frame */
	DISCONNECTED, /* conn */
};

/* Something under way. */
struct cell_post {
	mono_t at;
	uint64_t sequence;
	enum post_kind kind;
	int replica, from;
	uint64_t life, number; /* of the replica; conn or ticket */
	struct bytes frame;    /* owned */
};

/* Arrives after `ms`. Copies the frame. */
void cell_post(struct cell *cell, struct cell_post p, int64_t ms);
/* To whoever is at the client's end of a connection. */
void cell_to_client(struct cell *cell, uint64_t conn, enum post_kind kind, struct bytes frame);
struct cell_conn *cell_conn_of(struct cell *cell, uint64_t id); /* it exists */

/* A step of a client; what it sends is under way. */
void cell_client_event(struct cell_client *c, struct client_event event);
/* Starts again with the state of another one. */
void cell_begin_with_copy(struct cell_replica *r, const struct cell_replica *of);

#endif
