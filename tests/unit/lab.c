#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cell/base/memory.h"
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

/* ---- the disk ---- */

static bool
same_key(const struct row *a, const struct row *b)
{
	const struct row_table_info *table = row_table_info(a->table);

	if (a->table != b->table)
		return false;
	for (int i = 0; i < table->keys; i++)
		if (a->values[i].number != b->values[i].number ||
		    !bytes_equal(a->values[i].bytes, b->values[i].bytes))
			return false;
	return true;
}

static void
store_rows(struct lab *lab, const struct row_list *rows)
{
	struct row_list kept = {0};

	for (size_t i = 0; i < lab->rows.n; i++) {
		bool replaced = false;

		for (size_t j = 0; j < rows->n && !replaced; j++)
			replaced = same_key(&lab->rows.rows[i], &rows->rows[j]);
		if (!replaced)
			row_list_add(&kept, &lab->rows.rows[i]);
	}
	for (size_t i = 0; i < rows->n; i++)
		if (!rows->rows[i].deleted)
			row_list_add(&kept, &rows->rows[i]);
	row_list_free(&lab->rows);
	lab->rows = kept;
}

static void
store_records(struct lab *lab)
{
	const struct replica_update *u = &lab->update;

	for (size_t i = 0; i < u->records_n; i++) {
		if (u->records[i].kind == PX_RECORD_ENTRY) {
			lab->entries++;
			assert_true(u->records[i].payload.len > 0);
		} else if (u->records[i].kind == PX_RECORD_PROMISE) {
			lab->promised = u->records[i].ballot;
		}
	}
	if (u->write != 0)
		lab->ticket = u->write;
}

/* ---- steps ---- */

static void
collect(struct lab *lab)
{
	struct replica_update *u = &lab->update;

	store_records(lab);
	for (size_t i = 0; i < u->sends_n; i++) {
		assert_false(u->sends[i].to_peer);
		ARRAY_ROOM(lab->inbox, lab->inbox_n, lab->inbox_room);
		lab->inbox[lab->inbox_n++] =
		    (struct lab_frame){.conn = u->sends[i].conn,
		                       .frame = bytes_copy(u->sends[i].frame)};
	}
	for (size_t i = 0; i < u->closes_n; i++) {
		ARRAY_ROOM(lab->closed, lab->closed_n, lab->closed_room);
		lab->closed[lab->closed_n++] = u->closes[i];
	}
	if (u->rows.n > 0 && !lab->forgets)
		store_rows(lab, &u->rows);
}

/* Of this thread: others may have the processor meanwhile. */
static int64_t
time_taken(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void
measure(struct lab *lab, int64_t began)
{
	const struct replica_update *u = &lab->update;
	const int64_t took = time_taken() - began;

	if (u->rows.n + u->sends_n > lab->most_pieces)
		lab->most_pieces = u->rows.n + u->sends_n;
	assert_in_range(u->rows.n + u->sends_n, 0, LIMIT_STEP);
	if (took > lab->most_time.ns)
		lab->most_time.ns = took;
}

static void
step_once(struct lab *lab, struct replica_event event)
{
	int64_t began = time_taken();

	event.now = lab->now;
	event.wall_ns = lab->wall_ns;
	replica_step(lab->replica, &event, &lab->update);
	measure(lab, began);
	collect(lab);
}

void
lab_persist(struct lab *lab)
{
	while (lab->ticket != 0) {
		uint64_t ticket = lab->ticket;

		lab->ticket = 0;
		step_once(lab, (struct replica_event){.kind = REPLICA_PERSISTED, .write = ticket});
	}
}

void
lab_step(struct lab *lab, struct replica_event event)
{
	step_once(lab, event);
	if (!lab->slow_disk)
		lab_persist(lab);
}

void
lab_pass_ms(struct lab *lab, int64_t ms)
{
	mono_t end = mono_add(lab->now, span_ms(ms));

	for (;;) {
		mono_t due = mono_max(replica_deadline(lab->replica), lab->now);

		if (mono_before(end, due))
			break;
		lab->wall_ns += mono_since(due, lab->now).ns;
		lab->now = due;
		lab_step(lab, (struct replica_event){.kind = REPLICA_TIMEOUT});
	}
	lab->wall_ns += mono_since(end, lab->now).ns;
	lab->now = end;
}

void
lab_freeze_ms(struct lab *lab, int64_t ms)
{
	lab->now = mono_add(lab->now, span_ms(ms));
	lab->wall_ns += span_ms(ms).ns;
}

bool
lab_traced(const struct lab *lab, const char *text)
{
	return memmem(lab->trace.lines.data, lab->trace.lines.len, text, strlen(text)) != NULL;
}

bool
lab_closed(const struct lab *lab, uint64_t conn)
{
	for (size_t i = 0; i < lab->closed_n; i++)
		if (lab->closed[i] == conn)
			return true;
	return false;
}

/* ---- life ---- */

static uint8_t public_key[32];

const uint8_t *
lab_public_key(void)
{
	return public_key;
}

void
lab_boot(struct lab *lab)
{
	static const uint8_t seed[32] = {1};

	static const struct member alone = {.id = 1, .role = MEMBER_VOTER};
	struct replica_config config = {
	    .members = &alone,
	    .members_n = 1,
	    .paxos = {.self = 1, .drift_permille = 10, .seed = 1},
	    .master = {.cell = "lab", .drift_permille = 10},
	    .trace = &lab->trace,
	};
	struct px_recovered recovered = {.incarnation = 1, .promised = lab->promised};
	struct tree *tree = tree_new("lab");
	char why[200] = "";

	assert_true(sodium_init() >= 0);
	crypto_sign_seed_keypair(public_key, config.master.signing_key, seed);
	for (size_t i = 0; i < lab->rows.n; i++)
		assert_int_equal(tree_load_row(tree, &lab->rows.rows[i]), RC_OK);
	if (lab->rows.n > 0 && tree_load_done(tree, why, sizeof why) != RC_OK)
		fail_msg("%s", why);
	recovered.chosen = recovered.trimmed = recovered.applied = tree_applied(tree);
	recovered.applied_origin = tree_origin(tree);
	lab->replica = replica_new(&config, tree, &recovered, lab->now);
	lab->ticket = 0;
}

static void
elect(struct lab *lab)
{
	for (int i = 0; i < 1000 && !replica_serving(lab->replica, lab->now); i++)
		lab_pass_ms(lab, 1);
	assert_true(replica_serving(lab->replica, lab->now));
}

struct lab *
lab_new(void)
{
	struct lab *lab = memory_zero(1, sizeof *lab);

	lab->now = (mono_t){span_s(1000).ns};
	lab->wall_ns = span_s(1700000000).ns;
	lab_boot(lab);
	elect(lab);
	return lab;
}

void
lab_stop(struct lab *lab)
{
	replica_free(lab->replica);
	replica_update_free(&lab->update);
}

void
lab_restart(struct lab *lab)
{
	lab_stop(lab);
	lab_boot(lab);
	elect(lab);
}

void
lab_free(struct lab *lab)
{
	replica_free(lab->replica);
	replica_update_free(&lab->update);
	for (size_t i = 0; i < lab->inbox_n; i++)
		free((void *)lab->inbox[i].frame.data);
	free(lab->inbox);
	free(lab->closed);
	row_list_free(&lab->rows);
	trace_free(&lab->trace);
	free(lab);
}

/* ---- clients ---- */

void
lab_reconnect(struct lab_client *c)
{
	c->conn = ++c->lab->next_conn;
	c->sequence = 0;
	lab_step(c->lab, (struct replica_event){.kind = REPLICA_CONNECTED,
	                                        .conn = c->conn,
	                                        .principal = bytes_of("admin")});
}

struct lab_client
lab_connect(struct lab *lab, uint8_t name)
{
	struct lab_client c = {.lab = lab};

	memset(c.nonce, name, sizeof c.nonce);
	lab_reconnect(&c);
	return c;
}

void
lab_disconnect(struct lab_client *c)
{
	lab_step(c->lab, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = c->conn});
}

void
lab_send(struct lab_client *c, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	assert_false(frame.failed);
	lab_step(c->lab, (struct replica_event){.kind = REPLICA_FRAME,
	                                        .conn = c->conn,
	                                        .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

void
lab_send_open(struct lab_client *c, const struct lab_client *earlier)
{
	struct message m = {.code = MSG_open_session};

	m.open_session.session = c->session;
	m.open_session.nonce = (struct bytes){c->nonce, sizeof c->nonce};
	m.open_session.host = bytes_of("lab");
	m.open_session.caching = c->caching;
	m.open_session.epoch = c->epoch;
	if (earlier != NULL) {
		m.open_session.earlier = earlier->session;
		m.open_session.earlier_nonce =
		    (struct bytes){earlier->nonce, sizeof earlier->nonce};
	}
	lab_send(c, &m);
}

void
lab_expect_opened(struct lab_client *c)
{
	const struct message *m = lab_take(c, MSG_session_opened);

	assert_non_null(m);
	assert_int_equal(m->session_opened.rc, RC_OK);
	assert_int_equal(m->session_opened.master, 1);
	assert_true(m->session_opened.session != 0 && m->session_opened.epoch != 0);
	assert_true(bytes_equal(m->session_opened.principal, bytes_of("admin")));
	c->session = m->session_opened.session;
	c->epoch = m->session_opened.epoch;
}

struct lab_client
lab_open(struct lab *lab, uint8_t name)
{
	struct lab_client c = lab_connect(lab, name);

	lab_send_open(&c, NULL);
	lab_expect_opened(&c);
	return c;
}

struct lab_client
lab_open_caching(struct lab *lab, uint8_t name)
{
	struct lab_client c = lab_connect(lab, name);

	c.caching = true;
	lab_send_open(&c, NULL);
	lab_expect_opened(&c);
	return c;
}

void
lab_reattach(struct lab_client *c)
{
	lab_reconnect(c);
	lab_send_open(c, NULL);
	lab_expect_opened(c);
}

void
lab_send_returned(struct lab_client *c)
{
	struct message m = {.code = MSG_returned};

	m.returned = (struct msg_returned){.session = c->session, .epoch = c->epoch};
	lab_send(c, &m);
}

void
lab_send_keepalive(struct lab_client *c)
{
	struct message m = {.code = MSG_keepalive};

	m.keepalive = (struct msg_keepalive){.session = c->session,
	                                     .epoch = c->epoch,
	                                     .sequence = ++c->sequence};
	lab_send(c, &m);
	if (c->sequence == 2)
		lab_send_returned(c);
}

void
lab_send_request(struct lab_client *c, uint64_t number, bool ordered, const struct op *op)
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
	lab_send(c, &m);
	buffer_free(&encoded);
}

uint64_t
lab_send_op(struct lab_client *c, const struct op *op)
{
	lab_send_request(c, ++c->number, false, op);
	return c->number;
}

/* ---- what came back ---- */

static const struct message *
decoded(struct lab_frame *f)
{
	static struct message m;

	assert_int_equal(wire_get_frame(f->frame, &m), RC_OK);
	return &m;
}

const struct message *
lab_take(struct lab_client *c, enum message_code code)
{
	for (size_t i = 0; i < c->lab->inbox_n; i++) {
		struct lab_frame *f = &c->lab->inbox[i];

		if (!f->taken && f->conn == c->conn && wire_frame_code(f->frame) == code) {
			f->taken = true;
			return decoded(f);
		}
	}
	return NULL;
}

const struct msg_reply *
lab_reply(struct lab_client *c, uint64_t number)
{
	for (size_t i = 0; i < c->lab->inbox_n; i++) {
		struct lab_frame *f = &c->lab->inbox[i];
		const struct message *m;

		if (f->taken || f->conn != c->conn)
			continue;
		m = decoded(f);
		if (m->code == MSG_reply && m->reply.number == number) {
			f->taken = true;
			return &m->reply;
		}
	}
	return NULL;
}

enum rc
lab_call(struct lab_client *c, const struct op *op, struct result *result)
{
	const struct msg_reply *reply = lab_reply(c, lab_send_op(c, op));
	enum rc rc;

	assert_non_null(reply);
	rc = reply->rc;
	if (result != NULL && (rc == RC_OK || rc == RC_QUEUED))
		assert_int_equal(wire_get_result(wire_op_result(op->code), reply->result, result),
		                 RC_OK);
	return rc;
}

/* ---- operations ---- */

struct op
lab_create(const char *name)
{
	struct op op = {.code = OP_create};

	op.create =
	    (struct op_create){.parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE};
	return op;
}

struct op
lab_set(uint64_t node, const char *contents)
{
	struct op op = {.code = OP_set_contents};

	op.set_contents = (struct op_set_contents){.node = node, .contents = bytes_of(contents)};
	return op;
}

struct op
lab_get(uint64_t node)
{
	struct op op = {.code = OP_get_contents};

	op.get_contents.node = node;
	return op;
}

struct op
lab_delete(const char *name)
{
	struct op op = {.code = OP_delete};

	op.delete =
	    (struct op_delete){.parent = NODE_ROOT, .name = bytes_of(name), .kind = NODE_FILE};
	return op;
}

struct op
lab_get_lock(uint64_t node)
{
	struct op op = {.code = OP_get_lock};

	op.get_lock.node = node;
	return op;
}

struct op
lab_acquire(uint64_t node, uint64_t owner, uint64_t acquisition, enum lock_mode mode, bool wait)
{
	struct op op = {.code = OP_acquire};

	op.acquire.acquire = (struct acquire){.node = node,
	                                      .owner = owner,
	                                      .acquisition = acquisition,
	                                      .mode = mode,
	                                      .wait = wait,
	                                      .delay_s = -1,
	                                      .default_delay_s = DEFAULT_LOCK_DELAY_S};
	return op;
}

struct op
lab_release(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct op op = {.code = OP_release};

	op.release = (struct op_release){.node = node, .owner = owner, .acquisition = acquisition};
	return op;
}

struct op
lab_cancel(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct op op = {.code = OP_cancel};

	op.cancel = (struct op_cancel){.node = node, .owner = owner, .acquisition = acquisition};
	return op;
}

uint64_t
lab_file(struct lab_client *c, const char *name)
{
	struct op op = lab_create(name);
	struct result result;

	assert_int_equal(lab_call(c, &op, &result), RC_OK);
	return result.created.attr.node;
}

enum rc
lab_lock(struct lab_client *c, uint64_t node, uint64_t owner, enum lock_mode mode, bool wait)
{
	struct op op = lab_acquire(node, owner, ++c->acquisition, mode, wait);

	return lab_call(c, &op, NULL);
}

void
lab_unlock(struct lab_client *c, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct op op = lab_release(node, owner, acquisition);

	assert_int_equal(lab_call(c, &op, NULL), RC_OK);
}

void
lab_give_up(struct lab_client *c, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct op op = lab_cancel(node, owner, acquisition);

	assert_int_equal(lab_call(c, &op, NULL), RC_OK);
}

uint64_t
lab_granted(struct lab_client *c)
{
	const struct message *m = lab_take(c, MSG_granted);

	if (m == NULL)
		return 0;
	assert_int_equal(m->granted.rc, RC_OK);
	assert_true(m->granted.fence != 0 && m->granted.lock_generation != 0);
	return m->granted.owner;
}

struct result_lock
lab_look(struct lab_client *c, uint64_t node)
{
	struct op op = lab_get_lock(node);
	struct result result;

	assert_int_equal(lab_call(c, &op, &result), RC_OK);
	return result.lock;
}

enum rc
lab_set_setting(struct lab *lab, const char *name, uint64_t value)
{
	struct lab_client operator= lab_connect(lab, 0);
	const struct message ask = {
	    .code = MSG_operate,
	    .operate = {.what = OPERATION_SET, .setting = bytes_of(name), .value = value},
	};
	const struct message *answer;

	lab_send(&operator, & ask);
	answer = lab_take(&operator, MSG_operated);
	assert_non_null(answer);
	lab_disconnect(&operator);
	return answer->operated.rc;
}

void
lab_setting(struct lab *lab, const char *name, uint64_t value)
{
	assert_int_equal(lab_set_setting(lab, name, value), RC_OK);
}

void
lab_step_down(struct lab *lab)
{
	const struct px_event event = {.kind = PX_STEP_DOWN, .now = lab->now};
	struct px_update update = {0};

	px_step((struct px *)replica_px(lab->replica), &event, &update);
	assert_int_equal(update.records_n, 0);
	px_update_free(&update);
}
