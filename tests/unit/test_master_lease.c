/* The master without its own lease, and out of office: driven directly, a tree below it. */
#include <stdlib.h>
#include <string.h>
#include "cell/master/master.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

static const struct ballot origin = {1, 1};

struct office {
	struct tree *tree;
	struct master *master;
	struct master_update update;
	struct master_clock clock;
	struct tree_outcome outcome;
	uint64_t index;
};

static const uint8_t nonce[LIMIT_NONCE] = {1, 2, 3};

/* The log accepts whatever is proposed, at once. */
static void
run_log(struct office *o)
{
	for (size_t i = 0; i < o->update.proposals_n; i++) {
		assert_int_equal(tree_apply(o->tree, ++o->index, origin, o->update.proposals[i],
		                            &o->outcome),
		                 RC_OK);
		master_applied(o->master, o->clock, o->index, &o->outcome, &o->update);
	}
}

static void
clear(struct office *o)
{
	master_update_free(&o->update);
}

static void
frame(struct office *o, const struct message *m)
{
	struct buffer b = BUFFER(LIMIT_FRAME);

	wire_put_frame(&b, m);
	clear(o);
	master_frame(o->master, o->clock, 1, buffer_view(&b), &o->update);
	run_log(o);
	buffer_free(&b);
}

static void
timeout(struct office *o)
{
	clear(o);
	master_timeout(o->master, o->clock, &o->update);
	run_log(o);
}

/* The only message that was sent; code 0 when there was none. */
static struct message
sent(const struct office *o)
{
	struct message m = {0};

	assert_true(o->update.sends_n <= 1);
	if (o->update.sends_n == 1)
		assert_int_equal(wire_get_frame(o->update.sends[0].frame, &m), RC_OK);
	return m;
}

static void
begin_epoch(struct office *o)
{
	struct buffer op = BUFFER(4096), commands = BUFFER(4096), payload = BUFFER(4096);
	struct op begin = {.code = OP_begin_epoch, .begin_epoch = {.ballot = {1, 1}}};
	struct command command = {.stamp_ns = 1};
	struct entry entry;

	wire_put_op(&op, &begin);
	command.op = buffer_view(&op);
	wire_put_command(&commands, &command);
	entry.commands = (struct wire_list){buffer_view(&commands), 1};
	wire_put_entry(&payload, &entry);
	assert_int_equal(tree_apply(o->tree, ++o->index, origin, buffer_view(&payload),
	                            &o->outcome),
	                 RC_OK);
	buffer_free(&op);
	buffer_free(&commands);
	buffer_free(&payload);
}

/* In office, with one session on connection 1. */
static struct office *
office_new(uint64_t *session)
{
	struct master_config config = {.cell = "lab", .replica = 1, .drift_permille = 10};
	struct message open = {.code = MSG_open_session};
	struct office *o = calloc(1, sizeof *o);

	o->tree = tree_new("lab");
	o->master = master_new(&config, o->tree);
	o->clock = (struct master_clock){.now = {span_s(5).ns}, .wall_ns = 1, .lease = true};
	begin_epoch(o);
	clear(o);
	master_begin(o->master, o->clock, 1, &o->update);
	master_connected(o->master, 1, bytes_of("admin"));
	open.open_session.nonce = (struct bytes){nonce, sizeof nonce};
	frame(o, &open);
	*session = sent(o).session_opened.session;
	assert_true(*session != 0);
	return o;
}

static void
office_free(struct office *o)
{
	clear(o);
	master_free(o->master);
	tree_free(o->tree);
	tree_outcome_free(&o->outcome);
	free(o);
}

static struct message
request(uint64_t session, uint64_t number, const struct op *op, struct buffer *encoded)
{
	struct message m = {.code = MSG_request};

	wire_put_op(encoded, op);
	m.request = (struct msg_request){.session = session,
	                                 .epoch = 1,
	                                 .number = number,
	                                 .below = 1,
	                                 .op = buffer_view(encoded)};
	return m;
}

/* A read waits for the lease; a command does not, nor for the read. */
static void
test_read_waits(void **state)
{
	uint64_t session;
	struct office *o = office_new(&session);
	struct op get = {.code = OP_get_attr, .get_attr = {.node = NODE_ROOT}};
	struct op set = {.code = OP_set_mtime, .set_mtime = {.node = NODE_ROOT, .now = 1}};
	struct buffer a = BUFFER(4096), b = BUFFER(4096);
	struct message read = request(session, 1, &get, &a), write = request(session, 2, &set, &b);

	(void)state;
	o->clock.lease = false;
	frame(o, &read);
	assert_int_equal(sent(o).code, 0);
	assert_false(mono_is_never(o->update.deadline));
	assert_true(mono_before(o->update.deadline, mono_add(o->clock.now, span_s(1))));
	frame(o, &write);
	assert_int_equal(sent(o).reply.number, 2);
	timeout(o);
	assert_int_equal(sent(o).code, 0);
	o->clock.lease = true;
	o->clock.now = o->update.deadline;
	timeout(o);
	assert_int_equal(o->update.sends_n, 1);
	buffer_free(&a);
	buffer_free(&b);
	office_free(o);
}

/* Without its lease a master promises nothing and ends nobody. */
static void
test_keepalive_and_expiry_wait(void **state)
{
	uint64_t session;
	struct office *o = office_new(&session);
	struct message m = {.code = MSG_keepalive};
	struct tree_session t;

	(void)state;
	m.keepalive = (struct msg_keepalive){.session = session, .epoch = 1, .sequence = 1};
	o->clock.lease = false;
	frame(o, &m);
	assert_int_equal(sent(o).code, 0);
	o->clock.now = o->update.deadline;
	o->clock.lease = true;
	timeout(o);
	assert_int_equal(sent(o).code, MSG_keepalive_reply);
	o->clock.lease = false;
	for (int i = 0; i < 2000; i++) {
		mono_t due = o->update.deadline;

		assert_true(mono_before(o->clock.now, due)); /* it does not spin */
		o->clock.now = due;
		timeout(o);
	}
	assert_true(tree_session(o->tree, session, &t));
	o->clock.lease = true;
	o->clock.now = o->update.deadline;
	timeout(o);
	assert_false(tree_session(o->tree, session, &t));
	office_free(o);
}

static void
test_out_of_office(void **state)
{
	uint64_t session;
	struct office *o = office_new(&session);
	struct message m = {.code = MSG_open_session};
	struct buffer b = BUFFER(4096);

	(void)state;
	clear(o);
	master_end(o->master, 3, &o->update);
	assert_int_equal(sent(o).code, MSG_redirect);
	assert_int_equal(sent(o).redirect.master, 3);
	assert_true(mono_is_never(o->update.deadline));
	wire_put_frame(&b, &m);
	clear(o);
	master_redirect(o->master, 1, buffer_view(&b), 2, &o->update);
	assert_int_equal(sent(o).session_opened.rc, RC_NOT_MASTER);
	assert_int_equal(sent(o).session_opened.master, 2);
	m.code = MSG_keepalive;
	buffer_reset(&b);
	wire_put_frame(&b, &m);
	clear(o);
	master_redirect(o->master, 1, buffer_view(&b), 2, &o->update);
	assert_int_equal(sent(o).code, MSG_redirect);
	clear(o);
	master_redirect(o->master, 99, buffer_view(&b), 2, &o->update); /* closed long ago */
	assert_int_equal(o->update.sends_n, 0);
	clear(o);
	master_redirect(o->master, 1, bytes_of("nonsense"), 2, &o->update);
	assert_int_equal(o->update.closes_n, 1);
	buffer_free(&b);
	office_free(o);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_read_waits),
	    cmocka_unit_test(test_keepalive_and_expiry_wait),
	    cmocka_unit_test(test_out_of_office),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
