/* A net and strangers on plain sockets: noise, silence, crowds, and peers that do not read. */
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/base/rng.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "tests/unit/transport_pair.h"

static void
on_tick(uv_timer_t *timer)
{
	(void)timer; /* wakes the loop to look at a stranger's socket */
}

static int
setup_ticking(void **state)
{
	setup(state);
	uv_timer_init(&p.loop, &p.timer);
	return uv_timer_start(&p.timer, on_tick, 1, 1);
}

static int
teardown_ticking(void **state)
{
	uv_close((uv_handle_t *)&p.timer, NULL);
	return teardown(state);
}

#define TICKING_TEST(test) TEST_WITH(test, setup_ticking, teardown_ticking)

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

TICKING_TEST(test_noise)
{
	struct rng rng = rng_seeded(3);
	char bytes[3000];

	for (int i = 0; i < 200; i++) {
		size_t len = 1 + (size_t)rng_below(&rng, sizeof bytes);
		int fd = knock();

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
	open_both();
}

TICKING_TEST(test_silence)
{
	mono_t begin = clock_now();
	int silent, half;

	silent = knock();
	half = knock();
	assert_int_equal(send(half, "lsfs\1\1\0\0abc", 11, 0), 11);
	UNTIL(&p, hung_up(silent) && hung_up(half));
	assert_true(mono_reached(clock_now(), mono_add(begin, span_ms(PATIENCE_MS))));
	close(silent);
	close(half);
}

/* A server that says nothing is given up in time, too. */
PAIR_TEST(test_silent_server)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	snprintf(p.address, sizeof p.address, "127.0.0.1:%d", ntohs(address.sin_port));
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_string_equal(p.client.why, "no answer in time");
	close(fd);
}

/* How many of them has the server closed? */
static size_t
hung_up_of(const int *fds, size_t n)
{
	size_t closed = 0;

	for (size_t i = 0; i < n; i++)
		closed += hung_up(fds[i]);
	return closed;
}

/* Of many that wait in the door some go, by lot: were it the oldest, those who are about to be
 * answered would. Who has a key comes in all the same. */
TICKING_TEST(test_crowd)
{
	static int fds[TRANSPORT_UNPROVED_MAX + 8];
	const size_t n = sizeof fds / sizeof fds[0];

	for (size_t i = 0; i < n; i++) {
		fds[i] = knock();
		uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	UNTIL(&p, hung_up_of(fds, n) == n - TRANSPORT_UNPROVED_MAX);
	assert_true(hung_up_of(fds, n - TRANSPORT_UNPROVED_MAX) < n - TRANSPORT_UNPROVED_MAX);
	open_both();
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

/* An address that has many does not take the place of another one, which came before. */
TICKING_TEST(test_crowd_from_one_address)
{
	static int fds[TRANSPORT_UNPROVED_MAX + 8];
	const size_t n = sizeof fds / sizeof fds[0];
	const mono_t begin = clock_now();
	const int other = knock_by(SOCK_STREAM, INADDR_LOOPBACK + 1);

	for (size_t i = 0; i < n; i++) {
		fds[i] = knock();
		uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	UNTIL(&p, hung_up_of(fds, n) >= n - TRANSPORT_UNPROVED_MAX);
	assert_true(!hung_up(other) ||
	            mono_reached(clock_now(), mono_add(begin, span_ms(PATIENCE_MS))));
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	close(other);
}

/* A peer that proves its key: a plain socket whose bytes this channel makes. */
static int
open_plain(struct channel *channel)
{
	struct noise_pair own = pair_of(2);
	struct buffer out = BUFFER(4096), plain = BUFFER(4096);
	struct channel_config config = {.initiator = true, .role = CHANNEL_CLIENT, .own = &own};
	uint8_t answer[CHANNEL_PREAMBLE + CELL_ID + CHANNEL_SECOND];
	int fd = knock();

	memset(config.cell_id, 7, sizeof config.cell_id);
	memset(config.ephemeral_secret, 3, NOISE_KEY);
	config.remote = p.server.pair.public;
	channel_start(channel, &config, &out);
	assert_int_equal(send(fd, out.data, out.len, 0), (ssize_t)out.len);
	buffer_reset(&out);
	UNTIL(&p, recv(fd, answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK) == sizeof answer);
	assert_int_equal(recv(fd, answer, sizeof answer, 0), sizeof answer);
	assert_int_equal(channel_receive(channel, (struct bytes){answer, sizeof answer}, &out,
	                                 &plain),
	                 CHANNEL_OPEN);
	assert_int_equal(send(fd, out.data, out.len, 0), (ssize_t)out.len);
	UNTIL(&p, p.server.opened_n == 1);
	buffer_free(&out);
	buffer_free(&plain);
	return fd;
}

/* One that never reads. */
static int
open_deaf(void)
{
	struct channel channel;
	const int fd = open_plain(&channel);

	channel_end(&channel);
	return fd;
}

/* Sends a frame, of which `missing` bytes are not sent, and a forged record at once. The server
 * closes the connection when it is told of a part of a frame. */
static int
forge_behind_a_frame(size_t missing)
{
	static const uint8_t forged[18] = {16};
	struct bytes frame = frame_of(100, 9);
	struct buffer out = BUFFER(4096);
	struct channel channel;
	const int fd = open_plain(&channel);

	p.server.close_at_unfinished = missing > 0;
	channel_send(&channel, (struct bytes){frame.data, frame.len - missing}, &out);
	buffer_put(&out, forged, sizeof forged);
	assert_int_equal(send(fd, out.data, out.len, 0), (ssize_t)out.len);
	channel_end(&channel);
	buffer_free(&out);
	free((void *)frame.data);
	return fd;
}

/* The answer to the frame cannot be sealed any more. */
TICKING_TEST(test_forged_behind_a_frame)
{
	int fd;

	p.server.echo = true;
	fd = forge_behind_a_frame(0);
	UNTIL(&p, p.server.closed_n == 1);
	assert_int_equal(p.server.frames_n, 1);
	assert_non_null(strstr(p.server.why, "forged"));
	close(fd);
}

/* The same when the connection is closed within the call: there are no last words. */
TICKING_TEST(test_forged_behind_the_last_frame)
{
	int fd;

	p.server.echo = p.server.close_at_frame = true;
	fd = forge_behind_a_frame(0);
	UNTIL(&p, hung_up(fd));
	assert_int_equal(p.server.frames_n, 1);
	assert_int_equal(p.server.closed_n, 0);
	close(fd);
}

TICKING_TEST(test_forged_behind_an_unfinished_frame)
{
	const int fd = forge_behind_a_frame(1);

	UNTIL(&p, hung_up(fd));
	assert_int_equal(p.server.closed_n, 0);
	close(fd);
}

/* What waits for a peer that takes nothing more is bounded, whatever part of it is sent already. */
static void
overflow(size_t size, int at_once)
{
	struct bytes frame = frame_of(size, 7);
	int fd;

	fd = open_deaf();
	for (int i = 1; i < 4096 && p.server.closed_n == 0; i++) {
		transport_send(p.server.transport, p.server.conn, frame);
		if (i % at_once == 0)
			uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	UNTIL(&p, p.server.closed_n == 1);
	assert_non_null(strstr(p.server.why, "does not read"));
	close(fd);
	free((void *)frame.data);
}

TICKING_TEST(test_slow_reader)
{
	overflow(1024 * 1024, 1);
}

TICKING_TEST(test_slow_reader_of_small_frames)
{
	overflow(64 * 1024, 16);
}

/* One that is closed and does not read either is not waited for forever. */
TEST(test_last_words_nobody_reads)
{
	struct bytes frame = frame_of(16 * 1024 * 1024, 8);
	mono_t begin = clock_now();
	int fd;

	setup_ticking(state);
	fd = open_deaf();
	transport_send(p.server.transport, p.server.conn, frame);
	teardown_ticking(state);
	assert_true(mono_reached(clock_now(), mono_add(begin, span_ms(PATIENCE_MS))));
	close(fd);
	free((void *)frame.data);
}

/* A client that is closed gets the end of what it was sent, not all of it: closed connections count
 * for nobody, and there may be many. */
TICKING_TEST(test_last_words_are_few)
{
	struct bytes frame = frame_of(64 * 1024, 8);
	size_t got = 0, sent = 0;
	ssize_t n = 0;
	int fd;

	fd = open_deaf();
	for (; sent < 60 * 1024 * 1024; sent += frame.len)
		transport_send(p.server.transport, p.server.conn, frame);
	transport_close(p.server.transport, p.server.conn);
	while (n >= 0 || errno == EAGAIN) {
		static char bytes[256 * 1024];

		while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
			got += (size_t)n;
		if (n == 0)
			break;
		uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	assert_true(got < sent / 2);
	close(fd);
	free((void *)frame.data);
}

int
main(void)
{
	log_start("test_strangers", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
