/* Acquires that are given up, at every moment, and those that convert what is held. */
#include <string.h>
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

static const enum lock_mode EX = LOCK_EXCLUSIVE, SH = LOCK_SHARED;

/* ---- cancel ---- */

static void
test_cancel_waiting(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	size_t entries;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, EX, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 3, SH, true), RC_QUEUED);
	entries = lab->entries;
	lab_give_up(&a, node, 2, 2);
	assert_int_equal(lab_granted(&a), 3); /* in the same commit */
	assert_int_equal(lab->entries, entries + 1);
	assert_int_equal(lab_look(&a, node).waiters, 0);
	lab_free(lab);
}

/* The cancel overtakes the answer to the acquire: the lock must not come afterwards. */
static void
test_cancel_before_apply(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;
	struct op first = lab_acquire(node, 1, 1, EX, true),
	          second = lab_acquire(node, 2, 2, EX, true);
	struct op give_up = lab_cancel(node, 2, 2);

	(void)state;
	lab->slow_disk = true;
	lab_send_op(&a, &first);
	number = lab_send_op(&b, &second); /* loses the race */
	lab_send_op(&b, &give_up);
	lab_persist(lab);
	assert_int_equal(lab_reply(&b, number)->rc, RC_INTR);
	lab->slow_disk = false;
	assert_int_equal(lab_look(&a, node).waiters, 0);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_FREE);
	lab_free(lab);
}

/* The grant is in the log when the cancel comes: it gives the lock to the next one. */
static void
test_cancel_during_grant(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op give_up = lab_cancel(node, 2, 1), let_go = lab_release(node, 1, 1);

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 3, EX, true), RC_QUEUED);
	lab->slow_disk = true;
	lab_send_op(&a, &let_go);
	lab_send_op(&b, &give_up);
	lab->slow_disk = false;
	lab_persist(lab);
	assert_int_equal(lab_granted(&b), 0);
	assert_int_equal(lab_granted(&a), 3);
	assert_int_equal(lab_look(&a, node).holders.count, 1);
	lab_free(lab);
}

static void
test_cancel_after_grant(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, EX, true), RC_QUEUED);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&a), 2);
	lab_give_up(&a, node, 2, 2);
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_FREE);
	lab_free(lab);
}

/* The client lost both answers and sends both again, the acquire first: it was given up already. */
static void
test_cancel_again(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;
	struct op op = lab_acquire(node, 2, 1, EX, true), give_up = lab_cancel(node, 2, 1);

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	number = lab_send_op(&b, &op);
	lab_send_op(&b, &give_up);
	lab_unlock(&a, node, 1, 1);
	lab_reattach(&b);
	lab_send_request(&b, number, false, &op);
	assert_int_equal(lab_reply(&b, number)->rc, RC_INTR);
	lab_send_request(&b, number + 1, false, &give_up);
	assert_int_equal(lab_reply(&b, number + 1)->rc, RC_OK);
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_FREE);
	lab_free(lab);
}

/* ---- conversions ---- */

static void
test_conversion_goes_first(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	struct op op = lab_acquire(node, 1, 9, EX, true);
	struct result result;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 3, EX, true), RC_QUEUED);
	assert_int_equal(lab_call(&a, &op, &result), RC_QUEUED);
	assert_int_equal(result.acquired.kept, SH);
	lab_unlock(&a, node, 2, 2);
	assert_int_equal(lab_granted(&a), 1);
	assert_int_equal(lab_granted(&a), 0);
	lab_unlock(&a, node, 1, 9);
	assert_int_equal(lab_granted(&a), 3);
	lab_free(lab);
}

static void
test_conversion_down(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, SH, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_granted(&a), 2);
	lab_free(lab);
}

static void
test_conversion_deadlock(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op op = lab_acquire(node, 1, 8, EX, true), other = lab_acquire(node, 2, 9, EX, true);
	struct op try = lab_acquire(node, 2, 7, EX, false);
	struct result result;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, SH, true), RC_OK);
	assert_int_equal(lab_call(&a, &op, &result), RC_QUEUED);
	assert_int_equal(result.acquired.kept, SH);
	assert_int_equal(lab_call(&b, &try, NULL), RC_BUSY_LOCK); /* keeps what it has */
	assert_int_equal(lab_look(&a, node).holders.count, 2);
	assert_int_equal(lab_call(&b, &other, &result), RC_QUEUED);
	assert_int_equal(result.acquired.kept, LOCK_NONE);
	assert_int_equal(lab_granted(&a), 1);
	lab_unlock(&a, node, 1, 8);
	assert_int_equal(lab_granted(&b), 2);
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_EXCLUSIVE);
	lab_free(lab);
}

static void
test_conversion_cancelled(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_QUEUED);
	lab_give_up(&a, node, 1, 3);
	assert_int_equal(lab_look(&a, node).holders.count, 2);
	assert_int_equal(lab_look(&a, node).waiters, 0);
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_cancel_waiting),
	    cmocka_unit_test(test_cancel_before_apply),
	    cmocka_unit_test(test_cancel_during_grant),
	    cmocka_unit_test(test_cancel_after_grant),
	    cmocka_unit_test(test_cancel_again),
	    cmocka_unit_test(test_conversion_goes_first),
	    cmocka_unit_test(test_conversion_down),
	    cmocka_unit_test(test_conversion_deadlock),
	    cmocka_unit_test(test_conversion_cancelled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
