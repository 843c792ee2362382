/* The client against a hand-played replica: every frame it sends is looked at, every one it gets is
 * made here. */
#ifndef LSFS_TESTS_CLIENT_PLAY_H
#define LSFS_TESTS_CLIENT_PLAY_H

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

static inline void
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

static inline void
step(struct play *p, struct client_event event)
{
	event.now = p->now;
	client_step(p->client, &event, &p->update);
	take_frames(p);
}

static inline void
step_kind(struct play *p, enum client_event_kind kind)
{
	step(p, (struct client_event){.kind = kind});
}

static inline void
receive(struct play *p, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME + 4);

	wire_put_frame(&frame, m);
	assert_false(frame.failed);
	step(p, (struct client_event){.kind = CLIENT_FRAME, .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

static inline void
request(struct play *p, uint64_t token, struct op op)
{
	step(p, (struct client_event){.kind = CLIENT_REQUEST,
	                              .request = client_request_new(token, &op, false)});
}

static inline void
wait_ms(struct play *p, int64_t ms)
{
	p->now = mono_add(p->now, span_ms(ms));
	step_kind(p, CLIENT_TIMEOUT);
}

/* Lets time run from deadline to deadline until the client wants a connection. */
static inline void
until_connect(struct play *p)
{
	for (int i = 0; i < 100 && !p->update.connect; i++) {
		p->now = mono_max(p->now, client_deadline(p->client));
		step_kind(p, CLIENT_TIMEOUT);
	}
	assert_true(p->update.connect);
}

static inline void
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

static inline uint64_t
last_sequence(const struct play *p)
{
	for (size_t i = p->sent_n; i-- > 0;) {
		if (p->sent[i].m.code == MSG_keepalive)
			return p->sent[i].m.keepalive.sequence;
	}
	fail_msg("no keepalive was sent");
	return 0;
}

static inline void
keepalive_reply(struct play *p, enum rc rc, uint64_t sequence, uint32_t lease_ms)
{
	struct message m = {.code = MSG_keepalive_reply,
	                    .keepalive_reply = {.rc = (uint8_t)rc, .epoch = EPOCH,
	                                        .sequence = sequence, .lease_ms = lease_ms}};

	receive(p, &m);
}

static inline void
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

static inline void
granted(struct play *p, enum rc rc, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct message m = {.code = MSG_granted,
	                    .granted = {.rc = (uint8_t)rc, .node = node, .owner = owner,
	                                .acquisition = acquisition, .lock_generation = 5,
	                                .fence = 50}};

	receive(p, &m);
}

static inline enum client_state
state(const struct play *p)
{
	return client_status(p->client).state;
}

static inline const struct message *
redirect_to(uint8_t master, uint64_t epoch)
{
	static struct message m;

	m = (struct message){.code = MSG_redirect, .redirect = {.epoch = epoch, .master = master}};
	return &m;
}

/* A message on the second connection. */
static inline void
receive_aside(struct play *p, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME + 4);

	wire_put_frame(&frame, m);
	step(p, (struct client_event){
		    .kind = CLIENT_FRAME, .standby = true, .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

static inline struct client_config
config(void)
{
	return (struct client_config){.host = "here", .grace = span_ms(DEFAULT_GRACE_MS),
	                              .drift_permille = 10, .seed = 1, .nonce = "0123456789abcde"};
}

static inline struct client_config
three(void)
{
	struct client_config with = config();

	with.replicas_n = 3;
	for (int i = 0; i < 3; i++)
		with.replicas[i] = (uint8_t)(i + 1);
	return with;
}

static inline struct play *
play_new(struct client_config with)
{
	struct play *p = memory_zero(1, sizeof *p);

	p->now = (mono_t){1000000000};
	p->client = client_new(&with, p->now);
	until_connect(p);
	return p;
}

/* Connected, opened, and safe; the KeepAlive of `*sequence` is under way. */
static inline struct play *
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

static inline struct play *
play_safe(uint64_t *sequence)
{
	return play_safe_of(config(), sequence);
}

static inline void
reconnect(struct play *p)
{
	step_kind(p, CLIENT_DISCONNECTED);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	assert_int_equal(p->sent_n, 1);
	assert_int_equal(p->sent[0].m.code, MSG_open_session);
	opened(p, RC_OK, SESSION, EPOCH);
}

static inline void
play_free(struct play *p)
{
	client_free(p->client);
	client_update_free(&p->update);
	free((void *)p->frames.data);
	free(p);
}

static inline struct op
get_attr(uint64_t node)
{
	return (struct op){.code = OP_get_attr, .get_attr = {.node = node}};
}

static inline struct op
acquire(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	return (struct op){.code = OP_acquire,
	                   .acquire = {.acquire = {.node = node, .owner = owner, .wait = 1,
	                                           .acquisition = acquisition,
	                                           .mode = LOCK_EXCLUSIVE, .delay_s = -1}}};
}

static inline struct op
release(uint64_t node, uint64_t owner, uint64_t acquisition)
{
	return (struct op){.code = OP_release,
	                   .release = {.node = node, .owner = owner, .acquisition = acquisition}};
}

static __attribute__((unused)) const struct result attr_result = {
    .kind = RESULT_attr, .attr = {.attr = {.node = 9}}};
static __attribute__((unused)) const struct result queued_result = {
    .kind = RESULT_acquired, .acquired = {.ticket = {.epoch = EPOCH, .place = 11}}};
static __attribute__((unused)) const struct result acquired_result = {
    .kind = RESULT_acquired, .acquired = {.lock_generation = 4, .fence = 44}};

#endif
