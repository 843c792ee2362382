/* Members that come and go, as one replica among them sees it: the test plays all the others, the
 * clock and the disk. Replica 1 is the one under test. */
#include "tests/unit/px_lists.h"

/* ---- changes ---- */

static void
a_change_is_chosen_by_those_whom_it_replaces(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v 4l");

	(void)state;
	propose_change(&b, 0, "1v 2v 3v 4v");
	bench_persist(&b, b.update.write);
	accepted(&b, 4, mine, 1); /* has no vote yet */
	assert_int_equal(px_chosen(b.px), 0);
	assert_members(b.px, 0, "1v 2v 3v 4l");
	accepted(&b, 2, mine, 1); /* two of three, not of four */
	assert_int_equal(px_chosen(b.px), 1);
	assert_members(b.px, 1, "1v 2v 3v 4v");
	bench_propose(&b, "x");
	bench_persist(&b, b.update.write);
	accepted(&b, 2, mine, 2);
	assert_int_equal(px_chosen(b.px), 1); /* from here on three of four */
	accepted(&b, 4, mine, 2);
	assert_int_equal(px_chosen(b.px), 2);
	bench_free(&b);
}

static void
nothing_is_proposed_behind_an_open_change(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v");

	(void)state;
	assert_true(px_room(b.px));
	propose_change(&b, 0, "1v 2v 3v 4l");
	assert_true(px_open(b.px));
	assert_false(px_room(b.px));
	bench_persist(&b, b.update.write);
	assert_false(px_room(b.px));
	accepted(&b, 3, mine, 1);
	assert_true(px_room(b.px));
	bench_free(&b);
}

static void
an_old_list_replaced_in_the_meantime_changes_nothing(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v");

	(void)state;
	propose_change(&b, 7, "1v 2v");
	assert_true(px_room(b.px)); /* an entry like any other */
	bench_persist(&b, b.update.write);
	accepted(&b, 2, mine, 1);
	assert_int_equal(px_chosen(b.px), 1);
	assert_members(b.px, 0, "1v 2v 3v");
	bench_free(&b);
}

static void
segments_are_counted_each_by_its_own_list(void **state)
{
	struct list l1, l2;
	struct log_entry e[] = {
		change_entry(&l1, 1, b2, 0, "1v 2v 3v 4v"),
		bench_entry(2, b2, b2, "x"),
		change_entry(&l2, 3, b2, 1, "1v 2v 3v 4v 5v"),
		bench_entry(4, b2, b2, "y"),
	};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .entries = e, .entries_n = 4};
	struct bench b = bench_listed("1v 2v 3v", 0, &r);
	struct ballot mine = candidate(&b);
	uint64_t ticket;

	(void)state;
	bench_promise(&b, 2, mine, 0, NULL, 0);
	bench_promise(&b, 3, mine, 0, NULL, 0); /* three of three, four and five */
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	ticket = b.update.write;
	assert_false(px_room(b.px));
	accepted(&b, 2, mine, 4);
	assert_int_equal(px_chosen(b.px), 0);
	bench_persist(&b, ticket); /* ours */
	assert_int_equal(px_chosen(b.px), 1);
	accepted(&b, 5, mine, 4);
	assert_int_equal(px_chosen(b.px), 1); /* 5 has no vote for slot 2 */
	accepted(&b, 4, mine, 3);
	assert_int_equal(px_chosen(b.px), 4);
	assert_members(b.px, 3, "1v 2v 3v 4v 5v");
	assert_true(px_room(b.px));
	bench_free(&b);
}

static void
a_follower_knows_the_list_when_its_change_is_chosen(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &nothing);
	struct list l;
	struct log_entry e = change_entry(&l, 1, b2, 0, "1v 2v 3v 4l");

	(void)state;
	bench_accept(&b, b2, 0, &e, 1);
	assert_members(b.px, 0, "1v 2v 3v");
	heartbeat(&b, b2, 1);
	assert_members(b.px, 1, "1v 2v 3v 4l");
	/* That it is chosen is written at once, with nothing else to write. */
	assert_int_equal(bench_record(&b, PX_RECORD_CHOSEN)->slot, 1);
	bench_free(&b);
}

static void
a_superseded_change_is_forgotten(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &nothing);
	struct list l;
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"),
	                        change_entry(&l, 2, b2, 0, "1v 2v 3v 4l")};
	struct log_entry over = bench_entry(1, b3, b3, "b");

	(void)state;
	bench_accept(&b, b2, 0, e, 2);
	bench_accept(&b, b3, 0, &over, 1);
	heartbeat(&b, b3, 1);
	stand(&b);
	assert_null(bench_sent(&b, 4, MSG_prepare, NULL));
	assert_members(b.px, 0, "1v 2v 3v");
	bench_free(&b);
}

static void
finds_the_changes_in_the_log_of_its_start(void **state)
{
	struct list l1, l2, l3;
	struct log_entry e[] = {
		change_entry(&l1, 4, b2, 0, "1v 2v 3l"), /* in the state's list */
		change_entry(&l2, 5, b2, 4, "1v 2v 3v"),
		change_entry(&l3, 6, b2, 5, "1v 2v 3v 4l"),
	};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 5, .trimmed = 3,
	                         .entries = e, .entries_n = 3, .applied = 4};
	struct bench b = bench_listed("1v 2v 3l", 4, &r);

	(void)state;
	assert_members(b.px, 5, "1v 2v 3v");
	stand(&b);
	assert_non_null(bench_sent(&b, 4, MSG_prepare, NULL)); /* its list is open */
	bench_free(&b);
}

/* Its state is lost, and its log is read from the beginning: the cell file knows more. */
static void
goes_by_a_list_that_is_newer_than_its_log(void **state)
{
	struct list l1, l2;
	struct log_entry e[] = {
		change_entry(&l1, 1, b2, 0, "1v 2v 3v"),
		change_entry(&l2, 2, b2, 1, "1v 2v 3v 4l"),
	};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 2,
	                         .entries = e, .entries_n = 2};
	struct bench b = bench_listed("1v 2v 3v 4v 5l", 9, &r);

	(void)state;
	assert_members(b.px, 9, "1v 2v 3v 4v 5l");
	bench_receive(&b, 5, (struct message){.code = MSG_hello, .hello = {
		.ballot = b2, .incarnation = 1, .start = 1}});
	assert_int_equal(bench_sent(&b, 5, MSG_welcome, NULL)->welcome.verdict, WELCOME_FINE);
	bench_free(&b);
}

static void
a_learner_never_stands(void **state)
{
	struct bench b = bench_listed("1l 2v 3v", 0, &nothing);
	struct list l;
	struct log_entry e = change_entry(&l, 1, b2, 0, "1v 2v 3v");

	(void)state;
	bench_pass(&b, 10000);
	bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	/* It acknowledges and grants. */
	bench_accept(&b, b2, 0, &e, 1);
	assert_int_equal(bench_sent(&b, 2, MSG_accepted, NULL)->accepted.upto, 1);
	heartbeat(&b, b2, 0);
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	bench_receive(&b, 2, (struct message){.code = MSG_hand_over, .hand_over = {b2, 0, 1}});
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	/* From the moment on that its promotion is chosen it may. */
	heartbeat(&b, b2, 1);
	stand(&b);
	bench_free(&b);
}

/* The change that removed it is told to nobody but those who heard the master then. */
static void
who_cannot_stand_asks_whether_it_was_removed(void **state)
{
	struct bench b = bench_listed("1l 2v 3v", 0, &nothing);

	(void)state;
	bench_pass(&b, 10000);
	heartbeat(&b, b2, 0);
	bench_pass(&b, 500); /* all is well as long as a master is heard */
	heartbeat(&b, b2, 0);
	bench_step(&b, (struct px_event){.kind = PX_TIMEOUT});
	assert_int_equal(b.update.sends_n, 0);
	bench_pass(&b, 2000);
	only_asks_whether_it_is_gone(&b);
	bench_free(&b);
}

static void
who_was_removed_never_stands_and_is_told(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &nothing);
	struct list l1, l2;
	struct log_entry e[] = {change_entry(&l1, 1, b2, 0, "1v 2v"),
	                        bench_entry(2, b2, b2, "a"),
	                        change_entry(&l2, 3, b2, 1, "2v")};
	struct message m = {.code = MSG_prepare, .prepare = {.ballot = {9, 3}, .first = 1}};

	(void)state;
	bench_accept(&b, b2, 0, e, 3);
	bench_pass(&b, 10000);
	bench_receive(&b, 3, m);
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	bench_free(&b);

	b = bench_listed("1v 2v 3v", 0, &nothing);
	bench_accept(&b, b2, 0, e, 3);
	heartbeat(&b, b2, 1);
	bench_pass(&b, 10000);
	bench_receive(&b, 3, m);
	assert_null(bench_sent(&b, 3, MSG_promise, NULL));
	assert_null(bench_sent(&b, 3, MSG_welcome, NULL)); /* 2 may be the only one who knows */
	heartbeat(&b, b2, 2);
	bench_receive(&b, 3, m);
	assert_null(bench_sent(&b, 3, MSG_promise, NULL));
	assert_int_equal(bench_sent(&b, 3, MSG_welcome, NULL)->welcome.verdict,
	                 WELCOME_NO_MEMBER);
	heartbeat(&b, b3, 1); /* a master of old */
	assert_null(bench_sent(&b, 3, MSG_heartbeat_reply, NULL));
	assert_int_equal(bench_sent(&b, 3, MSG_welcome, NULL)->welcome.verdict,
	                 WELCOME_NO_MEMBER);
	heartbeat(&b, b2, 3);
	assert_members(b.px, 3, "2v");
	assert_int_equal(px_members(b.px)->removed[0], 1 << 1 | 1 << 3);
	only_asks_whether_it_is_gone(&b);
	bench_free(&b);
}

/* It may be a member, and master, of a list that we don't know yet. */
static void
hears_whom_it_does_not_know(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &nothing);
	struct list l;
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"),
	                        change_entry(&l, 2, b2, 0, "1v 2v 3v 4v")};

	(void)state;
	bench_accept(&b, b4, 2, e, 2);
	assert_int_equal(bench_sent(&b, 4, MSG_accepted, NULL)->accepted.upto, 2);
	assert_members(b.px, 2, "1v 2v 3v 4v");
	bench_free(&b);
}

/* ---- the lease ---- */

static void
an_open_change_needs_the_grants_of_both_lists(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v 4l");

	(void)state;
	reply(&b, 4, mine, 1);
	assert_false(px_lease_valid(b.px, b.now)); /* a learner's grant is none */
	reply(&b, 2, mine, 1);
	assert_true(px_lease_valid(b.px, b.now));
	propose_change(&b, 0, "1v 2v 3v 4v");
	assert_true(px_lease_valid(b.px, b.now)); /* with 4 three of four */
	bench_free(&b);

	mine = master(&b, "1v 2v 3v 4l");
	reply(&b, 2, mine, 1);
	assert_true(px_lease_valid(b.px, b.now));
	propose_change(&b, 0, "1v 2v 3v 4v");
	assert_false(px_lease_valid(b.px, b.now));
	reply(&b, 3, mine, 1);
	assert_true(px_lease_valid(b.px, b.now));
	bench_free(&b);
}

static void
one_voter_with_learners_beats_and_chooses_alone(void **state)
{
	struct bench b = bench_listed("1v 2l", 0, &nothing);

	(void)state;
	stand(&b);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_true(px_lease_valid(b.px, b.now));
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat, NULL));
	assert_false(mono_is_never(px_deadline(b.px)));
	bench_propose(&b, "x");
	assert_non_null(bench_sent(&b, 2, MSG_accept, NULL));
	bench_persist(&b, b.update.write);
	assert_int_equal(px_chosen(b.px), 1);
	bench_free(&b);
}

static void
a_cell_of_one_begins_to_beat_when_a_learner_comes(void **state)
{
	struct bench b = bench_listed("1v", 0, &nothing);

	(void)state;
	stand(&b);
	bench_persist(&b, b.update.write);
	assert_true(mono_is_never(px_deadline(b.px)));
	propose_change(&b, 0, "1v 2l");
	bench_persist(&b, b.update.write);
	assert_members(b.px, 1, "1v 2l");
	bench_timeout(&b);
	assert_int_equal(bench_sent(&b, 2, MSG_heartbeat, NULL)->heartbeat.first, 1);
	bench_free(&b);
}

/* ---- the end of a mastership ---- */

static void
a_master_that_is_removed_hands_over(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v 4l");

	(void)state;
	reply(&b, 2, mine, 1);
	reply(&b, 3, mine, 1);
	propose_change(&b, 0, "2v 3v 4l");
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	accepted(&b, 4, mine, 1);
	accepted(&b, 3, mine, 1);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_int_equal(bench_sent(&b, 2, MSG_hand_over, NULL)->hand_over.to, 3);
	assert_int_equal(bench_sent(&b, 4, MSG_hand_over, NULL)->hand_over.to, 3);
	only_asks_whether_it_is_gone(&b);
	bench_free(&b);
}

static void
tells_who_is_removed_that_it_is_chosen(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v");

	(void)state;
	propose_change(&b, 0, "1v 2v");
	bench_persist(&b, b.update.write);
	accepted(&b, 2, mine, 1);
	assert_int_equal(bench_sent(&b, 3, MSG_heartbeat, NULL)->heartbeat.chosen, 1);
	bench_timeout(&b); /* at once, and then no more */
	assert_int_equal(bench_sent(&b, 2, MSG_heartbeat, NULL)->heartbeat.chosen, 1);
	assert_null(bench_sent(&b, 3, MSG_heartbeat, NULL));
	bench_free(&b);
}

static void
hands_over_to_whom_it_is_asked_to(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3v");

	(void)state;
	reply(&b, 3, mine, 1);
	bench_propose(&b, "x");
	bench_persist(&b, b.update.write);
	accepted(&b, 2, mine, 1);
	bench_step(&b, (struct px_event){.kind = PX_STEP_DOWN, .to = 3});
	assert_int_equal(px_role(b.px), PX_MASTER); /* 3 lacks the entry: a moment */
	accepted(&b, 3, mine, 1);
	assert_int_equal(bench_sent(&b, 3, MSG_hand_over, NULL)->hand_over.to, 3);
	bench_free(&b);

	mine = master(&b, "1v 2v 3v"); /* nothing was heard of 3 */
	bench_propose(&b, "x");
	bench_persist(&b, b.update.write);
	accepted(&b, 2, mine, 1);
	bench_step(&b, (struct px_event){.kind = PX_STEP_DOWN, .to = 3});
	assert_int_equal(bench_sent(&b, 3, MSG_hand_over, NULL)->hand_over.to, 2);
	bench_free(&b);
}

static void
knows_how_far_the_others_are(void **state)
{
	struct bench b;
	struct ballot mine = master(&b, "1v 2v 3l");
	struct px_progress p;

	(void)state;
	assert_true(px_progress(b.px, 3, &p));
	assert_true(p.answered_at.ns == INT64_MIN);
	assert_false(px_progress(b.px, 4, &p));
	bench_propose(&b, "x");
	bench_pass(&b, 5);
	bench_receive(&b, 3, (struct message){.code = MSG_heartbeat_reply, .heartbeat_reply = {
		.ballot = mine, .sequence = 1, .upto = 1, .durable = 1, .durable_applied = 1,
		.full = 1}});
	assert_true(px_progress(b.px, 3, &p));
	assert_int_equal(p.match, 1);
	assert_int_equal(p.applied, 1);
	assert_true(p.full && p.answered_at.ns == b.now.ns);
	bench_free(&b);
}

static void
tells_the_master_that_its_disk_is_full(void **state)
{
	struct bench b = bench_listed("1v 2v 3v", 0, &nothing);

	(void)state;
	bench_step(&b, (struct px_event){.kind = PX_FULL, .on = true});
	heartbeat(&b, b2, 0);
	assert_int_equal(bench_sent(&b, 2, MSG_heartbeat_reply, NULL)->heartbeat_reply.full, 1);
	bench_step(&b, (struct px_event){.kind = PX_FULL});
	heartbeat(&b, b2, 0);
	assert_int_equal(bench_sent(&b, 2, MSG_heartbeat_reply, NULL)->heartbeat_reply.full, 0);
	bench_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_chosen_by_those_whom_it_replaces),
		cmocka_unit_test(nothing_is_proposed_behind_an_open_change),
		cmocka_unit_test(an_old_list_replaced_in_the_meantime_changes_nothing),
		cmocka_unit_test(segments_are_counted_each_by_its_own_list),
		cmocka_unit_test(a_follower_knows_the_list_when_its_change_is_chosen),
		cmocka_unit_test(a_superseded_change_is_forgotten),
		cmocka_unit_test(finds_the_changes_in_the_log_of_its_start),
		cmocka_unit_test(goes_by_a_list_that_is_newer_than_its_log),
		cmocka_unit_test(a_learner_never_stands),
		cmocka_unit_test(who_cannot_stand_asks_whether_it_was_removed),
		cmocka_unit_test(who_was_removed_never_stands_and_is_told),
		cmocka_unit_test(hears_whom_it_does_not_know),
		cmocka_unit_test(an_open_change_needs_the_grants_of_both_lists),
		cmocka_unit_test(one_voter_with_learners_beats_and_chooses_alone),
		cmocka_unit_test(a_cell_of_one_begins_to_beat_when_a_learner_comes),
		cmocka_unit_test(a_master_that_is_removed_hands_over),
		cmocka_unit_test(tells_who_is_removed_that_it_is_chosen),
		cmocka_unit_test(hands_over_to_whom_it_is_asked_to),
		cmocka_unit_test(knows_how_far_the_others_are),
		cmocka_unit_test(tells_the_master_that_its_disk_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
