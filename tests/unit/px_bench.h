/* A bench for one px: the test plays clock, disk and all other replicas. */
#ifndef LSFS_TESTS_PX_BENCH_H
#define LSFS_TESTS_PX_BENCH_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/paxos/px.h"
#include "cell/wire/codec.h"

enum { BENCH_START = 77 };

struct bench {
	struct px *px;
	struct px_update update; /* of the last step */
	mono_t now;
	uint64_t incarnation;
};

static inline struct px_config
bench_config(int members)
{
	struct px_config c = {
		.self = 1,
		.members.n = members,
		.lease = span_ms(500),
		.heartbeat = span_ms(100),
		.drift_permille = 20,
		.start = BENCH_START,
		.seed = 1,
	};

	for (int i = 0; i < members; i++)
		c.members.list[i] = (struct px_member){(uint8_t)(i + 1), true};
	return c;
}

/* A px that has just started: mute, unless it is alone. */
static inline struct bench
bench_mute(const struct px_config *c, const struct px_recovered *recovered)
{
	struct bench b = {.now = {1000000000}, .incarnation = recovered->incarnation};

	b.px = px_new(c, recovered, b.now);
	return b;
}

static inline void
bench_free(struct bench *b)
{
	px_free(b->px);
	px_update_free(&b->update);
}

static inline void
bench_step(struct bench *b, struct px_event e)
{
	e.now = b->now;
	px_step(b->px, &e, &b->update);
}

static inline void
bench_pass(struct bench *b, int64_t ms)
{
	b->now = mono_add(b->now, span_ms(ms));
}

static inline void
bench_receive(struct bench *b, uint8_t from, struct message m)
{
	bench_step(b, (struct px_event){.kind = PX_RECEIVE, .from = from, .message = &m});
}

/* `from` answers the hello of this px. */
static inline void
bench_welcome(struct bench *b, uint8_t from, enum welcome verdict)
{
	bench_receive(b, from, (struct message){.code = MSG_welcome, .welcome = {
		.ballot = {1, 0}, .incarnation = b->incarnation, .start = BENCH_START,
		.verdict = (uint8_t)verdict}});
}

/* A px that all others have welcomed. */
static inline struct bench
bench_of(const struct px_config *c, const struct px_recovered *recovered)
{
	struct bench b = bench_mute(c, recovered);

	for (int i = 0; i < c->members.n; i++)
		if (c->members.list[i].id != c->self)
			bench_welcome(&b, c->members.list[i].id, WELCOME_FINE);
	return b;
}

static inline struct bench
bench_new(int members, const struct px_recovered *recovered)
{
	struct px_config c = bench_config(members);

	return bench_of(&c, recovered);
}

/* The ticket is durable. */
static inline void
bench_persist(struct bench *b, uint64_t ticket)
{
	bench_step(b, (struct px_event){.kind = PX_PERSISTED, .ticket = ticket});
}

static inline void
bench_propose(struct bench *b, const char *payload)
{
	bench_step(b, (struct px_event){.kind = PX_PROPOSE, .payload = bytes_of(payload)});
}

/* Waits until the deadline and lets it pass. */
static inline void
bench_timeout(struct bench *b)
{
	b->now = mono_max(b->now, px_deadline(b->px));
	bench_step(b, (struct px_event){.kind = PX_TIMEOUT});
}

/* The message of this code that the last step sends to `to`, and its ticket; NULL: none. It is a
 * view into the update. */
static inline const struct message *
bench_sent(const struct bench *b, uint8_t to, enum message_code code, uint64_t *after)
{
	static struct message m;

	for (size_t i = 0; i < b->update.sends_n; i++) {
		const struct px_send *s = &b->update.sends[i];

		assert_int_equal(wire_get_frame(s->frame, &m), RC_OK);
		if (s->to != to || m.code != code)
			continue;
		if (after)
			*after = s->after;
		return &m;
	}
	return NULL;
}

/* The last record of this kind in the last update; NULL: none. */
static inline const struct px_record *
bench_record(const struct bench *b, enum px_record_kind kind)
{
	for (size_t i = b->update.records_n; i > 0; i--)
		if (b->update.records[i - 1].kind == kind)
			return &b->update.records[i - 1];
	return NULL;
}

static inline struct log_entry
bench_entry(uint64_t slot, struct ballot ballot, struct ballot origin, const char *payload)
{
	return (struct log_entry){.slot = slot, .ballot = ballot, .origin = origin,
	                          .checksum = checksum(bytes_of(payload)),
	                          .payload = bytes_of(payload)};
}

/* Entries packed as a list; free packed.data. */
static inline struct wire_list
bench_list(const struct log_entry *entries, size_t n)
{
	struct buffer b = BUFFER(LIMIT_FRAME);

	for (size_t i = 0; i < n; i++)
		wire_put_log_entry(&b, &entries[i]);
	return (struct wire_list){buffer_take(&b), (uint32_t)n};
}

static inline void
assert_payload(const struct px *px, uint64_t slot, const char *payload)
{
	assert_true(bytes_equal(px_payload(px, slot), bytes_of(payload)));
}

#endif
