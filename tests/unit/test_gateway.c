/* Gateways of a cell on the loopback: replicas that find each other, go and come back, come new and
 * are removed, clients with the right key, and everybody else. The third replica is no member in
 * the beginning. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/server/gateway.h"
#include "cell/sys/log.h"
#include "cell/net/transport.h"
#include "tests/unit/net_fixture.h"

enum { REPLICAS = 3 };

/* One replica, as far as its gateway goes. */
struct side {
	struct cell_file cell_file;
	struct transport *transport;
	struct server_io io;
	struct gateway *gateway;
	int peer_n, other_n, connected_n, frame_n, disconnected_n;
	uint8_t from;
	uint64_t conn;
	char principal[32];
	bool serves;  /* its replica is the master */
	bool crowded; /* with connections of the principal */
	bool stopped;
};

/* Whoever comes from outside. */
struct visitor {
	struct transport *transport;
	struct noise_pair pair;
	uint64_t conn; /* opened last */
	int opened_n, frame_n, closed_n;
	const char *why; /* it was closed last */
	bool stopped;
};

struct play {
	uv_loop_t loop;
	uv_timer_t tick;
	struct cell_file cell_file;
	struct noise_pair pairs[REPLICAS], admin;
	struct side sides[REPLICAS];
	struct visitor visitor;
};

static const struct bytes frame = {(const uint8_t *)"\1\0\0\0x", 5};
static const struct bytes other = {(const uint8_t *)"\1\0\0\0y", 5};

static void
on_peer(void *user, uint8_t replica, struct bytes got)
{
	struct side *s = user;

	must(bytes_equal(got, frame) || bytes_equal(got, other));
	s->peer_n++;
	s->other_n += bytes_equal(got, other);
	s->from = replica;
}

/* The administrator is known; the master knows that there is no other principal. */
static enum rc
on_principal(void *user, enum channel_role role, const uint8_t key[NOISE_KEY], struct bytes *name)
{
	const struct side *s = user;

	must(role == CHANNEL_CLIENT);
	if (memcmp(s->cell_file.admin_public, key, NOISE_KEY) != 0)
		return s->serves ? RC_PERM : RC_NOT_MASTER;
	*name = bytes_of("admin");
	return s->crowded ? RC_FULL : RC_OK;
}

static void
on_connected(void *user, uint64_t conn, struct bytes principal, struct bytes key)
{
	struct side *s = user;

	must(key.len == NOISE_KEY && memcmp(s->cell_file.admin_public, key.data, key.len) == 0);
	s->connected_n++;
	s->conn = conn;
	snprintf(s->principal, sizeof s->principal, "%.*s", (int)principal.len,
	         (const char *)principal.data);
}

static void
on_frame(void *user, uint64_t conn, struct bytes got)
{
	struct side *s = user;

	must(conn == s->conn);
	s->frame_n++;
	gateway_send(s->gateway, conn, got);
}

static void
on_disconnected(void *user, uint64_t conn)
{
	struct side *s = user;

	must(conn != 0);
	s->disconnected_n++;
}

static void
on_stopped(void *user)
{
	*(bool *)user = true;
}

/* ---- what a gateway stands on ---- */

static mono_t
io_now(void *user, int64_t *wall_ns)
{
	(void)user, (void)wall_ns;
	return clock_now();
}

static uint64_t
io_connect(void *user, const char *address, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	return transport_connect(((struct side *)user)->transport, address, role, key);
}

static void
io_send(void *user, uint64_t conn, struct bytes frames)
{
	transport_send(((struct side *)user)->transport, conn, frames);
}

static const uint8_t *
io_key(void *user, uint64_t conn)
{
	return transport_key(((struct side *)user)->transport, conn);
}

static bool
io_close(void *user, uint64_t conn)
{
	return transport_close(((struct side *)user)->transport, conn);
}

static bool
on_net_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	return gateway_opened(((struct side *)user)->gateway, conn, role, key);
}

static void
on_net_frame(void *user, uint64_t conn, struct bytes got)
{
	gateway_frame(((struct side *)user)->gateway, conn, got);
}

static void
on_net_closed(void *user, uint64_t conn, const char *why)
{
	gateway_closed(((struct side *)user)->gateway, conn, why);
}

/* Every few milliseconds. */
static void
on_tick(uv_timer_t *timer)
{
	struct play *p = timer->data;

	for (int i = 0; i < REPLICAS; i++) {
		struct gateway *g = p->sides[i].gateway;

		if (g != NULL && mono_reached(clock_now(), gateway_deadline(g)))
			gateway_timeout(g, clock_now());
	}
}

/* ---- the replicas ---- */

static void
start_side(struct play *p, int i)
{
	struct side *s = &p->sides[i];
	const struct gateway_callbacks callbacks = {
	    on_peer, on_principal, on_connected, on_frame, on_disconnected, s,
	};
	struct transport_config config = {
	    .own = &p->pairs[i],
	    .callbacks = {.opened = on_net_opened,
	                  .frame = on_net_frame,
	                  .closed = on_net_closed,
	                  .user = s},
	};
	char why[256] = "";

	memset(s, 0, sizeof *s);
	s->cell_file = p->cell_file;
	s->io = (struct server_io){.now = io_now,
	                           .connect = io_connect,
	                           .send = io_send,
	                           .key = io_key,
	                           .close = io_close,
	                           .user = s};
	memcpy(config.cell_id, p->cell_file.id, sizeof config.cell_id);
	assert_int_equal(transport_new(&s->transport, &p->loop, &config), 0);
	if (!transport_listen(s->transport, p->cell_file.replicas[i].address, why, sizeof why))
		fail_msg("%s", why);
	s->gateway = gateway_new(&s->io,
	                         &(struct gateway_config){
	                             .cell_file = &s->cell_file,
	                             .self = p->cell_file.replicas[i].id,
	                             .clients_max = 1000,
	                         },
	                         &callbacks);
	gateway_start(s->gateway);
}

static void
stop_side(struct play *p, int i)
{
	struct side *s = &p->sides[i];

	gateway_free(s->gateway);
	s->gateway = NULL;
	transport_stop(s->transport, on_stopped, &s->stopped);
	UNTIL(p, s->stopped);
}

static void
start(struct play *p)
{
	memset(p, 0, sizeof *p);
	assert_int_equal(uv_loop_init(&p->loop), 0);
	assert_int_equal(uv_timer_init(&p->loop, &p->tick), 0);
	p->tick.data = p;
	must(uv_timer_start(&p->tick, on_tick, 2, 2) == 0);
	memset(p->cell_file.signing_public, 5, sizeof p->cell_file.signing_public);
	p->admin = pair_of(1);
	p->cell_file.has_admin = true;
	memcpy(p->cell_file.admin_public, p->admin.public, NOISE_KEY);
	p->cell_file.replicas_n = REPLICAS - 1;
	for (int i = 0; i < REPLICAS; i++) {
		struct cell_file_replica *r = &p->cell_file.replicas[i];

		p->pairs[i] = pair_of((uint8_t)(10 + i));
		r->id = (uint8_t)(3 + i);
		r->role = MEMBER_VOTER;
		memcpy(r->public_key, p->pairs[i].public, NOISE_KEY);
		snprintf(r->address, sizeof r->address, "127.0.0.1:%d", free_port());
	}
	for (int i = 0; i < REPLICAS - 1; i++)
		start_side(p, i);
	p->sides[REPLICAS - 1].stopped = true;
}

static void
set_members(struct play *p, int i)
{
	gateway_set_members(p->sides[i].gateway, 1, p->cell_file.replicas, p->cell_file.replicas_n);
}

static void
end(struct play *p)
{
	if (p->visitor.transport != NULL)
		transport_stop(p->visitor.transport, on_stopped, &p->visitor.stopped);
	for (int i = 0; i < REPLICAS; i++)
		if (!p->sides[i].stopped)
			stop_side(p, i);
	uv_close((uv_handle_t *)&p->tick, NULL);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&p->loop), 0);
}

/* Sends until one has arrived: nothing is kept for a peer that is not connected. */
static void
hear(struct play *p, int from, int to)
{
	int before = p->sides[to].peer_n;

	UNTIL(p, (gateway_send_peer(p->sides[from].gateway, p->cell_file.replicas[to].id, frame),
	          p->sides[to].peer_n > before));
	assert_int_equal(p->sides[to].from, p->cell_file.replicas[from].id);
}

/* ---- the visitor ---- */

static bool
visitor_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	struct visitor *v = user;

	(void)role;
	(void)key;
	v->opened_n++;
	v->conn = conn;
	return true;
}

static void
visitor_frame(void *user, uint64_t conn, struct bytes got)
{
	struct visitor *v = user;

	(void)conn;
	must(bytes_equal(got, frame));
	v->frame_n++;
}

static void
visitor_closed(void *user, uint64_t conn, const char *why)
{
	struct visitor *v = user;

	(void)conn;
	v->why = why;
	v->closed_n++;
}

/* Comes to the first replica with a key and as something. */
static void
visit(struct play *p, const struct noise_pair *pair, enum channel_role role)
{
	struct visitor *v = &p->visitor;
	struct transport_config config = {.own = pair};

	memset(v, 0, sizeof *v);
	memcpy(config.cell_id, p->cell_file.id, sizeof config.cell_id);
	config.callbacks = (struct transport_callbacks){.opened = visitor_opened,
	                                                .frame = visitor_frame,
	                                                .closed = visitor_closed,
	                                                .user = v};
	assert_int_equal(transport_new(&v->transport, &p->loop, &config), 0);
	transport_connect(v->transport, p->cell_file.replicas[0].address, role, p->pairs[0].public);
	UNTIL(p, v->opened_n + v->closed_n > 0);
}

static void
leave(struct play *p)
{
	transport_stop(p->visitor.transport, on_stopped, &p->visitor.stopped);
	UNTIL(p, p->visitor.stopped);
	p->visitor.transport = NULL;
}

/* ---- tests ---- */

TEST(test_replicas_find_each_other)
{
	struct play p;

	start(&p);
	hear(&p, 0, 1);
	hear(&p, 1, 0);
	for (int round = 0; round < 3; round++) {
		stop_side(&p, 1);
		gateway_send_peer(p.sides[0].gateway, p.cell_file.replicas[1].id, frame);
		start_side(&p, 1);
		hear(&p, 1, 0);
		hear(&p, 0, 1);
	}
	assert_int_equal(p.sides[0].connected_n + p.sides[1].connected_n, 0);
	end(&p);
}

TEST(test_client)
{
	struct play p;

	start(&p);
	visit(&p, &p.admin, CHANNEL_CLIENT);
	UNTIL(&p, p.sides[0].connected_n == 1);
	assert_int_equal(gateway_clients(p.sides[0].gateway), 1);
	assert_string_equal(p.sides[0].principal, "admin");
	assert_true(p.sides[0].conn & GATEWAY_CONN);
	transport_send(p.visitor.transport, p.visitor.conn, frame);
	UNTIL(&p, p.visitor.frame_n == 1);
	leave(&p);
	UNTIL(&p, p.sides[0].disconnected_n == 1);
	assert_int_equal(gateway_clients(p.sides[0].gateway), 0);

	/* Closed from our side: last words arrive, and nothing more is heard of it. */
	visit(&p, &p.admin, CHANNEL_CLIENT);
	UNTIL(&p, p.sides[0].connected_n == 2);
	gateway_send(p.sides[0].gateway, p.sides[0].conn, frame);
	gateway_close(p.sides[0].gateway, p.sides[0].conn);
	UNTIL(&p, p.visitor.closed_n == 1);
	assert_int_equal(p.visitor.frame_n, 1);
	assert_int_equal(p.sides[0].disconnected_n, 1);

	/* As many of its principal are there as may be. */
	leave(&p);
	p.sides[0].crowded = true;
	visit(&p, &p.admin, CHANNEL_CLIENT);
	UNTIL(&p, p.visitor.closed_n == 1);
	assert_string_equal(p.visitor.why, "the replica has no room for one more client");
	assert_int_equal(p.sides[0].connected_n, 2);
	end(&p);
}

/* Each key is good for one role only, a stranger's for none. The master alone tells a client that
 * there is no such principal: another replica may not have heard of it yet. */
TEST(test_not_welcome)
{
	const struct noise_pair stranger = pair_of(99);
	struct play p;

	start(&p);
	const struct {
		const struct noise_pair *pair;
		enum channel_role role;
	} cases[] = {
	    {&stranger, CHANNEL_CLIENT},    {&stranger, CHANNEL_REPLICA},
	    {&p.admin, CHANNEL_REPLICA},    {&p.pairs[1], CHANNEL_CLIENT},
	    {&p.pairs[0], CHANNEL_REPLICA}, /* its own */
	};

	for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
		p.sides[0].serves = i % 2 == 0;
		visit(&p, cases[i / 2].pair, cases[i / 2].role);
		transport_send(p.visitor.transport, p.visitor.conn, frame);
		UNTIL(&p, p.visitor.closed_n == 1);
		assert_int_equal(p.visitor.why == transport_unknown_key,
		                 cases[i / 2].role == CHANNEL_CLIENT && p.sides[0].serves);
		leave(&p);
	}
	assert_int_equal(p.sides[0].connected_n + p.sides[0].frame_n, 0);
	assert_int_equal(p.sides[0].peer_n, 0);
	end(&p);
}

/* A replica that comes again is heard there and no longer on the old connection. */
TEST(test_replica_comes_again)
{
	struct play p;
	int before;

	start(&p);
	hear(&p, 1, 0);
	stop_side(&p, 1);
	before = p.sides[0].peer_n;
	visit(&p, &p.pairs[1], CHANNEL_REPLICA);
	transport_send(p.visitor.transport, p.visitor.conn, frame);
	UNTIL(&p, p.sides[0].peer_n > before);
	start_side(&p, 1);
	UNTIL(&p, p.visitor.closed_n == 1);
	hear(&p, 1, 0);
	end(&p);
}

/* Whom one knows of and the other not yet: refused, and heard as soon as both do. */
TEST(test_replica_is_added)
{
	struct play p;

	start(&p);
	hear(&p, 0, 1);
	p.cell_file.replicas_n = REPLICAS;
	start_side(&p, 2);
	set_members(&p, 0);
	hear(&p, 0, 2);
	hear(&p, 2, 0);
	gateway_send_peer(p.sides[1].gateway, p.cell_file.replicas[2].id, frame); /* who is that? */
	set_members(&p, 1);
	hear(&p, 1, 2);
	hear(&p, 2, 1);
	hear(&p, 0, 1);
	end(&p);
}

/* It is heard, and answered on its own connection; one that is forgotten is nobody. */
TEST(test_replica_is_removed)
{
	struct play p;
	int before;

	start(&p);
	hear(&p, 0, 1);
	hear(&p, 1, 0);
	p.cell_file.replicas[1].role = MEMBER_REMOVED;
	set_members(&p, 0);
	hear(&p, 1, 0);
	hear(&p, 0, 1);
	stop_side(&p, 1);
	start_side(&p, 1); /* as if it had not heard: a member, in its own opinion */
	p.cell_file.replicas[1].role = MEMBER_VOTER;
	set_members(&p, 1);
	hear(&p, 1, 0);
	hear(&p, 0, 1);

	p.cell_file.replicas_n = 1;
	set_members(&p, 0);
	before = p.sides[0].peer_n;
	gateway_send_peer(p.sides[0].gateway, p.cell_file.replicas[1].id, frame);
	visit(&p, &p.pairs[1], CHANNEL_REPLICA);
	transport_send(p.visitor.transport, p.visitor.conn, frame);
	UNTIL(&p, p.visitor.closed_n == 1);
	assert_int_equal(p.sides[0].peer_n, before);
	end(&p);
}

TEST(test_replica_moves)
{
	struct play p;

	start(&p);
	hear(&p, 0, 1);
	stop_side(&p, 1);
	snprintf(p.cell_file.replicas[1].address, sizeof p.cell_file.replicas[1].address,
	         "127.0.0.1:%d", free_port());
	start_side(&p, 1);
	hear(&p, 1, 0);
	set_members(&p, 0);
	hear(&p, 0, 1);
	/* The same list again disturbs nobody. */
	for (int i = 0; i < 3; i++) {
		set_members(&p, 0);
		gateway_send_peer(p.sides[0].gateway, p.cell_file.replicas[1].id, other);
	}
	UNTIL(&p, p.sides[1].other_n == 3);
	end(&p);
}

int
main(void)
{
	log_start("test_gateway", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
