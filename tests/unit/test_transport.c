/* Two nets on the loopback: frames of all sizes both ways, keys and cells that do not fit, and ends
 * at any time. Strangers have test_strangers.c. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"
#include "tests/unit/transport_pair.h"

/* ---- the good ---- */

PAIR_TEST(test_frames_both_ways)
{
	struct bytes a = frame_of(1, 1), b = frame_of(5000, 2);

	open_both();
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
}

PAIR_TEST(test_held)
{
	struct bytes a = frame_of(1, 1);

	open_both();
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
}

/* How many of this process' sockets repeat what was lost at an even pace. */
static int
even_sockets(void)
{
	int n = 0;

	for (int fd = 0; fd < 64; fd++) {
		int on = 0;
		socklen_t size = sizeof on;

		getsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, &size);
		n += on;
	}
	return n;
}

PAIR_TEST(test_as_replica)
{
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.server.opened_n == 1);
	assert_int_equal(even_sockets(), 0);
	connect_as(CHANNEL_REPLICA);
	UNTIL(&p, p.server.opened_n == 2 && p.client.opened_n == 2);
	assert_int_equal(p.server.role, CHANNEL_REPLICA);
	assert_int_equal(even_sockets(), 2);
}

/* Both ways at once, more than any kernel buffers, in frames of every size around the records'. */
PAIR_TEST(test_much)
{
	const size_t sizes[] = {1, 65518, 65519, 65520, 65536, 131038, 1, 900000, 3};
	struct buffer all = BUFFER(SIZE_MAX);

	p.server.echo = true;
	open_both();
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
}

/* Clients that send as fast as they can do not keep the loop from what else is due: a turn takes
 * some twenty milliseconds of them, and all comes in the end. Who says little is heard soon. */
PAIR_TEST(test_flood)
{
	enum { CLIENTS = 8, FRAMES = 30, A_TURN = 20 };
	struct bytes frame = frame_of(60000, 5), word = frame_of(10, 6);
	uint64_t conns[CLIENTS + 1];

	for (int i = 0; i <= CLIENTS; i++)
		conns[i] = connect_as(CHANNEL_CLIENT);
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
}

/* A KeepAlive overtakes what was sent before it and has not left, in either direction, but no frame
 * that has begun to leave; all else comes in order. */
PAIR_TEST(test_keepalives_go_first)
{
	enum { FRAMES = 500 };
	const struct message ask = {.code = MSG_keepalive}, answer = {.code = MSG_keepalive_reply};
	struct bytes frame = frame_of(60000, 9);

	open_both();
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
}

/* What the clients of one key have not read has a bound for all of them: the one with most of it is
 * closed. */
PAIR_TEST(test_clients_that_do_not_read)
{
	enum { CLIENTS = 3, LEN = 1000000, MOST = TRANSPORT_QUEUE_MAX / LEN - 1 };
	struct bytes frame = frame_of(LEN, 9);
	uint64_t server[CLIENTS];

	for (int i = 0; i < CLIENTS; i++) {
		const uint64_t conn = connect_as(CHANNEL_CLIENT);

		UNTIL(&p, p.server.opened_n == i + 1 && p.client.opened_n == i + 1);
		transport_hold(p.client.transport, conn, true);
		server[i] = p.server.conn;
		for (int n = 0; n < MOST - (i == 0 ? 0 : 5); n++)
			transport_send(p.server.transport, server[i], frame);
	}
	UNTIL(&p, p.server.closed_n == 1);
	assert_string_equal(p.server.why, "the peer does not read what it is sent");
	assert_null(transport_key(p.server.transport, server[0]));
	assert_non_null(transport_key(p.server.transport, server[CLIENTS - 1]));
	free((void *)frame.data);
}

/* Of what a client is sent each turn writes a little, though the kernel would take more: others
 * wait for the end of the turn. */
PAIR_TEST(test_little_in_a_turn)
{
	enum { FRAMES = 100, LEN = 60000, TURNS = 2, MOST = 8 * LEN };
	struct bytes frame = frame_of(LEN, 9);
	size_t left;

	open_both();
	for (int n = 0; n < FRAMES; n++)
		transport_send(p.server.transport, p.server.conn, frame);
	for (int n = 0; n < TURNS; n++)
		uv_run(&p.loop, UV_RUN_NOWAIT);
	left = transport_unsent_bytes(p.server.transport, p.server.conn);
	assert_in_range(left, FRAMES * LEN - MOST, FRAMES * LEN - 1);
	UNTIL(&p, p.client.frames_n == FRAMES);
	free((void *)frame.data);
}

/* The longest frame goes to a client and between replicas, but no client's request is that long. */
PAIR_TEST(test_longest_frames)
{
	struct buffer longest = BUFFER(SIZE_MAX);

	open_both();
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
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.server.opened_n == 2 && p.client.opened_n == 2);
	buffer_patch_u32(&longest, 0, 2 * LIMIT_ENTRY);
	transport_send(p.client.transport, p.client.conn, (struct bytes){longest.data, 4});
	UNTIL(&p, p.server.closed_n == 2);
	connect_as(CHANNEL_REPLICA);
	UNTIL(&p, p.server.opened_n == 3 && p.client.opened_n == 3);
	transport_send(p.client.transport, p.client.conn,
	               (struct bytes){longest.data, 4 + 2 * LIMIT_ENTRY});
	UNTIL(&p, p.server.frames_n == 1);
	assert_int_equal(p.server.got.len, 4 + 2 * LIMIT_ENTRY);
	buffer_free(&longest);
}

/* ---- who is not let in ---- */

PAIR_TEST(test_wrong_key)
{
	struct noise_pair other = pair_of(9);
	uint64_t conn;

	conn = transport_connect(p.client.transport, p.address, CHANNEL_CLIENT, other.public);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.client.closed_conn, conn);
	assert_non_null(strstr(p.client.why, "another key"));
	assert_int_equal(p.client.opened_n + p.server.opened_n + p.server.closed_n, 0);
}

TEST(test_wrong_cell)
{
	start_in(7, 8);
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_non_null(strstr(p.client.why, "another cell"));
	assert_int_equal(p.client.opened_n + p.server.opened_n + p.server.closed_n, 0);
	end();
}

/* The server's user says no: nothing more is heard of it there. */
PAIR_TEST(test_not_welcome)
{
	p.server.welcome = false;
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.server.opened_n, 1);
	transport_send(p.server.transport, p.server.conn,
	               (struct bytes){(const uint8_t *)"\1\0\0\0x", 5});
	assert_int_equal(p.server.closed_n, 0);
}

PAIR_TEST(test_nobody_listens)
{
	const char *const bad[] = {
	    "", ":", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:x", "[::1]",
	};
	char why[256] = "";
	int port;

	port = transport_port(p.server.transport);
	assert_false(transport_listen(p.client.transport, p.address, why, sizeof why));
	assert_non_null(strstr(why, "in use"));
	transport_stop(p.server.transport, on_stopped, &p.server);
	UNTIL(&p, p.server.stopped);
	p.server.stopped = false;
	side_start(&p.server, &p.loop, 7, 1);
	snprintf(p.address, sizeof p.address, "localhost:%d", port); /* perhaps two addresses */
	connect_as(CHANNEL_CLIENT);
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
}

/* ---- ends ---- */

PAIR_TEST(test_close_after_last_words)
{
	struct bytes frame = frame_of(3 * 1024 * 1024, 4);

	open_both();
	transport_send(p.server.transport, p.server.conn, frame);
	transport_close(p.server.transport, p.server.conn);
	transport_send(p.server.transport, p.server.conn, frame); /* too late */
	UNTIL(&p, p.client.closed_n == 1);
	assert_true(bytes_equal(buffer_view(&p.client.got), frame));
	assert_int_equal(p.server.closed_n, 0);
	free((void *)frame.data);
}

/* The second of two frames is not heard of any more. */
static void
end_within_the_first(void)
{
	struct bytes frame = frame_of(10, 5);

	open_both();
	transport_send(p.client.transport, p.client.conn, frame);
	transport_send(p.client.transport, p.client.conn, frame);
	UNTIL(&p, p.client.closed_n == 1);
	assert_int_equal(p.server.frames_n, 1);
	free((void *)frame.data);
}

PAIR_TEST(test_close_within_a_frame)
{
	p.server.close_at_frame = true;
	end_within_the_first();
}

PAIR_TEST(test_stop_within_a_frame)
{
	p.server.stop_at_frame = true;
	end_within_the_first();
}

/* The last connection is gone, and with it the net. */
PAIR_TEST(test_stop_within_closed)
{
	p.client.stop_at_end = true;
	open_both();
	transport_close(p.server.transport, p.server.conn);
	UNTIL(&p, p.client.stopped);
	assert_int_equal(p.client.closed_n, 1);
}

TEST(test_stop_at_any_time)
{
	for (int turns = 0; turns < 12; turns++) {
		struct bytes frame = frame_of(2000000, 6);
		int fd;

		start();
		fd = knock();
		connect_as(CHANNEL_CLIENT);
		connect_as(CHANNEL_REPLICA);
		transport_connect(p.client.transport, "localhost:1", CHANNEL_CLIENT,
		                  p.server.pair.public);
		for (int i = 0; i < turns; i++)
			uv_run(&p.loop, UV_RUN_NOWAIT);
		if (p.client.conn)
			transport_send(p.client.transport, p.client.conn, frame);
		end();
		assert_int_equal(p.server.closed_n, 0);
		close(fd);
		free((void *)frame.data);
	}
}

/* Somebody who comes every second is told of ten times in ten minutes; after a pause at once. */
TEST(test_pace)
{
	struct pace pace = {.held = 0};
	unsigned held = 0, told = 0, all = 0;
	int64_t now = 1000;

	for (; now < 1600; now++) {
		if (!pace_allows(&pace, (mono_t){span_s(now).ns}, &held))
			continue;
		told++;
		all += 1 + held;
	}
	assert_int_equal(told, 10);
	assert_int_equal(all + pace.held, 600);
	assert_true(pace_allows(&pace, (mono_t){span_s(now + 10).ns}, &held));
	assert_int_equal(held, 600 - all);
	assert_false(pace_allows(&pace, (mono_t){span_s(now + 10).ns + 1}, &held));
}

int
main(void)
{
	log_start("test_transport", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
