/* A permanent file becomes ephemeral only while no other session can have it open. */
#include <stdio.h>
#include "cell/base/limit.h"
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

static struct op
mark(uint64_t node)
{
	return (struct op){.code = OP_make_ephemeral, .make_ephemeral = {node}};
}

static struct op
attr(uint64_t node)
{
	return (struct op){.code = OP_get_attr, .get_attr = {node}};
}

static struct op
named(const char *name)
{
	return (struct op){.code = OP_lookup,
	                   .lookup = {.parent = NODE_ROOT, .name = bytes_of(name)}};
}

static enum rc
call(struct lab_client *c, struct op op)
{
	return lab_call(c, &op, NULL);
}

static bool
replied(struct lab_client *c, uint64_t number)
{
	return lab_reply(c, number) != NULL;
}

static void
become_durable(struct lab *lab)
{
	lab->slow_disk = false;
	lab_persist(lab);
	lab_pass_ms(lab, 1);
}

static void
test_a_file_that_nobody_knows(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t f = lab_file(&a, "f");
	struct op list = {.code = OP_get_listing, .get_listing = {.node = NODE_ROOT}};

	(void)state;
	assert_int_equal(call(&a, attr(f)), RC_OK);
	assert_int_equal(call(&b, list), RC_OK); /* names open nothing */
	assert_int_equal(call(&b, named("g")), RC_NOENT);
	assert_int_equal(call(&b, mark(f)), RC_BUSY);
	assert_int_equal(call(&a, mark(f)), RC_OK);
	assert_int_equal(call(&b, attr(f)), RC_OK);
	assert_int_equal(call(&b, mark(f)), RC_OK); /* it is ephemeral */
	assert_int_equal(call(&a, mark(NODE_ROOT)), RC_ISDIR);
	assert_int_equal(call(&a, mark(999)), RC_STALE);
	assert_int_equal(call(&a, mark(0)), RC_STALE);
	lab_free(lab);
}

/* Each read from which an open can follow. */
static void
test_a_file_that_another_has_been_told_of(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);

	(void)state;
	for (int i = 0; i < 3; i++) {
		const char *names[] = {"f", "g", "h"};
		uint64_t f = lab_file(&a, names[i]);

		assert_int_equal(call(&b, i == 0   ? attr(f)
		                          : i == 1 ? lab_get(f)
		                                   : named("h")),
		                 RC_OK);
		assert_int_equal(call(&a, mark(f)), RC_BUSY);
		assert_int_equal(call(&a, mark(f)), RC_BUSY);
	}
	lab_free(lab);
}

static void
test_the_only_session(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t f = lab_file(&b, "f");
	struct op end = {.code = OP_end_session,
	                 .end_session = {.session = b.session, .cause = SESSION_CLOSED}};

	(void)state;
	assert_int_equal(call(&a, attr(f)), RC_OK);
	assert_int_equal(call(&a, mark(f)), RC_BUSY);
	lab_send_op(&b, &end);
	assert_int_equal(call(&a, mark(f)), RC_OK);
	lab_free(lab);
}

/* An answer that shows the file as permanent would come too late. */
static void
test_reads_wait_for_a_mark_in_flight(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t f = lab_file(&a, "f"), g = lab_file(&a, "g"), number[4];
	struct op op = mark(f), look = attr(f), find = named("f"), other = attr(g), again = mark(g);
	struct result result;

	(void)state;
	lab->slow_disk = true;
	number[0] = lab_send_op(&a, &op);
	number[1] = lab_send_op(&b, &look);
	number[2] = lab_send_op(&b, &find);
	number[3] = lab_send_op(&a, &again);
	assert_int_equal(call(&b, other), RC_OK);
	assert_int_equal(call(&a, look), RC_OK);
	assert_false(replied(&a, number[0]) || replied(&b, number[1]) || replied(&b, number[2]));
	become_durable(lab);
	assert_int_equal(lab_reply(&a, number[0])->rc, RC_OK);
	assert_int_equal(wire_get_result(RESULT_attr, lab_reply(&b, number[1])->result, &result),
	                 RC_OK);
	assert_int_equal(result.attr.attr.ephemeral, 1);
	assert_int_equal(wire_get_result(RESULT_attr, lab_reply(&b, number[2])->result, &result),
	                 RC_OK);
	assert_int_equal(result.attr.attr.ephemeral, 1);
	assert_int_equal(lab_reply(&a, number[3])->rc, RC_BUSY); /* b has read of g meanwhile */
	lab_free(lab);
}

/* The nodes that a read tells of are known when it begins, not when it comes. */
static void
test_a_read_that_had_to_wait(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	struct op touch = {.code = OP_set_mtime, .set_mtime = {.node = NODE_ROOT}};
	struct op create = lab_create("f"), find = named("f");
	uint64_t number;

	(void)state;
	lab->slow_disk = true;
	lab_send_op(&a, &create);
	lab_send_request(&b, ++b.number, true, &touch);
	number = lab_send_op(&b, &find); /* behind the ordered one */
	assert_false(replied(&b, number));
	become_durable(lab);
	assert_int_equal(lab_reply(&b, number)->rc, RC_OK);
	assert_int_equal(call(&a, mark(lab_file(&a, "f"))), RC_BUSY);
	lab_free(lab);
}

/* Its create finds the file in the log, before the mark, and is answered after that came. */
static void
test_a_create_in_flight(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t f = lab_file(&a, "f"), created, marked;
	struct op create = lab_create("f"), op = mark(f);

	(void)state;
	lab->slow_disk = true;
	created = lab_send_op(&b, &create);
	marked = lab_send_op(&a, &op);
	become_durable(lab);
	assert_int_equal(lab_reply(&b, created)->rc, RC_OK);
	assert_int_equal(lab_reply(&a, marked)->rc, RC_BUSY);
	lab_free(lab);
}

static void
test_a_new_master_knows_of_no_reads(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t f = lab_file(&a, "f"), marked = lab_file(&a, "marked"), number, last;
	struct op op = mark(marked);

	(void)state;
	lab->slow_disk = true;
	number = lab_send_op(&a, &op);
	lab->slow_disk = false;
	lab_persist(lab);
	lab_restart(lab);
	lab_reattach(&a);
	lab_reattach(&b);
	lab_send_request(&a, number, false, &op);
	last = number;
	assert_int_equal(lab_reply(&a, last)->rc, RC_OK); /* it was decided before */
	assert_int_equal(call(&a, mark(f)), RC_BUSY);
	assert_int_equal(call(&a, mark(lab_file(&a, "new"))), RC_OK);
	lab_free(lab);
}

static void
test_so_many_files_are_remembered(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), crowd[LIMIT_UNSHARED / LIMIT_IN_FLIGHT];
	uint64_t first = lab_file(&a, "first"), second = lab_file(&a, "second");
	char name[16];

	(void)state;
	for (int i = 0; i < LIMIT_UNSHARED / LIMIT_IN_FLIGHT; i++)
		crowd[i] = lab_open(lab, (uint8_t)(i + 2));
	lab->slow_disk = true;
	for (int i = 1; i < LIMIT_UNSHARED; i++) {
		struct op create;

		snprintf(name, sizeof name, "%d", i);
		create = lab_create(name);
		lab_send_op(&crowd[i / LIMIT_IN_FLIGHT], &create);
	}
	become_durable(lab);
	assert_int_equal(call(&a, mark(first)), RC_BUSY);
	assert_int_equal(call(&a, mark(second)), RC_OK);
	lab_free(lab);
}

/* Marks that wait for each other, of sessions that end meanwhile, too. */
static void
test_many_marks(void **state)
{
	enum { MARKS = 200 };
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2), c = lab_open(lab, 3);
	uint64_t f = lab_file(&a, "f"), g = lab_file(&b, "g"), number[MARKS], last = 0;
	struct op of_a = mark(f), of_b = mark(g), look = attr(f);
	struct op end = {.code = OP_end_session,
	                 .end_session = {.session = b.session, .cause = SESSION_CLOSED}};

	(void)state;
	lab->slow_disk = true;
	for (int i = 0; i < MARKS; i++) {
		number[i] = lab_send_op(&a, &of_a);
		lab_send_op(&b, &of_b);
		last = lab_send_op(&c, &look);
	}
	lab_send_op(&b, &end);
	become_durable(lab);
	for (int i = 0; i < MARKS; i++)
		assert_int_equal(lab_reply(&a, number[i])->rc, RC_OK);
	assert_int_equal(lab_reply(&c, last)->rc, RC_OK);
	assert_int_equal(call(&c, mark(f)), RC_OK);
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_file_that_nobody_knows),
	    cmocka_unit_test(test_a_file_that_another_has_been_told_of),
	    cmocka_unit_test(test_the_only_session),
	    cmocka_unit_test(test_reads_wait_for_a_mark_in_flight),
	    cmocka_unit_test(test_a_read_that_had_to_wait),
	    cmocka_unit_test(test_a_create_in_flight),
	    cmocka_unit_test(test_a_new_master_knows_of_no_reads),
	    cmocka_unit_test(test_so_many_files_are_remembered),
	    cmocka_unit_test(test_many_marks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
