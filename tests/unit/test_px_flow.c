/* Slow networks: how much a master has in flight to its followers, and how much it proposes. */
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/paxos/px.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

enum { MEMBERS = 3, START = 77 };

/* A master, whose clock, disk and followers the test plays. */
struct bench {
	struct px *px;
	struct px_update update; /* of the last step */
	mono_t now;
	struct ballot ballot;
	uint64_t write; /* the last one */
};

static void
step(struct bench *b, struct px_event e)
{
	e.now = b->now;
	px_step(b->px, &e, &b->update);
	if (b->update.write != 0)
		b->write = b->update.write;
}

static void
receive(struct bench *b, uint8_t from, struct message m)
{
	step(b, (struct px_event){.kind = PX_RECEIVE, .from = from, .message = &m});
}

/* All that was written is durable. */
static void
persist(struct bench *b)
{
	step(b, (struct px_event){.kind = PX_PERSISTED, .write = b->write});
}

static void
propose(struct bench *b, const char *payload)
{
	step(b, (struct px_event){.kind = PX_PROPOSE, .payload = bytes_of(payload)});
	step(b, (struct px_event){.kind = PX_SEND});
}

static void
pass_ms(struct bench *b, int64_t ms)
{
	b->now = mono_add(b->now, span_ms(ms));
}

static void
time_out(struct bench *b)
{
	b->now = mono_max(b->now, px_status(b->px)->deadline);
	step(b, (struct px_event){.kind = PX_TIMEOUT});
}

/* The message of this code that the last step sends to follower 2; NULL: none. */
static const struct message *
sent(const struct bench *b, enum message_code code)
{
	static struct message m;

	for (size_t i = 0; i < b->update.sends_n; i++) {
		assert_int_equal(wire_get_frame(b->update.sends[i].frame, &m), RC_OK);
		if (b->update.sends[i].to == 2 && m.code == code)
			return &m;
	}
	return NULL;
}

/* Replica 1, which the others have welcomed, and which follower 2 has promised nothing. */
static void
begin(struct bench *b)
{
	static const struct px_recovered nothing = {.incarnation = 1};
	const struct message welcome = {
	    .code = MSG_welcome,
	    .welcome = {.ballot = {1, 0},
	                .incarnation = 1,
	                .start = START,
	                .verdict = WELCOME_FINE},
	};
	const struct px_config config = {
	    .self = 1,
	    .members = {.list = {{1, true}, {2, true}, {3, true}}, .n = MEMBERS},
	    .lease = span_ms(500),
	    .heartbeat = span_ms(100),
	    .drift_permille = 20,
	    .start = START,
	    .seed = 1,
	};

	*b = (struct bench){.now = {1000000000}};
	b->px = px_new(&config, &nothing, b->now);
	for (uint8_t id = 2; id <= MEMBERS; id++)
		receive(b, id, welcome);
	time_out(b);
	b->ballot = sent(b, MSG_pre_vote)->pre_vote.ballot;
	receive(b, 2, (struct message){.code = MSG_pre_voted, .pre_voted = {b->ballot, 1}});
	assert_int_equal(px_role(b->px), PX_CANDIDATE);
	b->ballot = sent(b, MSG_prepare)->prepare.ballot;
	receive(b, 2, (struct message){.code = MSG_promise, .promise.ballot = b->ballot});
	persist(b);
	assert_int_equal(px_role(b->px), PX_MASTER);
}

static void
end(struct bench *b)
{
	px_free(b->px);
	px_update_free(&b->update);
}

static const char *
text(size_t len)
{
	static char text[65536 + 1];

	memset(text, 'x', len);
	text[len] = '\0';
	return text;
}

/* Follower 2 accepts so many bytes in each millisecond: returns the most that was under way to it
 * at the end of `ms` milliseconds of as many writes of 4 KiB as there is room for. */
static uint64_t
under_way(struct bench *b, uint64_t bytes_a_ms, int ms)
{
	uint64_t has = px_last(b->px), told = has, slots = 0;
	uint64_t credit = 0;

	for (int i = 0; i < ms; i++) {
		const struct message *m;

		pass_ms(b, 1);
		while (px_room(b->px) && px_last(b->px) - px_status(b->px)->chosen < 2000) {
			propose(b, text(4096));
			if ((m = sent(b, MSG_accept)) != NULL)
				told = m->accept.first - 1 + m->accept.entries.count;
		}
		persist(b);
		credit += bytes_a_ms;
		while (told > has && credit >= 4096) {
			credit -= 4096;
			has++;
		}
		if (told == has)
			credit = 0;
		receive(b, 2,
		        (struct message){.code = MSG_accepted,
		                         .accepted = {.ballot = b->ballot, .upto = has}});
		if ((m = sent(b, MSG_accept)) != NULL)
			told = m->accept.first - 1 + m->accept.entries.count;
		slots = told - has;
	}
	return slots * 4096;
}

/* 5 Mbit/s are 625 bytes in a millisecond: what takes more than about a heartbeat interval (and
 * the time of one message) does not queue up before what comes later. A fast follower gets much. */
TEST(what_is_under_way_follows_the_rate)
{
	struct bench b;

	begin(&b);
	assert_in_range(under_way(&b, 625, 5000), 4096, 160 * 1024);
	end(&b);
	begin(&b);
	assert_in_range(under_way(&b, 50000, 2000), 1024 * 1024, 4 * 1024 * 1024);
	end(&b);
}

/* If the master is lost now, another one has to propose all of that before it serves. */
TEST(what_is_open_follows_the_rate)
{
	struct bench b;

	begin(&b);
	under_way(&b, 625, 5000);
	while (px_room(b.px))
		propose(&b, text(4096));
	assert_in_range((px_last(b.px) - px_status(b.px)->chosen) * 4096, 64 * 1024, 320 * 1024);
	under_way(&b, 50000, 3000);
	while (px_room(b.px))
		propose(&b, text(4096));
	assert_in_range((px_last(b.px) - px_status(b.px)->chosen) * 4096, 2 << 20, 8 << 20);
	end(&b);
}

/* A follower that is gone does not count, however fast it was. */
TEST(room_counts_only_replicas_that_answer)
{
	struct bench b;

	begin(&b);
	under_way(&b, 50000, 3000);
	pass_ms(&b, 600);
	time_out(&b);
	assert_false(px_room(b.px));
	end(&b);
}

/* Each message to a follower costs a step there, a transaction and an answer. */
TEST(what_is_proposed_together_is_sent_together)
{
	const struct message *m;
	struct bench b;

	begin(&b);
	for (int i = 0; i < 3; i++) {
		step(&b, (struct px_event){.kind = PX_PROPOSE, .payload = bytes_of("x")});
		assert_null(sent(&b, MSG_accept));
		assert_true(px_status(b.px)->unsent);
	}
	step(&b, (struct px_event){.kind = PX_SEND});
	m = sent(&b, MSG_accept);
	assert_non_null(m);
	assert_int_equal(m->accept.entries.count, 3);
	assert_false(px_status(b.px)->unsent);
	end(&b);
}
