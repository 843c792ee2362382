/* A cell of one: master at once, chosen when durable, everything back after a restart. */
#include "tests/unit/px_bench.h"

static const struct px_recovered nothing = {.incarnation = 1};

/* A bench whose px is master. */
static struct bench
master(const struct px_recovered *recovered)
{
	struct bench b = bench_new(1, recovered);

	assert_true(mono_reached(b.now, px_deadline(b.px)));
	bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_CANDIDATE);
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	assert_int_equal(b.update.sends_n, 0);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	return b;
}

static void
becomes_master_when_its_promise_is_durable(void **state)
{
	struct bench b = master(&nothing);

	(void)state;
	assert_true(px_lease_valid(b.px, b.now));
	assert_true(px_open(b.px) && px_room(b.px));
	assert_int_equal(px_master(b.px).replica, 1);
	assert_true(mono_is_never(px_deadline(b.px)));
	bench_free(&b);
}

static void
chooses_when_durable_not_before(void **state)
{
	struct bench b = master(&nothing);
	uint64_t first, second;

	(void)state;
	bench_propose(&b, "a");
	first = b.update.write;
	bench_propose(&b, "b");
	second = b.update.write;
	assert_true(second > first && first > 0);
	assert_int_equal(px_last(b.px), 2);
	assert_int_equal(px_chosen(b.px), 0);
	bench_persist(&b, first);
	assert_int_equal(px_chosen(b.px), 1);
	bench_persist(&b, second);
	assert_int_equal(px_chosen(b.px), 2);
	assert_payload(b.px, 1, "a");
	assert_payload(b.px, 2, "b");
	bench_free(&b);
}

static void
ignores_proposals_before_it_is_master(void **state)
{
	struct bench b = bench_new(1, &nothing);

	(void)state;
	bench_propose(&b, "a");
	assert_int_equal(px_last(b.px), 0);
	assert_null(bench_record(&b, PX_RECORD_ENTRY));
	bench_free(&b);
}

static void
chooses_what_the_log_held_in_its_new_ballot(void **state)
{
	struct ballot old = {3, 1};
	struct log_entry entries[] = {
		bench_entry(5, old, old, "e"),
		bench_entry(6, old, old, "f"),
	};
	struct px_recovered r = {.incarnation = 2, .promised = old, .chosen = 5, .trimmed = 4,
	                         .applied = 4, .applied_origin = old,
	                         .entries = entries, .entries_n = 2};
	struct bench b = master(&r);

	(void)state;
	assert_int_equal(px_first(b.px), 5);
	assert_int_equal(px_chosen(b.px), 5);
	assert_true(px_master(b.px).round > 3);
	assert_int_equal(bench_record(&b, PX_RECORD_ENTRY)->slot, 6);
	assert_true(bench_record(&b, PX_RECORD_ENTRY)->ballot.round > 3);
	assert_int_equal(bench_record(&b, PX_RECORD_ENTRY)->origin.round, 3);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_chosen(b.px), 6);
	assert_payload(b.px, 6, "f");
	bench_free(&b);
}

/* What the state has is chosen, whatever the hint says: nobody may have these slots any more. */
static void
knows_as_chosen_what_the_state_has(void **state)
{
	struct ballot old = {3, 1}, new = {4, 2};
	struct log_entry entries[] = {
		bench_entry(5, old, old, "e"),
		bench_entry(6, old, old, "f"),
		bench_entry(7, old, old, "g"),
	};
	struct px_recovered r = {.incarnation = 2, .promised = old, .chosen = 5, .trimmed = 4,
	                         .applied = 6, .applied_origin = old,
	                         .entries = entries, .entries_n = 3};
	struct bench b = bench_new(1, &r);

	(void)state;
	assert_int_equal(px_chosen(b.px), 6);
	assert_int_equal(px_last(b.px), 7);
	assert_int_equal(px_first(b.px), 5);
	bench_free(&b);
	/* Another entry was chosen than the one that the log has. */
	r.applied_origin = new;
	b = bench_new(1, &r);
	assert_int_equal(px_chosen(b.px), 6);
	assert_int_equal(px_last(b.px), 6);
	assert_int_equal(px_first(b.px), 7);
	bench_free(&b);
}

static void
trims_below_the_last_chosen_when_applied_is_durable(void **state)
{
	struct bench b = master(&nothing);

	(void)state;
	for (int i = 0; i < 4; i++)
		bench_propose(&b, "x");
	bench_persist(&b, b.update.write);
	/* The hint of what is chosen is not durable yet: after a crash the log would not know. */
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 4});
	assert_int_equal(bench_record(&b, PX_RECORD_CHOSEN)->slot, 4);
	assert_null(bench_record(&b, PX_RECORD_TRIM));
	bench_persist(&b, b.update.write);
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 4});
	assert_int_equal(bench_record(&b, PX_RECORD_TRIM)->slot, 3);
	assert_int_equal(px_first(b.px), 4);
	bench_free(&b);
}

static void
steps_down_when_nothing_is_in_flight(void **state)
{
	struct bench b = master(&nothing);
	uint64_t ticket;

	(void)state;
	bench_propose(&b, "a");
	ticket = b.update.write;
	bench_step(&b, (struct px_event){.kind = PX_STEP_DOWN});
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_false(px_open(b.px));
	bench_propose(&b, "b");
	assert_int_equal(px_last(b.px), 1);
	bench_persist(&b, ticket);
	assert_int_equal(px_chosen(b.px), 1);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_false(px_lease_valid(b.px, b.now));
	bench_free(&b);
}

static void
steps_down_in_time_when_the_disk_is_stuck(void **state)
{
	struct bench b = master(&nothing);

	(void)state;
	bench_propose(&b, "a");
	bench_step(&b, (struct px_event){.kind = PX_STEP_DOWN});
	bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_int_equal(px_chosen(b.px), 0);
	bench_free(&b);
}

static void
has_no_room_when_too_much_is_in_flight(void **state)
{
	struct bench b = master(&nothing);
	uint8_t *large = calloc(1, LIMIT_ENTRY);

	(void)state;
	for (int i = 0; i < 16; i++) {
		assert_true(px_room(b.px));
		bench_step(&b, (struct px_event){.kind = PX_PROPOSE,
		                                 .payload = {large, LIMIT_ENTRY}});
	}
	assert_false(px_room(b.px));
	bench_persist(&b, b.update.write);
	assert_true(px_room(b.px));
	bench_free(&b);
	free(large);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(becomes_master_when_its_promise_is_durable),
		cmocka_unit_test(chooses_when_durable_not_before),
		cmocka_unit_test(ignores_proposals_before_it_is_master),
		cmocka_unit_test(chooses_what_the_log_held_in_its_new_ballot),
		cmocka_unit_test(knows_as_chosen_what_the_state_has),
		cmocka_unit_test(trims_below_the_last_chosen_when_applied_is_durable),
		cmocka_unit_test(steps_down_when_nothing_is_in_flight),
		cmocka_unit_test(steps_down_in_time_when_the_disk_is_stuck),
		cmocka_unit_test(has_no_room_when_too_much_is_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
