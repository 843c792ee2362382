/* Slow networks: how much a master has in flight to its followers, and how much it proposes. */
#include "tests/unit/px_bench.h"

static const struct px_recovered nothing = {.incarnation = 1};

static void
promise_nothing(struct bench *b, struct ballot mine)
{
	bench_receive(b, 2, (struct message){.code = MSG_promise, .promise = {.ballot = mine}});
	bench_persist(b, b->update.write);
	assert_int_equal(px_role(b->px), PX_MASTER);
}

static struct ballot
candidate(struct bench *b, const struct px_recovered *recovered)
{
	*b = bench_new(3, recovered);
	bench_timeout(b);
	assert_int_equal(px_role(b->px), PX_CANDIDATE);
	return bench_sent(b, 2, MSG_prepare, NULL)->prepare.ballot;
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
under_way(struct bench *b, struct ballot mine, uint64_t bytes_a_ms, int ms)
{
	uint64_t has = px_last(b->px), sent = has, slots = 0;
	uint64_t credit = 0;

	for (int i = 0; i < ms; i++) {
		const struct message *m;

		bench_pass(b, 1);
		while (px_room(b->px) && px_last(b->px) - px_chosen(b->px) < 2000) {
			bench_propose(b, text(4096));
			if ((m = bench_sent(b, 2, MSG_accept, NULL)) != NULL)
				sent = m->accept.first - 1 + m->accept.entries.count;
		}
		bench_persist(b, b->update.write);
		credit += bytes_a_ms;
		while (sent > has && credit >= 4096) {
			credit -= 4096;
			has++;
		}
		if (sent == has)
			credit = 0;
		bench_receive(b, 2,
		              (struct message){.code = MSG_accepted,
		                               .accepted = {.ballot = mine, .upto = has}});
		if ((m = bench_sent(b, 2, MSG_accept, NULL)) != NULL)
			sent = m->accept.first - 1 + m->accept.entries.count;
		slots = sent - has;
	}
	return slots * 4096;
}

/* 5 Mbit/s are 625 bytes in a millisecond: what takes more than about a heartbeat interval (and
 * the time of one message) does not queue up before what comes later. A fast follower gets much. */
TEST(what_is_under_way_follows_the_rate)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);

	promise_nothing(&b, mine);
	assert_in_range(under_way(&b, mine, 625, 5000), 4096, 160 * 1024);
	bench_free(&b);
	mine = candidate(&b, &nothing);
	promise_nothing(&b, mine);
	assert_in_range(under_way(&b, mine, 50000, 2000), 1024 * 1024, 4 * 1024 * 1024);
	bench_free(&b);
}

/* If the master is lost now, another one has to propose all of that before it serves. */
TEST(what_is_open_follows_the_rate)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);

	promise_nothing(&b, mine);
	under_way(&b, mine, 625, 5000);
	while (px_room(b.px))
		bench_propose(&b, text(4096));
	assert_in_range((px_last(b.px) - px_chosen(b.px)) * 4096, 64 * 1024, 320 * 1024);
	under_way(&b, mine, 50000, 3000);
	while (px_room(b.px))
		bench_propose(&b, text(4096));
	assert_in_range((px_last(b.px) - px_chosen(b.px)) * 4096, 2 << 20, 8 << 20);
	bench_free(&b);
}

/* A follower that is gone does not count, however fast it was. */
TEST(room_counts_only_replicas_that_answer)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);

	promise_nothing(&b, mine);
	under_way(&b, mine, 50000, 3000);
	bench_pass(&b, 600);
	bench_timeout(&b);
	assert_false(px_room(b.px));
	bench_free(&b);
}
