/* Two nets on the loopback, in one process and on one loop, with everything that they were told. */
#ifndef LSFS_TESTS_TRANSPORT_PAIR_H
#define LSFS_TESTS_TRANSPORT_PAIR_H

#include "cell/net/transport.h"
#include "cell/wire/channel.h"
#include "tests/unit/net_fixture.h"

enum { PATIENCE_MS = 200 };

/* One net and what it was told. */
struct side {
	struct transport *transport;
	struct noise_pair pair;
	bool welcome, knows; /* every peer, by its key */
	uint64_t conn;       /* opened last */
	int opened_n, closed_n, frames_n, datagrams_n;
	enum channel_role role;
	uint8_t key[NOISE_KEY];
	uint64_t closed_conn;
	char why[128];
	bool echo, close_at_frame, close_at_unfinished, stop_at_frame, stop_at_end;
	int64_t busy_ms;        /* with each frame */
	int short_at;           /* so many frames had come when a short one did */
	struct buffer got;      /* all frames, one after the other */
	struct buffer datagram; /* the last one */
	bool stopped;
};

struct pair {
	uv_loop_t loop;
	struct side server, client;
	char address[32];
	uv_timer_t timer;
};

extern struct pair p; /* of the test that runs */

/* The nets of cell 7, or of these cells; the server listens. */
void start(void);
void start_in(uint8_t server_cell, uint8_t client_cell);
void side_start(struct side *s, uv_loop_t *loop, uint8_t cell, uint8_t seed);
/* Stops what is not stopped yet; then nothing may be left on the loop. */
void end(void);
void on_stopped(void *user);
/* For cmocka: start and end. */
int setup(void **state);
int teardown(void **state);
#define PAIR_TEST(test) TEST_WITH(test, setup, teardown)

/* The client connects; both are told. */
uint64_t connect_as(enum channel_role role);
void open_both(void);
/* A stranger's socket, connected to the server. */
int knock(void);
/* The same of a type, SOCK_STREAM or SOCK_DGRAM, and from an address of this machine. */
int knock_by(int type, uint32_t from);
/* A frame of `len` bytes after its prefix, filled from a seed; none that overtakes others. */
struct bytes frame_of(size_t len, uint64_t seed);

#endif
