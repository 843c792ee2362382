/* Slow networks: how much a master has under way, and what a candidate asks for again. */
#include "tests/unit/px_bench.h"

static const struct px_recovered nothing = {.incarnation = 1};

static void
promise_nothing(struct bench *b, struct ballot mine)
{
	bench_promise(b, 2, mine, 0, NULL, 0);
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

/* ---- the master ---- */

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
		bench_receive(b, 2, (struct message){.code = MSG_accepted,
		                                     .accepted = {.ballot = mine, .upto = has}});
		if ((m = bench_sent(b, 2, MSG_accept, NULL)) != NULL)
			sent = m->accept.first - 1 + m->accept.entries.count;
		slots = sent - has;
	}
	return slots * 4096;
}

/* 5 Mbit/s are 625 bytes in a millisecond: what takes more than about a heartbeat interval (and
 * the time of one message) does not queue up before what comes later. A fast follower gets much. */
static void
what_is_under_way_follows_the_rate(void **state)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);

	(void)state;
	promise_nothing(&b, mine);
	assert_in_range(under_way(&b, mine, 625, 5000), 4096, 160 * 1024);
	bench_free(&b);
	mine = candidate(&b, &nothing);
	promise_nothing(&b, mine);
	assert_in_range(under_way(&b, mine, 50000, 2000), 1024 * 1024, 4 * 1024 * 1024);
	bench_free(&b);
}

static void
one_entry_is_always_sent(void **state)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);

	(void)state;
	promise_nothing(&b, mine);
	for (int i = 0; i < 2; i++) {
		bench_propose(&b, text(65536));
		assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL) != NULL, i == 0);
	}
	bench_pass(&b, 3000);
	bench_receive(&b, 2, (struct message){.code = MSG_accepted,
					      .accepted = {.ballot = mine, .upto = 1}});
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.entries.count, 1);
	bench_free(&b);
}

/* ---- the candidate ---- */

static const struct ballot b2 = {5, 2};
static const struct px_recovered later = {.incarnation = 1, .promised = {7, 2}};

/* Two have promised, and told of the same four runs of values. */
static void
values_are_asked_of_all_who_have_them(void **state)
{
	struct log_entry e[32];
	struct wire_list list;
	struct bench b;
	struct ballot mine = candidate(&b, &later);
	const struct message *m;

	(void)state;
	for (size_t i = 0; i < 32; i++)
		e[i] = bench_entry(i + 1, b2, b2, "a");
	list = bench_headers(e, 32);
	for (uint8_t from = 2; from <= 3; from++) {
		bench_receive(&b, from, (struct message){.code = MSG_promise, .promise = {
			.ballot = mine, .last = 32, .accepted = list}});
		m = bench_sent(&b, from, MSG_gather, NULL);
		assert_non_null(m);
		assert_int_equal(m->gather.first, from == 2 ? 1 : 8);
		assert_int_equal(m->gather.last, from == 2 ? 32 : 15);
		assert_null(bench_record(&b, PX_RECORD_PROMISE));
	}
	while (bench_give(&b, 3, e, 32))
		continue;
	bench_receive(&b, 2, (struct message){.code = MSG_gathered, .gathered = {.ballot = mine}});
	assert_null(bench_record(&b, PX_RECORD_PROMISE)); /* of no use */
	for (int i = 0; i < 40 && px_role(b.px) != PX_MASTER; i++) {
		bench_timeout(&b);
		while (bench_give(&b, 3, e, 32)) /* 2 has had its time */
			continue;
		if (b.update.write)
			bench_persist(&b, b.update.write);
	}
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_int_equal(px_last(b.px), 32);
	free((void *)list.packed.data);
	bench_free(&b);
}

/* What a candidate has itself it does not ask for. */
static void
known_values_are_not_asked_for(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a"), told = e;
	struct px_recovered r = {.incarnation = 2, .promised = {7, 2},
	                         .entries = &e, .entries_n = 1};
	struct bench b;
	struct ballot mine = candidate(&b, &r);
	struct wire_list list;

	(void)state;
	told.ballot = (struct ballot){6, 3};
	list = bench_headers(&told, 1);
	bench_receive(&b, 3, (struct message){.code = MSG_promise, .promise = {
		.ballot = mine, .last = 1, .accepted = list}});
	assert_null(bench_sent(&b, 3, MSG_gather, NULL));
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	free((void *)list.packed.data);
	bench_free(&b);
}

static void
a_wrong_value_is_not_taken(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a");
	struct log_entry wrong = bench_entry(1, (struct ballot){6, 3}, (struct ballot){6, 3}, "b");
	struct bench b;
	struct ballot mine = candidate(&b, &later);
	struct wire_list list = bench_headers(&e, 1), values = bench_list(&wrong, 1);

	(void)state;
	bench_receive(&b, 2, (struct message){.code = MSG_promise, .promise = {
		.ballot = mine, .last = 1, .accepted = list}});
	bench_receive(&b, 2, (struct message){.code = MSG_gathered, .gathered = {
		.ballot = mine, .entries = values}});
	assert_null(bench_record(&b, PX_RECORD_PROMISE));
	free((void *)list.packed.data);
	free((void *)values.packed.data);
	bench_free(&b);
}

static void
asks_again_less_and_less_often(void **state)
{
	struct bench b;
	mono_t last;
	int64_t pause = 0;

	(void)state;
	candidate(&b, &nothing);
	for (int i = 0; i < 6; i++) {
		last = b.now;
		bench_timeout(&b);
		assert_non_null(bench_sent(&b, 2, MSG_prepare, NULL));
		pause = span_to_ms(mono_since(b.now, last));
	}
	assert_in_range(pause, 800, 1000);
	bench_free(&b);
}

/* A candidate that lacks much would have to get it over the network first. */
static void
one_who_has_far_more_stands_instead(void **state)
{
	for (uint64_t last = 0; last <= 10; last += 10) {
		struct bench b = bench_new(3, &nothing);
		struct message prepare = {.code = MSG_prepare, .prepare = {{9, 3}, 1, last}};

		(void)state;
		for (uint64_t slot = 1; slot <= 10; slot++) {
			struct log_entry e = bench_entry(slot, b2, b2, text(65536));

			bench_accept(&b, b2, 0, &e, 1);
		}
		bench_receive(&b, 3, prepare);
		assert_int_equal(bench_sent(&b, 3, MSG_promise, NULL) != NULL, last == 10);
		assert_int_equal(px_role(b.px), last == 10 ? PX_FOLLOWER : PX_CANDIDATE);
		bench_free(&b);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_under_way_follows_the_rate),
		cmocka_unit_test(one_entry_is_always_sent),
		cmocka_unit_test(values_are_asked_of_all_who_have_them),
		cmocka_unit_test(known_values_are_not_asked_for),
		cmocka_unit_test(a_wrong_value_is_not_taken),
		cmocka_unit_test(asks_again_less_and_less_often),
		cmocka_unit_test(one_who_has_far_more_stands_instead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
