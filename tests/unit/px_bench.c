#include "tests/unit/px_bench.h"

struct px_config
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

struct bench
bench_mute(const struct px_config *c, const struct px_recovered *recovered)
{
	struct bench b = {.now = {1000000000}, .incarnation = recovered->incarnation};

	b.px = px_new(c, recovered, b.now);
	return b;
}

void
bench_free(struct bench *b)
{
	px_free(b->px);
	px_update_free(&b->update);
}

void
bench_step(struct bench *b, struct px_event e)
{
	e.now = b->now;
	px_step(b->px, &e, &b->update);
}

void
bench_pass(struct bench *b, int64_t ms)
{
	b->now = mono_add(b->now, span_ms(ms));
}

void
bench_receive(struct bench *b, uint8_t from, struct message m)
{
	bench_step(b, (struct px_event){.kind = PX_RECEIVE, .from = from, .message = &m});
}

void
bench_welcome(struct bench *b, uint8_t from, enum welcome verdict)
{
	bench_receive(b, from,
	              (struct message){.code = MSG_welcome,
	                               .welcome = {.ballot = {1, 0},
	                                           .incarnation = b->incarnation,
	                                           .start = BENCH_START,
	                                           .verdict = (uint8_t)verdict}});
}

struct bench
bench_of(const struct px_config *c, const struct px_recovered *recovered)
{
	struct bench b = bench_mute(c, recovered);

	for (int i = 0; i < c->members.n; i++)
		if (c->members.list[i].id != c->self)
			bench_welcome(&b, c->members.list[i].id, WELCOME_FINE);
	return b;
}

struct bench
bench_new(int members, const struct px_recovered *recovered)
{
	struct px_config c = bench_config(members);

	return bench_of(&c, recovered);
}

void
bench_persist(struct bench *b, uint64_t ticket)
{
	bench_step(b, (struct px_event){.kind = PX_PERSISTED, .write = ticket});
}

void
bench_propose(struct bench *b, const char *payload)
{
	bench_step(b, (struct px_event){.kind = PX_PROPOSE, .payload = bytes_of(payload)});
}

void
bench_timeout(struct bench *b)
{
	b->now = mono_max(b->now, px_deadline(b->px));
	bench_step(b, (struct px_event){.kind = PX_TIMEOUT});
}

const struct message *
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

struct log_entry
bench_entry(uint64_t slot, struct ballot ballot, struct ballot origin, const char *payload)
{
	return (struct log_entry){.slot = slot,
	                          .ballot = ballot,
	                          .origin = origin,
	                          .checksum = checksum(bytes_of(payload)),
	                          .payload = bytes_of(payload)};
}
