/* The client against a hand-played replica: every frame it sends is looked at, every one it gets is
 * made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "cell/base/memory.h"
#include "cell/client/client.h"

enum { SESSION = 7, EPOCH = 3, LEASE_MS = 12000 };

struct sent {
	struct message m;
	struct op op; /* of a request */
};

struct play {
	struct client *client;
	struct client_update update;
	mono_t now;
	struct bytes frames; /* a copy of what the last step sent */
	struct sent sent[2048];
	size_t sent_n;
};

static void
take_frames(struct play *p)
{
	struct bytes rest;

	free((void *)p->frames.data);
	p->frames = bytes_copy(buffer_view(&p->update.frames));
	p->sent_n = 0;
	rest = p->frames;
	while (rest.len > 0) {
		long len = wire_frame_length(rest);
		struct sent *s = &p->sent[p->sent_n++];

		assert_true(len > 0 && p->sent_n < 2048);
		assert_int_equal(wire_get_frame((struct bytes){rest.data, (size_t)len}, &s->m),
		                 RC_OK);
		if (s->m.code == MSG_request)
			assert_int_equal(wire_get_op(s->m.request.op, &s->op), RC_OK);
		rest.data += len;
		rest.len -= (size_t)len;
	}
}

static void
step(struct play *p, struct client_event event)
{
	event.now = p->now;
	client_step(p->client, &event, &p->update);
	take_frames(p);
}

static void
step_kind(struct play *p, enum client_event_kind kind)
{
	step(p, (struct client_event){.kind = kind});
}

static void
receive(struct play *p, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME + 4);

	wire_put_frame(&frame, m);
	assert_false(frame.failed);
	step(p, (struct client_event){.kind = CLIENT_FRAME, .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

static void
request(struct play *p, uint64_t token, struct op op)
{
	step(p, (struct client_event){.kind = CLIENT_REQUEST, .token = token, .op = &op});
}

static void
wait_ms(struct play *p, int64_t ms)
{
	p->now = mono_add(p->now, span_ms(ms));
	step_kind(p, CLIENT_TIMEOUT);
}

/* Lets time run from deadline to deadline until the client wants a connection. */
static void
until_connect(struct play *p)
{
	for (int i = 0; i < 100 && !p->update.connect; i++) {
		p->now = mono_max(p->now, client_deadline(p->client));
		step_kind(p, CLIENT_TIMEOUT);
	}
	assert_true(p->update.connect);
}

static void
opened(struct play *p, enum rc rc, uint64_t session, uint64_t epoch)
{
	struct message m = {.code = MSG_session_opened,
	                    .session_opened = {.rc = (uint8_t)rc,
	                                       .session = session,
	                                       .epoch = epoch,
	                                       .master = 1,
	                                       .principal = bytes_of("admin")}};

	receive(p, &m);
}

static uint64_t
last_sequence(const struct play *p)
{
	for (size_t i = p->sent_n; i-- > 0;) {
		if (p->sent[i].m.code == MSG_keepalive)
			return p->sent[i].m.keepalive.sequence;
	}
	fail_msg("no keepalive was sent");
	return 0;
}

static void
keepalive_reply(struct play *p, enum rc rc, uint64_t sequence, uint32_t lease_ms)
{
	struct message m = {.code = MSG_keepalive_reply,
	                    .keepalive_reply = {.rc = (uint8_t)rc, .epoch = EPOCH,
	                                        .sequence = sequence, .lease_ms = lease_ms}};

	receive(p, &m);
}

static void
reply(struct play *p, uint64_t number, enum rc rc, const struct result *result)
{
	struct buffer encoded = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_reply,
	                    .reply = {.number = number, .rc = (uint8_t)rc, .index = 40 + number}};

	if (result != NULL)
		wire_put_result(&encoded, result);
	m.reply.result = buffer_view(&encoded);
	receive(p, &m);
	buffer_free(&encoded);
}

static void
granted(struct play *p, enum rc rc, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct message m = {.code = MSG_granted,
	                    .granted = {.rc = (uint8_t)rc, .node = node, .owner = owner,
	                                .acquisition = acquisition, .lock_generation = 5,
	                                .fence = 50}};

	receive(p, &m);
}

static enum client_state
state(const struct play *p)
{
	return client_status(p->client).state;
}

static const struct message *
redirect_to(uint8_t master, uint64_t epoch)
{
	static struct message m;

	m = (struct message){.code = MSG_redirect, .redirect = {.epoch = epoch, .master = master}};
	return &m;
}

/* A message on the second connection. */
static void
receive_aside(struct play *p, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME + 4);

	wire_put_frame(&frame, m);
	step(p, (struct client_event){
		    .kind = CLIENT_FRAME, .aside = true, .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

static struct client_config
config(void)
{
	return (struct client_config){.host = "here", .grace = span_ms(DEFAULT_GRACE_MS),
	                              .drift_permille = 10, .seed = 1, .nonce = "0123456789abcde"};
}

static struct client_config
three(void)
{
	struct client_config with = config();

	with.replicas_n = 3;
	for (int i = 0; i < 3; i++)
		with.replicas[i] = (uint8_t)(i + 1);
	return with;
}

static struct play *
play_new(struct client_config with)
{
	struct play *p = memory_zero(1, sizeof *p);

	p->now = (mono_t){1000000000};
	p->client = client_new(&with, p->now);
	until_connect(p);
	return p;
}

/* Connected, opened, and safe; the KeepAlive of `*sequence` is under way. */
static struct play *
play_safe_of(struct client_config with, uint64_t *sequence)
{
	struct play *p = play_new(with);

	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	*sequence = last_sequence(p);
	assert_int_equal(state(p), CLIENT_SAFE);
	return p;
}

static struct play *
play_safe(uint64_t *sequence)
{
	return play_safe_of(config(), sequence);
}

static void
reconnect(struct play *p)
{
	step_kind(p, CLIENT_DISCONNECTED);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].m.code, MSG_open_session);
	opened(p, RC_OK, SESSION, EPOCH);
}

static void
play_free(struct play *p)
{
	client_free(p->client);
	client_update_free(&p->update);
	free((void *)p->frames.data);
	free(p);
}

static struct op
get_attr(uint64_t node)
{
	return (struct op){.code = OP_get_attr, .get_attr = {.node = node}};
}

static struct op
acquire(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	return (struct op){.code = OP_acquire,
	                   .acquire = {.acquire = {.node = node, .owner = owner, .wait = 1,
	                                           .acquisition = acquisition,
	                                           .mode = LOCK_EXCLUSIVE, .delay_s = -1}}};
}

static struct op
release(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	return (struct op){.code = OP_release,
	                   .release = {.node = node, .owner = owner, .acquisition = acquisition}};
}

static const struct result attr_result = {.kind = RESULT_attr, .attr = {.attr = {.node = 9}}};
static const struct result queued_result = {
    .kind = RESULT_acquired, .acquired = {.ticket = {.epoch = EPOCH, .place = 11}}};
static const struct result acquired_result = {
    .kind = RESULT_acquired, .acquired = {.lock_generation = 4, .fence = 44}};

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

	(void)unused;
	until_connect(p);
	assert_int_equal(state(p), CLIENT_SAFE);
	assert_in_range(mono_since(client_status(p->client).lease_end, p->now).ns, 1,
	                span_ms(4000).ns);
	play_free(p);
}

/* Whoever says that it is not the master is left for the one that it names, at once. */
static void
test_redirect(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	uint8_t first, other;

	(void)unused;
	step_kind(p, CLIENT_DISCONNECTED);
	until_connect(p);
	first = p->update.replica;
	other = first % 3 + 1;
	step_kind(p, CLIENT_CONNECTED);
	receive(p, redirect_to(other, EPOCH + 1));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, other);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH - 1); /* a master of an earlier epoch */
	assert_int_equal(p->sent_n, 0);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH + 1);
	assert_int_equal(client_status(p->client).epoch, EPOCH + 1);
	play_free(p);
}

/* ---- several replicas ---- */

/* The one that was lost, then each in turn, quickly; then with growing pauses. */
static void
test_replicas_in_turn(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	uint8_t tried[7];
	mono_t start = p->now;

	(void)unused;
	for (int i = 0; i < 7; i++) {
		step_kind(p, CLIENT_DISCONNECTED);
		until_connect(p);
		tried[i] = p->update.replica;
	}
	assert_in_range(mono_since(p->now, start).ns, 1, span_ms(3 * 10 + 3 * 20 + 40).ns);
	for (int i = 1; i < 7; i++)
		assert_int_equal(tried[i], tried[i - 1] % 3 + 1);
	play_free(p);
}

/* Nobody waits long for a replica that does not answer while there are others. */
static void
test_next_after_a_silent_one(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first = p->update.replica;
	mono_t start = p->now;

	(void)unused;
	step_kind(p, CLIENT_TIMEOUT);
	until_connect(p);
	assert_true(p->update.replica != first);
	step_kind(p, CLIENT_CONNECTED); /* opens, and hears nothing */
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH); /* and this one has no lease to give */
	until_connect(p);
	assert_in_range(mono_since(p->now, start).ns, 1, span_ms(3 * 500 + 3 * 20).ns);
	play_free(p);
}

/* Those who take each other for the master are not asked without a pause for ever. */
static void
test_hints_in_a_circle(void **unused)
{
	struct play *p = play_new(three());
	mono_t start = p->now;

	(void)unused;
	for (int i = 0; i < 20; i++) {
		uint8_t other = p->update.replica % 3 + 1;

		step_kind(p, CLIENT_CONNECTED);
		receive(p, redirect_to(other, EPOCH));
		until_connect(p);
		assert_int_equal(p->update.replica, other);
	}
	assert_true(mono_since(p->now, start).ns > span_ms(500).ns);
	play_free(p);
}

/* A second connection goes to another replica than the first, and to each of them alike. */
static void
test_second_connection(void **unused)
{
	unsigned by_replica[4] = {0};

	(void)unused;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct client_config with = three();
		struct play *p;
		uint8_t first;

		with.seed = seed;
		p = play_new(with);
		first = p->update.replica;
		assert_false(p->update.listen);
		step_kind(p, CLIENT_CONNECTED);
		opened(p, RC_OK, SESSION, EPOCH);
		assert_true(p->update.listen);
		assert_true(p->update.listen_to != first && p->update.listen_to != 0);
		by_replica[p->update.listen_to]++;
		step_kind(p, CLIENT_TIMEOUT);
		assert_false(p->update.listen);
		play_free(p);
	}
	for (int i = 1; i <= 3; i++)
		assert_in_range(by_replica[i], 70, 130);
}

static void
test_second_connection_breaks(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first;

	(void)unused;
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	for (int i = 0; i < 5; i++) {
		mono_t broke = p->now;

		first = p->update.listen_to;
		step(p, (struct client_event){.kind = CLIENT_DISCONNECTED, .aside = true});
		for (int j = 0; j < 10 && !p->update.listen; j++) {
			p->now = client_deadline(p->client);
			step_kind(p, CLIENT_TIMEOUT);
		}
		assert_true(p->update.listen && p->update.listen_to != first);
		assert_in_range(mono_since(p->now, broke).ns, 0, span_ms(50 << i).ns);
		assert_int_equal(state(p), CLIENT_SAFE);
	}
	play_free(p);
}

/* A master that stands still is left as soon as another one is announced. */
static void
test_announcement(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first = p->update.replica, next = first % 3 + 1;

	(void)unused;
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	request(p, 1, get_attr(9));
	receive_aside(p, redirect_to(0, EPOCH)); /* knows nobody */
	receive_aside(p, redirect_to(next, EPOCH - 1)); /* has slept */
	receive_aside(p, redirect_to(first, EPOCH)); /* says what we know */
	receive_aside(p, redirect_to(9, EPOCH)); /* is none of ours */
	assert_int_equal(client_status(p->client).in_flight, 1);
	assert_false(p->update.connect);
	receive_aside(p, redirect_to(next, EPOCH));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, next);
	receive_aside(p, redirect_to(first, EPOCH)); /* has not heard of it yet */
	assert_false(p->update.connect);
	reply(p, 1, RC_OK, &attr_result); /* from the one that was left */
	assert_int_equal(p->update.answers_n, 0);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH + 1);
	assert_int_equal(p->sent[1].m.code, MSG_request);
	assert_int_equal(p->sent[1].m.request.epoch, EPOCH + 1);
	receive_aside(p, redirect_to(next, EPOCH + 1));
	assert_false(p->update.connect);
	/* The same one again, in a later epoch. */
	receive_aside(p, redirect_to(next, EPOCH + 2));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, next);
	play_free(p);
}

/* What is announced while a pause is waited for ends it. */
static void
test_announcement_in_a_pause(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);

	(void)unused;
	for (int i = 0; i < 12; i++) {
		step_kind(p, CLIENT_DISCONNECTED);
		if (i < 11)
			until_connect(p);
	}
	assert_false(p->update.connect);
	receive_aside(p, redirect_to(2, EPOCH + 1));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, 2);
	play_free(p);
}

/* A KeepAlive's answer from another epoch than the session was opened in renews nothing. */
static void
test_lease_of_an_old_epoch(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	mono_t end;
	struct message m = {.code = MSG_keepalive_reply};

	(void)unused;
	reconnect(p);
	end = client_status(p->client).lease_end;
	m.keepalive_reply = (struct msg_keepalive_reply){.rc = RC_OK, .epoch = EPOCH - 1,
	                                                 .sequence = last_sequence(p),
	                                                 .lease_ms = 60000};
	receive(p, &m);
	assert_int_equal(client_status(p->client).lease_end.ns, end.ns);
	until_connect(p);
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

static void
test_in_flight_is_bounded(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++)
		request(p, i, get_attr(i));
	request(p, 1000, get_attr(1000));
	request(p, 1001, get_attr(1001));
	assert_int_equal(p->sent_n, 0);
	assert_int_equal(client_status(p->client).queued, 2);
	/* A release goes past the queue, but not past a request on its own node. */
	request(p, 1002, release(1001, 1, 1));
	assert_int_equal(p->sent_n, 0);
	request(p, 1003, release(2000, 1, 2));
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.release.node, 2000);
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].op.get_attr.node, 1000);
	reply(p, 2, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 2);
	assert_int_equal(p->sent[0].op.get_attr.node, 1001);
	assert_int_equal(p->sent[1].op.release.node, 1001);
	play_free(p);
}

static void
test_ordered_holds_the_rest(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe(&sequence);
	struct op op = get_attr(1000);

	(void)unused;
	for (uint64_t i = 1; i <= LIMIT_IN_FLIGHT; i++)
		request(p, i, get_attr(i));
	step(p, (struct client_event){
		    .kind = CLIENT_REQUEST, .token = 1000, .op = &op, .ordered = true});
	request(p, 1001, release(2000, 1, 1));
	assert_int_equal(p->sent_n, 0);
	reply(p, 1, RC_OK, &attr_result);
	assert_int_equal(p->sent_n, 2);
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

/* A cancel that was answered is known to nobody but the master that answered it: the acquire that it
 * took back, unanswered itself, must not come to another one. */
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
	    cmocka_unit_test(test_earlier_run_is_ended),
	    cmocka_unit_test(test_retry_is_bounded),
	    cmocka_unit_test(test_silence),
	    cmocka_unit_test(test_redirect),
	    cmocka_unit_test(test_replicas_in_turn),
	    cmocka_unit_test(test_next_after_a_silent_one),
	    cmocka_unit_test(test_hints_in_a_circle),
	    cmocka_unit_test(test_second_connection),
	    cmocka_unit_test(test_second_connection_breaks),
	    cmocka_unit_test(test_announcement),
	    cmocka_unit_test(test_announcement_in_a_pause),
	    cmocka_unit_test(test_lease_of_an_old_epoch),
	    cmocka_unit_test(test_malformed_drops_the_connection),
	    cmocka_unit_test(test_close),
	    cmocka_unit_test(test_close_is_bounded_by_the_lease),
	    cmocka_unit_test(test_numbers_and_below),
	    cmocka_unit_test(test_sent_again_in_order),
	    cmocka_unit_test(test_in_flight_is_bounded),
	    cmocka_unit_test(test_ordered_holds_the_rest),
	    cmocka_unit_test(test_grant),
	    cmocka_unit_test(test_waits_are_presented_again),
	    cmocka_unit_test(test_cancel_before_the_answer),
	    cmocka_unit_test(test_given_up_is_not_sent_again),
	    cmocka_unit_test(test_held_replies_go_with_their_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
