/* Sessions at the master: opening, attaching, KeepAlives, leases, expiry. */
#include <string.h>
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

static bool
lives(struct lab *lab, uint64_t session)
{
	struct tree_session t;

	return tree_session(replica_tree(lab->replica), session, &t);
}

/* The lease that the next answer to a KeepAlive tells; 0 when there is none yet. */
static uint32_t
told_lease_ms(struct lab_client *c)
{
	const struct message *m = lab_take(c, MSG_keepalive_reply);

	if (m == NULL)
		return 0;
	assert_int_equal(m->keepalive_reply.rc, RC_OK);
	assert_int_equal(m->keepalive_reply.epoch, c->epoch);
	return m->keepalive_reply.lease_ms;
}

static void
test_open(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);

	(void)state;
	assert_true(a.session != b.session);
	assert_true(lives(lab, a.session) && lives(lab, b.session));
	lab_free(lab);
}

/* The client that heard no answer asks again: on the same connection while the command is in
 * flight, and on a new one before and after it was applied. There is one session. */
static void
test_open_again(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_connect(lab, 1);
	const struct message *m;
	size_t entries = lab->entries;
	uint64_t first;

	(void)state;
	lab->slow_disk = true;
	lab_send_open(&a, NULL);
	lab_send_open(&a, NULL);
	assert_int_equal(lab->entries, entries + 1);
	first = a.conn;
	lab_reconnect(&a);
	lab_send_open(&a, NULL);
	lab_persist(lab);
	assert_true(lab_closed(lab, first));
	m = lab_take(&a, MSG_session_opened);
	assert_int_equal(m->session_opened.rc, RC_OK);
	a.session = m->session_opened.session;
	entries = lab->entries;
	lab_reconnect(&a);
	first = a.session;
	a.session = 0;
	lab_send_open(&a, NULL);
	m = lab_take(&a, MSG_session_opened);
	assert_int_equal(m->session_opened.session, first);
	assert_int_equal(lab->entries, entries);
	lab_free(lab);
}

static void
test_newest_connection(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t old = a.conn;

	(void)state;
	lab_reattach(&a);
	assert_true(lab_closed(lab, old) && !lab_closed(lab, a.conn));
	lab_free(lab);
}

static void
test_attach_needs_nonce(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), thief = lab_connect(lab, 2);
	const struct message *m;

	(void)state;
	thief.session = a.session;
	lab_send_open(&thief, NULL);
	m = lab_take(&thief, MSG_session_opened);
	assert_int_equal(m->session_opened.rc, RC_NO_SESSION);
	assert_false(lab_closed(lab, a.conn));
	lab_free(lab);
}

static void
test_attach_needs_principal(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	const struct message *m;

	(void)state;
	a.conn = ++lab->next_conn;
	lab_step(lab, (struct replica_event){.kind = REPLICA_CONNECTED,
	                                     .conn = a.conn,
	                                     .principal = bytes_of("mallory")});
	lab_send_open(&a, NULL);
	m = lab_take(&a, MSG_session_opened);
	assert_int_equal(m->session_opened.rc, RC_NO_SESSION);
	lab_free(lab);
}

static void
test_breaches(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2), c = lab_connect(lab, 3);
	struct op op = lab_get(NODE_ROOT);
	struct message m = {.code = MSG_session_opened};

	(void)state;
	lab_send_op(&c, &op); /* before a session is open */
	assert_true(lab_closed(lab, c.conn));
	a.session = b.session; /* for somebody else's */
	lab_send_op(&a, &op);
	assert_true(lab_closed(lab, a.conn));
	lab_send(&b, &m); /* what only a replica says */
	assert_true(lab_closed(lab, b.conn));
	c = lab_connect(lab, 4);
	lab_step(lab, (struct replica_event){
	                  .kind = REPLICA_FRAME, .conn = c.conn, .frame = bytes_of("nonsense")});
	assert_true(lab_closed(lab, c.conn));
	assert_true(lab_traced(lab, "a malformed message"));
	lab_free(lab);
}

/* An earlier run's session ends as expired, with its lock's delay, in the entry that opens the new
 * one; without its nonce nothing happens to it. */
static void
test_earlier_session(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_connect(lab, 2),
	                  thief = lab_connect(lab, 3);
	struct lab_client forged = a;
	uint64_t node = lab_file(&a, "f");
	struct op op = lab_acquire(node, 1, 1, LOCK_EXCLUSIVE, false);
	struct result result;
	size_t entries;

	(void)state;
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	memset(forged.nonce, 9, sizeof forged.nonce);
	lab_send_open(&thief, &forged);
	assert_int_equal(lab_take(&thief, MSG_session_opened)->session_opened.rc, RC_OK);
	assert_true(lives(lab, a.session));
	entries = lab->entries;
	lab_send_open(&b, &a);
	assert_int_equal(lab->entries, entries + 1);
	b.session = lab_take(&b, MSG_session_opened)->session_opened.session;
	b.epoch = a.epoch;
	assert_false(lives(lab, a.session));
	assert_true(lab_traced(lab, "expired"));
	op = lab_get_lock(node);
	assert_int_equal(lab_call(&b, &op, &result), RC_OK);
	assert_int_equal(result.lock.state, LOCK_STATE_DELAYED);
	assert_int_equal(result.lock.delay_left_s, DEFAULT_LOCK_DELAY_S);
	lab_free(lab);
}

/* The first KeepAlive of a connection is answered at once, later ones after a third of the lease;
 * the lease told covers the time for which it was held. */
static void
test_keepalive(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_send_keepalive(&a);
	assert_int_equal(told_lease_ms(&a), LAB_LEASE_MS);
	lab_send_keepalive(&a);
	lab_pass_ms(lab, LAB_LEASE_MS / 3 - 1);
	assert_int_equal(told_lease_ms(&a), 0);
	lab_pass_ms(lab, 1);
	assert_int_equal(told_lease_ms(&a), LAB_LEASE_MS / 3 + LAB_LEASE_MS);
	lab_pass_ms(lab, LAB_LEASE_MS / 2); /* one that comes late is held for less */
	lab_send_keepalive(&a);
	lab_pass_ms(lab, LAB_LEASE_MS / 6);
	assert_int_equal(told_lease_ms(&a), LAB_LEASE_MS / 6 + LAB_LEASE_MS);
	lab_free(lab);
}

static void
test_keepalive_repeated(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_send_keepalive(&a);
	assert_true(told_lease_ms(&a) > 0);
	a.sequence--;
	lab_send_keepalive(&a);
	lab_pass_ms(lab, LAB_LEASE_MS / 2);
	assert_int_equal(told_lease_ms(&a), 0);
	lab_free(lab);
}

static void
test_expiry(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	const struct message *m;

	(void)state;
	lab_pass_ms(lab, LAB_LEASE_MS);
	assert_true(lives(lab, a.session));
	lab_pass_ms(lab, LAB_LEASE_MS / 50); /* the allowance for clocks */
	assert_false(lives(lab, a.session));
	m = lab_take(&a, MSG_keepalive_reply);
	assert_int_equal(m->keepalive_reply.rc, RC_NO_SESSION);
	lab_send_keepalive(&a);
	m = lab_take(&a, MSG_keepalive_reply);
	assert_int_equal(m->keepalive_reply.rc, RC_NO_SESSION);
	assert_false(lab_closed(lab, a.conn)); /* the client opens the next one on it */
	a.session = 0;
	memset(a.nonce, 7, sizeof a.nonce);
	lab_send_open(&a, NULL);
	assert_int_equal(lab_take(&a, MSG_session_opened)->session_opened.rc, RC_OK);
	lab_free(lab);
}

/* A KeepAlive that was held is gone with its connection, its session is not. */
static void
test_disconnect_while_held(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_send_keepalive(&a);
	assert_non_null(lab_take(&a, MSG_keepalive_reply));
	lab_send_keepalive(&a);
	lab_disconnect(&a);
	lab_pass_ms(lab, LAB_LEASE_MS);
	assert_true(lives(lab, a.session));
	lab_pass_ms(lab, LAB_LEASE_MS / 50);
	assert_false(lives(lab, a.session));
	lab_free(lab);
}

static void
test_attach_after_end(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_pass_ms(lab, 2 * LAB_LEASE_MS);
	lab_reconnect(&a);
	lab_send_open(&a, NULL);
	assert_int_equal(lab_take(&a, MSG_session_opened)->session_opened.rc, RC_NO_SESSION);
	lab_free(lab);
}

/* A KeepAlive that is read before the timers are looked at keeps the session, however late it is;
 * one that comes after the expiry was proposed is held, and told the truth. */
static void
test_late_keepalive(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	const struct message *m;

	(void)state;
	lab_pass_ms(lab, LAB_LEASE_MS);
	lab_freeze_ms(lab, 500);
	lab_send_keepalive(&a);
	assert_int_equal(told_lease_ms(&a), LAB_LEASE_MS);
	lab_pass_ms(lab, LAB_LEASE_MS);
	assert_true(lives(lab, a.session));
	lab->slow_disk = true;
	lab_pass_ms(lab, LAB_LEASE_MS / 50);
	lab_send_keepalive(&a);
	assert_null(lab_take(&a, MSG_keepalive_reply));
	lab_persist(lab);
	m = lab_take(&a, MSG_keepalive_reply);
	assert_int_equal(m->keepalive_reply.rc, RC_NO_SESSION);
	assert_int_equal(m->keepalive_reply.sequence, a.sequence);
	lab_free(lab);
}

/* A process that was stopped for an hour finds its clients' leases as long as they were. */
static void
test_pause(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_pass_ms(lab, LAB_LEASE_MS / 2);
	lab_freeze_ms(lab, 3600 * 1000);
	lab_pass_ms(lab, 0);
	assert_true(lives(lab, a.session));
	lab_send_keepalive(&a);
	assert_true(told_lease_ms(&a) > 0);
	lab_pass_ms(lab, 2 * LAB_LEASE_MS);
	assert_false(lives(lab, a.session));
	lab_free(lab);
}

/* A connection that breaks ends nothing. */
static void
test_disconnect(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_disconnect(&a);
	lab_pass_ms(lab, LAB_LEASE_MS / 2);
	assert_true(lives(lab, a.session));
	lab_reattach(&a);
	lab_pass_ms(lab, LAB_LEASE_MS);
	assert_true(lives(lab, a.session));
	lab_free(lab);
}

static void
test_close(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	struct op op = {.code = OP_end_session};

	(void)state;
	op.end_session = (struct op_end_session){.session = a.session, .cause = SESSION_CLOSED};
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	assert_false(lives(lab, a.session));
	assert_false(lab_traced(lab, "expired"));
	op.end_session.session = b.session; /* of another, without its nonce */
	a = lab_open(lab, 3);
	lab_send_op(&a, &op);
	assert_true(lab_closed(lab, a.conn) && lives(lab, b.session));
	a = lab_open(lab, 4);
	op.end_session.cause = SESSION_EXPIRED;
	op.end_session.nonce = (struct bytes){b.nonce, sizeof b.nonce};
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	assert_false(lives(lab, b.session));
	op.end_session.session = a.session; /* one's own, with the delay of its locks */
	op.end_session.nonce = (struct bytes){a.nonce, sizeof a.nonce};
	assert_int_equal(lab_call(&a, &op, NULL), RC_OK);
	assert_false(lives(lab, a.session));
	assert_true(lab_traced(lab, "expired"));
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_open),
	    cmocka_unit_test(test_open_again),
	    cmocka_unit_test(test_newest_connection),
	    cmocka_unit_test(test_attach_needs_nonce),
	    cmocka_unit_test(test_attach_needs_principal),
	    cmocka_unit_test(test_breaches),
	    cmocka_unit_test(test_earlier_session),
	    cmocka_unit_test(test_keepalive),
	    cmocka_unit_test(test_keepalive_repeated),
	    cmocka_unit_test(test_expiry),
	    cmocka_unit_test(test_disconnect_while_held),
	    cmocka_unit_test(test_attach_after_end),
	    cmocka_unit_test(test_late_keepalive),
	    cmocka_unit_test(test_pause),
	    cmocka_unit_test(test_disconnect),
	    cmocka_unit_test(test_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
