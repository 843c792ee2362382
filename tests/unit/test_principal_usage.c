/* What the sessions and connections of one principal may have together, and that it is theirs
 * alone; the connections of a replica's host; and what is read of a connection. */
#include <stdlib.h>
#include <string.h>
#include "cell/server/internal.h"
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

enum { LARGE = 200 * 1024 };

static struct bare_client
client_of(struct bare_world *w, const char *principal, uint32_t name)
{
	struct bare_client c = {.world = w};

	memcpy(c.nonce, &name, sizeof name);
	c.nonce[sizeof name] = (uint8_t)principal[1]; /* no two names share it */
	c.conn = world_connect(w, principal);
	bare_send_open(&c);
	return c;
}

static struct bare_client
open_as(struct bare_world *w, const char *principal, uint32_t name)
{
	struct bare_client c = client_of(w, principal, name);

	bare_expect_opened(&c);
	return c;
}

/* One more session than a principal may have is refused; another one opens its first. */
TEST(test_sessions)
{
	struct bare_world *w = world_new(1);
	const struct message *m;
	struct bare_client c;

	world_add_principal(w, "ann");
	for (uint32_t i = 0; i < LIMIT_PRINCIPAL_SESSIONS; i++)
		open_as(w, "ann", i);
	c = client_of(w, "ann", LIMIT_PRINCIPAL_SESSIONS);
	m = bare_take(&c, MSG_session_opened);
	assert_non_null(m);
	assert_int_equal(m->session_opened.rc, RC_FULL);
	open_as(w, "admin", 1);
	world_free(w);
}

/* Those that are being opened count; they do so no longer when the master is another one. */
TEST(test_sessions_opened_at_once)
{
	struct bare_world *w = world_new(1);
	const struct message *m;
	struct tree_session t = {0};
	struct bare_client c;
	int n = 0;

	world_add_principal(w, "ann");
	world_slow_disk(w, true);
	for (uint32_t i = 0; i < LIMIT_PRINCIPAL_SESSIONS; i++)
		client_of(w, "ann", i);
	c = client_of(w, "ann", LIMIT_PRINCIPAL_SESSIONS);
	world_slow_disk(w, false);
	world_persist(w);
	world_pass_ms(w, 1000);
	m = bare_take(&c, MSG_session_opened);
	assert_non_null(m);
	assert_int_equal(m->session_opened.rc, RC_FULL);
	while (tree_session_of_after(world_tree(w), bytes_of("ann"), t.id, &t))
		n++;
	assert_int_equal(n, LIMIT_PRINCIPAL_SESSIONS);
	open_as(w, "admin", 1);
	world_restart(w);
	world_free(w);
}

/* Requests of one principal to end a session of its own, which takes as long as the leave of its
 * client lasts, leave room for an administrator's. */
TEST(test_operators)
{
	enum { REQUESTS = 256 };
	struct bare_world *w = world_new(1);
	struct bare_client c, operator= {.world = w};
	struct message m = {.code = MSG_operate};
	const struct message *refused = NULL;

	world_add_principal(w, "ann");
	c = open_as(w, "ann", 1);
	bare_file(&c, "cached");
	operator.conn = world_connect(w, "ann");
	m.operate = (struct msg_operate){.what = OPERATION_DESTROY_SESSION, .id = c.session};
	for (int i = 0; i < REQUESTS; i++)
		bare_send(&operator, & m);
	refused = bare_take(&operator, MSG_operated);
	assert_non_null(refused);
	assert_int_equal(refused->operated.rc, RC_BUSY);
	world_add_principal(w, "bob");
	world_free(w);
}

static enum rc
wait_for(struct bare_client *c, uint64_t node, uint64_t owner)
{
	const struct op op = {.code = OP_acquire,
	                      .acquire.acquire = {.node = node,
	                                          .owner = owner,
	                                          .acquisition = owner,
	                                          .mode = LOCK_EXCLUSIVE,
	                                          .wait = 1,
	                                          .delay_s = -1}};

	c->below = c->number + 1;
	return bare_call(c, &op, NULL);
}

/* A session that waits as often as it may is refused a further place, in an empty queue, too; and
 * nothing is left of that. */
TEST(test_a_place_in_an_empty_queue)
{
	struct bare_world *w = world_new(1);
	struct bare_client holder = bare_open(w, 1), c = bare_open(w, 2);
	const uint64_t one = bare_file(&holder, "one"), other = bare_file(&holder, "other");

	assert_int_equal(bare_lock(&holder, one, 1, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(bare_lock(&holder, other, 1, LOCK_EXCLUSIVE), RC_OK);
	for (uint64_t i = 1; i <= LIMIT_SESSION_WAITERS; i++)
		assert_int_equal(wait_for(&c, one, i), RC_QUEUED);
	assert_int_equal(wait_for(&c, other, LIMIT_SESSION_WAITERS + 1), RC_FULL);
	assert_int_equal(wait_for(&c, one, LIMIT_SESSION_WAITERS + 2), RC_FULL);
	world_restart(w);
	world_free(w);
}

/* Requests that nobody answers, of several sessions together, cost the connection of the one that
 * goes too far; and not another principal's. */
TEST(test_window)
{
	static uint8_t text[LARGE];
	const struct op op = {.code = OP_append, .append = {0, {text, sizeof text}}};
	enum {
		EACH = LIMIT_WINDOW / (LARGE + 64),
		SESSIONS = LIMIT_PRINCIPAL_WINDOW / LARGE / EACH
	};
	struct bare_world *w = world_new(1);
	struct bare_client good, *clients = calloc(SESSIONS + 2, sizeof *clients);
	int closed = 0;

	assert_non_null(clients);
	world_add_principal(w, "ann");
	good = open_as(w, "admin", 1);
	for (uint32_t i = 0; i < SESSIONS + 2; i++)
		clients[i] = open_as(w, "ann", i);
	world_slow_disk(w, true);
	for (int i = 0; i < SESSIONS + 2; i++)
		for (int n = 0; n < EACH && !world_closed(w, clients[i].conn); n++)
			bare_send_op(&clients[i], &op);
	for (int i = 0; i < SESSIONS + 2; i++)
		closed += world_closed(w, clients[i].conn);
	assert_in_range(closed, 1, 4);
	assert_false(world_closed(w, good.conn));
	world_slow_disk(w, false);
	world_persist(w);
	bare_file(&good, "good");
	free(clients);
	world_free(w);
}

/* A short request may touch many nodes, and the master keeps something for each of them: the
 * deletion of the last file below ephemeral directories, which go with it. */
TEST(test_window_of_nodes)
{
	enum { DEPTH = LIMIT_PATH / 2 - 1, SESSIONS = 12 };
	struct bare_world *w = world_new(1);
	struct bare_client good, clients[SESSIONS];
	struct op deletion = op_of_delete("d"), op = op_of_create("d");
	struct result made;
	int closed = 0;

	world_add_principal(w, "ann");
	good = open_as(w, "admin", 1);
	op.create.kind = NODE_DIRECTORY;
	op.create.ephemeral = 1;
	for (int i = 0; i < DEPTH; i++) {
		assert_int_equal(bare_call(&good, &op, &made), RC_OK);
		deletion.delete.parent = op.create.parent;
		op.create.parent = made.created.attr.node;
	}
	deletion.delete.kind = NODE_DIRECTORY;
	for (uint32_t i = 0; i < SESSIONS; i++)
		clients[i] = open_as(w, "ann", i);
	world_slow_disk(w, true);
	for (int i = 0; i < SESSIONS; i++)
		for (uint64_t n = 1; n <= LIMIT_IN_FLIGHT; n++)
			if (!world_closed(w, clients[i].conn))
				bare_send_request(&clients[i], n, true, &deletion);
	for (int i = 0; i < SESSIONS; i++)
		closed += world_closed(w, clients[i].conn);
	assert_in_range(closed, 1, SESSIONS - 4);
	assert_false(world_closed(w, good.conn));
	world_slow_disk(w, false);
	world_persist(w);
	bare_file(&good, "good");
	world_free(w);
}

/* A release that comes again under its number, and names another acquisition each time: what is
 * remembered of it has an end. */
TEST(test_withdrawals)
{
	struct bare_world *w = world_new(1);
	struct bare_client c = bare_open(w, 1);
	const uint64_t node = bare_file(&c, "one");
	uint64_t n = 0;

	c.number++;
	while (n <= 2 * LIMIT_NUMBERS && !world_closed(w, c.conn)) {
		const struct op op = op_of_release(node, 1, ++n);

		bare_send_request(&c, c.number, false, &op);
	}
	assert_int_equal(n, 2 * LIMIT_NUMBERS + 1);
	assert_true(world_closed(w, c.conn));
	bare_attach(&c);
	bare_file(&c, "other");
	world_free(w);
}

/* A command names no more nodes as dropped than any client has to. */
TEST(test_dropped)
{
	struct bare_world *w = world_new(1);
	struct bare_client c = bare_open(w, 1);
	const struct op op = op_of_set(bare_file(&c, "one"), "x");
	struct buffer encoded = BUFFER(LIMIT_ENTRY), nodes = BUFFER(LIMIT_ENTRY);
	struct message m = {.code = MSG_request};

	wire_put_op(&encoded, &op);
	for (uint64_t i = 1; i <= LIMIT_DROPPED + 1; i++) {
		assert_false(world_closed(w, c.conn));
		wire_put_node_key(&nodes, &(struct node_key){i});
		m.request = (struct msg_request){.session = c.session,
		                                 .epoch = c.epoch,
		                                 .number = ++c.number,
		                                 .below = 1,
		                                 .op = buffer_view(&encoded),
		                                 .dropped = {buffer_view(&nodes), (uint32_t)i}};
		bare_send(&c, &m);
		assert_int_equal(bare_reply(&c, c.number) != NULL, i <= LIMIT_DROPPED);
	}
	assert_true(world_closed(w, c.conn));
	buffer_free(&encoded);
	buffer_free(&nodes);
	world_free(w);
}

/* A transaction of so many bytes, whose operations are none. */
static void
put_transaction(struct buffer *to, size_t len)
{
	enum { STEPS = 4, OP_HEAD = 1 + 4 + 4 };
	static const uint8_t junk[LIMIT_CONTENTS + 1024];
	struct step step = {.kind = STEP_DO, .path = bytes_of("/f")};
	struct buffer steps = BUFFER(LIMIT_ENTRY);
	struct op op = {.code = OP_transaction};

	wire_put_step(&steps, &step);
	step.op = (struct bytes){junk, (len - OP_HEAD) / STEPS - steps.len};
	buffer_reset(&steps);
	for (int i = 1; i < STEPS; i++)
		wire_put_step(&steps, &step);
	step.op.len = len - OP_HEAD - steps.len - (steps.len / (STEPS - 1) - step.op.len);
	wire_put_step(&steps, &step);
	op.transaction.steps = (struct wire_list){buffer_view(&steps), STEPS};
	wire_put_op(to, &op);
	assert_false(steps.failed || to->failed);
	assert_int_equal(to->len, len);
	buffer_free(&steps);
}

/* A request with this operation, which may be too long to be encoded. */
static void
send_any_op(struct bare_client *c, struct bytes op)
{
	enum { LENGTH = 4, AT = LENGTH + 1 + 4 * 8 + 1 }; /* of the operation, in the frame */
	struct message m = {.code = MSG_request};
	struct buffer head = BUFFER(LIMIT_FRAME), frame = BUFFER(LIMIT_FRAME);

	m.request = (struct msg_request){c->session, c->epoch, ++c->number, .below = 1};
	wire_put_frame(&head, &m);
	buffer_put_bytes(&frame, (struct bytes){head.data, AT});
	buffer_put_u32(&frame, (uint32_t)op.len);
	buffer_put_bytes(&frame, op);
	buffer_put_bytes(&frame, (struct bytes){head.data + AT + 4, head.len - AT - 4});
	buffer_patch_u32(&frame, 0, (uint32_t)(frame.len - LENGTH));
	world_send(c->world, c->conn, buffer_view(&frame));
	buffer_free(&head);
	buffer_free(&frame);
}

/* What a client may ask for fits into an entry with all that the master adds to it. */
TEST(test_operation_as_long_as_an_entry)
{
	static const size_t too_long[] = {LIMIT_ENTRY, LIMIT_OPERATION + 1};
	struct bare_world *w = world_new(1);
	struct bare_client c = bare_open(w, 1);
	struct buffer op = BUFFER(LIMIT_ENTRY);

	put_transaction(&op, LIMIT_OPERATION);
	send_any_op(&c, buffer_view(&op));
	assert_int_equal(bare_reply(&c, c.number)->rc, RC_INVAL);
	for (int i = 0; i < 2; i++) {
		buffer_reset(&op);
		put_transaction(&op, too_long[i]);
		send_any_op(&c, buffer_view(&op));
		assert_true(world_closed(w, c.conn));
		bare_attach(&c);
	}
	bare_file(&c, "good");
	buffer_free(&op);
	world_free(w);
}

/* ---- connections ---- */

static int denied;

static void
take_frame(struct transport *n, uint64_t conn, struct bytes frame)
{
	struct message m;

	(void)n;
	(void)conn;
	assert_int_equal(wire_get_frame(frame, &m), RC_OK);
	if (m.code != MSG_denied)
		return;
	assert_int_equal(m.denied.rc, RC_FULL);
	denied++;
}

/* Lets in so many connections with this key, and not one more; and another one when one is closed.
 */
static void
expect_let_in(struct server *s, enum channel_role role, const uint8_t *key, uint64_t most)
{
	static uint64_t conn = 1000;
	const uint64_t first = conn + 1;

	s->io.network.send = take_frame;
	denied = 0;
	for (uint64_t i = 0; i < most; i++)
		assert_true(server_opened(s, ++conn, role, key));
	assert_false(server_opened(s, ++conn, role, key));
	server_closed(s, first, "closed");
	assert_true(server_opened(s, ++conn, role, key));
	assert_false(server_opened(s, ++conn, role, key));
	assert_int_equal(denied, 2);
}

TEST(test_connections)
{
	struct bare_world *w = world_new(1);
	struct server *s = w->host->server;

	expect_let_in(s, CHANNEL_HOST, seat_key(w->host->body), LIMIT_OPERATOR_CONNECTIONS);
	expect_let_in(s, CHANNEL_CLIENT, seat_key(SEAT_ADMIN), LIMIT_PRINCIPAL_CONNECTIONS);
	world_free(w);
}

/* Handshakes of keys that are known come before those of strangers, also where only the list of
 * members names them. */
TEST(test_known_keys)
{
	struct bare_world *w = world_new(1);
	struct server *s = w->host->server;
	struct cell_file_replica peer = {.id = 2, .role = MEMBER_VOTER, .address = "host2:1"};

	memcpy(peer.public_key, seat_key(2), NOISE_KEY);
	assert_true(server_knows(s, seat_key(SEAT_ADMIN)));
	assert_true(server_knows(s, seat_key(w->host->body)));
	assert_false(server_knows(s, peer.public_key));
	gateway_set_members(s->gateway, UINT64_MAX, &peer, 1);
	assert_true(server_knows(s, peer.public_key));
	world_free(w);
}

static bool held[2]; /* by connection */
static uint64_t session;

static void
take_hold(struct transport *n, uint64_t conn, bool on)
{
	(void)n;
	held[conn - 1] = on;
}

static size_t
all_is_sent(struct transport *n, uint64_t conn)
{
	(void)n;
	(void)conn;
	return 0;
}

static void
take_session(struct transport *n, uint64_t conn, struct bytes frame)
{
	struct message m;

	(void)n;
	(void)conn;
	if (wire_get_frame(frame, &m) == RC_OK && m.code == MSG_session_opened)
		session = m.session_opened.session;
}

static void
send_message(struct server *s, uint64_t conn, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	server_frame(s, conn, buffer_view(&frame));
	buffer_free(&frame);
}

static void
open_session(struct server *s, uint64_t conn)
{
	const uint8_t nonce[LIMIT_NONCE] = {(uint8_t)conn};
	struct message m = {.code = MSG_open_session};

	m.open_session =
	    (struct msg_open_session){.nonce = {nonce, sizeof nonce}, .host = bytes_of("host")};
	assert_true(server_opened(s, conn, CHANNEL_CLIENT, seat_key(SEAT_ADMIN)));
	send_message(s, conn, &m);
}

static bool is_closed[3]; /* by connection */

static bool
take_close(struct transport *n, uint64_t conn)
{
	(void)n;
	is_closed[conn - 1] = true;
	return true;
}

/* Without a session little memory, for all connections together; else as much as for requests. */
TEST(test_frames_that_have_come_in_part)
{
	struct bare_world *w = world_new(1);
	struct server *s = w->host->server;

	s->io.network.send = take_session;
	s->io.network.close = take_close;
	s->io.network.unsent = all_is_sent;
	open_session(s, 1);
	world_pass_ms(w, 100);
	assert_int_not_equal(session, 0);
	for (uint64_t conn = 2; conn <= 3; conn++)
		assert_true(server_opened(s, conn, CHANNEL_CLIENT, seat_key(SEAT_ADMIN)));
	server_unfinished(s, 1, LIMIT_PRINCIPAL_WINDOW, false);
	server_unfinished(s, 2, LIMIT_PRINCIPAL_EARLY, false);
	assert_false(is_closed[0] || is_closed[1]);
	server_unfinished(s, 3, 100, false);
	assert_true(is_closed[2] && !is_closed[1]);
	server_unfinished(s, 1, LIMIT_PRINCIPAL_WINDOW + 1, false);
	assert_true(is_closed[0] && !is_closed[1]);
	assert_int_equal(s->inbox.unfinished_bytes, LIMIT_PRINCIPAL_EARLY);
	world_free(w);
}

static void
send_keepalives(struct server *s, uint64_t conn, int n)
{
	struct message m = {.code = MSG_keepalive};

	m.keepalive = (struct msg_keepalive){.session = session, .epoch = 1};
	while (n-- > 0)
		send_message(s, conn, &m);
}

/* Nothing is read behind a KeepAlive too many, until the server has come to it; other connections
 * are read. */
TEST(test_keepalives_without_end)
{
	struct bare_world *w = world_new(1);
	struct server *s = w->host->server;

	s->io.network.send = take_session;
	s->io.network.hold = take_hold;
	s->io.network.unsent = all_is_sent;
	for (uint64_t conn = 1; conn <= 2; conn++) {
		open_session(s, conn);
		world_pass_ms(w, 100);
		assert_int_not_equal(session, 0);
		send_keepalives(s, conn, INBOX_KEEPALIVES);
	}
	assert_false(held[0] || held[1]);
	send_keepalives(s, 2, 3);
	assert_true(held[1] && !held[0]);
	server_turn(s);
	assert_false(held[0] || held[1]);
	world_free(w);
}

/* Within the turn of the server: nothing else happens. */
static void
send_in_turn(struct bare_client *c, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	assert_false(frame.failed);
	server_send(c->world->host->server, c->world->conns[c->conn - 1]->at, buffer_view(&frame));
	buffer_free(&frame);
}

static void
end_turn(struct bare_client *c)
{
	world_send(c->world, c->conn, (struct bytes){0});
}

static void
send_request(struct bare_client *c, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct message m = {.code = MSG_request};

	wire_put_op(&encoded, op);
	m.request = (struct msg_request){.session = c->session,
	                                 .epoch = c->epoch,
	                                 .number = ++c->number,
	                                 .below = 1,
	                                 .generation = 1,
	                                 .op = buffer_view(&encoded)};
	send_in_turn(c, &m);
	buffer_free(&encoded);
}

static void
send_dropped(struct bare_client *c, uint64_t upto)
{
	struct message m = {.code = MSG_dropped};

	m.dropped = (struct msg_dropped){.session = c->session,
	                                 .epoch = c->epoch,
	                                 .generation = 1,
	                                 .upto = upto};
	send_in_turn(c, &m);
}

/* The client has leave to cache the node. */
static void
cache(struct bare_client *c, uint64_t node)
{
	const struct op op = op_of_get(node);
	struct message m = {.code = MSG_keepalive};

	/* The answer to the second one gives the leave. */
	for (uint64_t i = 1; i <= 2; i++) {
		m.keepalive = (struct msg_keepalive){.session = c->session,
		                                     .epoch = c->epoch,
		                                     .sequence = i,
		                                     .generation = 1};
		bare_send(c, &m);
	}
	send_request(c, &op);
	end_turn(c);
	assert_int_not_equal(bare_reply(c, c->number)->leave, 0);
}

/* An acknowledgement, for which others wait, waits for nothing: not for the end of a turn, and not
 * behind requests of its own client. One that says nothing new waits as they do. */
TEST(test_acknowledgements)
{
	enum { WAITING = 48 };
	static uint8_t text[64 * 1024];
	const struct op large = {.code = OP_append, .append = {0, {text, sizeof text}}};
	struct bare_world *w = world_new(1);
	struct server *s = w->host->server;
	struct bare_client a = bare_open(w, 1), b = bare_open(w, 2);
	const uint64_t node = bare_file(&b, "one");
	const struct op write = op_of_set(node, "x");
	size_t waiting;

	cache(&a, node);
	bare_send_op(&b, &write);
	assert_int_equal(bare_take(&a, MSG_invalidation)->invalidation.notice, 1);
	s->turn_runs = true; /* and is over */
	s->turn_began = (mono_t){0};
	for (int i = 0; i < WAITING; i++)
		send_request(&a, &large);
	waiting = s->inbox.bytes;
	assert_true(waiting > WAITING * sizeof text);
	send_dropped(&a, 0);
	assert_true(s->inbox.bytes > waiting);
	waiting = s->inbox.bytes;
	send_dropped(&a, 1);
	assert_int_equal(s->inbox.bytes, waiting);
	send_dropped(&a, 1);
	assert_true(s->inbox.bytes > waiting);
	end_turn(&a);
	assert_int_equal(bare_reply(&b, b.number)->rc, RC_OK);
	world_free(w);
}
