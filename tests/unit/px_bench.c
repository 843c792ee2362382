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
	bench_receive(b, from, (struct message){.code = MSG_welcome, .welcome = {
		.ballot = {1, 0}, .incarnation = b->incarnation, .start = BENCH_START,
		.verdict = (uint8_t)verdict}});
}

struct mark
bench_genuine(struct mark m)
{
	static const uint8_t key[PX_KEY];

	m.replica = 1;
	m.proof = px_proof(key, &m);
	return m;
}

void
bench_remind(struct bench *b, uint8_t from, struct mark mark)
{
	bench_receive(b, from, (struct message){.code = MSG_welcome, .welcome = {
		.ballot = {1, 0}, .incarnation = b->incarnation, .start = BENCH_START,
		.remembered = bench_genuine(mark)}});
}

void
bench_lose(struct bench *b, uint8_t from)
{
	bench_remind(b, from, (struct mark){.incarnation = b->incarnation + 1,
	                                    .start = BENCH_START});
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

const struct px_record *
bench_record(const struct bench *b, enum px_record_kind kind)
{
	for (size_t i = b->update.records_n; i > 0; i--)
		if (b->update.records[i - 1].kind == kind)
			return &b->update.records[i - 1];
	return NULL;
}

struct log_entry
bench_entry(uint64_t slot, struct ballot ballot, struct ballot origin, const char *payload)
{
	return (struct log_entry){.slot = slot, .ballot = ballot, .origin = origin,
	                          .checksum = checksum(bytes_of(payload)),
	                          .payload = bytes_of(payload)};
}

struct wire_list
bench_list(const struct log_entry *entries, size_t n)
{
	struct buffer b = BUFFER(LIMIT_FRAME);

	for (size_t i = 0; i < n; i++)
		wire_put_log_entry(&b, &entries[i]);
	return (struct wire_list){buffer_take(&b), (uint32_t)n};
}

void
assert_payload(const struct px *px, uint64_t slot, const char *payload)
{
	assert_true(bytes_equal(px_payload(px, slot), bytes_of(payload)));
}

void
bench_accept(struct bench *b, struct ballot ballot, uint64_t chosen, const struct log_entry *e,
             size_t n)
{
	struct wire_list list = bench_list(e, n);

	bench_receive(b, ballot.replica, (struct message){.code = MSG_accept, .accept = {
		.ballot = ballot, .chosen = chosen, .first = n ? e[0].slot : 0, .entries = list}});
	free((void *)list.packed.data);
}

struct wire_list
bench_headers(const struct log_entry *e, size_t n)
{
	struct buffer b = BUFFER(LIMIT_FRAME);

	for (size_t i = 0; i < n; i++)
		wire_put_slot_header(&b, &(struct slot_header){
			.slot = e[i].slot, .ballot = e[i].ballot, .origin = e[i].origin,
			.checksum = e[i].checksum, .before = e[i].before});
	return (struct wire_list){buffer_take(&b), (uint32_t)n};
}

bool
bench_give(struct bench *b, uint8_t from, const struct log_entry *e, size_t n)
{
	const struct message *asked = bench_sent(b, from, MSG_gather, NULL);
	struct msg_gather gather;
	struct wire_list list;
	size_t begin = 0, count = 0;

	if (asked == NULL)
		return false;
	gather = asked->gather;
	while (begin < n && e[begin].slot < gather.first)
		begin++;
	while (begin + count < n && e[begin + count].slot <= gather.last)
		count++;
	list = bench_list(e + begin, count);
	bench_receive(b, from, (struct message){.code = MSG_gathered, .gathered = {
		.ballot = gather.ballot, .entries = list}});
	free((void *)list.packed.data);
	return true;
}

void
bench_promise_part(struct bench *b, uint8_t from, struct msg_promise promise,
                   const struct log_entry *e, size_t n)
{
	struct wire_list list = bench_headers(e, n);

	promise.accepted = list;
	bench_receive(b, from, (struct message){.code = MSG_promise, .promise = promise});
	free((void *)list.packed.data);
	while (bench_give(b, from, e, n))
		continue;
}

void
bench_promise(struct bench *b, uint8_t from, struct ballot ballot, uint64_t chosen,
              const struct log_entry *e, size_t n)
{
	bench_promise_part(b, from, (struct msg_promise){
		.ballot = ballot, .chosen = chosen, .last = n ? e[n - 1].slot : chosen}, e, n);
}
