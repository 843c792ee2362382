/* The sum of the bytes that the clients of one key have not read is that of their connections,
 * however they send, read and end. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/rng.h"
#include "cell/net/stream.h"
#include "cell/sys/log.h"
#include "tests/unit/transport_pair.h"

enum { OURS = 5, CONNECTIONS = 8, STEPS = 600, LEN = 300 * 1024 };

static struct side other; /* with a key of its own */

/* Counts again, and finds that the kernel has taken bytes meanwhile, if anything. */
static void
expect_sum(struct reader *r)
{
	size_t counted = 0, exact = 0;
	struct stream *s;

	LIST_FOREACH(s, &r->connections, beside)
	counted += s->counted;
	assert_int_equal(r->unsent, counted);
	LIST_FOREACH(s, &r->connections, beside)
	{
		exact += stream_unsent(s);
		readers_count(s);
	}
	assert_in_range(exact, 0, counted);
	assert_int_equal(r->unsent, exact);
}

static struct reader *
reader_of(uint64_t conn)
{
	const struct stream *s = transport_find(p.server.transport, conn);

	return s == NULL ? NULL : s->reader;
}

static int
setup_three(void **state)
{
	setup(state);
	memset(&other, 0, sizeof other);
	side_start(&other, &p.loop, 7, 3);
	return 0;
}

static int
teardown_three(void **state)
{
	transport_stop(other.transport, on_stopped, &other);
	teardown(state);
	buffer_free(&other.got);
	return 0;
}

TEST_WITH(test_sum, setup_three, teardown_three)
{
	struct bytes frame = frame_of(LEN, 9);
	uint64_t out[CONNECTIONS], in[CONNECTIONS];
	struct rng rng = rng_seeded(4);

	for (int i = 0; i < CONNECTIONS; i++) {
		struct side *from = i < OURS ? &p.client : &other;

		out[i] = transport_connect(from->transport, p.address, CHANNEL_CLIENT,
		                           p.server.pair.public);
		UNTIL(&p, p.server.opened_n == i + 1);
		in[i] = p.server.conn;
	}
	assert_ptr_equal(reader_of(in[0]), reader_of(in[OURS - 1]));
	assert_ptr_not_equal(reader_of(in[0]), reader_of(in[OURS]));

	for (int step = 0; step < STEPS; step++) {
		const int i = (int)rng_below(&rng, CONNECTIONS);
		struct side *from = i < OURS ? &p.client : &other;

		if (rng_below(&rng, 2) == 0)
			transport_send(p.server.transport, in[i], frame);
		else if (rng_below(&rng, 2) == 0)
			transport_hold(from->transport, out[i], rng_below(&rng, 2) == 0);
		else if (rng_below(&rng, 60) == 0)
			transport_close(p.server.transport, in[i]);
		else
			uv_run(&p.loop, UV_RUN_NOWAIT);
		if (step % 10 == 0 && reader_of(in[i]) != NULL)
			expect_sum(reader_of(in[i]));
	}
	for (int i = 0; i < CONNECTIONS; i++)
		transport_hold((i < OURS ? &p.client : &other)->transport, out[i], false);
	for (int i = 0; i < CONNECTIONS; i++)
		UNTIL(&p, reader_of(in[i]) == NULL || reader_of(in[i])->unsent == 0);
	for (int i = 0; i < CONNECTIONS; i++)
		transport_close(p.server.transport, in[i]);
	assert_true(RB_EMPTY(&p.server.transport->readers));
	free((void *)frame.data);
}

/* Most of one frame waits for the kernel, which takes it later. */
PAIR_TEST(test_long_frame)
{
	struct bytes frame = frame_of(16 * 1024 * 1024, 9);

	open_both();
	transport_hold(p.client.transport, p.client.conn, true);
	transport_send(p.server.transport, p.server.conn, frame);
	for (int i = 0; i < 10; i++)
		uv_run(&p.loop, UV_RUN_NOWAIT);
	expect_sum(reader_of(p.server.conn));
	assert_in_range(reader_of(p.server.conn)->unsent, 1, frame.len - 1);
	transport_hold(p.client.transport, p.client.conn, false);
	UNTIL(&p, p.client.frames_n == 1);
	UNTIL(&p, reader_of(p.server.conn)->unsent == 0);
	free((void *)frame.data);
}

/* The limit is that of clients. */
PAIR_TEST(test_replicas_are_not_counted)
{
	connect_as(CHANNEL_REPLICA);
	UNTIL(&p, p.server.opened_n == 1);
	assert_null(reader_of(p.server.conn));
}

int
main(void)
{
	log_start("test_readers", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
