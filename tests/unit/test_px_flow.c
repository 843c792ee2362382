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

/* ---- what is open at an election ---- */

static const char *
large(char c)
{
	static char text[2][65536 + 1];

	memset(text[c == 'b'], c, 65536);
	return text[c == 'b'];
}

/* Three open slots of a master that is gone, as candidate 1 has them. */
static void
open_slots(struct log_entry e[3])
{
	for (uint64_t i = 0; i < 3; i++)
		e[i] = bench_entry(i + 1, b2, b2, large('a'));
}

static struct bench
master_of(const struct log_entry e[3], const struct log_entry *told, size_t n,
          struct ballot *mine)
{
	struct px_recovered r = {.incarnation = 2, .promised = {7, 2}, .entries = e,
	                         .entries_n = 3};
	struct bench b;

	*mine = candidate(&b, &r);
	bench_promise(&b, 2, *mine, 0, told, n);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	return b;
}

static struct msg_accept
sent_to(const struct bench *b, uint8_t to)
{
	const struct message *m = bench_sent(b, to, MSG_accept, NULL);

	assert_non_null(m);
	return m->accept;
}

/* 192 KiB would not be sent at once: names are, and what comes behind them. */
static void
values_that_a_promise_told_of_are_named(void **state)
{
	struct log_entry e[3];
	struct ballot mine;
	struct bench b;

	(void)state;
	open_slots(e);
	b = master_of(e, e, 3, &mine);
	assert_int_equal(sent_to(&b, 2).named.count, 3);
	assert_int_equal(sent_to(&b, 2).entries.count, 0);
	assert_int_equal(sent_to(&b, 3).named.count, 0); /* has promised nothing */
	assert_int_equal(sent_to(&b, 3).entries.count, 1);
	bench_propose(&b, "mine");
	assert_int_equal(sent_to(&b, 2).first, 4);
	assert_int_equal(sent_to(&b, 2).entries.count, 1);
	bench_free(&b);
}

static void
other_values_are_sent_whole(void **state)
{
	struct log_entry e[3], told[3];
	struct ballot mine;
	struct bench b;

	(void)state;
	open_slots(e);
	open_slots(told);
	told[1] = bench_entry(2, (struct ballot){4, 3}, (struct ballot){4, 3}, "b");
	told[2] = bench_entry(3, (struct ballot){4, 3}, (struct ballot){4, 3}, "c");
	b = master_of(e, told, 3, &mine);
	assert_int_equal(sent_to(&b, 2).named.count, 1);
	assert_int_equal(sent_to(&b, 2).entries.count, 1);
	bench_free(&b);
}

/* First it was picked, then another promise told of another one of a higher ballot. */
static void
a_value_that_is_given_up_is_not_named(void **state)
{
	struct px_config c = bench_config(5);
	struct bench b = bench_of(&c, &later);
	struct log_entry old[2] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b")};
	struct log_entry new[2] = {old[0], bench_entry(2, (struct ballot){6, 3},
	                                               (struct ballot){6, 3}, "c")};
	struct ballot mine;

	(void)state;
	bench_timeout(&b);
	mine = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
	bench_promise(&b, 2, mine, 0, old, 2);
	bench_promise(&b, 3, mine, 0, new, 2);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_payload(b.px, 2, "c");
	assert_int_equal(sent_to(&b, 2).named.count, 1);
	assert_int_equal(sent_to(&b, 2).entries.count, 1);
	assert_int_equal(sent_to(&b, 3).named.count, 2);
	bench_free(&b);
}

static void
a_late_promise_spares_values(void **state)
{
	struct log_entry e[3];
	struct ballot mine;
	struct bench b;
	struct wire_list list;

	(void)state;
	open_slots(e);
	b = master_of(e, e, 3, &mine);
	list = bench_headers(e, 3);
	bench_receive(&b, 3, (struct message){.code = MSG_promise, .promise = {
		.ballot = mine, .last = 3, .accepted = list}});
	bench_receive(&b, 3, (struct message){.code = MSG_accepted, .accepted = {
		.ballot = mine, .upto = 1}});
	assert_int_equal(sent_to(&b, 3).first, 2);
	assert_int_equal(sent_to(&b, 3).named.count, 2);
	free((void *)list.packed.data);
	bench_free(&b);
}

static void
a_value_that_was_lost_is_sent_whole(void **state)
{
	struct log_entry e[3];
	struct ballot mine;
	struct bench b;

	(void)state;
	open_slots(e);
	b = master_of(e, e, 3, &mine);
	bench_receive(&b, 2, (struct message){.code = MSG_fetch, .fetch = {mine, 0, 2, 0}});
	assert_int_equal(sent_to(&b, 2).named.count, 2); /* only the message was lost */
	bench_receive(&b, 2, (struct message){.code = MSG_fetch, .fetch = {mine, 1, 2, 1}});
	assert_int_equal(sent_to(&b, 2).first, 2);
	assert_int_equal(sent_to(&b, 2).named.count, 0);
	assert_int_equal(sent_to(&b, 2).entries.count, 1);
	bench_free(&b);
}

static void
name_slots(struct bench *b, const struct log_entry *e, size_t n)
{
	static const struct ballot b9 = {9, 2};
	struct wire_list list = bench_headers(e, n);

	bench_receive(b, 2, (struct message){.code = MSG_accept, .accept = {
		.ballot = b9, .first = e[0].slot, .named = list}});
	free((void *)list.packed.data);
}

/* The record has the value, the new ballot, and is durable before the answer. */
static void
accepts_by_name_what_it_has(void **state)
{
	struct log_entry e[3];
	struct px_recovered r = {.incarnation = 2, .promised = {7, 2}, .entries = e,
	                         .entries_n = 3};
	struct bench b;
	const struct px_record *record;
	uint64_t after = 0;

	(void)state;
	open_slots(e);
	b = bench_new(3, &r);
	name_slots(&b, e, 3);
	record = bench_record(&b, PX_RECORD_ENTRY);
	assert_int_equal(record->slot, 3);
	assert_int_equal(record->ballot.round, 9);
	assert_int_equal(record->origin.round, b2.round);
	assert_true(bytes_equal(record->payload, bytes_of(large('a'))));
	assert_int_equal(bench_sent(&b, 2, MSG_accepted, &after)->accepted.upto, 3);
	assert_int_equal(after, b.update.write);
	assert_int_not_equal(after, 0);
	assert_int_equal(bench_record(&b, PX_RECORD_PROMISE)->ballot.round, 9);
	bench_free(&b);
}

/* By its origin, by its sum, by what it stands behind, or because the log ends before it. */
static void
accepts_nothing_else_by_name(void **state)
{
	struct log_entry e[3], wrong[4][2];
	struct px_recovered r = {.incarnation = 2, .promised = {7, 2}, .entries = e,
	                         .entries_n = 3};

	(void)state;
	open_slots(e);
	for (int i = 0; i < 4; i++) {
		wrong[i][0] = e[i == 3 ? 2 : 0];
		wrong[i][1] = e[i == 3 ? 2 : 1];
	}
	wrong[0][1].origin = (struct ballot){8, 3};
	wrong[1][1].checksum++;
	wrong[2][1].before = b2;
	wrong[3][1].slot = 4;
	for (int i = 0; i < 4; i++) {
		struct bench b = bench_new(3, &r);
		const struct message *m;

		name_slots(&b, e, i == 3 ? 2 : 1);
		name_slots(&b, wrong[i], 2);
		m = bench_sent(&b, 2, MSG_accepted, NULL);
		assert_int_equal(m->accepted.upto, wrong[i][0].slot);
		m = bench_sent(&b, 2, MSG_fetch, NULL);
		assert_non_null(m);
		assert_int_equal(m->fetch.first, wrong[i][1].slot);
		assert_int_equal(m->fetch.whole, 1);
		bench_free(&b);
	}
}

/* However often it is asked within a heartbeat interval: nobody else would tell the master. */
static void
asks_for_a_lost_value_at_once(void **state)
{
	struct log_entry e[3];
	struct px_recovered r = {.incarnation = 2, .promised = {7, 2}, .entries = e,
	                         .entries_n = 1};
	struct bench b;

	(void)state;
	open_slots(e);
	b = bench_new(3, &r);
	name_slots(&b, &e[2], 1); /* behind a hole */
	assert_int_equal(bench_sent(&b, 2, MSG_fetch, NULL)->fetch.whole, 0);
	name_slots(&b, e, 3);
	assert_int_equal(bench_sent(&b, 2, MSG_fetch, NULL)->fetch.whole, 1);
	assert_int_equal(bench_sent(&b, 2, MSG_fetch, NULL)->fetch.first, 2);
	bench_free(&b);
}

/* If the master is lost now, another one has to propose all of that before it serves. */
static void
what_is_open_follows_the_rate(void **state)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);

	(void)state;
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

/* A follower that is gone does not count, however fast it was; what was open before is no reason to
 * wait with the epoch. */
static void
room_counts_what_is_heard_and_ours(void **state)
{
	struct log_entry e[3];
	struct ballot mine;
	struct bench b;

	(void)state;
	open_slots(e);
	b = master_of(e, e, 3, &mine);
	assert_true(px_room(b.px));
	bench_propose(&b, "epoch");
	for (int i = 0; i < 2; i++) {
		assert_true(px_room(b.px));
		bench_propose(&b, text(65536));
	}
	assert_false(px_room(b.px));
	bench_free(&b);
	mine = candidate(&b, &nothing);
	promise_nothing(&b, mine);
	under_way(&b, mine, 50000, 3000);
	bench_pass(&b, 600);
	bench_timeout(&b);
	assert_false(px_room(b.px));
	bench_free(&b);
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
		cmocka_unit_test(values_that_a_promise_told_of_are_named),
		cmocka_unit_test(other_values_are_sent_whole),
		cmocka_unit_test(a_value_that_is_given_up_is_not_named),
		cmocka_unit_test(a_late_promise_spares_values),
		cmocka_unit_test(a_value_that_was_lost_is_sent_whole),
		cmocka_unit_test(accepts_by_name_what_it_has),
		cmocka_unit_test(accepts_nothing_else_by_name),
		cmocka_unit_test(asks_for_a_lost_value_at_once),
		cmocka_unit_test(what_is_open_follows_the_rate),
		cmocka_unit_test(room_counts_what_is_heard_and_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
