#include "tests/unit/transport_pair.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/sys/clock.h"
#include "cell/wire/codec.h"

struct pair p;

void
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
on_unfinished(void *user, uint64_t conn, size_t bytes, bool fresh)
{
	static const uint8_t word[] = {1, 0, 0, 0, MSG_request};
	struct side *s = user;

	(void)bytes;
	(void)fresh;
	if (!s->close_at_unfinished)
		return;
	transport_send(s->transport, conn, (struct bytes){word, sizeof word});
	transport_close(s->transport, conn);
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
on_datagram(void *user, uint64_t conn, struct bytes frame)
{
	struct side *s = user;

	must(conn == s->conn);
	s->datagrams_n++;
	if (s->echo)
		transport_send_datagram(s->transport, conn, frame);
	buffer_reset(&s->datagram);
	buffer_put_bytes(&s->datagram, frame);
}

static bool
on_claimed(void *user, const uint8_t key[NOISE_KEY])
{
	const struct side *s = user;

	(void)key;
	return s->knows;
}

void
side_start(struct side *s, uv_loop_t *loop, uint8_t cell, uint8_t seed)
{
	struct transport_config config = {.own = &s->pair, .patience = span_ms(PATIENCE_MS)};

	s->pair = pair_of(seed);
	s->welcome = s->knows = true;
	s->got = s->datagram = BUFFER(SIZE_MAX);
	memset(config.cell_id, cell, sizeof config.cell_id);
	config.callbacks = (struct transport_callbacks){.opened = on_opened,
	                                                .frame = on_frame,
	                                                .unfinished = on_unfinished,
	                                                .closed = on_closed,
	                                                .datagram = on_datagram,
	                                                .knows = on_claimed,
	                                                .user = s};
	assert_int_equal(transport_new(&s->transport, loop, &config), 0);
}

void
start_in(uint8_t server_cell, uint8_t client_cell)
{
	char why[256] = "";

	memset(&p, 0, sizeof p);
	assert_int_equal(uv_loop_init(&p.loop), 0);
	side_start(&p.server, &p.loop, server_cell, 1);
	side_start(&p.client, &p.loop, client_cell, 2);
	if (!transport_listen(p.server.transport, "127.0.0.1:0", why, sizeof why))
		fail_msg("%s", why);
	snprintf(p.address, sizeof p.address, "127.0.0.1:%d", transport_port(p.server.transport));
}

void
start(void)
{
	start_in(7, 7);
}

void
end(void)
{
	struct side *sides[] = {&p.server, &p.client};

	for (int i = 0; i < 2; i++)
		if (!sides[i]->stop_at_frame && !sides[i]->stop_at_end)
			transport_stop(sides[i]->transport, on_stopped, sides[i]);
	uv_run(&p.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&p.loop), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(sides[i]->stopped);
		buffer_free(&sides[i]->got);
		buffer_free(&sides[i]->datagram);
	}
}

int
setup(void **state)
{
	(void)state;
	start();
	return 0;
}

int
teardown(void **state)
{
	(void)state;
	end();
	return 0;
}

uint64_t
connect_as(enum channel_role role)
{
	return transport_connect(p.client.transport, p.address, role, p.server.pair.public);
}

void
open_both(void)
{
	uint64_t conn = connect_as(CHANNEL_CLIENT);

	assert_int_equal(p.client.opened_n, 0); /* never from within */
	UNTIL(&p, p.server.opened_n == 1 && p.client.opened_n == 1);
	assert_int_equal(p.client.conn, conn);
}

struct bytes
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

int
knock_by(int type, uint32_t from)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(from);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	address.sin_port = htons((uint16_t)transport_port(p.server.transport));
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
	return fd;
}

int
knock(void)
{
	return knock_by(SOCK_STREAM, INADDR_LOOPBACK);
}
