/* Locks at the master: queues, hand-offs, lock-delays, sequencers. */
#include <stdio.h>
#include <string.h>
#include "cell/master/sequencer.h"
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

static const enum lock_mode EX = LOCK_EXCLUSIVE, SH = LOCK_SHARED;

/* ---- queues ---- */

static void
test_try(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, false), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, EX, false), RC_BUSY_LOCK);
	assert_int_equal(lab_lock(&a, node, 2, SH, false), RC_BUSY_LOCK);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_lock(&a, node, 2, SH, false), RC_OK);
	assert_int_equal(lab_lock(&a, node, 3, SH, false), RC_OK);
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_SHARED);
	assert_int_equal(lab_look(&a, node).holders.count, 2);
	lab_free(lab);
}

/* Whoever unlocks and tries again finds the lock free, though the unlock is still under way. */
static void
test_try_behind_own_release(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f"), number;
	struct op op = lab_release(node, 1, 1);

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, false), RC_OK);
	lab->slow_disk = true;
	lab_send_op(&a, &op);
	op = lab_acquire(node, 2, 2, EX, false);
	number = lab_send_op(&a, &op);
	lab_persist(lab);
	assert_int_equal(lab_reply(&a, number)->rc, RC_OK);
	lab_free(lab);
}

static void
test_hundred_waiters(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), fence = 0;
	size_t entries;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	entries = lab->entries;
	for (uint64_t owner = 2; owner <= 101; owner++)
		assert_int_equal(lab_lock(owner % 2 ? &a : &b, node, owner, EX, true), RC_QUEUED);
	assert_int_equal(lab->entries, entries + 2); /* to wait costs a session one commit */
	entries = lab->entries;
	assert_int_equal(lab_look(&a, node).waiters, 100);
	lab_unlock(&a, node, 1, 1);
	for (uint64_t owner = 2; owner <= 101; owner++) {
		struct lab_client *c = owner % 2 ? &a : &b;
		const struct message *m = lab_take(c, MSG_granted);

		assert_non_null(m);
		assert_int_equal(m->granted.owner, owner);
		assert_true(m->granted.fence > fence);
		fence = m->granted.fence;
		assert_null(lab_take(&a, MSG_granted));
		assert_null(lab_take(&b, MSG_granted));
		lab_unlock(c, node, owner, m->granted.acquisition);
	}
	assert_int_equal(lab->entries, entries + 101); /* one commit per hand-off */
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_FREE);
	lab_free(lab);
}

/* Shared ones in front get it together; one behind an exclusive one waits, though it could share.
 */
static void
test_shared_and_exclusive(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, SH, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 3, SH, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 4, EX, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 5, SH, true), RC_QUEUED);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&a), 2);
	assert_int_equal(lab_granted(&a), 3);
	assert_int_equal(lab_granted(&a), 0);
	assert_int_equal(lab_lock(&a, node, 6, SH, false), RC_BUSY_LOCK);
	lab_unlock(&a, node, 2, 2);
	assert_int_equal(lab_granted(&a), 0);
	lab_unlock(&a, node, 3, 3);
	assert_int_equal(lab_granted(&a), 4);
	assert_int_equal(lab_granted(&a), 0);
	lab_unlock(&a, node, 4, 4);
	assert_int_equal(lab_granted(&a), 5);
	lab_free(lab);
}

static void
test_last_shared_hands_over(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	size_t entries;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, SH, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 3, EX, true), RC_QUEUED);
	entries = lab->entries;
	lab_unlock(&a, node, 2, 2);
	assert_int_equal(lab_granted(&a), 0);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&a), 3);
	assert_int_equal(lab->entries, entries + 2);
	lab_free(lab);
}

/* Both asked while the lock was free, so both went to the log; the second one waits by its time of
 * arrival, before a third one that came while the second was under way. */
static void
test_race_for_free_lock(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f"), numbers[3];

	(void)state;
	lab->slow_disk = true;
	for (uint64_t i = 0; i < 3; i++) {
		struct op op = lab_acquire(node, i + 1, i + 1, EX, true);

		numbers[i] = lab_send_op(&a, &op);
	}
	lab_persist(lab);
	assert_int_equal(lab_reply(&a, numbers[0])->rc, RC_OK);
	assert_int_equal(lab_reply(&a, numbers[1])->rc, RC_QUEUED);
	assert_int_equal(lab_reply(&a, numbers[2])->rc, RC_QUEUED);
	lab->slow_disk = false;
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&a), 2);
	lab_unlock(&a, node, 2, 2);
	assert_int_equal(lab_granted(&a), 3);
	lab_free(lab);
}

static void
test_waiter_asks_again(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;
	struct op op = lab_acquire(node, 7, 7, EX, true);
	const struct msg_reply *reply;
	struct result first, second;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	number = lab_send_op(&b, &op);
	reply = lab_reply(&b, number);
	assert_int_equal(wire_get_result(RESULT_acquired, reply->result, &first), RC_OK);
	lab_reattach(&b);
	lab_send_request(&b, number, false, &op); /* the reply was lost */
	reply = lab_reply(&b, number);
	assert_int_equal(reply->rc, RC_QUEUED);
	assert_int_equal(wire_get_result(RESULT_acquired, reply->result, &second), RC_OK);
	assert_int_equal(first.acquired.ticket.place, second.acquired.ticket.place);
	assert_int_equal(lab_look(&a, node).waiters, 1);
	lab_disconnect(&b);
	lab_unlock(&a, node, 1, 1); /* the grant is lost */
	lab_reattach(&b);
	op.acquire.acquire.ticket = first.acquired.ticket;
	assert_int_equal(lab_call(&b, &op, &second), RC_OK);
	assert_int_equal(lab_look(&a, node).holders.count, 1);
	lab_free(lab);
}

/* The same acquire twice, under two numbers, while somebody else gets the lock: it waits once. */
static void
test_same_acquire_twice(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), first, second;
	struct op theirs = lab_acquire(node, 1, 1, EX, true),
	          op = lab_acquire(node, 2, 2, EX, true);

	(void)state;
	lab->slow_disk = true;
	lab_send_op(&a, &theirs);
	first = lab_send_op(&b, &op);
	second = lab_send_op(&b, &op);
	lab_persist(lab);
	assert_int_equal(lab_reply(&b, first)->rc, RC_QUEUED);
	assert_int_equal(lab_reply(&b, second)->rc, RC_INVAL);
	assert_int_equal(lab_look(&a, node).waiters, 1);
	lab_free(lab);
}

/* After a restart the queue is what the clients present, in the order of their tickets. */
static enum rc
reply_to(struct lab_client *c, uint64_t number)
{
	const struct msg_reply *reply = lab_reply(c, number);

	assert_non_null(reply);
	return (enum rc)reply->rc;
}

/* The client lets go and asks again by the same acquisition, before it has heard of either. */
static void
test_acquisition_used_again_behind_its_release(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;
	struct op let_go = lab_release(node, 1, 1), again = lab_acquire(node, 1, 1, EX, true);

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 7, EX, true), RC_QUEUED);
	lab->slow_disk = true;
	lab_send_op(&a, &let_go);
	number = lab_send_op(&a, &again);
	lab_persist(lab);
	assert_int_equal(reply_to(&a, number), RC_INVAL);
	assert_int_equal(lab_granted(&b), 7);
	lab_free(lab);
}

/* Under another number than that of the request that it was made by. */
static void
test_acquisition_used_again_while_it_waits(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f"), first, second;
	struct op op = lab_acquire(node, 1, 9, EX, true);

	(void)state;
	lab->slow_disk = true;
	first = lab_send_op(&a, &op);
	second = lab_send_op(&a, &op);
	assert_int_equal(reply_to(&a, second), RC_INVAL);
	lab_persist(lab);
	lab->slow_disk = false;
	assert_int_equal(reply_to(&a, first), RC_OK);
	op = lab_acquire(node, 2, 10, EX, true);
	first = lab_send_op(&a, &op);
	assert_int_equal(reply_to(&a, first), RC_QUEUED);
	assert_int_equal(lab_call(&a, &op, NULL), RC_INVAL);
	lab_send_request(&a, first, false, &op);
	assert_int_equal(reply_to(&a, first), RC_QUEUED);
	lab_free(lab);
}

/* A place in the queue is good for one turn. */
static void
test_ticket_used_again(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op op = lab_acquire(node, 1, 9, EX, true);
	struct result result;

	(void)state;
	assert_int_equal(lab_lock(&b, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_call(&a, &op, &result), RC_QUEUED);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_QUEUED);
	op.acquire.acquire.ticket = result.acquired.ticket;
	assert_int_equal(lab_call(&a, &op, NULL), RC_QUEUED);
	lab_unlock(&b, node, 1, 1);
	assert_int_equal(lab_granted(&a), 1);
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	lab_unlock(&a, node, 1, 9);
	assert_int_equal(lab_call(&a, &op, NULL), RC_INVAL);
	lab_free(lab);
}

static void
test_tickets_over_restart(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op second = lab_acquire(node, 2, 2, EX, true),
	          third = lab_acquire(node, 3, 3, EX, true);
	struct result result;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_call(&b, &second, &result), RC_QUEUED);
	second.acquire.acquire.ticket = result.acquired.ticket;
	assert_int_equal(lab_call(&a, &third, &result), RC_QUEUED);
	third.acquire.acquire.ticket = result.acquired.ticket;
	lab_restart(lab);
	lab_reattach(&a);
	lab_reattach(&b);
	assert_int_equal(lab_lock(&a, node, 4, EX, true), RC_QUEUED); /* a newcomer */
	assert_int_equal(lab_call(&a, &third, NULL), RC_QUEUED);
	assert_int_equal(lab_call(&b, &second, NULL), RC_QUEUED);
	for (int i = 0; i < 2; i++) {
		lab_send_keepalive(&a);
		lab_send_keepalive(&b);
	}
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&b), 2);
	lab_unlock(&b, node, 2, 2);
	assert_int_equal(lab_granted(&a), 3);
	lab_unlock(&a, node, 3, 3);
	assert_int_equal(lab_granted(&a), 4);
	lab_free(lab);
}

static void
test_node_deleted(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op op = lab_delete("f");
	const struct message *m;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_QUEUED);
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	m = lab_take(&b, MSG_granted);
	assert_int_equal(m->granted.rc, RC_STALE);
	assert_int_equal(m->granted.owner, 2);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_STALE);
	lab_free(lab);
}

static void
test_waiters_session_ends(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op op = {.code = OP_end_session};

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, SH, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 3, SH, true), RC_QUEUED);
	op.end_session = (struct op_end_session){.session = b.session, .cause = SESSION_CLOSED};
	assert_int_equal(lab_call(&b, &op, NULL), RC_OK);
	assert_int_equal(lab_granted(&a), 3); /* what it waited for is gone */
	lab_free(lab);
}

/* ---- lock-delay ---- */

static void
expire(struct lab *lab, struct lab_client *survivor)
{
	for (int i = 0; i < 5; i++) {
		lab_pass_ms(lab, LAB_LEASE_MS / 4);
		lab_send_keepalive(survivor);
	}
	assert_true(lab_traced(lab, "expired"));
}

/* Whatever frees a lock hands it over in its own entry. */
static void
test_every_end_hands_over(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2), c = lab_open(lab, 3);
	uint64_t node = lab_file(&a, "f"), other = lab_file(&a, "g");
	struct op end = {.code = OP_end_session}, brief = lab_acquire(other, 1, 9, EX, true);
	size_t entries;

	(void)state;
	assert_int_equal(lab_lock(&b, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, other, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, other, 2, EX, true), RC_QUEUED); /* it will be gone */
	assert_int_equal(lab_lock(&a, node, 2, EX, true), RC_QUEUED);
	assert_int_equal(lab_lock(&c, other, 3, EX, true), RC_QUEUED);
	entries = lab->entries;
	end.end_session =
	    (struct op_end_session){.session = b.session, .cause = SESSION_CLOSED};
	lab_send_op(&b, &end);
	assert_int_equal(lab_granted(&a), 2);
	assert_int_equal(lab_granted(&c), 3);
	assert_int_equal(lab->entries, entries + 1);

	/* A lock-delay of a second. */
	lab_unlock(&c, other, 3, 1);
	b = lab_open(lab, 4);
	brief.acquire.acquire.delay_s = 1;
	assert_int_equal(lab_call(&b, &brief, NULL), RC_OK);
	assert_int_equal(lab_lock(&a, other, 4, EX, true), RC_QUEUED);
	for (int i = 0; i < 20 && lab_look(&a, other).state != LOCK_STATE_DELAYED; i++) {
		lab_send_keepalive(&a);
		lab_pass_ms(lab, 800);
	}
	assert_int_equal(lab_granted(&a), 0);
	entries = lab->entries;
	lab_pass_ms(lab, 1000);
	assert_int_equal(lab_granted(&a), 4);
	assert_int_equal(lab->entries, entries + 1);
	lab_free(lab);
}

enum { PARTS = 3 };

/* A session with more locks than go in one entry; `last`: the file whose turn is last. */
static struct lab_client
open_with_locks(struct lab *lab, uint64_t *first, uint64_t *last)
{
	struct lab_client b = lab_open(lab, 'b');
	uint64_t node = 0;

	for (int i = 0; i < PARTS * LIMIT_ENDING - 10; i++) {
		char name[16];

		snprintf(name, sizeof name, "many%d", i);
		node = lab_file(&b, name);
		assert_int_equal(lab_lock(&b, node, 1, EX, true), RC_OK);
		*first = i == 0 ? node : *first;
	}
	*last = node;
	return b;
}

/* One with many locks ends part by part, and each part hands over. */
static void
test_an_end_in_parts(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b;
	struct op end = {.code = OP_end_session};
	uint64_t first, last, session;
	enum session_end cause;

	(void)state;
	b = open_with_locks(lab, &first, &last);
	assert_int_equal(lab_lock(&a, last, 2, EX, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, first, 3, EX, true), RC_QUEUED);
	end.end_session = (struct op_end_session){.session = b.session, .cause = SESSION_CLOSED};
	lab->slow_disk = true;
	lab_send_op(&b, &end);
	for (int i = 1; i <= PARTS; i++) {
		const uint64_t ticket = lab->ticket;

		lab->ticket = 0;
		lab_step(lab, (struct replica_event){.kind = REPLICA_PERSISTED, .write = ticket});
		assert_int_equal(lab_granted(&a), i == 1 ? 3 : i == PARTS ? 2 : 0);
		assert_true(tree_ending(replica_tree(lab->replica), &session, &cause));
		assert_int_equal(session, b.session);
	}
	lab_persist(lab); /* the answers that were kept */
	assert_false(tree_ending(replica_tree(lab->replica), &session, &cause));
	lab_free(lab);
}

/* A new master goes on with it, when nobody's cache can be wrong any more. */
static void
test_an_end_in_parts_over_restart(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), b;
	struct op end = {.code = OP_end_session};
	uint64_t first, last, session, ticket;
	enum session_end cause;

	(void)state;
	b = open_with_locks(lab, &first, &last);
	end.end_session = (struct op_end_session){.session = b.session, .cause = SESSION_CLOSED};
	lab->slow_disk = true;
	lab_send_op(&b, &end);
	ticket = lab->ticket;
	lab->ticket = 0;
	lab_step(lab, (struct replica_event){.kind = REPLICA_PERSISTED, .write = ticket});
	lab->slow_disk = false;
	lab_restart(lab);
	lab_pass_ms(lab, LAB_CACHE_LEASE_MS / 2);
	assert_true(tree_ending(replica_tree(lab->replica), &session, &cause));
	lab_reattach(&a);
	lab_send_keepalive(&a);
	lab_pass_ms(lab, LAB_CACHE_LEASE_MS);
	assert_false(tree_ending(replica_tree(lab->replica), &session, &cause));
	assert_int_equal(lab_look(&a, last).state, LOCK_STATE_FREE);
	lab_free(lab);
}

static void
test_delay_lengths(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct result_lock seen;
	int64_t left;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_QUEUED);
	lab_send_keepalive(&b);
	expire(lab, &b);
	seen = lab_look(&b, node);
	assert_int_equal(seen.state, LOCK_STATE_DELAYED);
	assert_int_equal(seen.waiters, 1);
	left = seen.delay_left_s;
	assert_true(left > 10 && left <= DEFAULT_LOCK_DELAY_S);
	assert_int_equal(lab_lock(&b, node, 3, EX, false), RC_BUSY_LOCK);
	while (left > 1) {
		lab_pass_ms(lab, 1000);
		lab_send_keepalive(&b);
		assert_int_equal(lab_granted(&b), 0);
		assert_int_equal(lab_look(&b, node).delay_left_s, --left);
	}
	lab_pass_ms(lab, 1000);
	assert_int_equal(lab_granted(&b), 2);
	lab_free(lab);
}

/* A new master cannot know how much of the delay has passed, and runs all of it. */
static void
test_delay_over_restart(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	lab_send_keepalive(&b);
	expire(lab, &b);
	lab_restart(lab);
	lab_reattach(&b);
	assert_int_equal(lab_look(&b, node).delay_left_s, DEFAULT_LOCK_DELAY_S);
	for (int i = 0; i < DEFAULT_LOCK_DELAY_S - 2; i++) {
		lab_pass_ms(lab, 1000);
		lab_send_keepalive(&b);
		assert_int_equal(lab_look(&b, node).state, LOCK_STATE_DELAYED);
	}
	lab_pass_ms(lab, 2000);
	assert_int_equal(lab_look(&b, node).state, LOCK_STATE_FREE);
	lab_free(lab);
}

static void
test_no_delay_when_closed(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op op = {.code = OP_end_session};

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, EX, true), RC_QUEUED);
	op.end_session = (struct op_end_session){.session = a.session, .cause = SESSION_CLOSED};
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	assert_int_equal(lab_granted(&b), 2);
	lab_free(lab);
}

static void
test_sequencer_is_signed(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	struct op op = {.code = OP_get_sequencer};
	struct sequencer s;
	struct result result;

	(void)state;
	op.get_sequencer.node = node;
	assert_int_equal(lab_call(&a, &op, NULL), RC_NODATA);
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	assert_int_equal(lab_call(&a, &op, &result), RC_OK);
	assert_true(sequencer_parse(result.sequencer.sequencer, &s));
	assert_true(bytes_equal(s.path, bytes_of("/ls/lab/f")));
	assert_int_equal(s.instance, node);
	assert_int_equal(s.mode, EX);
	assert_int_equal(s.fence, result.sequencer.fence);
	assert_true(sequencer_verify(&s, lab_public_key()));
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_try),
	    cmocka_unit_test(test_try_behind_own_release),
	    cmocka_unit_test(test_hundred_waiters),
	    cmocka_unit_test(test_shared_and_exclusive),
	    cmocka_unit_test(test_last_shared_hands_over),
	    cmocka_unit_test(test_race_for_free_lock),
	    cmocka_unit_test(test_waiter_asks_again),
	    cmocka_unit_test(test_same_acquire_twice),
	    cmocka_unit_test(test_acquisition_used_again_behind_its_release),
	    cmocka_unit_test(test_acquisition_used_again_while_it_waits),
	    cmocka_unit_test(test_ticket_used_again),
	    cmocka_unit_test(test_tickets_over_restart),
	    cmocka_unit_test(test_node_deleted),
	    cmocka_unit_test(test_waiters_session_ends),
	    cmocka_unit_test(test_every_end_hands_over),
	    cmocka_unit_test(test_an_end_in_parts),
	    cmocka_unit_test(test_an_end_in_parts_over_restart),
	    cmocka_unit_test(test_delay_lengths),
	    cmocka_unit_test(test_delay_over_restart),
	    cmocka_unit_test(test_no_delay_when_closed),
	    cmocka_unit_test(test_sequencer_is_signed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
