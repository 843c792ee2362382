/* The client: its session, its requests, what it waits for. */
#include "tests/unit/client_play.h"

/* ---- the session ---- */

static void
test_open(void **unused)
{
	struct play *p = play_new(config());
	struct client_status s;

	(void)unused;
	step_kind(p, CLIENT_CONNECTED);
	assert_int_equal(p->sent[0].m.code, MSG_open_session);
	assert_int_equal(p->sent[0].m.open_session.session, 0);
	assert_int_equal(p->sent[0].m.open_session.earlier, 0);
	assert_memory_equal(p->sent[0].m.open_session.nonce.data, config().nonce, LIMIT_NONCE);
	opened(p, RC_OK, SESSION, EPOCH);
	assert_int_equal(p->sent[0].m.code, MSG_keepalive);
	assert_int_equal(state(p), CLIENT_NEW); /* no lease yet */
	keepalive_reply(p, RC_OK, p->sent[0].m.keepalive.sequence, LEASE_MS);
	assert_int_equal(p->sent[0].m.code, MSG_keepalive); /* one is always under way */
	assert_true(p->update.state_changed);
	s = client_status(p->client);
	assert_int_equal(s.state, CLIENT_SAFE);
	assert_int_equal(s.session, SESSION);
	assert_string_equal(s.principal, "admin");
	play_free(p);
}

/* The lease counts from the sending of the KeepAlive that was answered, less the drift. */
static void
test_lease_counts_from_sending(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	mono_t sent = p->now;

	(void)unused;
	p->now = mono_add(p->now, span_ms(4000));
	keepalive_reply(p, RC_OK, sequence, 16000);
	assert_int_equal(client_status(p->client).lease_end.ns,
	                 mono_add(sent, span_ms(16000 - 160)).ns);
	keepalive_reply(p, RC_OK, sequence, 60000); /* the same again: an old one */
	assert_int_equal(client_status(p->client).lease_end.ns,
	                 mono_add(sent, span_ms(16000 - 160)).ns);
	play_free(p);
}

static void
test_jeopardy_answers_nothing(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, get_attr(9));
	request(p, 2, acquire(9, 1, 1));
	assert_int_equal(p->sent_n, 1);
	/* The daemon slept; what lay in its socket comes after the lease has run out. */
	p->now = mono_add(p->now, span_ms(11880));
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(state(p), CLIENT_JEOPARDY);
	assert_int_equal(p->update.answers_n, 0);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	reply(p, 1, RC_OK, &attr_result);
	reply(p, 2, RC_QUEUED, &queued_result);
	granted(p, RC_OK, 9, 1, 1);
	assert_int_equal(p->update.answers_n + p->update.grants_n, 0);
	keepalive_reply(p, RC_OK, sequence + 1, LEASE_MS);
	assert_int_equal(state(p), CLIENT_SAFE);
	assert_int_equal(p->update.answers_n, 2);
	assert_int_equal(p->update.answers[0].token, 1);
	assert_int_equal(p->update.answers[0].index, 41);
	assert_int_equal(p->update.answers[0].result.attr.attr.node, 9);
	assert_int_equal(p->update.answers[1].rc, RC_QUEUED);
	assert_int_equal(p->update.grants_n, 1);
	assert_int_equal(p->update.grants[0].fence, 50);
	play_free(p);
}

static void
test_grace_over(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	uint8_t nonce[LIMIT_NONCE];

	(void)unused;
	memcpy(nonce, client_status(p->client).nonce, LIMIT_NONCE);
	request(p, 1, acquire(9, 1, 1));
	reply(p, 1, RC_QUEUED, &queued_result);
	request(p, 2, get_attr(9));
	wait_ms(p, 11880);
	assert_int_equal(state(p), CLIENT_JEOPARDY);
	request(p, 3, get_attr(9));
	wait_ms(p, DEFAULT_GRACE_MS - 1);
	assert_int_equal(state(p), CLIENT_JEOPARDY);
	wait_ms(p, 1);
	assert_int_equal(state(p), CLIENT_EXPIRED);
	assert_int_equal(p->update.answers_n, 2);
	assert_int_equal(p->update.answers[0].rc, RC_STALE);
	assert_int_equal(p->update.answers[1].token, 3);
	assert_int_equal(p->update.grants_n, 0);
	/* Then another session, the old one ended as expired first; its waits are no more. */
	step_kind(p, CLIENT_DISCONNECTED);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	assert_int_equal(p->sent[0].m.open_session.session, 0);
	assert_int_equal(p->sent[0].m.open_session.earlier, SESSION);
	assert_memory_equal(p->sent[0].m.open_session.earlier_nonce.data, nonce, LIMIT_NONCE);
	assert_memory_not_equal(p->sent[0].m.open_session.nonce.data, nonce, LIMIT_NONCE);
	opened(p, RC_OK, SESSION + 1, EPOCH);
	assert_int_equal(state(p), CLIENT_NEW);
	assert_int_equal(p->sent_n, 1);
	request(p, 4, get_attr(9));
	assert_int_equal(p->sent[0].m.request.number, 1);
	assert_int_equal(p->sent[0].m.request.session, SESSION + 1);
	play_free(p);
}

static void
test_cell_says_ended(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, get_attr(9));
	keepalive_reply(p, RC_NO_SESSION, sequence, 0);
	assert_int_equal(state(p), CLIENT_EXPIRED);
	assert_int_equal(p->update.answers[0].rc, RC_STALE);
	assert_int_equal(p->sent[0].m.code, MSG_open_session); /* at once, on this connection */
	assert_int_equal(p->sent[0].m.open_session.session, 0);
	assert_int_equal(p->sent[0].m.open_session.earlier, 0);
	opened(p, RC_OK, SESSION + 1, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	assert_int_equal(state(p), CLIENT_SAFE);
	play_free(p);
}

static void
test_no_session_for_a_grace_period(void **unused)
{
	struct play *p = play_new(config());

	(void)unused;
	request(p, 1, get_attr(9));
	wait_ms(p, DEFAULT_GRACE_MS - 1);
	assert_int_equal(p->update.answers_n, 0);
	wait_ms(p, 1);
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->update.answers[0].rc, RC_IO);
	assert_int_equal(state(p), CLIENT_EXPIRED);
	request(p, 2, get_attr(9)); /* at once, from here on */
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->update.answers[0].rc, RC_IO);
	play_free(p);
}

/* After the grace period calls fail at once; when the cell is back they work, and wait again. */
static void
test_requests_of_an_expired_client(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	step_kind(p, CLIENT_DISCONNECTED);
	wait_ms(p, LEASE_MS);
	wait_ms(p, DEFAULT_GRACE_MS);
	assert_int_equal(state(p), CLIENT_EXPIRED);
	request(p, 1, get_attr(9));
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->update.answers[0].rc, RC_IO);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION + 1, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	assert_int_equal(state(p), CLIENT_SAFE);
	request(p, 2, get_attr(9));
	assert_int_equal(p->update.answers_n, 0);
	play_free(p);
}

static void
test_earlier_run_is_ended(void **unused)
{
	struct client_config with = config();
	struct play *p;

	(void)unused;
	with.earlier_session = 5;
	memset(with.earlier_nonce, 'x', LIMIT_NONCE);
	p = play_new(with);
	for (int i = 0; i < 2; i++) { /* again as long as there is no answer */
		step_kind(p, CLIENT_CONNECTED);
		assert_int_equal(p->sent[0].m.open_session.earlier, 5);
		step_kind(p, CLIENT_DISCONNECTED);
		until_connect(p);
	}
	play_free(p);
}

static void
test_retry_is_bounded(void **unused)
{
	struct play *p = play_new(config());
	mono_t last = p->now;

	(void)unused;
	for (int i = 0; i < 20; i++) {
		int64_t most = i < 7 ? 10 << i : 1000;

		step_kind(p, CLIENT_DISCONNECTED);
		until_connect(p);
		assert_in_range(mono_since(p->now, last).ns, span_ms(most).ns / 2,
		                span_ms(most).ns);
		last = p->now;
	}
	play_free(p);
}

/* A master that holds the connection and says nothing is given up before the lease is over. */
static void
test_silence(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	struct message held = {
	    .code = MSG_keepalive_reply,
	    .keepalive_reply = {.rc = RC_OK, .epoch = EPOCH, .lease_ms = LEASE_MS / 3 + LEASE_MS,
	                        .held_ms = LEASE_MS / 3}};
	mono_t sent;

	(void)unused;
	wait_ms(p, LEASE_MS / 3);
	held.keepalive_reply.sequence = sequence;
	receive(p, &held);
	sent = p->now;
	until_connect(p);
	assert_in_range(mono_since(p->now, sent).ns, span_ms(LEASE_MS / 3 * 2).ns,
	                span_ms(LEASE_MS / 3 * 2 + 100).ns);
	assert_int_equal(state(p), CLIENT_SAFE);
	assert_in_range(mono_since(client_status(p->client).lease_end, p->now).ns, 1,
	                span_ms(4000).ns);
	play_free(p);
}

static void
test_malformed_drops_the_connection(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	static const uint8_t bad[] = {3, 0, 0, 0, 6, 1, 2};

	(void)unused;
	request(p, 1, get_attr(9));
	step(p, (struct client_event){.kind = CLIENT_FRAME, .frame = {bad, sizeof bad}});
	reply(p, 1, RC_OK, &attr_result); /* still from the connection that was given up */
	assert_int_equal(p->update.answers_n, 0);
	until_connect(p);
	play_free(p);
}

static void
test_close(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, get_attr(9));
	step_kind(p, CLIENT_CLOSE);
	assert_int_equal(p->sent_n, 0); /* not before what was asked for is answered */
	request(p, 2, get_attr(9));
	assert_int_equal(p->update.answers[0].rc, RC_STALE);
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.code, OP_end_session);
	assert_int_equal(p->sent[0].op.end_session.cause, SESSION_CLOSED);
	assert_int_equal(p->sent[0].op.end_session.session, SESSION);
	reply(p, 2, RC_OK, &(struct result){.kind = RESULT_none});
	assert_int_equal(state(p), CLIENT_CLOSED);
	assert_true(mono_is_never(client_deadline(p->client)));
	play_free(p);
}

static void
test_close_as_expired(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	step(p, (struct client_event){.kind = CLIENT_CLOSE, .as_expired = true});
	assert_int_equal(p->sent[0].op.code, OP_end_session);
	assert_int_equal(p->sent[0].op.end_session.cause, SESSION_EXPIRED);
	assert_int_equal(p->sent[0].op.end_session.nonce.len, LIMIT_NONCE);
	play_free(p);
}

static void
test_close_is_bounded_by_the_lease(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	mono_t end = client_status(p->client).lease_end;

	(void)unused;
	request(p, 1, get_attr(9));
	step_kind(p, CLIENT_CLOSE);
	p->now = end;
	step_kind(p, CLIENT_TIMEOUT);
	assert_int_equal(state(p), CLIENT_CLOSED);
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->update.answers[0].rc, RC_STALE);
	play_free(p);
}

/* ---- requests ---- */

static void
test_numbers_and_below(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= 3; i++) {
		request(p, 100 + i, get_attr(9));
		assert_int_equal(p->sent[0].m.request.number, i);
		assert_int_equal(p->sent[0].m.request.below, 1);
	}
	reply(p, 2, RC_OK, &attr_result);
	assert_int_equal(p->update.answers[0].token, 102);
	reply(p, 2, RC_OK, &attr_result); /* twice */
	assert_int_equal(p->update.answers_n, 0);
	request(p, 104, get_attr(9));
	assert_int_equal(p->sent[0].m.request.below, 1);
	reply(p, 1, RC_NOENT, NULL);
	assert_int_equal(p->update.answers[0].rc, RC_NOENT);
	request(p, 105, get_attr(9));
	assert_int_equal(p->sent[0].m.request.below, 3);
	play_free(p);
}

static void
test_sent_again_in_order(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= 4; i++)
		request(p, i, get_attr(i));
	reply(p, 2, RC_OK, &attr_result);
	step_kind(p, CLIENT_DISCONNECTED);
	request(p, 5, get_attr(5)); /* waits for the connection */
	assert_int_equal(p->sent_n, 0);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	assert_int_equal(p->sent_n, 5);
	assert_int_equal(p->sent[0].m.code, MSG_keepalive);
	for (size_t i = 1; i < 5; i++) {
		static const uint64_t numbers[] = {0, 1, 3, 4, 5};

		assert_int_equal(p->sent[i].m.request.number, numbers[i]);
		assert_int_equal(p->sent[i].op.get_attr.node, numbers[i]);
		assert_int_equal(p->sent[i].m.request.below, 1);
	}
	play_free(p);
}

static struct op
touch(uint64_t node)
{
	return (struct op){.code = OP_set_mtime, .set_mtime = {.node = node, .now = 1}};
}

static void
test_in_flight_is_bounded(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++)
		request(p, i, touch(i));
	request(p, 1000, touch(1000));
	request(p, 1001, touch(1001));
	assert_int_equal(p->sent_n, 0);
	assert_int_equal(client_status(p->client).queued, 2);
	/* A release goes past the queue, but not past a command on its own node. */
	request(p, 1002, release(1001, 1, 1));
	assert_int_equal(p->sent_n, 0);
	request(p, 1003, release(2000, 1, 2));
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.release.node, 2000);
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.set_mtime.node, 1000);
	reply(p, 2, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 2);
	assert_int_equal(p->sent[0].op.set_mtime.node, 1001);
	assert_int_equal(p->sent[1].op.release.node, 1001);
	play_free(p);
}

/* However many commands are under way or wait, a read goes, as long as there are not too many. */
static void
test_reads_have_slots_of_their_own(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT + 10; i++)
		request(p, i, touch(1));
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++) {
		request(p, 1000 + i, get_attr(1));
		assert_int_equal(p->sent_n, 1);
	}
	request(p, 2000, get_attr(1));
	assert_int_equal(p->sent_n, 0);
	assert_int_equal(client_status(p->client).queued, 11);
	reply(p, LIMIT_IN_FLIGHT + 1, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.code, OP_get_attr);
	play_free(p);
}

static void
test_urgent_requests_are_bounded(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_URGENT; i++)
		request(p, i, release(i, 1, 1));
	request(p, 1000, release(1000, 1, 1));
	assert_int_equal(p->sent_n, 0);
	request(p, 1001, get_attr(1000));
	assert_int_equal(p->sent_n, 1);
	reply(p, 1, RC_OK, &(struct result){.kind = RESULT_none});
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.release.node, 1000);
	play_free(p);
}

/* Numbers do not run away from the oldest request that is not answered. */
static void
test_numbers_have_a_window(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, touch(1));
	for (uint64_t i = 2; i <= LIMIT_NUMBERS; i++) {
		request(p, i, get_attr(1));
		reply(p, i, RC_OK, &attr_result);
	}
	request(p, 5000, get_attr(1));
	request(p, 5001, release(1, 1, 1));
	assert_int_equal(p->sent_n, 0);
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 2);
	assert_int_equal(p->sent[0].m.request.number, LIMIT_NUMBERS + 1);
	play_free(p);
}

static struct op
set_contents(uint64_t node, struct bytes contents)
{
	return (struct op){.code = OP_set_contents,
	                   .set_contents = {.node = node, .contents = contents}};
}

/* What is sent again on a new connection is no more than a connection takes. */
static void
test_bytes_in_flight_are_bounded(void **unused)
{
	static const uint8_t zeros[LIMIT_CONTENTS];
	const struct bytes contents = {zeros, sizeof zeros};
	const size_t most = LIMIT_WINDOW / LIMIT_CONTENTS - 1; /* an operation is a little more */
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	size_t sent = 0;

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++) {
		request(p, i, set_contents(i, contents));
		sent += p->sent_n;
	}
	assert_int_equal(sent, most);
	assert_int_equal(client_status(p->client).queued, LIMIT_IN_FLIGHT - most);
	request(p, 1000, release(2000, 1, 2));
	assert_int_equal(p->sent_n, 1);
	reconnect(p);
	assert_in_range(p->frames.len, LIMIT_CONTENTS * most, LIMIT_WINDOW + 1024);
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT - most; i++) {
		reply(p, i <= most ? i : i + 1, RC_OK, &attr_result); /* the release has a number */
		assert_int_equal(p->sent_n, 1);
		assert_int_equal(p->sent[0].op.set_contents.node, most + i);
	}
	play_free(p);
}

static void
test_ordered_holds_the_rest(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	struct op op = touch(1000);

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++)
		request(p, i, touch(i));
	step(p, (struct client_event){
		    .kind = CLIENT_REQUEST, .request = client_request_new(1000, &op, true)});
	request(p, 1001, release(2000, 1, 1));
	request(p, 1002, get_attr(2000));
	assert_int_equal(p->sent_n, 0);
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 3);
	assert_int_equal(p->sent[0].m.request.ordered, 1);
	play_free(p);
}

/* ---- waiting acquires ---- */

static void
test_grant(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, acquire(9, 1, 1));
	reply(p, 1, RC_QUEUED, &queued_result);
	assert_int_equal(p->update.answers[0].rc, RC_QUEUED);
	granted(p, RC_OK, 9, 1, 2); /* nobody waits for that one */
	assert_int_equal(p->update.grants_n, 0);
	granted(p, RC_OK, 9, 1, 1);
	assert_int_equal(p->update.grants_n, 1);
	granted(p, RC_OK, 9, 1, 1);
	assert_int_equal(p->update.grants_n, 0);
	request(p, 2, acquire(9, 1, 2));
	reply(p, 2, RC_QUEUED, &queued_result);
	granted(p, RC_STALE, 9, 1, 2);
	assert_int_equal(p->update.grants[0].rc, RC_STALE);
	play_free(p);
}

static void
test_waits_are_presented_again(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= 3; i++) {
		request(p, i, acquire(9, i, i));
		reply(p, i, RC_QUEUED, &queued_result);
	}
	request(p, 4, get_attr(9));
	request(p, 5, release(9, 2, 2)); /* given up */
	for (int round = 0; round < 2; round++) { /* unanswered: the same numbers again */
		reconnect(p);
		assert_int_equal(p->sent_n, 5);
		assert_int_equal(p->sent[1].m.request.number, 4);
		assert_int_equal(p->sent[2].m.request.number, 5);
		assert_int_equal(p->sent[3].m.request.number, 6);
		assert_int_equal(p->sent[3].op.acquire.acquire.acquisition, 1);
		assert_int_equal(p->sent[3].op.acquire.acquire.ticket.place, 11);
		assert_int_equal(p->sent[4].op.acquire.acquire.acquisition, 3);
	}
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	reply(p, 6, RC_OK, &acquired_result);
	assert_int_equal(p->update.answers_n, 0);
	assert_int_equal(p->update.grants_n, 1);
	assert_int_equal(p->update.grants[0].fence, 44);
	reply(p, 7, RC_QUEUED, &queued_result);
	assert_int_equal(p->update.answers_n + p->update.grants_n, 0);
	granted(p, RC_OK, 9, 3, 3);
	assert_int_equal(p->update.grants_n, 1);
	play_free(p);
}

static size_t
returned_n(const struct play *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->sent_n; i++)
		n += p->sent[i].m.code == MSG_returned;
	return n;
}

/* KeepAlives may overtake what is sent again; that all of it was sent comes behind it, and behind
 * the tickets, which wait for room. */
static void
test_says_that_all_was_sent_again(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, acquire(8, 1, 1));
	reply(p, 1, RC_QUEUED, &queued_result);
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++)
		request(p, 100 + i, touch(i));
	keepalive_reply(p, RC_OK, sequence, LEASE_MS);
	assert_int_equal(returned_n(p), 0); /* it was said on this connection */
	step_kind(p, CLIENT_DISCONNECTED);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	assert_int_equal(p->sent_n, 1 + LIMIT_IN_FLIGHT);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	assert_int_equal(p->sent_n, 1);
	reply(p, 2, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 2);
	assert_int_equal(p->sent[0].op.code, OP_acquire);
	assert_int_equal(p->sent[1].m.code, MSG_returned);
	assert_int_equal(p->sent[1].m.returned.session, SESSION);
	assert_int_equal(p->sent[1].m.returned.epoch, EPOCH);
	play_free(p);
}

/* A cancel that was sent before the acquire was answered: what comes later is not waited for. */
static void
test_cancel_before_the_answer(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	struct op cancel = {.code = OP_cancel, .cancel = {.node = 9, .owner = 1, .acquisition = 1}};

	(void)unused;
	request(p, 1, acquire(9, 1, 1));
	request(p, 2, cancel);
	reply(p, 1, RC_QUEUED, &queued_result);
	assert_int_equal(p->update.answers[0].rc, RC_QUEUED);
	granted(p, RC_OK, 9, 1, 1);
	assert_int_equal(p->update.grants_n, 0);
	reply(p, 2, RC_OK, &(struct result){.kind = RESULT_none});
	reconnect(p);
	assert_int_equal(p->sent_n, 1);
	play_free(p);
}

/* A cancel that was answered is known to nobody but the master that answered it: the acquire that
 * it took back, unanswered itself, must not come to another one. */
static void
test_given_up_is_not_sent_again(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	struct op cancel = {.code = OP_cancel, .cancel = {.node = 9, .owner = 1, .acquisition = 1}};

	(void)unused;
	request(p, 1, acquire(9, 1, 1));
	request(p, 2, acquire(9, 2, 2));
	request(p, 3, cancel);
	reply(p, 3, RC_OK, &(struct result){.kind = RESULT_none});
	reconnect(p);
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->update.answers[0].token, 1);
	assert_int_equal(p->update.answers[0].rc, RC_INTR);
	assert_int_equal(p->sent_n, 2);
	assert_int_equal(p->sent[1].op.acquire.acquire.owner, 2);
	assert_int_equal(p->sent[1].m.request.below, 2);
	play_free(p);
}

/* What was held in jeopardy and then lost with its connection must not be mistaken for the present:
 * the lock came while we were away. */
static void
test_held_replies_go_with_their_connection(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	request(p, 1, acquire(9, 1, 1));
	p->now = mono_add(p->now, span_ms(7000));
	step_kind(p, CLIENT_DISCONNECTED);
	wait_ms(p, 4880);
	assert_int_equal(state(p), CLIENT_JEOPARDY);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	reply(p, 1, RC_QUEUED, &queued_result); /* held: still in jeopardy */
	reconnect(p);
	reply(p, 1, RC_OK, &acquired_result);
	keepalive_reply(p, RC_OK, sequence + 2, LEASE_MS);
	assert_int_equal(p->update.answers_n, 1);
	assert_int_equal(p->update.answers[0].rc, RC_OK);
	play_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_open),
	    cmocka_unit_test(test_lease_counts_from_sending),
	    cmocka_unit_test(test_jeopardy_answers_nothing),
	    cmocka_unit_test(test_grace_over),
	    cmocka_unit_test(test_cell_says_ended),
	    cmocka_unit_test(test_no_session_for_a_grace_period),
	    cmocka_unit_test(test_requests_of_an_expired_client),
	    cmocka_unit_test(test_earlier_run_is_ended),
	    cmocka_unit_test(test_retry_is_bounded),
	    cmocka_unit_test(test_silence),
	    cmocka_unit_test(test_malformed_drops_the_connection),
	    cmocka_unit_test(test_close),
	    cmocka_unit_test(test_close_as_expired),
	    cmocka_unit_test(test_close_is_bounded_by_the_lease),
	    cmocka_unit_test(test_numbers_and_below),
	    cmocka_unit_test(test_sent_again_in_order),
	    cmocka_unit_test(test_in_flight_is_bounded),
	    cmocka_unit_test(test_reads_have_slots_of_their_own),
	    cmocka_unit_test(test_urgent_requests_are_bounded),
	    cmocka_unit_test(test_numbers_have_a_window),
	    cmocka_unit_test(test_bytes_in_flight_are_bounded),
	    cmocka_unit_test(test_ordered_holds_the_rest),
	    cmocka_unit_test(test_grant),
	    cmocka_unit_test(test_waits_are_presented_again),
	    cmocka_unit_test(test_says_that_all_was_sent_again),
	    cmocka_unit_test(test_cancel_before_the_answer),
	    cmocka_unit_test(test_given_up_is_not_sent_again),
	    cmocka_unit_test(test_held_replies_go_with_their_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
