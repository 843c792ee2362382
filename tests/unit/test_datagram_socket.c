/* Datagrams beside connections, on real sockets: what the peer has sealed is received once, all
 * else is dropped without an answer, and the connection does not notice. */
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/base/rng.h"
#include "cell/net/stream.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"
#include "tests/unit/transport_pair.h"

static struct bytes
keepalive(struct buffer *to, uint64_t sequence)
{
	const struct message m = {.code = MSG_keepalive, .keepalive.sequence = sequence};

	*to = BUFFER(DATAGRAM_PLAIN);
	wire_put_frame(to, &m);
	assert_false(to->failed);
	return buffer_view(to);
}

static void
send_from_client(uint64_t sequence)
{
	struct buffer frame;

	transport_send_datagram(p.client.transport, p.client.conn, keepalive(&frame, sequence));
	buffer_free(&frame);
}

static bool
is_last(const struct side *s, uint64_t sequence)
{
	struct buffer frame;
	const struct bytes expected = keepalive(&frame, sequence);
	const bool same = bytes_equal(buffer_view(&s->datagram), expected);

	buffer_free(&frame);
	return same;
}

static bool
is_answered(int fd)
{
	uint8_t bytes[256];

	return recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) >= 0;
}

PAIR_TEST(test_both_ways)
{
	p.server.echo = true;
	open_both();
	for (uint64_t i = 1; i <= 100; i++) {
		send_from_client(i);
		UNTIL(&p, p.client.datagrams_n == (int)i);
		assert_true(is_last(&p.server, i) && is_last(&p.client, i));
	}
	assert_int_equal(p.server.datagrams_n, 100);
	assert_int_equal(p.server.frames_n + p.client.frames_n, 0);
}

/* A replica has nobody to send one to before the client has sent one. */
PAIR_TEST(test_the_server_does_not_begin)
{
	struct buffer frame;

	open_both();
	transport_send_datagram(p.server.transport, p.server.conn, keepalive(&frame, 7));
	buffer_free(&frame);
	send_from_client(1);
	UNTIL(&p, p.server.datagrams_n == 1);
	assert_int_equal(p.client.datagrams_n, 0);
}

PAIR_TEST(test_each_connection_has_its_own)
{
	uint64_t first;

	open_both();
	first = p.client.conn;
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.server.opened_n == 2 && p.client.opened_n == 2);
	send_from_client(1);
	UNTIL(&p, p.server.datagrams_n == 1); /* the pair checks that it is of the last one */
	transport_close(p.client.transport, p.client.conn);
	UNTIL(&p, p.server.closed_n == 1);
	send_from_client(2); /* there is no connection for it any more */
	p.client.conn = first;
	p.server.conn--;
	send_from_client(3);
	UNTIL(&p, p.server.datagrams_n == 2);
	assert_true(is_last(&p.server, 3));
}

/* A stranger who has seen one datagram sends it again, with changes and as it was. */
PAIR_TEST(test_strangers)
{
	struct rng rng = rng_seeded(3);
	struct buffer frame;
	uint8_t sealed[DATAGRAM_SIZE], noise[2 * DATAGRAM_SIZE];
	struct datagrams spied;
	int fd;

	p.server.echo = true;
	open_both();
	fd = knock_by(SOCK_DGRAM, INADDR_LOOPBACK);
	send_from_client(1);
	UNTIL(&p, p.client.datagrams_n == 1);
	spied = transport_find(p.client.transport, p.client.conn)->datagrams;
	spied.sealed = 0; /* what it has sent already, once more */
	datagram_seal(&spied, keepalive(&frame, 1), sealed);
	buffer_free(&frame);
	for (int i = 0; i < 500; i++) {
		size_t len = rng_below(&rng, sizeof noise);

		for (size_t at = 0; at < sizeof noise; at++)
			noise[at] = (uint8_t)rng_next(&rng);
		memcpy(noise, sealed, DATAGRAM_ID); /* the right id */
		if (i % 2 == 0)
			len = DATAGRAM_SIZE;
		assert_int_equal(send(fd, noise, len, 0), (ssize_t)len);
		assert_int_equal(send(fd, sealed, sizeof sealed, 0), DATAGRAM_SIZE);
		uv_run(&p.loop, UV_RUN_NOWAIT);
	}
	send_from_client(2); /* after all that */
	UNTIL(&p, p.client.datagrams_n == 2);
	assert_int_equal(p.server.datagrams_n, 2);
	assert_false(is_answered(fd));
	close(fd);
}

/* Where UDP is shut the connection lives on without it. */
TEST(test_port_in_use)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	const struct bytes frame = frame_of(1, 1);
	int fd, port = free_port();
	char why[256] = "";

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)port);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	start();
	transport_stop(p.server.transport, on_stopped, &p.server);
	UNTIL(&p, p.server.stopped);
	buffer_free(&p.server.got);
	buffer_free(&p.server.datagram);
	side_start(&p.server, &p.loop, 7, 1);
	p.server.stopped = false;
	snprintf(p.address, sizeof p.address, "127.0.0.1:%d", port);
	assert_true(transport_listen(p.server.transport, p.address, why, sizeof why));
	open_both();
	send_from_client(1);
	transport_send(p.client.transport, p.client.conn, frame);
	UNTIL(&p, p.server.frames_n == 1);
	assert_int_equal(p.server.datagrams_n, 0);
	free((void *)frame.data);
	close(fd);
	end();
}

int
main(void)
{
	log_start("test_datagram_socket", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
