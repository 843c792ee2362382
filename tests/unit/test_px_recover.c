/* Starts from disks that lack something, and replicas whose log begins behind what others need. */
#include "cell/paxos/ballot.h"
#include "tests/unit/px_bench.h"

static const struct ballot b2 = {5, 2}, b3 = {6, 3};

static void
heartbeat(struct bench *b, struct ballot ballot, uint64_t chosen, uint64_t first)
{
	bench_receive(b, ballot.replica, (struct message){.code = MSG_heartbeat, .heartbeat = {
		.ballot = ballot, .chosen = chosen, .sequence = 1, .lease_ms = 500,
		.first = first}});
}

static struct message
prepare(struct ballot ballot, uint64_t first)
{
	return (struct message){.code = MSG_prepare, .prepare = {ballot, first, 0}};
}

/* A promise of replica `from` whose log goes from e[0] (or behind `last`) to `last`. */
static void
promise(struct bench *b, uint8_t from, struct ballot ballot, uint64_t last,
        const struct log_entry *e, size_t n)
{
	bench_promise_part(b, from, (struct msg_promise){
		.ballot = ballot, .chosen = last, .last = last}, e, n);
}

/* ---- a state that is ahead of the log ---- */

static void
begins_behind_a_state_that_the_log_does_not_reach(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a"), next = bench_entry(10, b3, b3, "j");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1, .applied = 9,
	                         .applied_origin = b3, .entries = &e, .entries_n = 1};
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &r);

	(void)state;
	assert_int_equal(px_chosen(b.px), 9);
	assert_int_equal(px_first(b.px), 10);
	assert_int_equal(px_last(b.px), 9);
	assert_int_equal(px_origin(b.px, 9).round, b3.round);
	bench_step(&b, (struct px_event){.kind = PX_TIMEOUT});
	assert_int_equal(b.update.records[0].kind, PX_RECORD_TRIM); /* before anything else */
	assert_int_equal(b.update.records[0].slot, 9);
	assert_int_equal(bench_record(&b, PX_RECORD_CHOSEN)->slot, 9);
	bench_welcome(&b, 2, WELCOME_FINE);
	bench_accept(&b, b3, 9, &next, 1);
	assert_int_equal(px_last(b.px), 10);
	bench_free(&b);
}

/* Were the state lost before the log knows of it, less would be told the next time. */
static void
tells_how_far_the_state_goes_when_the_log_knows_it(void **state)
{
	struct mark own = {1, 1, BENCH_START, {0, 0}, 0, 0};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .applied = 9,
	                         .applied_origin = b3, .marks = &own, .marks_n = 1};
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &r);
	uint64_t after = 1;

	(void)state;
	bench_step(&b, (struct px_event){.kind = PX_TIMEOUT});
	assert_int_equal(bench_sent(&b, 2, MSG_hello, &after)->hello.last, 9);
	assert_int_not_equal(b.update.write, 0);
	assert_int_equal(after, b.update.write);
	bench_persist(&b, after);
	bench_timeout(&b);
	assert_non_null(bench_sent(&b, 2, MSG_hello, &after));
	assert_int_equal(after, 0);
	bench_free(&b);
}

/* The log's entry may be another than the one chosen: then it is not served. */
static void
does_not_take_for_chosen_what_it_only_accepted(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "wrong"),
	                        bench_entry(3, b2, b2, "behind it")};
	struct px_recovered r = {.incarnation = 2, .promised = b3, .chosen = 1, .applied = 2,
	                         .applied_origin = b3, .entries = e, .entries_n = 3};
	struct bench b = bench_new(3, &r);

	(void)state;
	assert_int_equal(px_chosen(b.px), 2);
	assert_int_equal(px_first(b.px), 3);
	assert_int_equal(px_last(b.px), 2); /* what was proposed behind the wrong one went, too */
	bench_free(&b);
	r.applied = 0; /* without the state it is accepted, not chosen */
	r.applied_origin = (struct ballot){0, 0};
	b = bench_new(3, &r);
	assert_int_equal(px_chosen(b.px), 1);
	assert_int_equal(px_last(b.px), 3);
	bench_free(&b);
}

static void
keeps_a_log_that_has_what_the_state_has(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b"),
	                        bench_entry(3, b2, b2, "c")};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1, .applied = 2,
	                         .applied_origin = b2, .entries = e, .entries_n = 3};
	struct bench b = bench_new(3, &r);

	(void)state;
	assert_int_equal(px_chosen(b.px), 2);
	assert_int_equal(px_first(b.px), 1);
	assert_int_equal(px_last(b.px), 3);
	bench_free(&b);
}

/* ---- a damaged log ---- */

static void
a_damaged_log_accepts_and_grants_but_promises_nothing(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b"),
	                        bench_entry(3, b2, b2, "c"), bench_entry(4, b2, b2, "d")};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 3, .damaged = 4,
	                         .entries = e, .entries_n = 1};
	struct bench b = bench_new(3, &r);

	(void)state;
	assert_int_equal(px_condition(b.px), CONDITION_REPAIRING);
	assert_int_equal(px_chosen(b.px), 1); /* the hint goes beyond what can be read */
	bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_int_equal(b.update.sends_n, 0);
	heartbeat(&b, b2, 1, 1);
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	bench_accept(&b, b2, 3, e + 1, 2);
	assert_int_equal(bench_sent(&b, 2, MSG_accepted, NULL)->accepted.upto, 3);
	assert_int_equal(px_condition(b.px), CONDITION_REPAIRING);
	bench_accept(&b, b2, 3, e + 3, 1);
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	bench_pass(&b, 1000);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	bench_free(&b);
}

/* A heartbeat of a master that has slots up to `last` and remembers of us `mark`. */
static void
heartbeat_of(struct bench *b, struct ballot ballot, uint64_t last, struct mark mark)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);

	wire_put_mark(&packed, &mark);
	bench_receive(b, ballot.replica, (struct message){.code = MSG_heartbeat, .heartbeat = {
		.ballot = ballot, .chosen = 1, .sequence = 1, .lease_ms = 500, .first = 1,
		.last = last, .marks = {buffer_view(&packed), 1}}});
	buffer_free(&packed);
}

/* What it lost may be a tail that was not chosen: in an idle cell nothing takes its place. */
static void
a_damaged_log_is_whole_when_it_has_all_that_its_master_has(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b3, b3, "b")};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1, .damaged = 4,
	                         .entries = e, .entries_n = 1};
	struct mark before = bench_genuine((struct mark){1, 1, BENCH_START, b2, 4, 0});
	struct mark now = bench_genuine((struct mark){1, 2, BENCH_START, b2, 4, 0});
	struct bench b = bench_new(3, &r);

	(void)state;
	heartbeat_of(&b, b3, 1, before); /* sent before our start: it may have had more since */
	assert_int_equal(px_condition(b.px), CONDITION_REPAIRING);
	assert_int_equal(bench_sent(&b, 3, MSG_hello, NULL)->hello.incarnation, 2);
	heartbeat_of(&b, b3, 2, now); /* it has one more than we */
	assert_int_equal(px_condition(b.px), CONDITION_REPAIRING);
	heartbeat_of(&b, b2, 1, now); /* no master any more */
	assert_int_equal(px_condition(b.px), CONDITION_REPAIRING);
	bench_accept(&b, b3, 1, e + 1, 1);
	heartbeat_of(&b, b3, 2, now);
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	bench_free(&b);
}

/* Else a master that it followed before it could hear its hello would take it for an old copy. */
static void
pass(struct bench *b, int64_t ms)
{
	bench_pass(b, ms);
	bench_step(b, (struct px_event){.kind = PX_TIMEOUT});
}

/* One that ends in good order grants no lease any more, and records when none is left. */
static void
a_closing_one_records_that_no_lease_is_left(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a")};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1,
	                         .entries = e, .entries_n = 1};
	struct mark now = bench_genuine((struct mark){1, 2, BENCH_START, b2, 1, 0});
	struct bench b = bench_new(3, &r);

	(void)state;
	heartbeat_of(&b, b2, 1, now);
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	pass(&b, 300);
	bench_step(&b, (struct px_event){.kind = PX_CLOSE});
	heartbeat_of(&b, b2, 1, now);
	assert_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	pass(&b, 199);
	assert_null(bench_record(&b, PX_RECORD_LEASE));
	assert_false(px_closed(b.px));
	assert_int_equal(mono_since(px_deadline(b.px), b.now).ns, span_ms(1).ns);
	pass(&b, 1);
	assert_int_equal(bench_record(&b, PX_RECORD_LEASE)->length.ns, 0);
	assert_true(px_closed(b.px));
	pass(&b, 10000); /* nor does it stand */
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	bench_free(&b);
}

/* Nor does it say so of leases that were granted before it was started. */
static void
a_closing_one_waits_for_earlier_leases(void **state)
{
	struct px_recovered r = {.incarnation = 2, .promised = b2, .wait = {5000000000}};
	struct bench b = bench_new(3, &r);

	(void)state;
	bench_step(&b, (struct px_event){.kind = PX_CLOSE});
	pass(&b, 4999);
	assert_false(px_closed(b.px));
	pass(&b, 1);
	assert_true(px_closed(b.px));
	bench_free(&b);
}

static void
a_later_hello_tells_what_it_has_by_now(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b3, b3, "b")};
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1, .damaged = 4,
	                         .entries = e, .entries_n = 1};
	struct mark before = bench_genuine((struct mark){1, 1, BENCH_START, b3, 2, 0});
	struct bench b = bench_new(3, &r);
	const struct msg_hello *hello;

	(void)state;
	bench_accept(&b, b3, 1, e + 1, 1);
	heartbeat_of(&b, b3, 2, before);
	hello = &bench_sent(&b, 3, MSG_hello, NULL)->hello;
	assert_true(ballot_equal(hello->ballot, b3));
	assert_int_equal(hello->last, 4);
	bench_free(&b);
}

static void
a_damaged_log_is_handed_over_to_in_vain(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1, .damaged = 4,
	                         .entries = &e, .entries_n = 1};
	struct bench b = bench_new(3, &r);

	(void)state;
	heartbeat(&b, b2, 1, 1);
	bench_receive(&b, 2, (struct message){.code = MSG_hand_over, .hand_over = {
		.ballot = b2, .last = 1, .to = 1}});
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	bench_free(&b);
}

static void
tells_what_the_disk_held_before_it_was_damaged(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 1, .damaged = 4,
	                         .entries = &e, .entries_n = 1};
	struct px_config c = bench_config(3);
	struct bench b = bench_mute(&c, &r);

	(void)state;
	bench_timeout(&b);
	assert_int_equal(bench_sent(&b, 2, MSG_hello, NULL)->hello.last, 4);
	bench_free(&b);
}

/* ---- without a state, and behind ---- */

static void
without_a_state_it_votes_and_does_not_stand(void **state)
{
	struct log_entry e = bench_entry(8, b2, b2, "h");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .chosen = 8, .trimmed = 7,
	                         .state_lost = true, .entries = &e, .entries_n = 1};
	struct bench b = bench_new(3, &r);
	uint8_t source = px_behind(b.px);

	(void)state;
	assert_int_equal(px_condition(b.px), CONDITION_REPAIRING);
	assert_true(source == 2 || source == 3);
	for (int i = 0; i < 3; i++) { /* that one may be gone */
		bench_pass(&b, 10000);
		bench_timeout(&b);
		assert_int_equal(px_role(b.px), PX_FOLLOWER);
		assert_int_not_equal(px_behind(b.px), source);
		source = px_behind(b.px);
	}
	bench_receive(&b, 3, prepare(b3, 1));
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	heartbeat(&b, b3, 8, 3);
	assert_int_equal(px_behind(b.px), 3); /* the master, while there is one */
	bench_free(&b);
}

static void
is_behind_until_it_has_what_the_master_lacks(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b")};
	struct bench b = bench_new(3, &(struct px_recovered){.incarnation = 1});

	(void)state;
	heartbeat(&b, b2, 9, 3);
	assert_int_equal(px_behind(b.px), 2);
	bench_accept(&b, b2, 9, e, 2); /* they were still under way */
	assert_int_equal(px_behind(b.px), 0);
	heartbeat(&b, b2, 9, 4);
	assert_int_equal(px_behind(b.px), 2);
	heartbeat(&b, b3, 9, 3); /* the next master has more */
	assert_int_equal(px_behind(b.px), 0);
	bench_free(&b);
}

/* It would begin its mastership with a hole. */
static void
a_candidate_does_not_win_with_a_log_that_begins_behind_its_own(void **state)
{
	struct log_entry e = bench_entry(5, b2, b2, "e");
	struct bench b = bench_new(3, &(struct px_recovered){.incarnation = 1});
	struct ballot mine;

	(void)state;
	bench_timeout(&b);
	mine = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
	promise(&b, 2, mine, 5, &e, 1);
	assert_int_equal(b.update.records_n, 0);  /* no promise to itself */
	assert_null(bench_sent(&b, 2, MSG_prepare, NULL)); /* nor asked again, for ever */
	assert_int_equal(px_behind(b.px), 2);
	promise(&b, 2, mine, 5, NULL, 0); /* all of it is trimmed there */
	assert_int_equal(b.update.records_n + b.update.sends_n, 0);
	assert_int_equal(px_behind(b.px), 2);
	promise(&b, 3, mine, 0, NULL, 0); /* who lacks as much helps it to win */
	assert_int_equal(bench_record(&b, PX_RECORD_PROMISE)->ballot.round, mine.round);
	bench_free(&b);
}

/* Its member may learn of a higher ballot's master, in vain, between two parts of its promise: then
 * the second part calls more chosen than the first one. */
static void
a_promise_in_parts_counts_although_more_is_chosen_meanwhile(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b"),
	                        bench_entry(3, b2, b2, "c")};
	struct bench b = bench_new(3, &(struct px_recovered){.incarnation = 1, .promised = b3});
	struct wire_list list = bench_headers(e, 2);
	struct ballot mine;

	(void)state;
	bench_timeout(&b);
	mine = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
	bench_receive(&b, 2, (struct message){.code = MSG_promise, .promise = {
		.ballot = mine, .chosen = 1, .last = 3, .accepted = list}});
	free((void *)list.packed.data);
	assert_int_equal(bench_sent(&b, 2, MSG_prepare, NULL)->prepare.first, 3);
	assert_true(bench_give(&b, 2, e, 2));
	assert_int_equal(px_chosen(b.px), 1);
	promise(&b, 2, mine, 3, e + 2, 1);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_int_equal(px_last(b.px), 3); /* and is not proposed anew with something else */
	assert_payload(b.px, 3, "c");
	bench_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(begins_behind_a_state_that_the_log_does_not_reach),
		cmocka_unit_test(tells_how_far_the_state_goes_when_the_log_knows_it),
		cmocka_unit_test(does_not_take_for_chosen_what_it_only_accepted),
		cmocka_unit_test(keeps_a_log_that_has_what_the_state_has),
		cmocka_unit_test(a_damaged_log_accepts_and_grants_but_promises_nothing),
		cmocka_unit_test(a_damaged_log_is_whole_when_it_has_all_that_its_master_has),
		cmocka_unit_test(a_closing_one_records_that_no_lease_is_left),
		cmocka_unit_test(a_closing_one_waits_for_earlier_leases),
		cmocka_unit_test(a_later_hello_tells_what_it_has_by_now),
		cmocka_unit_test(a_damaged_log_is_handed_over_to_in_vain),
		cmocka_unit_test(tells_what_the_disk_held_before_it_was_damaged),
		cmocka_unit_test(without_a_state_it_votes_and_does_not_stand),
		cmocka_unit_test(is_behind_until_it_has_what_the_master_lacks),
		cmocka_unit_test(a_candidate_does_not_win_with_a_log_that_begins_behind_its_own),
		cmocka_unit_test(a_promise_in_parts_counts_although_more_is_chosen_meanwhile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
