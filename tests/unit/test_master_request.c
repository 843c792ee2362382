/* Requests at the master: exactly once, in order, within the limits. */
#include <string.h>
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

static struct result
reply_result(const struct msg_reply *reply, enum result_kind kind)
{
	struct result result;

	assert_non_null(reply);
	assert_int_equal(reply->rc, RC_OK);
	assert_int_equal(wire_get_result(kind, reply->result, &result), RC_OK);
	return result;
}

static bool
contents_are(struct lab_client *c, uint64_t number, const char *text)
{
	struct result result = reply_result(lab_reply(c, number), RESULT_contents);

	return bytes_equal(result.contents.contents, bytes_of(text));
}

static uint64_t
generation(struct lab_client *c, uint64_t node)
{
	struct op op = {.code = OP_get_attr};
	struct result result;

	op.get_attr.node = node;
	assert_int_equal(lab_call(c, &op, &result), RC_OK);
	return result.attr.attr.content_generation;
}

static void
test_write_and_read(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	struct op set = lab_set(node, "hello"), get = lab_get(node);
	struct result result;

	(void)state;
	assert_int_equal(lab_call(&a, &set, &result), RC_OK);
	assert_int_equal(lab_call(&a, &get, &result), RC_OK);
	assert_true(bytes_equal(result.contents.contents, bytes_of("hello")));
	lab_free(lab);
}

/* Nothing is answered before it is durable; what comes again meanwhile is proposed once. */
static void
test_duplicate_in_flight(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f"), before = generation(&a, node), number;
	struct op set = lab_set(node, "x");
	size_t entries = lab->entries;

	(void)state;
	lab->slow_disk = true;
	number = lab_send_op(&a, &set);
	lab_send_request(&a, number, false, &set);
	lab_reattach(&a);
	lab_send_request(&a, number, false, &set);
	assert_null(lab_reply(&a, number));
	assert_int_equal(lab->entries, entries + 1);
	lab_persist(lab);
	assert_int_equal(lab_reply(&a, number)->rc, RC_OK); /* on the present connection */
	assert_null(lab_reply(&a, number));
	lab->slow_disk = false;
	assert_int_equal(generation(&a, node), before + 1);
	lab_free(lab);
}

static void
test_duplicate_after_reply(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f"), before = generation(&a, node), number;
	struct op append = {.code = OP_append};
	struct result first, second;

	(void)state;
	append.append = (struct op_append){.node = node, .data = bytes_of("x")};
	number = lab_send_op(&a, &append);
	first = reply_result(lab_reply(&a, number), RESULT_attr);
	lab_reattach(&a);
	lab_send_request(&a, number, false, &append);
	second = reply_result(lab_reply(&a, number), RESULT_attr);
	assert_int_equal(first.attr.attr.content_generation, second.attr.attr.content_generation);
	assert_int_equal(generation(&a, node), before + 1);
	lab_free(lab);
}

static void
test_duplicate_after_restart(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f"), before = generation(&a, node), number;
	struct op set = lab_set(node, "x");

	(void)state;
	number = lab_send_op(&a, &set);
	lab_restart(lab);
	lab_reattach(&a);
	lab_send_request(&a, number, false, &set);
	reply_result(lab_reply(&a, number), RESULT_attr);
	assert_int_equal(generation(&a, node), before + 1);
	lab_free(lab);
}

/* A read waits for no command whose caller has no answer yet. */
static void
test_read_beside_commands(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f"), number;
	struct op set = lab_set(f, "new"), get = lab_get(f), create = lab_create("g");
	struct op list = {.code = OP_get_listing, .get_listing = {.node = NODE_ROOT}};

	(void)state;
	lab->slow_disk = true;
	lab_send_op(&a, &set);
	lab_send_op(&a, &create);
	number = lab_send_op(&a, &get);
	assert_true(contents_are(&a, number, ""));
	number = lab_send_op(&a, &list);
	assert_int_equal(lab_reply(&a, number)->rc, RC_OK);
	lab_free(lab);
}

/* It waits for an ordered one on what it shows: its caller takes it for done. */
static void
test_read_behind_ordered(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t f = lab_file(&a, "f"), g = lab_file(&a, "g"), number, other, theirs;
	struct op set = lab_set(f, "new"), get_f = lab_get(f), get_g = lab_get(g);

	(void)state;
	lab->slow_disk = true;
	lab_send_request(&a, ++a.number, true, &set);
	number = lab_send_op(&a, &get_f);
	other = lab_send_op(&a, &get_g);
	theirs = lab_send_op(&b, &get_f);
	assert_true(contents_are(&a, other, ""));  /* another node */
	assert_true(contents_are(&b, theirs, "")); /* not applied yet */
	assert_null(lab_reply(&a, number));
	lab_persist(lab);
	assert_true(contents_are(&a, number, "new"));
	lab_free(lab);
}

/* A name stands for the node that has it. */
static void
test_read_behind_ordered_delete(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f"), g = lab_file(&a, "g"), gone, name, other;
	struct op delete = lab_delete("f"), get_f = lab_get(f), get_g = lab_get(g);
	struct op lookup = {.code = OP_lookup, .lookup = {NODE_ROOT, bytes_of("g")}};

	(void)state;
	lab->slow_disk = true;
	lab_send_request(&a, ++a.number, true, &delete);
	gone = lab_send_op(&a, &get_f);
	name = lab_send_op(&a, &lookup);
	other = lab_send_op(&a, &get_g);
	assert_null(lab_reply(&a, gone));
	assert_null(lab_reply(&a, name)); /* it is about the names of the same directory */
	assert_true(contents_are(&a, other, ""));
	lab_persist(lab);
	assert_int_not_equal(lab_reply(&a, gone)->rc, RC_OK);
	assert_int_equal(lab_reply(&a, name)->rc, RC_OK);
	lab_free(lab);
}

/* What an ordered read should mean is not known: it is a read. */
static void
test_ordered_read_holds_nothing_up(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f"), g = lab_file(&a, "g"), number;
	struct op set = lab_set(f, "x"), get_f = lab_get(f), get_g = lab_get(g);

	(void)state;
	lab->slow_disk = true;
	lab_send_request(&a, ++a.number, true, &set);
	lab_send_request(&a, ++a.number, true, &get_f); /* waits */
	number = lab_send_op(&a, &get_g);
	assert_true(contents_are(&a, number, ""));
	lab_free(lab);
}

/* A waiting read of a connection that broke comes again on the next one and is answered once. */
static void
test_parked_over_reconnect(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f"), number;
	struct op set = lab_set(f, "new"), get = lab_get(f);

	(void)state;
	lab->slow_disk = true;
	lab_send_request(&a, ++a.number, true, &set);
	number = lab_send_op(&a, &get);
	lab_reattach(&a);
	lab_send_request(&a, number - 1, true, &set);
	lab_send_request(&a, number, false, &get);
	lab_persist(lab);
	assert_true(contents_are(&a, number, "new"));
	assert_null(lab_reply(&a, number));
	lab_free(lab);
}

static void
test_refused_operations(void **state)
{
	static const enum op_code codes[] = {OP_begin_epoch, OP_create_session, OP_grant,
	                                     OP_delay_over};
	struct lab *lab = lab_new();

	(void)state;
	for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
		struct lab_client a = lab_open(lab, (uint8_t)(10 + i));
		struct op op = {.code = codes[i]};
		size_t entries = lab->entries;

		lab_send_op(&a, &op);
		assert_true(lab_closed(lab, a.conn));
		assert_int_equal(lab->entries, entries);
	}
	lab_free(lab);
}

static void
test_impossible_numbers(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	struct op op = lab_get(NODE_ROOT);
	struct message m = {.code = MSG_request};

	(void)state;
	lab_send_request(&a, 0, false, &op);
	assert_true(lab_closed(lab, a.conn));
	lab_reattach(&a);
	m.request =
	    (struct msg_request){.session = a.session, .epoch = a.epoch, .number = 5, .below = 6};
	lab_send(&a, &m);
	assert_true(lab_closed(lab, a.conn));
	lab_reattach(&a);
	m.request.below = 5;
	m.request.op = bytes_of("\xff\xff");
	lab_send(&a, &m);
	assert_true(lab_closed(lab, a.conn));
	lab_free(lab);
}

static void
test_old_epoch(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	struct op op = lab_create("f");
	uint64_t number;

	(void)state;
	a.epoch--;
	number = lab_send_op(&a, &op);
	assert_int_equal(lab_reply(&a, number)->rc, RC_OLD_EPOCH);
	a.epoch++;
	lab_send_request(&a, number, false, &op);
	assert_int_equal(lab_reply(&a, number)->rc, RC_OK);
	lab_free(lab);
}

/* So many may be in flight, one more is a breach. */
static void
expect_limit(struct lab_client *a, const struct op *op, int most)
{
	for (int i = 0; i < most; i++)
		lab_send_op(a, op);
	assert_false(lab_closed(a->lab, a->conn));
	lab_send_op(a, op);
	assert_true(lab_closed(a->lab, a->conn));
	lab_reattach(a);
}

/* Each kind has room of its own. */
static void
test_in_flight_limits(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f");
	struct op set = lab_set(f, "x"), get = lab_get(f), release = lab_release(f, 1, 1);
	struct op close = {.code = OP_close_ephemeral, .close_ephemeral = {f}};

	(void)state;
	lab->slow_disk = true;
	lab_send_request(&a, ++a.number, true, &set);
	expect_limit(&a, &set, LIMIT_IN_FLIGHT - 1);
	expect_limit(&a, &close, 0);
	expect_limit(&a, &get, LIMIT_IN_FLIGHT);
	expect_limit(&a, &release, LIMIT_URGENT);
	lab_free(lab);
}

/* So many bytes may be in flight, one command more is a breach; what reads, and what gives a lock
 * back, goes on. What was answered counts no more. */
static void
test_in_flight_bytes(void **state)
{
	static uint8_t contents[LIMIT_CONTENTS - 64];
	enum { MOST = LIMIT_WINDOW / LIMIT_CONTENTS };
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f");
	struct op set = {.code = OP_set_contents}, get = lab_get(f), release = lab_release(f, 1, 1);

	(void)state;
	set.set_contents = (struct op_set_contents){
	    .node = f, .contents = {contents, sizeof contents}};
	for (int i = 0; i < 2; i++) {
		lab->slow_disk = true;
		for (int n = 0; n < MOST; n++)
			lab_send_op(&a, &set);
		lab_send_op(&a, &get);
		lab_send_op(&a, &release);
		assert_false(lab_closed(lab, a.conn));
		lab->slow_disk = false;
		lab_persist(lab);
		lab_pass_ms(lab, 1);
		assert_int_equal(lab_reply(&a, a.number)->rc, RC_OK);
	}
	lab->slow_disk = true;
	expect_limit(&a, &set, MOST);
	lab->slow_disk = false;
	lab_persist(lab);
	lab_pass_ms(lab, 1);
	assert_int_equal(lab_call(&a, &set, NULL), RC_OK); /* its session lives */
	lab_free(lab);
}

/* Results are kept from the oldest unanswered request on: it does not stay behind without end. */
static void
test_numbers_have_a_window(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t f = lab_file(&a, "f");
	struct op get = lab_get(f);

	(void)state;
	lab_send_request(&a, LIMIT_NUMBERS, false, &get);
	assert_non_null(lab_reply(&a, LIMIT_NUMBERS));
	assert_false(lab_closed(lab, a.conn));
	lab_send_request(&a, LIMIT_NUMBERS + 1, false, &get);
	assert_true(lab_closed(lab, a.conn));
	lab_free(lab);
}

/* Takes the step, and what is due at once. Returns the most replies in one step. */
static size_t
most_replies(struct lab *lab, struct replica_event event)
{
	size_t most = 0;

	for (;;) {
		lab_step(lab, event);
		if (lab->update.sends_n > most)
			most = lab->update.sends_n;
		if (!mono_reached(lab->now, replica_deadline(lab->replica)))
			return most;
		event = (struct replica_event){.kind = REPLICA_TIMEOUT};
	}
}

/* What becomes durable at once is not applied in one step. */
static void
test_burst_is_applied_in_parts(void **state)
{
	enum { CROWD = 8 };
	struct lab *lab = lab_new();
	struct lab_client crowd[CROWD];
	size_t most = 0, part;

	(void)state;
	for (int i = 0; i < CROWD; i++)
		crowd[i] = lab_open(lab, (uint8_t)(i + 1));
	lab->slow_disk = true;
	for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
		for (int i = 0; i < CROWD; i++) {
			struct op op = {.code = OP_close_ephemeral, .close_ephemeral = {NODE_ROOT}};

			lab_send_op(&crowd[i], &op);
		}
	while (lab->ticket != 0) {
		struct replica_event durable = {.kind = REPLICA_PERSISTED, .write = lab->ticket};

		lab->ticket = 0;
		part = most_replies(lab, durable);
		if (part > most)
			most = part;
	}
	assert_in_range(most, 100, 256);
	for (int i = 0; i < CROWD; i++)
		assert_non_null(lab_reply(&crowd[i], LIMIT_IN_FLIGHT));
	lab_free(lab);
}

static void
test_request_of_ended_session(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	struct op op = lab_get(NODE_ROOT);
	uint64_t number;

	(void)state;
	lab_pass_ms(lab, 2 * LAB_LEASE_MS);
	number = lab_send_op(&a, &op); /* sent before it heard of the end */
	assert_null(lab_reply(&a, number));
	assert_false(lab_closed(lab, a.conn));
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_write_and_read),
	    cmocka_unit_test(test_duplicate_in_flight),
	    cmocka_unit_test(test_duplicate_after_reply),
	    cmocka_unit_test(test_duplicate_after_restart),
	    cmocka_unit_test(test_read_beside_commands),
	    cmocka_unit_test(test_read_behind_ordered),
	    cmocka_unit_test(test_read_behind_ordered_delete),
	    cmocka_unit_test(test_ordered_read_holds_nothing_up),
	    cmocka_unit_test(test_parked_over_reconnect),
	    cmocka_unit_test(test_refused_operations),
	    cmocka_unit_test(test_impossible_numbers),
	    cmocka_unit_test(test_old_epoch),
	    cmocka_unit_test(test_in_flight_limits),
	    cmocka_unit_test(test_in_flight_bytes),
	    cmocka_unit_test(test_numbers_have_a_window),
	    cmocka_unit_test(test_burst_is_applied_in_parts),
	    cmocka_unit_test(test_request_of_ended_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
