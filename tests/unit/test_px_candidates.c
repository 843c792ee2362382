/* Whose votes and welcomes a replica needs while members come and go: a majority of each list that
 * it knows of. The test plays all others, the clock and the disk. */
#include "tests/unit/px_lists.h"

/* ---- candidates ---- */

static void
needs_a_majority_of_every_list_that_it_has_accepted(void **state)
{
	struct list l;
	struct log_entry e = change_entry(&l, 1, b2, 0, "1v 2v 3v 4v");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .entries = &e, .entries_n = 1};
	struct bench b = bench_listed("1v 2v 3v 4l", 0, &r);
	struct ballot mine = candidate(&b);

	(void)state;
	bench_promise(&b, 2, mine, 0, NULL, 0);
	assert_null(bench_record(&b, PX_RECORD_PROMISE)); /* two of three, but of four, too */
	bench_promise(&b, 4, mine, 0, NULL, 0);
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_free(&b);
}

static void
a_vote_counts_only_in_the_lists_that_have_it(void **state)
{
	struct list l;
	struct log_entry e = change_entry(&l, 1, b2, 0, "1v 2v 3v 4v");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .entries = &e, .entries_n = 1};
	struct bench b = bench_listed("1v 2v 3v 4l", 0, &r);
	struct ballot mine = candidate(&b);

	(void)state;
	bench_promise(&b, 4, mine, 0, NULL, 0);
	bench_promise(&b, 5, mine, 0, NULL, 0); /* a stranger */
	assert_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_promise(&b, 3, mine, 0, NULL, 0);
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_free(&b);
}

static void
asks_the_voters_of_a_list_that_a_promise_tells(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &later);
	struct ballot mine = candidate(&b);
	struct list l;
	struct log_entry e[] = {change_entry(&l, 1, b2, 0, "1v 2v 3v 4v"),
	                        bench_entry(2, b2, b2, "x")};

	(void)state;
	bench_promise(&b, 2, mine, 0, e, 2);
	assert_null(bench_record(&b, PX_RECORD_PROMISE));
	assert_non_null(bench_sent(&b, 4, MSG_prepare, NULL)); /* at once */
	bench_promise(&b, 4, mine, 0, NULL, 0);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_int_equal(px_last(b.px), 2);
	assert_false(px_room(b.px));
	bench_free(&b);
}

static void
forgets_its_old_quorum_when_a_promise_tells_a_newer_one_as_chosen(void **state)
{
	struct px_recovered r = {.incarnation = 1, .promised = b2};
	struct bench b = bench_listed("1v 2v 3v", 0, &r);
	struct ballot mine = candidate(&b);
	struct list l1, l2;
	struct log_entry e[] = {change_entry(&l1, 1, b2, 0, "1v 2v 3v 4v"),
	                        change_entry(&l2, 2, b2, 1, "1v 2v 3v 4v 5v")};

	(void)state;
	bench_promise(&b, 2, mine, 2, e, 2);
	assert_members(b.px, 2, "1v 2v 3v 4v 5v");
	assert_null(bench_record(&b, PX_RECORD_PROMISE));
	assert_non_null(bench_sent(&b, 5, MSG_prepare, NULL));
	bench_promise(&b, 5, mine, 2, NULL, 0);
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_free(&b);
}

static void
a_list_behind_a_newer_origin_does_not_count(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &later);
	struct ballot mine = candidate(&b);
	struct list l;
	struct log_entry old[] = {bench_entry(1, b2, b2, "a"),
	                          change_entry(&l, 2, b2, 0, "1v 2v 3v 4v")};
	struct log_entry new = bench_entry(1, b3, b3, "b");

	(void)state;
	bench_promise(&b, 2, mine, 0, old, 2);
	assert_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_promise(&b, 3, mine, 0, &new, 1);
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_free(&b);
}

static void
gives_up_when_it_learns_that_it_is_gone(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &later);
	struct ballot mine = candidate(&b);
	struct list l;
	struct log_entry e = change_entry(&l, 1, b2, 0, "2v 3v");

	(void)state;
	bench_promise(&b, 2, mine, 1, &e, 1);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	only_asks_whether_it_is_gone(&b);
	bench_free(&b);
}

/* The promises that the candidate lacks may never come, and a replica that has promised may know
 * by now that the candidate was removed. */
static void
asks_those_that_have_promised_whether_it_is_gone(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &later);
	struct ballot mine = candidate(&b);
	struct list l;
	struct log_entry e = change_entry(&l, 1, b2, 0, "2v 3v");

	(void)state;
	bench_promise(&b, 3, mine, 0, &e, 1);
	for (int i = 0; i < 4; i++)
		bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_CANDIDATE);
	assert_null(bench_sent(&b, 3, MSG_prepare, NULL));
	assert_non_null(bench_sent(&b, 3, MSG_hello, NULL));
	bench_free(&b);
}

/* Those whom it asks for promises may be gone, too. */
static void
greets_those_of_a_newer_list(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &nothing);
	struct buffer packed = BUFFER(4096);
	struct message told = {.code = MSG_members, .members.version = 9};

	(void)state;
	candidate(&b);
	wire_put_member(&packed, &(struct member){.id = 1, .role = MEMBER_REMOVED});
	wire_put_member(&packed, &(struct member){.id = 4, .role = MEMBER_VOTER});
	told.members.members = (struct wire_list){buffer_view(&packed), 2};
	bench_receive(&b, 3, told);
	for (int i = 0; i < 4; i++)
		bench_timeout(&b);
	assert_non_null(bench_sent(&b, 3, MSG_prepare, NULL));
	assert_non_null(bench_sent(&b, 4, MSG_hello, NULL));
	bench_welcome(&b, 4, WELCOME_NO_MEMBER);
	assert_int_equal(px_condition(b.px), CONDITION_EXPELLED);
	buffer_free(&packed);
	bench_free(&b);
}

/* Replica 2 may not know yet that it has a vote: then nobody else could stand. */
static void
finishes_the_change_that_removes_it(void **state)
{
	struct list l;
	struct log_entry e = change_entry(&l, 5, b2, 2, "2v");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 4, .trimmed = 4,
	                         .entries = &e, .entries_n = 1, .applied = 4};
	struct bench b = bench_listed("1v 2v", 2, &r);
	struct ballot mine = candidate(&b);
	uint64_t ticket;

	(void)state;
	bench_promise(&b, 2, mine, 4, NULL, 0);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	ticket = b.update.write;
	assert_false(px_room(b.px));
	accepted(&b, 2, mine, 5);
	assert_int_equal(px_chosen(b.px), 4); /* both are needed for that */
	bench_persist(&b, ticket);
	assert_int_equal(px_chosen(b.px), 5);
	assert_int_equal(bench_sent(&b, 2, MSG_hand_over, NULL)->hand_over.to, 2);
	bench_free(&b);
}

/* ---- after a start ---- */

static struct message
welcome(uint64_t version, struct wire_list members)
{
	return (struct message){.code = MSG_welcome, .welcome = {
		.ballot = {1, 0}, .incarnation = 1, .start = BENCH_START, .version = version,
		.members = members}};
}

/* While it was away 2 and 3 have gone, and 4 and 5 have come. */
static void
is_welcomed_by_the_members_of_a_newer_list(void **state)
{
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &nothing);
	struct buffer packed = BUFFER(4096);
	struct wire_list list;

	(void)state;
	for (uint8_t id = 1; id <= 5; id++)
		if (id != 2 && id != 3)
			wire_put_member(&packed, &(struct member){.id = id, .role = MEMBER_VOTER});
	list = (struct wire_list){buffer_view(&packed), 3};
	bench_timeout(&b);
	assert_non_null(bench_sent(&b, 3, MSG_hello, NULL));
	assert_null(bench_sent(&b, 4, MSG_hello, NULL));
	heartbeat(&b, b4, 0); /* 4 is the master: it is greeted, and not obeyed yet */
	assert_non_null(bench_sent(&b, 4, MSG_hello, NULL));
	assert_null(bench_sent(&b, 4, MSG_heartbeat_reply, NULL));
	bench_receive(&b, 4, welcome(9, list));
	assert_int_equal(px_condition(b.px), CONDITION_VOTING); /* with itself two of three */
	buffer_free(&packed);
	bench_free(&b);
}

/* Nobody of the old list is left, and who has told the new one has gone since. */
static void
greets_the_members_of_a_list_that_it_was_told(void **state)
{
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &nothing);
	struct buffer packed = BUFFER(4096);
	struct wire_list list;

	(void)state;
	wire_put_member(&packed, &(struct member){.id = 1, .role = MEMBER_VOTER});
	wire_put_member(&packed, &(struct member){.id = 3, .role = MEMBER_REMOVED});
	wire_put_member(&packed, &(struct member){.id = 4, .role = MEMBER_VOTER});
	list = (struct wire_list){buffer_view(&packed), 3};
	bench_receive(&b, 2, (struct message){.code = MSG_members, .members = {9, list}});
	bench_timeout(&b);
	assert_non_null(bench_sent(&b, 4, MSG_hello, NULL));
	assert_null(bench_sent(&b, 3, MSG_hello, NULL));
	bench_receive(&b, 2, (struct message){.code = MSG_members, .members = {8, list}});
	assert_int_equal(px_condition(b.px), CONDITION_JOINING);
	bench_receive(&b, 4, welcome(9, list));
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	buffer_free(&packed);
	bench_free(&b);
}

/* It is the only one left, and asks those whom it knows: they would have been told what it
 * forgot. */
static void
the_last_one_is_welcomed_by_those_who_left(void **state)
{
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &nothing);
	struct buffer packed = BUFFER(4096);
	struct wire_list list;

	(void)state;
	wire_put_member(&packed, &(struct member){.id = 1, .role = MEMBER_VOTER});
	list = (struct wire_list){buffer_view(&packed), 1};
	bench_receive(&b, 2, (struct message){.code = MSG_members, .members = {9, list}});
	assert_int_equal(px_condition(b.px), CONDITION_JOINING);
	bench_timeout(&b);
	assert_non_null(bench_sent(&b, 2, MSG_hello, NULL));
	bench_receive(&b, 2, welcome(9, list));
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	buffer_free(&packed);
	bench_free(&b);
}

static void
an_old_majority_does_not_do_when_a_newer_list_is_told(void **state)
{
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &nothing);
	struct buffer packed = BUFFER(4096);

	(void)state;
	for (uint8_t id = 1; id <= 5; id++)
		wire_put_member(&packed, &(struct member){.id = id, .role = MEMBER_VOTER});
	bench_receive(&b, 2, welcome(9, (struct wire_list){buffer_view(&packed), 5}));
	assert_int_equal(px_condition(b.px), CONDITION_JOINING);
	bench_timeout(&b);
	assert_non_null(bench_sent(&b, 2, MSG_hello, NULL)); /* it may know a newer one by now */
	assert_non_null(bench_sent(&b, 5, MSG_hello, NULL));
	bench_receive(&b, 5, welcome(9, (struct wire_list){buffer_view(&packed), 5}));
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	buffer_free(&packed);
	bench_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(needs_a_majority_of_every_list_that_it_has_accepted),
		cmocka_unit_test(a_vote_counts_only_in_the_lists_that_have_it),
		cmocka_unit_test(asks_the_voters_of_a_list_that_a_promise_tells),
		cmocka_unit_test(forgets_its_old_quorum_when_a_promise_tells_a_newer_one_as_chosen),
		cmocka_unit_test(a_list_behind_a_newer_origin_does_not_count),
		cmocka_unit_test(gives_up_when_it_learns_that_it_is_gone),
		cmocka_unit_test(asks_those_that_have_promised_whether_it_is_gone),
		cmocka_unit_test(greets_those_of_a_newer_list),
		cmocka_unit_test(finishes_the_change_that_removes_it),
		cmocka_unit_test(is_welcomed_by_the_members_of_a_newer_list),
		cmocka_unit_test(greets_the_members_of_a_list_that_it_was_told),
		cmocka_unit_test(the_last_one_is_welcomed_by_those_who_left),
		cmocka_unit_test(an_old_majority_does_not_do_when_a_newer_list_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
