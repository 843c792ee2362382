#include "tests/unit/replica_cell_inside.h"

#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/unit/unit.h"

static uint64_t
client_connect(struct cell_client *c, uint64_t old, uint8_t replica, bool aside)
{
	struct cell *cell = c->cell;

	if (old != 0 && cell_conn_of(cell, old)->open_here) {
		cell_conn_of(cell, old)->open_here = false;
		cell_post(cell, (struct cell_post){.kind = HANG_UP, .number = old}, WIRE_MS);
	}
	if (replica == 0)
		return 0;
	ARRAY_ROOM(cell->conns, cell->conns_n, cell->conns_room);
	cell->conns[cell->conns_n++] = (struct cell_conn){
	    .client = c->id,
	    .principal = "admin",
	    .aside = aside,
	    .open_here = true,
	    .replica = replica,
	};
	cell_post(cell, (struct cell_post){.kind = CONNECT, .number = cell->conns_n}, WIRE_MS);
	return cell->conns_n;
}

static void
note_answer(struct cell_client *c, const struct client_answer *from)
{
	struct cell_answer *a = &c->answers[c->answers_n++];

	assert_true(c->answers_n < CELL_ANSWERS);
	assert_null(cell_answer(c, from->token)); /* exactly once */
	*a = (struct cell_answer){.token = from->token, .rc = from->rc, .at = c->cell->now};
	if (from->result.kind == RESULT_created)
		a->node = from->result.created.attr.node;
	if (from->result.kind == RESULT_acquired) {
		a->lock_generation = from->result.acquired.lock_generation;
		a->fence = from->result.acquired.fence;
	}
	if (from->result.kind == RESULT_contents) {
		assert_true(from->result.contents.contents.len < sizeof a->contents);
		memcpy(a->contents, from->result.contents.contents.data,
		       from->result.contents.contents.len);
	}
}

void
cell_client_event(struct cell_client *c, struct client_event event)
{
	struct client_update *u = &c->update;
	struct bytes rest;

	event.now = c->cell->now;
	client_step(c->client, &event, u);
	if (u->connect)
		c->conn = client_connect(c, c->conn, u->replica, false);
	if (u->listen)
		c->aside = client_connect(c, c->aside, u->listen_to, true);
	rest = buffer_view(&u->frames);
	while (rest.len > 0) {
		struct bytes frame = {rest.data, (size_t)wire_frame_length(rest)};

		cell_post(c->cell,
		     (struct cell_post){.kind = TO_REPLICA, .number = c->conn, .frame = frame},
		     WIRE_MS);
		rest.data += frame.len;
		rest.len -= frame.len;
	}
	for (size_t i = 0; i < u->answers_n; i++)
		note_answer(c, &u->answers[i]);
	for (size_t i = 0; i < u->grants_n; i++) {
		assert_true(c->grants_n < CELL_ANSWERS);
		c->granted_at[c->grants_n] = c->cell->now;
		c->grants[c->grants_n++] = u->grants[i];
	}
	if (u->state_changed && cell_client_state(c) == CLIENT_EXPIRED)
		c->lost++;
}

struct cell_client *
cell_client(struct cell *cell, bool caching)
{
	struct cell_client *c = &cell->clients[cell->clients_n];
	struct client_config config = {
	    .host = "here",
	    .grace = span_ms(DEFAULT_GRACE_MS),
	    .drift_permille = 10,
	    .caching = caching,
	    .seed = 77 + (uint64_t)cell->clients_n,
	    .replicas_n = cell->first_n,
	};

	assert_true(cell->clients_n < CELL_CLIENTS);
	memset(config.nonce, 'a' + cell->clients_n, LIMIT_NONCE);
	for (int i = 0; i < cell->first_n; i++)
		config.replicas[i] = (uint8_t)(i + 1);
	c->cell = cell;
	c->id = cell->clients_n++;
	c->client = client_new(&config, cell->now);
	for (int i = 0; i < 5000 && cell_client_state(c) != CLIENT_SAFE; i++)
		cell_pass_ms(cell, 1);
	assert_int_equal(cell_client_state(c), CLIENT_SAFE);
	return c;
}

void
cell_client_freeze(struct cell_client *c)
{
	c->frozen = true;
}

void
cell_client_thaw(struct cell_client *c)
{
	c->frozen = false;
}

void
cell_client_close(struct cell_client *c)
{
	cell_client_event(c, (struct client_event){.kind = CLIENT_CLOSE});
}

struct cell_replica *
cell_listened_to(const struct cell_client *c)
{
	return &c->cell->replicas[cell_conn_of(c->cell, c->aside)->replica - 1];
}

enum client_state
cell_client_state(const struct cell_client *c)
{
	return client_status(c->client).state;
}

/* ---- requests ---- */

uint64_t
cell_ask(struct cell_client *c, const struct op *op)
{
	cell_client_event(c, (struct client_event){
	                         .kind = CLIENT_REQUEST,
	                         .request = client_request_new(++c->tokens, op, false)});
	return c->tokens;
}

const struct cell_answer *
cell_answer(const struct cell_client *c, uint64_t token)
{
	for (size_t i = 0; i + 1 <= c->answers_n; i++)
		if (c->answers[i].token == token)
			return &c->answers[i];
	return NULL;
}

const struct cell_answer *
cell_await(struct cell_client *c, uint64_t token, int64_t ms)
{
	for (int64_t i = 0; i < ms && cell_answer(c, token) == NULL; i++)
		cell_pass_ms(c->cell, 1);
	return cell_answer(c, token);
}

const struct cell_answer *
cell_call(struct cell_client *c, const struct op *op)
{
	const struct cell_answer *a = cell_await(c, cell_ask(c, op), 20);

	assert_non_null(a);
	assert_int_equal(a->rc, RC_OK);
	return a;
}

uint64_t
cell_file(struct cell_client *c, const char *name)
{
	struct op op = {.code = OP_create};

	op.create =
	    (struct op_create){.parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE};
	return cell_call(c, &op)->node;
}

uint64_t
cell_append(struct cell_client *c, uint64_t node, const char *text)
{
	struct op op = {.code = OP_append, .append = {.node = node, .data = bytes_of(text)}};

	return cell_ask(c, &op);
}

const char *
cell_read(struct cell_client *c, uint64_t node)
{
	struct op op = {.code = OP_get_contents, .get_contents = {.node = node}};

	return cell_call(c, &op)->contents;
}

uint64_t
cell_lock(struct cell_client *c, uint64_t node, enum lock_mode mode, bool wait)
{
	struct op op = {.code = OP_acquire};

	op.acquire.acquire = (struct acquire){.node = node,
	                                      .owner = 1,
	                                      .acquisition = ++c->acquisitions,
	                                      .mode = mode,
	                                      .wait = wait,
	                                      .delay_s = -1,
	                                      .default_delay_s = DEFAULT_LOCK_DELAY_S};
	return cell_ask(c, &op);
}

uint64_t
cell_unlock(struct cell_client *c, uint64_t node, uint64_t acquisition)
{
	struct op op = {.code = OP_release, .release = {node, 1, acquisition}};

	return cell_ask(c, &op);
}

bool
cell_granted(const struct cell_client *c, uint64_t acquisition)
{
	for (size_t i = 0; i < c->grants_n; i++)
		if (c->grants[i].acquisition == acquisition && c->grants[i].rc == RC_OK)
			return true;
	return false;
}
