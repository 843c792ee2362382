#include "tests/unit/bare_world.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "tests/unit/unit.h"

enum { NEVER_S = 1000000, ELECTION_MS = 10000 };

/* ---- what clients hear ---- */

static void
on_frame(void *user, struct bytes frame)
{
	const struct world_conn *conn = user;
	struct bare_world *w = conn->world;

	ARRAY_ROOM(w->inbox, w->inbox_n, w->inbox_room);
	w->inbox[w->inbox_n++] =
	    (struct world_frame){.conn = conn->number, .frame = bytes_copy(frame)};
}

static void
on_closed(void *user)
{
	const struct world_conn *conn = user;
	struct bare_world *w = conn->world;

	ARRAY_ROOM(w->closed, w->closed_n, w->closed_room);
	w->closed[w->closed_n++] = conn->number;
}

bool
world_closed(const struct bare_world *w, uint64_t conn)
{
	for (size_t i = 0; i < w->closed_n; i++)
		if (w->closed[i] == conn)
			return true;
	return false;
}

/* ---- the disk, time ---- */

/* All that follows at once, and what the disk writes. */
static void
settle(struct bare_world *w)
{
	if (w->host->up)
		host_settle(w->s, w->host);
	sim_settle(w->s, MS);
}

void
world_persist(struct bare_world *w)
{
	const bool slow = w->slow_disk;

	w->slow_disk = false;
	host_disk_goes_on(w->s, w->host);
	settle(w);
	world_slow_disk(w, slow);
}

void
world_slow_disk(struct bare_world *w, bool slow)
{
	w->slow_disk = slow;
	if (slow)
		w->host->disk.stuck_until = w->s->now + NEVER_S * SECOND;
	else
		host_disk_goes_on(w->s, w->host);
}

void
world_pass_ms(struct bare_world *w, int64_t ms)
{
	sim_run_until(w->s, w->s->now + ms * MS);
}

const struct tree *
world_tree(const struct bare_world *w)
{
	return replica_tree(w->host->replica);
}

/* ---- life ---- */

void
world_elect(struct bare_world *w)
{
	for (int i = 0; i < ELECTION_MS && sim_serving(w->s) == NULL; i++)
		world_pass_ms(w, 1);
	assert_non_null(sim_serving(w->s));
}

static struct bare_world *
stage(uint64_t seed)
{
	struct bare_world *w = memory_zero(1, sizeof *w);

	w->script.user = w;
	w->script.bare = true;
	w->s = sim_stage(&w->script, seed);
	w->host = &w->s->hosts[0];
	sim_stage_cell(w->s, 1);
	return w;
}

struct bare_world *
world_new(uint64_t seed)
{
	struct bare_world *w = stage(seed);

	world_elect(w);
	return w;
}

struct bare_world *
world_of(const struct row_list *rows, uint64_t applied)
{
	struct bare_world *w = stage(1);
	struct disk *d = &w->host->disk;
	struct disk empty = {.file = d->file, .keys = d->keys};

	host_crash_for(w->s, w->host, LOSE_ALL, NEVER_S * SECOND);
	disk_free(d);
	*d = empty;
	disk_init(d);
	disk_save(d, rows, applied);
	d->trimmed = d->chosen = applied;
	host_start(w->s, w->host);
	return w;
}

void
world_restart(struct bare_world *w)
{
	world_persist(w);
	host_crash_for(w->s, w->host, LOSE_NOTHING, NEVER_S * SECOND);
	host_start(w->s, w->host);
	world_elect(w);
}

void
world_free(struct bare_world *w)
{
	sim_free(w->s);
	free(w->s);
	for (size_t i = 0; i < w->conns_n; i++)
		free(w->conns[i]);
	free(w->conns);
	for (size_t i = 0; i < w->inbox_n; i++)
		free((void *)w->inbox[i].frame.data);
	free(w->inbox);
	free(w->closed);
	free(w);
}

/* ---- connections ---- */

uint64_t
world_connect(struct bare_world *w, const char *principal)
{
	struct world_conn *conn = memory_zero(1, sizeof *conn);
	const struct server_client client = {on_frame, on_closed, conn};

	ARRAY_ROOM(w->conns, w->conns_n, w->conns_room);
	w->conns[w->conns_n++] = conn;
	*conn = (struct world_conn){
	    .world = w,
	    .number = w->conns_n,
	    .at = server_connect(w->host->server, &client, principal),
	    .life = w->host->life,
	};
	settle(w);
	return conn->number;
}

static uint64_t
conn_at_server(const struct bare_world *w, uint64_t conn)
{
	const struct world_conn *c = conn > 0 ? w->conns[conn - 1] : NULL;

	return c != NULL && c->life == w->host->life ? c->at : 0;
}

void
world_send(struct bare_world *w, uint64_t conn, struct bytes frames)
{
	if (conn_at_server(w, conn) != 0)
		server_send(w->host->server, conn_at_server(w, conn), frames);
	settle(w);
}

void
world_disconnect(struct bare_world *w, uint64_t conn)
{
	if (conn_at_server(w, conn) != 0)
		server_disconnect(w->host->server, conn_at_server(w, conn));
	settle(w);
}

/* ---- clients ---- */

void
bare_connect_anew(struct bare_client *c)
{
	c->conn = world_connect(c->world, "admin");
	c->sequence = 0;
}

void
bare_send(struct bare_client *c, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	assert_false(frame.failed);
	world_send(c->world, c->conn, buffer_view(&frame));
	buffer_free(&frame);
}

void
bare_send_open(struct bare_client *c)
{
	struct message m = {.code = MSG_open_session};

	m.open_session = (struct msg_open_session){
	    .session = c->session,
	    .nonce = {c->nonce, sizeof c->nonce},
	    .host = bytes_of("bare"),
	    .epoch = c->epoch,
	};
	bare_send(c, &m);
}

void
bare_expect_opened(struct bare_client *c)
{
	const struct message *m = bare_take(c, MSG_session_opened);

	assert_non_null(m);
	assert_int_equal(m->session_opened.rc, RC_OK);
	c->session = m->session_opened.session;
	c->epoch = m->session_opened.epoch;
}

void
bare_attach(struct bare_client *c)
{
	bare_connect_anew(c);
	bare_send_open(c);
	bare_expect_opened(c);
}

void
world_add_principal(struct bare_world *w, const char *name)
{
	struct bare_client operator= {.world = w};
	struct message m = {.code = MSG_operate};
	uint8_t key[32];
	const struct message *answer;

	memset(key, name[0], sizeof key);
	m.operate = (struct msg_operate){.what = OPERATION_ADD_PRINCIPAL,
	                                 .name = bytes_of(name),
	                                 .key = {key, sizeof key}};
	bare_connect_anew(&operator);
	bare_send(&operator, & m);
	answer = bare_take(&operator, MSG_operated);
	assert_non_null(answer);
	assert_int_equal(answer->operated.rc, RC_OK);
	world_disconnect(w, operator.conn);
}

struct bare_client
bare_open(struct bare_world *w, uint8_t name)
{
	struct bare_client c = {.world = w};

	memset(c.nonce, name, sizeof c.nonce);
	bare_attach(&c);
	return c;
}

void
bare_send_keepalive(struct bare_client *c)
{
	struct message m = {.code = MSG_keepalive};

	m.keepalive = (struct msg_keepalive){.session = c->session,
	                                     .epoch = c->epoch,
	                                     .sequence = ++c->sequence};
	bare_send(c, &m);
	if (c->sequence != 2)
		return;
	m = (struct message){.code = MSG_returned};
	m.returned = (struct msg_returned){.session = c->session, .epoch = c->epoch};
	bare_send(c, &m);
}

void
bare_send_request(struct bare_client *c, uint64_t number, bool ordered, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct message m = {.code = MSG_request};

	wire_put_op(&encoded, op);
	assert_false(encoded.failed);
	m.request = (struct msg_request){.session = c->session,
	                                 .epoch = c->epoch,
	                                 .number = number,
	                                 .below = c->below > 0 ? c->below : 1,
	                                 .ordered = ordered,
	                                 .op = buffer_view(&encoded)};
	bare_send(c, &m);
	buffer_free(&encoded);
}

uint64_t
bare_send_op(struct bare_client *c, const struct op *op)
{
	bare_send_request(c, ++c->number, false, op);
	return c->number;
}

/* ---- answers ---- */

static const struct message *
decoded(const struct world_frame *f)
{
	static struct message m;

	assert_int_equal(wire_get_frame(f->frame, &m), RC_OK);
	return &m;
}

const struct message *
bare_take(struct bare_client *c, enum message_code code)
{
	for (size_t i = 0; i < c->world->inbox_n; i++) {
		struct world_frame *f = &c->world->inbox[i];

		if (f->taken || f->conn != c->conn || wire_frame_code(f->frame) != code)
			continue;
		f->taken = true;
		return decoded(f);
	}
	return NULL;
}

const struct msg_reply *
bare_reply(struct bare_client *c, uint64_t number)
{
	for (size_t i = c->world->inbox_n; i-- > 0;) {
		struct world_frame *f = &c->world->inbox[i];

		if (f->taken || f->conn != c->conn || wire_frame_code(f->frame) != MSG_reply ||
		    decoded(f)->reply.number != number)
			continue;
		f->taken = true;
		return &decoded(f)->reply;
	}
	return NULL;
}

enum rc
bare_call(struct bare_client *c, const struct op *op, struct result *result)
{
	const struct msg_reply *reply = bare_reply(c, bare_send_op(c, op));
	enum rc rc;

	assert_non_null(reply);
	rc = (enum rc)reply->rc;
	if (result != NULL && (rc == RC_OK || rc == RC_QUEUED))
		assert_int_equal(wire_get_result(wire_op(op->code)->result, reply->result, result),
		                 RC_OK);
	return rc;
}

/* ---- operations ---- */

struct op
op_of_create(const char *name)
{
	return (
	    struct op){.code = OP_create,
	               .create = {.parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE}};
}

struct op
op_of_set(uint64_t node, const char *contents)
{
	return (struct op){.code = OP_set_contents,
	                   .set_contents = {.node = node, .contents = bytes_of(contents)}};
}

struct op
op_of_get(uint64_t node)
{
	return (struct op){.code = OP_get_contents, .get_contents = {.node = node}};
}

struct op
op_of_delete(const char *name)
{
	return (
	    struct op){.code = OP_delete,
	               .delete = {.parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE}};
}

struct op
op_of_get_lock(uint64_t node)
{
	return (struct op){.code = OP_get_lock, .get_lock = {.node = node}};
}

struct op
op_of_acquire(uint64_t node, uint64_t owner, uint64_t acquisition, enum lock_mode mode, bool wait)
{
	return (struct op){
	    .code = OP_acquire,
	    .acquire = {.acquire = {.node = node,
	                            .owner = owner,
	                            .acquisition = acquisition,
	                            .mode = mode,
	                            .wait = wait,
	                            .delay_s = -1,
	                            .default_delay_s = DEFAULT_LOCK_DELAY_S}},
	};
}

struct op
op_of_release(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	return (struct op){.code = OP_release, .release = {node, owner, acquisition}};
}

struct op
op_of_cancel(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	return (struct op){.code = OP_cancel, .cancel = {node, owner, acquisition}};
}

uint64_t
bare_file(struct bare_client *c, const char *name)
{
	const struct op op = op_of_create(name);
	struct result result;

	assert_int_equal(bare_call(c, &op, &result), RC_OK);
	return result.created.attr.node;
}

enum rc
bare_lock(struct bare_client *c, uint64_t node, uint64_t owner, enum lock_mode mode)
{
	const struct op op = op_of_acquire(node, owner, ++c->acquisition, mode, true);

	return bare_call(c, &op, NULL);
}

void
bare_unlock(struct bare_client *c, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	const struct op op = op_of_release(node, owner, acquisition);

	assert_int_equal(bare_call(c, &op, NULL), RC_OK);
}

struct result_lock
bare_look(struct bare_client *c, uint64_t node)
{
	const struct op op = op_of_get_lock(node);
	struct result result;

	assert_int_equal(bare_call(c, &op, &result), RC_OK);
	return result.lock;
}
