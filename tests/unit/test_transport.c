/* Two nets on the loopback, and strangers on plain sockets: frames of all sizes both ways, keys and
 * cells that do not fit, noise, silence, peers that do not read, and ends at any time. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/net/transport.h"
#include "cell/wire/codec.h"
#include "tests/unit/net_fixture.h"

enum { PATIENCE_MS = 200 };

/* One net and what it was told. */
struct side {
	struct transport *transport;
	struct noise_pair pair;
	bool welcome;
	uint64_t conn; /* opened last */
	int opened_n, closed_n, frames_n;
	enum channel_role role;
	uint8_t key[NOISE_KEY];
	uint64_t closed_conn;
	char why[128];
	bool echo, close_at_frame, stop_at_frame, stop_at_end;
	int64_t busy_ms;   /* with each frame */
	int short_at;      /* so many frames had come when a short one did */
	struct buffer got; /* all frames, one behind the other */
	bool stopped;
};

struct pair {
	uv_loop_t loop;
	struct side server, client;
	char address[32];
	uv_timer_t timer;
};

static void
on_stopped(void *user)
{
	((struct side *)user)->stopped = true;
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct side *s = user;

	s->opened_n++;
	s->conn = conn;
	s->role = role;
	memcpy(s->key, key, NOISE_KEY);
	return s->welcome;
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct side *s = user;

	mono_t end = mono_add(clock_now(), span_ms(s->busy_ms));

	s->frames_n++;
	if (frame.len < 100)
		s->short_at = s->frames_n;
	while (mono_before(clock_now(), end))
		;
	buffer_put_bytes(&s->got, frame);
	if (s->echo)
		transport_send(s->transport, conn, frame);
	if (s->close_at_frame)
		transport_close(s->transport, conn);
	if (s->stop_at_frame)
		transport_stop(s->transport, on_stopped, s);
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	struct side *s = user;

	must(!s->stopped);
	s->closed_n++;
	s->closed_conn = conn;
	snprintf(s->why, sizeof s->why, "%s", why);
	if (s->stop_at_end)
		transport_stop(s->transport, on_stopped, s);
}

static void
side_start(struct side *s, uv_loop_t *loop, uint8_t cell, uint8_t seed)
{
	struct transport_config config = {.own = &s->pair, .patience = span_ms(PATIENCE_MS)};

	s->pair = pair_of(seed);
	s->welcome = true;
	s->got = BUFFER(SIZE_MAX);
	memset(config.cell_id, cell, sizeof config.cell_id);
	config.callbacks = (struct transport_callbacks){on_opened, on_frame, on_closed, s};
	assert_int_equal(transport_new(&s->transport, loop, &config), 0);
}

static void
start_in(struct pair *p, uint8_t server_cell, uint8_t client_cell)
{
	char why[256] = "";

	memset(p, 0, sizeof *p);
	assert_int_equal(uv_loop_init(&p->loop), 0);
	side_start(&p->server, &p->loop, server_cell, 1);
	side_start(&p->client, &p->loop, client_cell, 2);
	if (!transport_listen(p->server.transport, "127.0.0.1:0", why, sizeof why))
		fail_msg("%s", why);
	snprintf(p->address, sizeof p->address, "127.0.0.1:%d",
	         transport_port(p->server.transport));
}

static void
start(struct pair *p)
{
	start_in(p, 7, 7);
}

/* Stops what is not stopped yet; then nothing may be left on the loop. */
static void
end(struct pair *p)
{
	struct side *sides[] = {&p->server, &p->client};

	for (int i = 0; i < 2; i++)
		if (!sides[i]->stop_at_frame && !sides[i]->stop_at_end)
			transport_stop(sides[i]->transport, on_stopped, sides[i]);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&p->loop), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(sides[i]->stopped);
		buffer_free(&sides[i]->got);
	}
}

static uint64_t
connect_as(struct pair *p, enum channel_role role)
{
	return transport_connect(p->client.transport, p->address, role, p->server.pair.public);
}

static void
open_both(struct pair *p)
{
	uint64_t conn = connect_as(p, CHANNEL_CLIENT);

	assert_int_equal(p->client.opened_n, 0); /* never from within */
	UNTIL(p, p->server.opened_n == 1 && p->client.opened_n == 1);
	assert_int_equal(p->client.conn, conn);
}

/* A frame of `len` bytes behind its prefix, filled from a seed; none that overtakes others. */
static struct bytes
frame_of(size_t len, uint64_t seed)
{
	struct buffer b = BUFFER(SIZE_MAX);
	struct rng rng = rng_seeded(seed);

	buffer_put_u32(&b, (uint32_t)len);
	for (; len >= 8; len -= 8)
		buffer_put_u64(&b, rng_next(&rng));
	while (len-- > 0)
		buffer_put_u8(&b, (uint8_t)rng_next(&rng));
	b.data[4] = MSG_request;
	return buffer_take(&b);
}

/* ---- the good ---- */

static void
test_frames_both_ways(void **unused)
{
	struct pair p;
	struct bytes a = frame_of(1, 1), b = frame_of(5000, 2);

	(void)unused;
	start(&p);
	open_both(&p);
	assert_int_equal(p.server.role, CHANNEL_CLIENT);
	assert_memory_equal(p.server.key, p.client.pair.public, NOISE_KEY);
	assert_memory_equal(p.client.key, p.server.pair.public, NOISE_KEY);
	transport_send(p.client.transport, p.client.conn, a);
	transport_send(p.client.transport, p.client.conn, b);
	transport_send(p.server.transport, p.server.conn, b);
	UNTIL(&p, p.server.frames_n == 2 && p.client.frames_n == 1);
	assert_int_equal(p.server.got.len, a.len + b.len);
	assert_memory_equal(p.server.got.data, a.data, a.len);
	assert_memory_equal(p.server.got.data + a.len, b.data, b.len);
	assert_true(bytes_equal(buffer_view(&p.client.got), b));
	free((void *)a.data);
	free((void *)b.data);
	end(&p);
}

static void
test_held(void **unused)
{
	struct pair p;
	struct bytes a = frame_of(1, 1);

	(void)unused;
	start(&p);
	open_both(&p);
	transport_hold(p.server.transport, p.server.conn, false); /* it reads already */
	transport_hold(p.server.transport, p.server.conn, true);
	transport_hold(p.server.transport, p.server.conn, true);
	transport_send(p.client.transport, p.client.conn, a);
	transport_send(p.server.transport, p.server.conn, a);
	UNTIL(&p, p.client.frames_n == 1);
	assert_int_equal(p.server.frames_n, 0);
	transport_hold(p.server.transport, p.server.conn, false);
	UNTIL(&p, p.server.frames_n == 1);
	free((void *)a.data);
	end(&p);
}

static void
test_as_replica(void **unused)
{
	struct pair p;

	(void)unused;
	start(&p);
	connect_as(&p, CHANNEL_REPLICA);
	UNTIL(&p, p.server.opened_n == 1);
	assert_int_equal(p.server.role, CHANNEL_REPLICA);
	end(&p);
}

/* Both ways at once, more than any kernel buffers, in frames of every size around the records'. */
static void
test_much(void **unused)
{
	const size_t sizes[] = {1, 65518, 65519, 65520, 65536, 131038, 1, 900000, 3};
	struct buffer all = BUFFER(SIZE_MAX);
	struct pair p;

	(void)unused;
	start(&p);
	p.server.echo = true;
	open_both(&p);
	for (size_t round = 0; round < 10; round++) {
		for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
			struct bytes frame = frame_of(sizes[i], round * 100 + i);

			buffer_put_bytes(&all, frame);
			free((void *)frame.data);
		}
	}
	transport_send(p.client.transport, p.client.conn, buffer_view(&all));
	UNTIL(&p, p.client.got.len >= all.len);
	assert_true(bytes_equal(buffer_view(&p.client.got), buffer_view(&all)));
	assert_int_equal(p.client.frames_n, 90);
	buffer_free(&all);
	end(&p);
}

/* Clients that send as fast as they can do not keep the loop from what else is due: a turn takes
 * some twenty milliseconds of them, and all comes in the end. Who says little is heard soon. */
static void
test_flood(void **unused)
{
	enum { CLIENTS = 8, FRAMES = 30, A_TURN = 20 };
	struct bytes frame = frame_of(60000, 5), word = frame_of(10, 6);
	uint64_t conns[CLIENTS + 1];
	struct pair p;

	(void)unused;
	start(&p);
	for (int i = 0; i <= CLIENTS; i++)
		conns[i] = connect_as(&p, CHANNEL_CLIENT);
	UNTIL(&p, p.server.opened_n == CLIENTS + 1 && p.client.opened_n == CLIENTS + 1);
	for (int i = 0; i < CLIENTS * FRAMES; i++)
		transport_send(p.client.transport, conns[i % CLIENTS], frame);
	transport_send(p.client.transport, conns[CLIENTS], word);
	p.server.busy_ms = 5;
	while (p.server.frames_n <= CLIENTS * FRAMES) {
		int before = p.server.frames_n;

		uv_run(&p.loop, UV_RUN_ONCE);
		assert_true(p.server.frames_n - before <= A_TURN);
	}
	assert_in_range(p.server.short_at, 1, 3 * A_TURN);
	assert_int_equal(p.server.closed_n, 0);
	free((void *)frame.data);
	free((void *)word.data);
	end(&p);
}

/* A KeepAlive overtakes what was sent before it and has not left, in either direction, but no frame
 * that has begun to leave; all else comes in order. */
static void
test_keepalives_go_first(void **unused)
{
	enum { FRAMES = 500 };
	const struct message ask = {.code = MSG_keepalive}, answer = {.code = MSG_keepalive_reply};
	struct bytes frame = frame_of(60000, 9);
	struct pair p;

	(void)unused;
	start(&p);
	open_both(&p);
	for (int i = 0; i < 2; i++) {
		struct side *from = i == 0 ? &p.client : &p.server;
		struct side *to = i == 0 ? &p.server : &p.client;
		struct buffer word = BUFFER(100);

		wire_put_frame(&word, i == 0 ? &ask : &answer);
		transport_hold(to->transport, to->conn, true);
		for (int n = 0; n < FRAMES; n++)
			transport_send(from->transport, from->conn, frame);
		for (int n = 0; n < 100; n++)
			uv_run(&p.loop, UV_RUN_NOWAIT);
		transport_send(from->transport, from->conn, buffer_view(&word));
		transport_hold(to->transport, to->conn, false);
		UNTIL(&p, to->frames_n == FRAMES + 1);
		assert_in_range(to->short_at, 1, FRAMES * 2 / 3);
		assert_int_equal(to->got.len, FRAMES * frame.len + word.len);
		buffer_free(&word);
	}
	free((void *)frame.data);
	end(&p);
}

/* The longest frame goes to a client and between replicas, but no client's request is that long. */
static void
test_longest_frames(void **unused)
{
	struct buffer longest = BUFFER(SIZE_MAX);
	struct pair p;

	(void)unused;
	start(&p);
	open_both(&p);
	buffer_put_u32(&longest, LIMIT_FRAME);
	longest.data = memory_grow(longest.data, 4 + LIMIT_FRAME, 1);
	memset(longest.data + 4, 'x', LIMIT_FRAME);
	longest.len = longest.room = 4 + LIMIT_FRAME;
	transport_send(p.server.transport, p.server.conn, buffer_view(&longest));
	UNTIL(&p, p.client.frames_n == 1);
	assert_true(bytes_equal(buffer_view(&p.client.got), buffer_view(&longest)));
	buffer_patch_u32(&longest, 0, LIMIT_FRAME + 1);
	transport_send(p.client.transport, p.client.conn, (struct bytes){longest.data, 4});
	UNTIL(&p, p.server.closed_n == 1);
	assert_string_equal(p.server.why, "the peer sent a malformed frame");
	connect_as(&p, CHANNEL_CLIENT);
	UNTIL(&p, p.server.opened_n == 2 && p.client.opened_n == 2);
	buffer_patch_u32(&longest, 0, 2 * LIMIT_ENTRY);
	transport_send(p.client.transport, p.client.conn, (struct bytes){longest.data, 4});
	UNTIL(&p, p.server.closed_n == 2);
	connect_as(&p, CHANNEL_REPLICA);
	UNTIL(&p, p.server.opened_n == 3 && p.client.opened_n == 3);
	transport_send(p.client.transport, p.client.conn,
	               (struct bytes){longest.data, 4 + 2 * LIMIT_ENTRY});
	UNTIL(&p, p.server.frames_n == 1);
	assert_int_equal(p.server.got.len, 4 + 2 * LIMIT_ENTRY);
	buffer_free(&longest);
	end(&p);
}

/* ---- who is not let in ---- */

static void
test_wrong_key(void **unused)
{
	struct noise_pair other = pair_of(9);
	struct pair p;
	uint64_t conn;

	(void)unused;
	start(&p);
	conn = transport_connect(p.client.transport, p.address, CHANNEL_CLIENT, other.public);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.client.closed_conn, conn);
	assert_non_null(strstr(p.client.why, "another key"));
	assert_int_equal(p.client.opened_n + p.server.opened_n + p.server.closed_n, 0);
	end(&p);
}

static void
test_wrong_cell(void **unused)
{
	struct pair p;

	(void)unused;
	start_in(&p, 7, 8);
	connect_as(&p, CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_non_null(strstr(p.client.why, "another cell"));
	assert_int_equal(p.client.opened_n + p.server.opened_n + p.server.closed_n, 0);
	end(&p);
}

/* The server's user says no: nothing more is heard of it there. */
static void
test_not_welcome(void **unused)
{
	struct pair p;

	(void)unused;
	start(&p);
	p.server.welcome = false;
	connect_as(&p, CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.server.opened_n, 1);
	transport_send(p.server.transport, p.server.conn,
	               (struct bytes){(const uint8_t *)"\1\0\0\0x", 5});
	assert_int_equal(p.server.closed_n, 0);
	end(&p);
}

static void
test_nobody_listens(void **unused)
{
	const char *const bad[] = {
	    "", ":", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:x", "[::1]",
	};
	char why[256] = "";
	struct pair p;
	int port;

	(void)unused;
	start(&p);
	port = transport_port(p.server.transport);
	assert_false(transport_listen(p.client.transport, p.address, why, sizeof why));
	assert_non_null(strstr(why, "in use"));
	transport_stop(p.server.transport, on_stopped, &p.server);
	UNTIL(&p, p.server.stopped);
	p.server.stopped = false;
	side_start(&p.server, &p.loop, 7, 1);
	snprintf(p.address, sizeof p.address, "localhost:%d", port); /* perhaps two addresses */
	connect_as(&p, CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_non_null(strstr(p.client.why, "refused"));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		uint64_t conn = transport_connect(p.client.transport, bad[i], CHANNEL_CLIENT,
		                                  p.server.pair.public);

		assert_int_equal(p.client.closed_n, 1 + (int)i);
		UNTIL(&p, p.client.closed_n == 2 + (int)i);
		assert_int_equal(p.client.closed_conn, conn);
		assert_false(transport_listen(p.client.transport, bad[i], why, sizeof why));
	}
	end(&p);
}

/* ---- strangers on plain sockets ---- */

static int
knock(struct pair *p)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)transport_port(p->server.transport));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

/* Has the server closed it? What it sent before is thrown away. */
static bool
hung_up(int fd)
{
	char bytes[4096];
	ssize_t n;

	do
		n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || errno != EAGAIN;
}

static void
on_tick(uv_timer_t *timer)
{
	(void)timer; /* wakes the loop to look at a stranger's socket */
}

static void
end_ticking(struct pair *p)
{
	uv_close((uv_handle_t *)&p->timer, NULL);
	end(p);
}

static void
start_ticking(struct pair *p)
{
	start(p);
	uv_timer_init(&p->loop, &p->timer);
	uv_timer_start(&p->timer, on_tick, 1, 1);
}

static void
test_noise(void **unused)
{
	struct rng rng = rng_seeded(3);
	struct pair p;
	char bytes[3000];

	(void)unused;
	start_ticking(&p);
	for (int i = 0; i < 200; i++) {
		size_t len = 1 + (size_t)rng_below(&rng, sizeof bytes);
		int fd = knock(&p);

		for (size_t at = 0; at < len; at++)
			bytes[at] = (char)rng_below(&rng, 256);
		if (i % 2) /* a good beginning */
			memcpy(bytes, "lsfs\1\1\0", 8);
		assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
		if (i % 3 == 0)
			shutdown(fd, SHUT_WR);
		UNTIL(&p, hung_up(fd)); /* too short a noise: when patience ends */
		close(fd);
	}
	assert_int_equal(p.server.opened_n + p.server.closed_n, 0);
	open_both(&p);
	end_ticking(&p);
}

static void
test_silence(void **unused)
{
	struct pair p;
	mono_t begin = clock_now();
	int silent, half;

	(void)unused;
	start_ticking(&p);
	silent = knock(&p);
	half = knock(&p);
	assert_int_equal(send(half, "lsfs\1\1\0\0abc", 11, 0), 11);
	UNTIL(&p, hung_up(silent) && hung_up(half));
	assert_true(mono_reached(clock_now(), mono_add(begin, span_ms(PATIENCE_MS))));
	close(silent);
	close(half);
	end_ticking(&p);
}

/* A server that says nothing is given up in time, too. */
static void
test_silent_server(void **unused)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof address;
	struct pair p;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)unused;
	start(&p);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	snprintf(p.address, sizeof p.address, "127.0.0.1:%d", ntohs(address.sin_port));
	connect_as(&p, CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_string_equal(p.client.why, "no answer in time");
	close(fd);
	end(&p);
}

/* Of many that wait in the door the oldest goes; who has a key comes in all the same. */
static void
test_crowd(void **unused)
{
	static int fds[TRANSPORT_UNPROVED_MAX + 8];
	const size_t n = sizeof fds / sizeof fds[0];
	struct pair p;

	(void)unused;
	start_ticking(&p);
	for (size_t i = 0; i < n; i++) {
		fds[i] = knock(&p);
		uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	open_both(&p);
	assert_true(hung_up(fds[0]));
	assert_false(hung_up(fds[n - 1]));
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	end_ticking(&p);
}

/* ---- ends ---- */

static void
test_close_after_last_words(void **unused)
{
	struct bytes frame = frame_of(3 * 1024 * 1024, 4);
	struct pair p;

	(void)unused;
	start(&p);
	open_both(&p);
	transport_send(p.server.transport, p.server.conn, frame);
	transport_close(p.server.transport, p.server.conn);
	transport_send(p.server.transport, p.server.conn, frame); /* too late */
	UNTIL(&p, p.client.closed_n == 1);
	assert_true(bytes_equal(buffer_view(&p.client.got), frame));
	assert_int_equal(p.server.closed_n, 0);
	free((void *)frame.data);
	end(&p);
}

static void
test_close_within_a_frame(void **unused)
{
	struct bytes frame = frame_of(10, 5);
	struct pair p;

	(void)unused;
	start(&p);
	p.server.close_at_frame = true;
	open_both(&p);
	transport_send(p.client.transport, p.client.conn, frame);
	transport_send(p.client.transport, p.client.conn, frame);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.server.frames_n, 1);
	free((void *)frame.data);
	end(&p);
}

static void
test_stop_within_a_frame(void **unused)
{
	struct bytes frame = frame_of(10, 5);
	struct pair p;

	(void)unused;
	start(&p);
	p.server.stop_at_frame = true;
	open_both(&p);
	transport_send(p.client.transport, p.client.conn, frame);
	transport_send(p.client.transport, p.client.conn, frame);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.server.frames_n, 1);
	free((void *)frame.data);
	end(&p);
}

/* The last connection is gone, and with it the net. */
static void
test_stop_within_closed(void **unused)
{
	struct pair p;

	(void)unused;
	start(&p);
	p.client.stop_at_end = true;
	open_both(&p);
	transport_close(p.server.transport, p.server.conn);
	UNTIL(&p, p.client.stopped);
	assert_int_equal(p.client.closed_n, 1);
	end(&p);
}

static void
test_stop_at_any_time(void **unused)
{
	(void)unused;
	for (int turns = 0; turns < 12; turns++) {
		struct bytes frame = frame_of(2000000, 6);
		struct pair p;
		int fd;

		start(&p);
		fd = knock(&p);
		connect_as(&p, CHANNEL_CLIENT);
		connect_as(&p, CHANNEL_REPLICA);
		transport_connect(p.client.transport, "localhost:1", CHANNEL_CLIENT,
		                  p.server.pair.public);
		for (int i = 0; i < turns; i++)
			uv_run(&p.loop, UV_RUN_NOWAIT);
		if (p.client.conn)
			transport_send(p.client.transport, p.client.conn, frame);
		end(&p);
		assert_int_equal(p.server.closed_n, 0);
		close(fd);
		free((void *)frame.data);
	}
}

/* A peer that proves its key and then never reads: a plain socket whose bytes a channel of its own
 * makes. */
static int
open_deaf(struct pair *p)
{
	struct noise_pair own = pair_of(2);
	struct buffer out = BUFFER(4096), plain = BUFFER(4096);
	struct channel_config config = {.initiator = true, .role = CHANNEL_CLIENT, .own = &own};
	struct channel channel;
	uint8_t answer[CHANNEL_PREAMBLE + CELL_ID + CHANNEL_SECOND];
	int fd = knock(p);

	memset(config.cell_id, 7, sizeof config.cell_id);
	memset(config.ephemeral_secret, 3, NOISE_KEY);
	config.remote = p->server.pair.public;
	channel_start(&channel, &config, &out);
	assert_int_equal(send(fd, out.data, out.len, 0), (ssize_t)out.len);
	buffer_reset(&out);
	UNTIL(p, recv(fd, answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK) == sizeof answer);
	assert_int_equal(recv(fd, answer, sizeof answer, 0), sizeof answer);
	assert_int_equal(channel_receive(&channel, (struct bytes){answer, sizeof answer}, &out,
	                                 &plain),
	                 CHANNEL_OPEN);
	assert_int_equal(send(fd, out.data, out.len, 0), (ssize_t)out.len);
	UNTIL(p, p->server.opened_n == 1);
	channel_end(&channel);
	buffer_free(&out);
	buffer_free(&plain);
	return fd;
}

/* What waits for a peer that takes nothing more is bounded. */
static void
test_slow_reader(void **unused)
{
	struct bytes frame = frame_of(1024 * 1024, 7);
	struct pair p;
	int fd;

	(void)unused;
	start_ticking(&p);
	fd = open_deaf(&p);
	for (int i = 0; i < 100 && p.server.closed_n == 0; i++) {
		transport_send(p.server.transport, p.server.conn, frame);
		uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	assert_int_equal(p.server.closed_n, 1);
	assert_non_null(strstr(p.server.why, "does not read"));
	close(fd);
	free((void *)frame.data);
	end_ticking(&p);
}

/* One that is closed and does not read either is not waited for forever. */
static void
test_last_words_nobody_reads(void **unused)
{
	struct bytes frame = frame_of(16 * 1024 * 1024, 8);
	mono_t begin = clock_now();
	struct pair p;
	int fd;

	(void)unused;
	start_ticking(&p);
	fd = open_deaf(&p);
	transport_send(p.server.transport, p.server.conn, frame);
	end_ticking(&p);
	assert_true(mono_reached(clock_now(), mono_add(begin, span_ms(PATIENCE_MS))));
	close(fd);
	free((void *)frame.data);
}

/* Somebody who comes every second is told of ten times in ten minutes; after a pause at once. */
static void
test_pace(void **unused)
{
	struct pace p = {.held = 0};
	unsigned held = 0, told = 0, all = 0;
	int64_t now = 1000;

	(void)unused;
	for (; now < 1600; now++) {
		if (!pace_allows(&p, (mono_t){span_s(now).ns}, &held))
			continue;
		told++;
		all += 1 + held;
	}
	assert_int_equal(told, 10);
	assert_int_equal(all + p.held, 600);
	assert_true(pace_allows(&p, (mono_t){span_s(now + 10).ns}, &held));
	assert_int_equal(held, 600 - all);
	assert_false(pace_allows(&p, (mono_t){span_s(now + 10).ns + 1}, &held));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_pace),
	    cmocka_unit_test(test_frames_both_ways),
	    cmocka_unit_test(test_held),
	    cmocka_unit_test(test_as_replica),
	    cmocka_unit_test(test_much),
	    cmocka_unit_test(test_flood),
	    cmocka_unit_test(test_keepalives_go_first),
	    cmocka_unit_test(test_longest_frames),
	    cmocka_unit_test(test_wrong_key),
	    cmocka_unit_test(test_wrong_cell),
	    cmocka_unit_test(test_not_welcome),
	    cmocka_unit_test(test_nobody_listens),
	    cmocka_unit_test(test_noise),
	    cmocka_unit_test(test_silence),
	    cmocka_unit_test(test_silent_server),
	    cmocka_unit_test(test_crowd),
	    cmocka_unit_test(test_close_after_last_words),
	    cmocka_unit_test(test_close_within_a_frame),
	    cmocka_unit_test(test_stop_within_a_frame),
	    cmocka_unit_test(test_stop_within_closed),
	    cmocka_unit_test(test_stop_at_any_time),
	    cmocka_unit_test(test_slow_reader),
	    cmocka_unit_test(test_last_words_nobody_reads),
	};

	log_start("test_transport", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
