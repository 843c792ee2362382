/* Who remembers what of whom: replica 1 is under test, as the one that has started and as the one
 * that welcomes others. */
#include "tests/unit/px_bench.h"

static const struct px_recovered nothing = {.incarnation = 1};
static const struct ballot b2 = {5, 2}, b3 = {6, 3};

#define DISK(n) ((uint64_t)(n) << 32) /* the upper half of its starts' numbers */

static struct bench
muted(int members, const struct px_recovered *recovered)
{
	struct px_config c = bench_config(members);

	return bench_mute(&c, recovered);
}

static void
heartbeat(struct bench *b, struct ballot ballot, const struct mark *marks, size_t n)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);

	for (size_t i = 0; i < n; i++)
		wire_put_mark(&packed, &marks[i]);
	bench_receive(b, ballot.replica, (struct message){.code = MSG_heartbeat, .heartbeat = {
		.ballot = ballot, .sequence = 1, .lease_ms = 500, .first = 1,
		.marks = {buffer_view(&packed), (uint32_t)n}}});
	buffer_free(&packed);
}

/* Lets `from` accept everything up to `slot` in our ballot. */
static void
accepted(struct bench *b, uint8_t from, struct ballot ballot, uint64_t slot)
{
	const struct mark own = {.replica = from, .ballot = ballot, .slot = slot};

	bench_receive(b, from, (struct message){.code = MSG_accepted,
	                                        .accepted = {ballot, slot, own}});
}

/* What replica 2 is told that says hello like this. */
static struct msg_welcome
hello(struct bench *b, uint64_t incarnation, uint64_t start, struct ballot ballot, uint64_t last)
{
	const struct message *m;

	bench_receive(b, 2, (struct message){.code = MSG_hello, .hello = {
		.ballot = ballot.round ? ballot : (struct ballot){1, 0},
		.incarnation = incarnation, .start = start, .last = last}});
	m = bench_sent(b, 2, MSG_welcome, NULL);
	assert_non_null(m);
	assert_int_equal(m->welcome.incarnation, incarnation);
	assert_int_equal(m->welcome.start, start);
	return m->welcome;
}

#define NONE ((struct ballot){0, 0})

/* ---- the one that has started ---- */

static void
is_mute_until_half_of_the_others_welcome_it(void **state)
{
	struct bench b = muted(5, &nothing);
	struct message prepare = {.code = MSG_prepare, .prepare = {.ballot = b2, .first = 1}};

	(void)state;
	assert_int_equal(px_condition(b.px), CONDITION_JOINING);
	bench_timeout(&b);
	for (uint8_t id = 2; id <= 5; id++)
		assert_non_null(bench_sent(&b, id, MSG_hello, NULL));
	bench_receive(&b, 2, prepare);
	assert_null(bench_sent(&b, 2, MSG_promise, NULL));
	heartbeat(&b, b2, NULL, 0);
	assert_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	bench_pass(&b, 100000);
	bench_step(&b, (struct px_event){.kind = PX_TIMEOUT});
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_non_null(bench_sent(&b, 3, MSG_hello, NULL)); /* again */
	bench_welcome(&b, 2, WELCOME_FINE);
	bench_welcome(&b, 2, WELCOME_FINE); /* twice is once */
	assert_int_equal(px_condition(b.px), CONDITION_JOINING);
	bench_welcome(&b, 4, WELCOME_FINE);
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	bench_receive(&b, 2, prepare);
	assert_non_null(bench_sent(&b, 2, MSG_promise, NULL));
	bench_free(&b);
}

static void
a_cell_of_one_is_not_mute(void **state)
{
	struct bench b = muted(1, &nothing);

	(void)state;
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	bench_free(&b);
}

static void
ignores_a_welcome_of_an_earlier_start(void **state)
{
	struct bench b = muted(3, &(struct px_recovered){.incarnation = 4});
	struct message m = {.code = MSG_welcome, .welcome = {
		.ballot = {1, 0}, .incarnation = 3, .start = BENCH_START}};

	(void)state;
	bench_receive(&b, 2, m);
	m.welcome.incarnation = 4;
	m.welcome.start++;
	bench_receive(&b, 2, m);
	m.welcome.remembered = bench_genuine((struct mark){.incarnation = 5, .start = BENCH_START});
	bench_receive(&b, 2, m);
	assert_int_equal(px_condition(b.px), CONDITION_JOINING);
	m.welcome.start--;
	bench_receive(&b, 2, m);
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	bench_free(&b);
}

static void
who_has_lost_its_vote_has_lost_it_for_good(void **state)
{
	struct px_recovered r = {.incarnation = 9, .marks_n = 1};
	struct bench b = bench_new(3, &nothing);
	struct message prepare = {.code = MSG_prepare, .prepare = {.ballot = b2, .first = 1}};
	struct mark own;

	(void)state;
	bench_lose(&b, 2); /* it came late: it votes already */
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	own = bench_record(&b, PX_RECORD_MARK)->mark;
	assert_int_equal(own.replica, 1);
	bench_welcome(&b, 2, WELCOME_FINE);
	bench_welcome(&b, 3, WELCOME_FINE);
	bench_receive(&b, 2, prepare);
	assert_int_equal(b.update.sends_n, 0);
	assert_true(mono_is_never(px_deadline(b.px)));
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	bench_free(&b);
	r.marks = &own;
	b = bench_new(3, &r);
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	bench_receive(&b, 2, prepare);
	assert_int_equal(b.update.sends_n, 0);
	bench_free(&b);
}

/* A hello that was long under way tells less than what was acknowledged behind it. */
static void
compares_with_what_it_has_by_now(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a");
	struct px_recovered r = {.incarnation = 2, .promised = b2, .entries = &e, .entries_n = 1};
	struct bench b = bench_new(3, &r);
	struct mark m = {.incarnation = 2, .start = BENCH_START, .ballot = b2, .slot = 1};

	(void)state;
	bench_remind(&b, 3, m);
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	m.slot = 2;
	bench_remind(&b, 3, m);
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	bench_free(&b);
	b = bench_new(3, &r);
	m.slot = 1;
	m.ballot = b3;
	bench_remind(&b, 3, m);
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	bench_free(&b);
}

/* Whoever remembers more of it than it has told can't take its vote, for that has no proof. */
static void
wrong_marks_take_no_vote(void **state)
{
	struct mark wrong[] = {
		{1, 1, BENCH_START, b2, 1, 0}, {1, 2, BENCH_START, b2, 0, 0},
		{1, 1, BENCH_START + 1, b2, 0, 0}, {1, 1, DISK(3), b2, 0, 0},
		{1, 1, BENCH_START, b3, 0, 7}, {1, UINT64_MAX, 0, b2, UINT64_MAX, 1},
	};
	struct bench b = muted(3, &nothing);
	struct message m = {.code = MSG_welcome, .welcome = {
		.ballot = {1, 0}, .incarnation = 1, .start = BENCH_START}};

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		m.welcome.remembered = wrong[i];
		bench_receive(&b, 2, m);
		heartbeat(&b, b2, &wrong[i], 1);
		assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	}
	bench_free(&b);
}

static void
a_heartbeat_shows_that_it_forgot(void **state)
{
	struct mark m = {.replica = 1, .incarnation = 1, .start = BENCH_START};
	struct bench b = bench_new(3, &nothing);

	(void)state;
	m = bench_genuine(m);
	heartbeat(&b, b2, &m, 1);
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	m.slot = 1;
	m = bench_genuine(m);
	heartbeat(&b, b2, &m, 1);
	assert_int_equal(px_condition(b.px), CONDITION_LOST);
	assert_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	bench_free(&b);
}

/* The disk's number outlives the starts, and is durable before the first hello. */
static void
a_disk_keeps_its_number(void **state)
{
	struct px_config c = bench_config(3);
	struct px_recovered r = {.incarnation = 2, .marks_n = 1};
	struct bench b;
	struct mark own;
	uint64_t after, ticket;

	(void)state;
	c.start = DISK(7) + 1;
	b = bench_mute(&c, &nothing);
	bench_timeout(&b);
	own = bench_record(&b, PX_RECORD_MARK)->mark;
	ticket = b.update.write;
	assert_int_equal(bench_sent(&b, 2, MSG_hello, &after)->hello.start, DISK(7) + 1);
	assert_int_equal(after, ticket);
	bench_free(&b);
	r.marks = &own;
	c.start = DISK(8) + 2;
	b = bench_mute(&c, &r);
	bench_timeout(&b);
	assert_int_equal(bench_sent(&b, 2, MSG_hello, NULL)->hello.start, DISK(7) + 2);
	bench_free(&b);
}

/* What came since may not be durable: who was removed says hello again while it votes. */
static void
says_hello_with_what_its_start_found(void **state)
{
	struct px_config c = bench_config(3);
	struct px_recovered r = {.incarnation = 2, .promised = b2};
	struct bench b;

	(void)state;
	c.members.removed[0] = 1 << 1;
	c.members.list[0] = (struct px_member){4, true};
	b = bench_mute(&c, &r);
	for (uint8_t id = 2; id <= 4; id++)
		bench_welcome(&b, id, WELCOME_FINE);
	assert_int_not_equal(px_condition(b.px), CONDITION_JOINING);
	heartbeat(&b, b3, NULL, 0); /* enters its ballot and records nothing of it */
	bench_timeout(&b);
	assert_int_equal(bench_sent(&b, 2, MSG_hello, NULL)->hello.ballot.round, b2.round);
	bench_free(&b);
}

/* ---- the one that welcomes ---- */

static void
welcomes_when_the_mark_is_durable(void **state)
{
	struct bench b = muted(3, &nothing); /* mute or not */
	uint64_t after = UINT64_MAX;

	(void)state;
	assert_int_equal(hello(&b, 1, 3, NONE, 0).verdict, WELCOME_FINE);
	assert_int_equal(bench_record(&b, PX_RECORD_MARK)->mark.replica, 2);
	assert_non_null(bench_sent(&b, 2, MSG_welcome, &after));
	assert_int_equal(after, b.update.write);
	assert_int_equal(hello(&b, 1, 3, NONE, 0).verdict, WELCOME_FINE); /* asked again */
	assert_int_equal(b.update.records_n, 0);
	bench_sent(&b, 2, MSG_welcome, &after);
	assert_int_not_equal(after, 0); /* not durable yet */
	bench_persist(&b, after);
	hello(&b, 1, 3, NONE, 0);
	bench_sent(&b, 2, MSG_welcome, &after);
	assert_int_equal(after, 0);
	bench_free(&b);
}

/* It is told what it told once, and not what it tells now: it sees that it has lost its vote. */
static void
who_has_forgotten_is_reminded(void **state)
{
	struct mark known = {2, 3, 5, b2, 17, 99}, m;
	struct px_recovered r = {.incarnation = 1, .marks = &known, .marks_n = 1};
	struct bench b = muted(3, &r);

	(void)state;
	for (int i = 0; i < 3; i++) {
		m = hello(&b, i == 0 ? 1 : 4, 6, i == 1 ? (struct ballot){4, 2} : b2,
		          i == 2 ? 16 : 17).remembered;
		if (i == 0) /* an emptied disk: an earlier incarnation, and nothing else is less */
			m = hello(&b, 1, 6, NONE, 0).remembered;
		assert_int_equal(m.incarnation, known.incarnation);
		assert_int_equal(m.slot, known.slot);
		assert_int_equal(m.proof, known.proof);
		assert_null(bench_record(&b, PX_RECORD_MARK));
	}
	assert_int_equal(hello(&b, 4, 6, b2, 17).remembered.incarnation, 4);
	assert_int_equal(bench_record(&b, PX_RECORD_MARK)->mark.incarnation, 4);
	bench_free(&b);
}

/* The earlier life of an emptied disk, or another process with its data, is its own, too. */
static void
sees_that_it_told_more_once(void **state)
{
	const struct mark more[] = {
		{1, 3, BENCH_START, NONE, 0, 0}, {1, 2, BENCH_START + 1, NONE, 0, 0},
		{1, 1, DISK(3), NONE, 0, 0}, {1, 1, 0, b2, 0, 0}, {1, 1, 0, NONE, 1, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
		struct bench b = muted(3, &(struct px_recovered){.incarnation = 2});

		bench_remind(&b, 2, more[i]);
		assert_int_equal(px_condition(b.px), CONDITION_LOST);
		bench_free(&b);
	}
}

/* A candidate has learned an entry of a higher ballot than it has promised. */
static void
a_learned_entry_costs_no_vote(void **state)
{
	struct bench b = bench_new(5, &nothing);
	struct log_entry e = bench_entry(1, b3, b3, "a");

	(void)state;
	bench_receive(&b, 3, (struct message){.code = MSG_refused, .refused = {b3}});
	do
		bench_timeout(&b);
	while (px_role(b.px) != PX_CANDIDATE);
	bench_promise(&b, 3, (struct ballot){b3.round + 1, 1}, 1, &e, 1);
	assert_int_equal(px_chosen(b.px), 1);
	bench_remind(&b, 3, (struct mark){1, 1, BENCH_START, b3, 1, 0});
	assert_int_equal(px_condition(b.px), CONDITION_VOTING);
	bench_free(&b);
}

static void
who_has_lost_its_vote_welcomes_nobody(void **state)
{
	struct bench b = muted(3, &nothing);
	struct message m = {.code = MSG_hello, .hello = {.ballot = {1, 0}, .incarnation = 1}};

	(void)state;
	bench_lose(&b, 3);
	bench_receive(&b, 2, m);
	assert_int_equal(b.update.sends_n, 0);
	bench_free(&b);
}

/* A master of three, in `b`; its ballot. */
static struct ballot
master(struct bench *b)
{
	struct ballot mine;

	*b = bench_new(3, &nothing);
	bench_timeout(b);
	mine = bench_sent(b, 2, MSG_prepare, NULL)->prepare.ballot;
	bench_receive(b, 2, (struct message){.code = MSG_promise, .promise = {.ballot = mine}});
	bench_persist(b, b->update.write);
	assert_int_equal(px_role(b->px), PX_MASTER);
	return mine;
}

/* The mark of a replica in a heartbeat to replica 3. */
static struct mark
told(struct bench *b, uint8_t replica)
{
	const struct message *m;
	struct mark mark = {0}, found = {0};
	struct cursor c;

	bench_timeout(b);
	m = bench_sent(b, 3, MSG_heartbeat, NULL);
	assert_non_null(m);
	c = cursor_of(m->heartbeat.marks.packed);
	while (wire_next_mark(&c, &mark))
		if (mark.replica == replica)
			found = mark;
	return found;
}

static void
a_master_tells_what_all_have_acknowledged(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);
	struct mark m;

	(void)state;
	bench_propose(&b, "a");
	bench_propose(&b, "b");
	accepted(&b, 2, mine, 2);
	m = told(&b, 2);
	assert_int_equal(m.slot, 2);
	assert_int_equal(m.ballot.round, mine.round);
	bench_receive(&b, 3, (struct message){.code = MSG_heartbeat_reply, .heartbeat_reply = {
		.ballot = mine, .sequence = 1, .upto = 2, .durable = 1,
		.own = {.replica = 3, .slot = 1}}});
	m = told(&b, 3);
	assert_int_equal(m.slot, 1);
	assert_int_equal(m.ballot.round, 0);
	m = told(&b, 1);
	assert_int_equal(m.ballot.round, mine.round);
	assert_int_equal(m.incarnation, 1);
	assert_int_equal(m.start, BENCH_START);
	bench_free(&b);
}

static void
records_marks_along_with_other_records(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	for (uint64_t slot = 1; slot <= 3; slot++)
		bench_propose(&b, "a");
	bench_pass(&b, 100);
	accepted(&b, 2, mine, 1);
	assert_null(bench_record(&b, PX_RECORD_MARK));
	bench_propose(&b, "b");
	assert_int_equal(bench_record(&b, PX_RECORD_MARK)->mark.replica, 2);
	assert_int_equal(bench_record(&b, PX_RECORD_MARK)->mark.slot, 1);
	accepted(&b, 2, mine, 2);
	bench_propose(&b, "c");
	assert_null(bench_record(&b, PX_RECORD_MARK)); /* once per heartbeat interval */
	bench_pass(&b, 100);
	bench_propose(&b, "d");
	assert_int_equal(bench_record(&b, PX_RECORD_MARK)->mark.slot, 2);
	bench_free(&b);
}

static void
learns_marks_from_the_master(void **state)
{
	struct mark m = {3, 7, 5, b2, 12, 3};
	struct bench b = bench_new(3, &nothing);
	const struct px_record *r;

	(void)state;
	heartbeat(&b, b2, &m, 1);
	r = bench_record(&b, PX_RECORD_MARK); /* a new incarnation, at once */
	assert_int_equal(r->mark.replica, 3);
	assert_int_equal(r->mark.incarnation, 7);
	assert_int_equal(r->mark.slot, 12);
	bench_free(&b);
}

static void
a_ballot_is_recorded_before_an_acceptance(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a");
	struct bench b = bench_new(3, &nothing);
	struct wire_list list = bench_list(&e, 1);

	(void)state;
	bench_receive(&b, 2, (struct message){.code = MSG_accept, .accept = {
		.ballot = b2, .entries = list}});
	free((void *)list.packed.data);
	assert_int_equal(bench_record(&b, PX_RECORD_PROMISE)->ballot.round, b2.round);
	bench_free(&b);
}

static void
a_ballot_is_recorded_before_what_is_learned(void **state)
{
	struct log_entry e = bench_entry(1, b2, b2, "a");
	struct bench b = bench_new(3, &(struct px_recovered){.incarnation = 1, .promised = {5, 1}});
	struct ballot mine;

	(void)state;
	bench_timeout(&b);
	mine = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
	bench_promise_part(&b, 2, (struct msg_promise){.ballot = mine, .chosen = 1, .last = 2},
	                   &e, 1);
	assert_int_equal(px_chosen(b.px), 1);
	assert_int_equal(bench_record(&b, PX_RECORD_PROMISE)->ballot.round, b2.round);
	bench_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_mute_until_half_of_the_others_welcome_it),
		cmocka_unit_test(a_cell_of_one_is_not_mute),
		cmocka_unit_test(ignores_a_welcome_of_an_earlier_start),
		cmocka_unit_test(who_has_lost_its_vote_has_lost_it_for_good),
		cmocka_unit_test(compares_with_what_it_has_by_now),
		cmocka_unit_test(a_heartbeat_shows_that_it_forgot),
		cmocka_unit_test(a_disk_keeps_its_number),
		cmocka_unit_test(says_hello_with_what_its_start_found),
		cmocka_unit_test(welcomes_when_the_mark_is_durable),
		cmocka_unit_test(who_has_forgotten_is_reminded),
		cmocka_unit_test(sees_that_it_told_more_once),
		cmocka_unit_test(wrong_marks_take_no_vote),
		cmocka_unit_test(a_learned_entry_costs_no_vote),
		cmocka_unit_test(who_has_lost_its_vote_welcomes_nobody),
		cmocka_unit_test(a_master_tells_what_all_have_acknowledged),
		cmocka_unit_test(records_marks_along_with_other_records),
		cmocka_unit_test(learns_marks_from_the_master),
		cmocka_unit_test(a_ballot_is_recorded_before_an_acceptance),
		cmocka_unit_test(a_ballot_is_recorded_before_what_is_learned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
