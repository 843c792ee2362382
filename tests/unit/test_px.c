/* The rules of one replica among three: the test plays the other two, the clock and the disk. */
#include "tests/unit/px_bench.h"

static const struct px_recovered nothing = {.incarnation = 1};
static const struct px_recovered later = {.incarnation = 1, .promised = {7, 2}};
static const struct ballot b2 = {5, 2}, b3 = {6, 3};

static struct message
prepare(struct ballot ballot, uint64_t first)
{
	return (struct message){.code = MSG_prepare, .prepare = {ballot, first, 100}};
}

static struct message
heartbeat(struct ballot ballot, uint64_t sequence, uint64_t chosen)
{
	return (struct message){.code = MSG_heartbeat, .heartbeat = {
		.ballot = ballot, .chosen = chosen, .sequence = sequence, .lease_ms = 500}};
}

/* A promise of replica 2 for `ballot`. */
static void
promise(struct bench *b, struct ballot ballot, uint64_t chosen, const struct log_entry *e, size_t n)
{
	bench_promise(b, 2, ballot, chosen, e, n);
}

/* A bench of three whose px stands for election; its ballot. */
static struct ballot
candidate(struct bench *b, const struct px_recovered *recovered)
{
	*b = bench_new(3, recovered);
	bench_timeout(b);
	assert_int_equal(px_role(b->px), PX_CANDIDATE);
	return bench_sent(b, 2, MSG_prepare, NULL)->prepare.ballot;
}

/* ... and wins, with replica 2's promise of nothing. */
static struct ballot
master(struct bench *b)
{
	struct ballot mine = candidate(b, &nothing);

	promise(b, mine, 0, NULL, 0);
	bench_persist(b, b->update.write);
	assert_int_equal(px_role(b->px), PX_MASTER);
	return mine;
}

static void
reply(struct bench *b, struct ballot ballot, uint64_t sequence, uint64_t upto, uint64_t durable)
{
	bench_receive(b, 2, (struct message){.code = MSG_heartbeat_reply, .heartbeat_reply = {
		.ballot = ballot, .sequence = sequence, .upto = upto, .durable = durable}});
}

/* ---- the acceptor ---- */

static void
promises_when_durable(void **state)
{
	struct bench b = bench_new(3, &nothing);
	const struct message *m;
	uint64_t after = UINT64_MAX; /* no ticket */

	(void)state;
	bench_receive(&b, 2, prepare(b2, 1));
	m = bench_sent(&b, 2, MSG_promise, &after);
	assert_non_null(m);
	assert_int_equal(after, b.update.write);
	assert_int_equal(bench_record(&b, PX_RECORD_PROMISE)->ballot.round, 5);
	bench_persist(&b, after);
	bench_receive(&b, 2, prepare(b2, 1)); /* lost: asked again */
	assert_non_null(bench_sent(&b, 2, MSG_promise, &after));
	assert_int_equal(after, 0);
	assert_int_equal(b.update.records_n, 0);
	bench_free(&b);
}

static void
refuses_what_is_below_its_promise(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct log_entry e = bench_entry(1, b2, b2, "a");

	(void)state;
	bench_receive(&b, 3, prepare(b3, 1));
	bench_receive(&b, 2, prepare(b2, 1));
	assert_int_equal(bench_sent(&b, 2, MSG_refused, NULL)->refused.ballot.round, 6);
	bench_accept(&b, b2, 0, &e, 1);
	assert_int_equal(bench_sent(&b, 2, MSG_refused, NULL)->refused.ballot.round, 6);
	bench_receive(&b, 2, heartbeat(b2, 1, 0));
	assert_non_null(bench_sent(&b, 2, MSG_refused, NULL));
	assert_int_equal(px_last(b.px), 0);
	bench_free(&b);
}

static void
takes_slots_in_order_and_reports_holes(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b"),
	                        bench_entry(3, b2, b2, "c")};
	uint64_t after = UINT64_MAX; /* no ticket */

	(void)state;
	bench_accept(&b, b2, 0, &e[0], 1);
	assert_int_equal(bench_sent(&b, 2, MSG_accepted, &after)->accepted.upto, 1);
	assert_int_equal(after, b.update.write);
	bench_accept(&b, b2, 0, &e[2], 1);
	assert_int_equal(px_last(b.px), 1);
	assert_int_equal(bench_sent(&b, 2, MSG_fetch, NULL)->fetch.first, 2);
	bench_accept(&b, b2, 2, &e[0], 3);
	assert_int_equal(bench_sent(&b, 2, MSG_accepted, NULL)->accepted.upto, 3);
	assert_int_equal(px_chosen(b.px), 2);
	bench_free(&b);
}

static void
believes_chosen_only_for_entries_of_that_ballot(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct log_entry old = bench_entry(1, b2, b2, "old"), new = bench_entry(1, b3, b3, "new");

	(void)state;
	bench_accept(&b, b2, 0, &old, 1);
	bench_receive(&b, 3, heartbeat(b3, 1, 1));
	assert_int_equal(px_chosen(b.px), 0);
	assert_int_equal(bench_sent(&b, 3, MSG_heartbeat_reply, NULL)->heartbeat_reply.upto, 0);
	bench_accept(&b, b3, 1, &new, 1);
	assert_int_equal(px_chosen(b.px), 1);
	assert_payload(b.px, 1, "new");
	bench_free(&b);
}

static void
drops_what_a_newer_origin_supersedes(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct log_entry old[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b")};
	struct log_entry new = bench_entry(1, b3, b3, "x");

	(void)state;
	bench_accept(&b, b2, 0, old, 2);
	assert_int_equal(px_last(b.px), 2);
	bench_accept(&b, b3, 0, &new, 1);
	assert_int_equal(px_last(b.px), 1);
	bench_free(&b);
}

static void
refuses_a_damaged_entry(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct log_entry e = bench_entry(1, b2, b2, "a");

	(void)state;
	e.checksum++;
	bench_accept(&b, b2, 0, &e, 1);
	assert_int_equal(px_last(b.px), 0);
	assert_int_equal(bench_sent(&b, 2, MSG_accepted, NULL)->accepted.upto, 0);
	bench_free(&b);
}

static void
ignores_borrowed_ballots(void **state)
{
	struct bench b = bench_new(3, &nothing);

	(void)state;
	bench_receive(&b, 3, prepare(b2, 1));
	assert_int_equal(b.update.sends_n, 0);
	bench_receive(&b, 3, heartbeat(b2, 1, 0));
	assert_int_equal(b.update.sends_n, 0);
	bench_receive(&b, 2, prepare((struct ballot){UINT64_MAX, 2}, 1));
	assert_int_equal(b.update.sends_n, 0);
	bench_free(&b);
}

/* ---- the lease ---- */

static void
records_the_lease_before_its_first_grant(void **state)
{
	struct bench b = bench_new(3, &nothing);
	uint64_t after, ticket;

	(void)state;
	bench_receive(&b, 2, heartbeat(b2, 1, 0));
	assert_int_equal(span_to_ms(bench_record(&b, PX_RECORD_LEASE)->length), 500);
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat_reply, &after));
	assert_int_equal(after, ticket = b.update.write);
	bench_persist(&b, ticket);
	bench_receive(&b, 2, heartbeat(b2, 2, 0));
	assert_int_equal(b.update.records_n, 0); /* no disk */
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat_reply, &after));
	assert_int_equal(after, 0);
	bench_free(&b);
}

static void
is_bound_by_its_grant_until_it_ran_out(void **state)
{
	struct bench b = bench_new(3, &nothing);

	(void)state;
	bench_receive(&b, 2, heartbeat(b2, 1, 0));
	bench_pass(&b, 499);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_int_equal(bench_sent(&b, 3, MSG_refused, NULL)->refused.ballot.round, 5);
	assert_true(mono_before(b.now, px_deadline(b.px))); /* its own candidacy, too */
	bench_pass(&b, 1);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	bench_free(&b);
}

static void
waits_after_a_restart(void **state)
{
	struct px_recovered r = {.incarnation = 2, .wait = span_ms(500)};
	struct bench b = bench_new(3, &r);

	(void)state;
	bench_pass(&b, 499);
	assert_true(mono_before(b.now, px_deadline(b.px)));
	bench_receive(&b, 3, prepare(b3, 1));
	assert_int_equal(b.update.sends_n, 0);
	bench_pass(&b, 1);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	bench_free(&b);
}

static void
counts_its_lease_from_sending(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	assert_false(px_lease_valid(b.px, b.now));
	bench_pass(&b, 90); /* the answer was long under way */
	reply(&b, mine, 1, 0, 0);
	assert_true(px_lease_valid(b.px, b.now));
	bench_pass(&b, 399);
	assert_true(px_lease_valid(b.px, b.now));
	bench_pass(&b, 1); /* 500 ms less 2 % for the clocks */
	assert_false(px_lease_valid(b.px, b.now));
	assert_int_equal(px_role(b.px), PX_MASTER);
	bench_free(&b);
}

static void
keeps_its_mastership_to_itself_while_the_lease_holds(void **state)
{
	struct bench b;
	struct ballot mine = master(&b), higher = {mine.round + 1, 3};

	(void)state;
	reply(&b, mine, 1, 0, 0);
	bench_receive(&b, 3, prepare(higher, 1));
	assert_non_null(bench_sent(&b, 3, MSG_refused, NULL));
	bench_pass(&b, 600);
	bench_receive(&b, 3, prepare(higher, 1));
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	bench_free(&b);
}

/* ---- candidate and master ---- */

static void
promises_itself_only_when_that_makes_a_quorum(void **state)
{
	struct bench b;
	struct ballot mine = candidate(&b, &nothing);
	uint64_t ticket;

	(void)state;
	assert_int_equal(b.update.records_n, 0);
	promise(&b, mine, 0, NULL, 0);
	ticket = b.update.write;
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	assert_int_equal(px_role(b.px), PX_CANDIDATE);
	bench_persist(&b, ticket);
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_non_null(bench_sent(&b, 3, MSG_heartbeat, NULL));
	bench_free(&b);
}

static void
goes_back_to_a_living_master(void **state)
{
	struct px_recovered r = {.incarnation = 1, .promised = b2};
	struct bench b;

	(void)state;
	candidate(&b, &r);
	bench_receive(&b, 2, heartbeat(b2, 7, 0));
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_int_equal(px_master(b.px).replica, 2);
	assert_non_null(bench_sent(&b, 2, MSG_heartbeat_reply, NULL));
	bench_free(&b);
}

static void
proposes_the_value_of_the_highest_ballot(void **state)
{
	struct log_entry own = bench_entry(1, b2, b2, "low");
	struct log_entry other = bench_entry(1, b3, b3, "high");
	struct px_recovered r = {.incarnation = 2, .promised = b3, .entries = &own, .entries_n = 1};
	struct bench b;
	struct ballot mine = candidate(&b, &r);

	(void)state;
	assert_true(mine.round > 6);
	promise(&b, mine, 0, &other, 1);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_role(b.px), PX_MASTER);
	assert_payload(b.px, 1, "high");
	assert_int_equal(bench_record(&b, PX_RECORD_ENTRY)->ballot.round, mine.round);
	assert_int_equal(bench_record(&b, PX_RECORD_ENTRY)->origin.round, 6);
	assert_non_null(bench_sent(&b, 3, MSG_accept, NULL));
	bench_free(&b);
}

static void
leaves_out_what_was_superseded(void **state)
{
	struct log_entry own[] = {bench_entry(1, b2, b2, "n1"), bench_entry(2, b2, b2, "n2")};
	struct log_entry other = bench_entry(1, b3, b3, "x");
	struct px_recovered r = {.incarnation = 2, .promised = b3, .entries = own, .entries_n = 2};
	struct bench b;
	struct ballot mine = candidate(&b, &r);

	(void)state;
	promise(&b, mine, 0, &other, 1);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_last(b.px), 1); /* n2 without n1 would break a client's order */
	assert_payload(b.px, 1, "x");
	bench_free(&b);
}

/* Replica 3 proposed 1 and 2; then replica 4, who had heard nothing of that, finished the slot 1 of
 * replica 2 in a ballot of its own, and no more. Origins grow along the log; 2 must go all the
 * same, wherever the two come together. */
static void
leaves_out_what_was_proposed_behind_another_value(void **state)
{
	const struct ballot b4 = {9, 4};
	struct log_entry old[] = {bench_entry(1, b3, b3, "n1"), bench_entry(2, b3, b3, "n2")};
	struct log_entry new = bench_entry(1, b4, b2, "x");
	struct log_entry both[] = {new, old[1]};
	struct px_recovered r = {.incarnation = 2, .promised = b4, .entries = old, .entries_n = 2};
	struct bench b;

	(void)state;
	both[1].before = old[1].before = b3;
	r.entries = both; /* on the disk */
	b = bench_new(3, &r);
	assert_int_equal(px_last(b.px), 1);
	bench_free(&b);

	b = bench_new(3, &nothing); /* at an acceptor */
	bench_accept(&b, b3, 0, old, 2);
	assert_int_equal(bench_record(&b, PX_RECORD_ENTRY)->before.round, 6);
	bench_accept(&b, b4, 0, &new, 1);
	assert_int_equal(px_last(b.px), 1);
	bench_free(&b);

	r.entries = old; /* among promises */
	promise(&b, candidate(&b, &r), 0, &new, 1);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_last(b.px), 1);
	assert_payload(b.px, 1, "x");
	bench_propose(&b, "y"); /* its own tells what it stands behind */
	assert_int_equal(bench_record(&b, PX_RECORD_ENTRY)->before.round, 5);
	bench_free(&b);
}

static void
asks_on_until_it_has_all_of_a_promise(void **state)
{
	struct log_entry e[] = {bench_entry(1, b2, b2, "a"), bench_entry(2, b2, b2, "b")};
	struct wire_list list = bench_headers(e, 1);
	struct bench b;
	struct ballot mine = candidate(&b, &later);

	(void)state;
	bench_receive(&b, 2, (struct message){.code = MSG_promise, .promise = {
		.ballot = mine, .last = 2, .accepted = list}});
	assert_int_equal(bench_sent(&b, 2, MSG_prepare, NULL)->prepare.first, 2);
	assert_null(bench_record(&b, PX_RECORD_PROMISE));
	assert_true(bench_give(&b, 2, e, 2));
	promise(&b, mine, 0, &e[1], 1);
	assert_non_null(bench_record(&b, PX_RECORD_PROMISE));
	bench_persist(&b, b.update.write);
	assert_int_equal(px_last(b.px), 2);
	free((void *)list.packed.data);
	bench_free(&b);
}

static void
learns_from_a_promise_what_it_accepted_otherwise(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct log_entry own[] = {bench_entry(1, b2, b2, "x"), bench_entry(2, b2, b2, "y")};
	struct log_entry chosen = bench_entry(1, (struct ballot){5, 3}, (struct ballot){5, 3}, "a");
	struct ballot mine;
	uint64_t ticket;

	(void)state;
	bench_accept(&b, b2, 0, own, 2);
	ticket = b.update.write;  /* still on its way to the disk */
	bench_timeout(&b);
	mine = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
	bench_promise_part(&b, 2, (struct msg_promise){.ballot = mine, .chosen = 1, .last = 2},
	                   &chosen, 1);
	assert_int_equal(px_chosen(b.px), 1);
	assert_payload(b.px, 1, "a");
	assert_int_equal(px_last(b.px), 1);
	bench_persist(&b, ticket); /* tells nothing of slot 2 any more */
	assert_int_equal(px_last(b.px), 1);
	bench_free(&b);
}

static void
a_promise_tells_of_all_values_and_gives_them_when_asked(void **state)
{
	struct bench b = bench_new(3, &nothing);
	uint8_t *large = calloc(1, LIMIT_ENTRY);
	struct bytes payload = {large, LIMIT_ENTRY};

	(void)state;
	for (uint64_t slot = 1; slot <= 60; slot++) {
		struct log_entry e = {.slot = slot, .ballot = b2, .origin = b2,
			                      .checksum = checksum(payload), .payload = payload};

		bench_accept(&b, b2, 0, &e, 1);
	}
	assert_int_equal(px_last(b.px), 60);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_int_equal(bench_sent(&b, 3, MSG_promise, NULL)->promise.last, 60);
	assert_int_equal(bench_sent(&b, 3, MSG_promise, NULL)->promise.accepted.count, 60);
	bench_receive(&b, 3, (struct message){.code = MSG_gather, .gather = {b3, 7, 60}});
	assert_int_equal(bench_sent(&b, 3, MSG_gathered, NULL)->gathered.entries.count, 1);
	bench_free(&b);
	free(large);
}

static void
chooses_by_majority_its_own_disk_among_them(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);
	struct message accepted = {.code = MSG_accepted, .accepted = {.ballot = mine, .upto = 1}};
	uint64_t ticket;

	(void)state;
	bench_propose(&b, "a");
	ticket = b.update.write;
	assert_non_null(bench_sent(&b, 2, MSG_accept, NULL)); /* in parallel with its own disk */
	bench_receive(&b, 2, accepted);
	bench_receive(&b, 2, accepted); /* twice is once */
	assert_int_equal(px_chosen(b.px), 0);
	bench_receive(&b, 3, accepted);
	assert_int_equal(px_chosen(b.px), 1); /* without our own disk, too */
	bench_propose(&b, "b");
	assert_true(b.update.write > ticket);
	bench_persist(&b, b.update.write);
	assert_int_equal(px_chosen(b.px), 1);
	reply(&b, mine, 1, 2, 2);
	assert_int_equal(px_chosen(b.px), 2);
	bench_free(&b);
}

static void
sends_again_what_a_heartbeat_shows_as_lost(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	reply(&b, mine, 1, 0, 0);
	bench_propose(&b, "a"); /* lost */
	bench_timeout(&b);
	reply(&b, mine, 2, 0, 0);
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.entries.count, 0);
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.first, 2);
	bench_receive(&b, 2, (struct message){.code = MSG_fetch, .fetch = {mine, 0, 1, 0}});
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.entries.count, 1);
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.pass, 1);
	bench_receive(&b, 2, (struct message){.code = MSG_fetch, .fetch = {mine, 0, 1, 0}});
	assert_null(bench_sent(&b, 2, MSG_accept, NULL)); /* a complaint of before that */
	bench_free(&b);
}

/* The connection was down for a while: what gets through first tells. */
static void
sends_again_after_lost_heartbeats(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	reply(&b, mine, 1, 0, 0);
	bench_propose(&b, "a"); /* lost, as are two heartbeats */
	bench_timeout(&b);
	bench_timeout(&b);
	bench_timeout(&b);
	reply(&b, mine, 4, 0, 0);
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.first, 2);
	bench_receive(&b, 2, (struct message){.code = MSG_fetch, .fetch = {mine, 0, 1, 0}});
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.entries.count, 1);
	bench_free(&b);
}

static void
batches_while_the_pipeline_is_full(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	for (int i = 0; i < 64; i++) {
		bench_propose(&b, "x");
		assert_non_null(bench_sent(&b, 2, MSG_accept, NULL));
	}
	for (int i = 0; i < 10; i++) {
		bench_propose(&b, "y");
		assert_null(bench_sent(&b, 2, MSG_accept, NULL));
	}
	bench_receive(&b, 2, (struct message){.code = MSG_accepted,
					      .accepted = {.ballot = mine, .upto = 64}});
	assert_int_equal(bench_sent(&b, 2, MSG_accept, NULL)->accept.entries.count, 10);
	bench_free(&b);
}

static void
trims_nothing_that_a_member_may_need(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);
	struct message m = {.code = MSG_heartbeat_reply, .heartbeat_reply = {
		.ballot = mine, .sequence = 1, .upto = 3, .durable = 3, .durable_applied = 3}};

	(void)state;
	for (int i = 0; i < 3; i++)
		bench_propose(&b, "x");
	bench_persist(&b, b.update.write);
	bench_receive(&b, 2, m);
	assert_int_equal(px_chosen(b.px), 3);
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 3});
	bench_persist(&b, b.update.write);
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 3});
	assert_null(bench_record(&b, PX_RECORD_TRIM)); /* replica 3 was not heard of */
	m.heartbeat_reply.durable_applied = 1;
	bench_receive(&b, 3, m);
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 3});
	assert_int_equal(bench_record(&b, PX_RECORD_TRIM)->slot, 1);
	bench_free(&b);
}

/* Five entries of 8 bytes are chosen, four applied here: what is trimmed of them. */
static uint64_t
trimmed_with(uint64_t entries, uint64_t bytes)
{
	struct px_config config = bench_config(3);
	struct ballot mine;
	struct message m;
	struct bench b;
	uint64_t trimmed;

	config.log_entries = entries;
	config.log_bytes = bytes;
	b = bench_of(&config, &nothing);
	bench_timeout(&b);
	mine = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
	promise(&b, mine, 0, NULL, 0);
	bench_persist(&b, b.update.write);
	for (int i = 0; i < 5; i++)
		bench_propose(&b, "8 bytes.");
	bench_persist(&b, b.update.write);
	reply(&b, mine, 1, 5, 5);
	assert_int_equal(px_chosen(b.px), 5);
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 4});
	bench_persist(&b, b.update.write);
	bench_step(&b, (struct px_event){.kind = PX_APPLIED, .slot = 4});
	trimmed = bench_record(&b, PX_RECORD_TRIM) ? bench_record(&b, PX_RECORD_TRIM)->slot : 0;
	assert_int_equal(px_first(b.px), trimmed + 1);
	m = (struct message){.code = MSG_heartbeat_reply, .heartbeat_reply = {
		.ballot = mine, .sequence = 1}};
	bench_receive(&b, 3, m); /* to the first one */
	bench_timeout(&b);
	assert_int_equal(bench_sent(&b, 3, MSG_heartbeat, NULL)->heartbeat.first, trimmed + 1);
	assert_int_equal(bench_sent(&b, 3, MSG_heartbeat, NULL)->heartbeat.last, px_last(b.px));
	m.heartbeat_reply.sequence = 2;
	bench_receive(&b, 3, m);
	bench_receive(&b, 3, (struct message){.code = MSG_fetch, .fetch = {mine, 0, 1, 0}});
	/* It has nothing; what it needs first may be gone. */
	assert_int_equal(bench_sent(&b, 3, MSG_accept, NULL) == NULL, trimmed > 0);
	bench_free(&b);
	return trimmed;
}

static void
trims_what_is_over_the_limit_whoever_needs_it(void **state)
{
	(void)state;
	assert_int_equal(trimmed_with(0, 0), 0);
	assert_int_equal(trimmed_with(5, 1000), 0);
	assert_int_equal(trimmed_with(3, 1000), 2);
	assert_int_equal(trimmed_with(1000, 39), 1);
	assert_int_equal(trimmed_with(1000, 16), 3);
	assert_int_equal(trimmed_with(1, 1), 4); /* what is not durable in the state stays */
}

/* n more entries are chosen by 1 and 2, and durable in our state; where the log begins then. */
static uint64_t
first_behind(struct bench *b, struct ballot mine, int n)
{
	for (int i = 0; i < n; i++)
		bench_propose(b, "8 bytes.");
	bench_persist(b, b->update.write);
	bench_receive(b, 2, (struct message){.code = MSG_accepted,
	                                     .accepted = {.ballot = mine, .upto = px_last(b->px)}});
	assert_int_equal(px_chosen(b->px), px_last(b->px));
	for (int i = 0; i < 2; i++) { /* the hint has to be durable, too */
		bench_step(b, (struct px_event){.kind = PX_APPLIED, .slot = px_last(b->px)});
		bench_persist(b, b->update.write);
	}
	return px_first(b->px);
}

static struct ballot
master_with_limit(struct bench *b, uint64_t entries)
{
	struct px_config config = bench_config(3);
	struct ballot mine;

	config.log_entries = entries;
	*b = bench_of(&config, &nothing);
	bench_timeout(b);
	mine = bench_sent(b, 2, MSG_prepare, NULL)->prepare.ballot;
	promise(b, mine, 0, NULL, 0);
	bench_persist(b, b->update.write);
	reply(b, mine, 1, 0, 0);
	return mine;
}

static void
keeps_more_for_who_reads_a_copy(void **state)
{
	struct bench b;
	struct ballot mine = master_with_limit(&b, 4);

	(void)state;
	assert_int_equal(first_behind(&b, mine, 10), 7);
	bench_step(&b, (struct px_event){.kind = PX_COPY_BEGUN, .from = 3});
	assert_int_equal(first_behind(&b, mine, 10), 11); /* the copy is of 10 */
	assert_int_equal(first_behind(&b, mine, 6), 11);
	assert_int_equal(first_behind(&b, mine, 1), 24); /* 16 is as much as may be */
	bench_step(&b, (struct px_event){.kind = PX_COPY_BEGUN, .from = 3});
	assert_int_equal(first_behind(&b, mine, 10), 28); /* of 27 */
	bench_receive(&b, 3, (struct message){.code = MSG_accepted,
					      .accepted = {.ballot = mine, .upto = 30}});
	assert_int_equal(first_behind(&b, mine, 1), 31); /* it comes back */
	bench_receive(&b, 3, (struct message){.code = MSG_accepted,
					      .accepted = {.ballot = mine, .upto = 36}});
	assert_int_equal(first_behind(&b, mine, 1), 36); /* it is back: the limit counts again */
	assert_int_equal(first_behind(&b, mine, 9), 45);
	bench_free(&b);
}

/* ---- the end of a mastership ---- */

static void
steps_down_before_a_higher_ballot(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	reply(&b, mine, 1, 0, 0);
	bench_receive(&b, 2, (struct message){.code = MSG_refused,
	                                      .refused = {{mine.round + 3, 3}}});
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_false(px_lease_valid(b.px, b.now));
	bench_timeout(&b);
	assert_true(bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot.round > mine.round + 3);
	bench_free(&b);
}

static void
hands_over_to_the_furthest(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);
	uint64_t ticket;

	(void)state;
	reply(&b, mine, 1, 0, 0);
	bench_propose(&b, "a");
	ticket = b.update.write;
	bench_step(&b, (struct px_event){.kind = PX_STEP_DOWN});
	assert_null(bench_sent(&b, 2, MSG_hand_over, NULL)); /* one is in flight */
	bench_persist(&b, ticket);
	bench_receive(&b, 2, (struct message){.code = MSG_accepted,
					      .accepted = {.ballot = mine, .upto = 1}});
	assert_int_equal(bench_sent(&b, 2, MSG_hand_over, NULL)->hand_over.to, 2);
	assert_int_equal(bench_sent(&b, 3, MSG_hand_over, NULL)->hand_over.to, 2);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_false(px_lease_valid(b.px, b.now));
	/* It is bound by nothing: the successor may have its promise at once. */
	bench_receive(&b, 2, prepare((struct ballot){mine.round + 1, 2}, 2));
	assert_non_null(bench_sent(&b, 2, MSG_promise, NULL));
	bench_free(&b);
}

static void
stands_at_once_when_handed_over_to(void **state)
{
	struct bench b = bench_new(3, &nothing);
	struct message m = {.code = MSG_hand_over, .hand_over = {.ballot = b2, .to = 1}};

	(void)state;
	bench_receive(&b, 2, heartbeat(b2, 1, 0));
	bench_receive(&b, 2, m);
	assert_int_equal(px_role(b.px), PX_CANDIDATE);
	assert_non_null(bench_sent(&b, 3, MSG_prepare, NULL));
	bench_free(&b);

	b = bench_new(3, &nothing);
	m.hand_over.to = 3; /* then it is only released */
	bench_receive(&b, 2, heartbeat(b2, 1, 0));
	bench_receive(&b, 2, m);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	bench_receive(&b, 3, prepare(b3, 1));
	assert_non_null(bench_sent(&b, 3, MSG_promise, NULL));
	bench_free(&b);
}

/* Those who hear it would not elect another one as long as it goes on. */
static void
gives_up_when_nobody_answers(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	reply(&b, mine, 1, 0, 0);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(px_role(b.px), PX_MASTER);
		bench_timeout(&b);
	}
	reply(&b, mine, 21, 0, 0); /* in time */
	bench_timeout(&b);
	assert_true(px_lease_valid(b.px, b.now));
	for (int i = 0; i < 30 && px_role(b.px) == PX_MASTER; i++)
		bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_FOLLOWER);
	assert_null(bench_sent(&b, 3, MSG_heartbeat, NULL));
	assert_true(mono_before(mono_add(b.now, span_ms(999)), px_deadline(b.px)));
	bench_free(&b);
}

/* It was asleep, and nobody had the time to answer. */
static void
goes_on_after_a_long_sleep(void **state)
{
	struct bench b;
	struct ballot mine = master(&b);

	(void)state;
	reply(&b, mine, 1, 0, 0);
	bench_pass(&b, 60000);
	bench_timeout(&b);
	assert_int_equal(px_role(b.px), PX_MASTER);
	reply(&b, mine, 2, 0, 0);
	assert_true(px_lease_valid(b.px, b.now));
	bench_free(&b);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(promises_when_durable),
		cmocka_unit_test(refuses_what_is_below_its_promise),
		cmocka_unit_test(takes_slots_in_order_and_reports_holes),
		cmocka_unit_test(believes_chosen_only_for_entries_of_that_ballot),
		cmocka_unit_test(drops_what_a_newer_origin_supersedes),
		cmocka_unit_test(refuses_a_damaged_entry),
		cmocka_unit_test(ignores_borrowed_ballots),
		cmocka_unit_test(records_the_lease_before_its_first_grant),
		cmocka_unit_test(is_bound_by_its_grant_until_it_ran_out),
		cmocka_unit_test(waits_after_a_restart),
		cmocka_unit_test(counts_its_lease_from_sending),
		cmocka_unit_test(keeps_its_mastership_to_itself_while_the_lease_holds),
		cmocka_unit_test(promises_itself_only_when_that_makes_a_quorum),
		cmocka_unit_test(goes_back_to_a_living_master),
		cmocka_unit_test(proposes_the_value_of_the_highest_ballot),
		cmocka_unit_test(leaves_out_what_was_superseded),
		cmocka_unit_test(leaves_out_what_was_proposed_behind_another_value),
		cmocka_unit_test(asks_on_until_it_has_all_of_a_promise),
		cmocka_unit_test(learns_from_a_promise_what_it_accepted_otherwise),
		cmocka_unit_test(a_promise_tells_of_all_values_and_gives_them_when_asked),
		cmocka_unit_test(chooses_by_majority_its_own_disk_among_them),
		cmocka_unit_test(sends_again_what_a_heartbeat_shows_as_lost),
		cmocka_unit_test(sends_again_after_lost_heartbeats),
		cmocka_unit_test(batches_while_the_pipeline_is_full),
		cmocka_unit_test(trims_nothing_that_a_member_may_need),
		cmocka_unit_test(trims_what_is_over_the_limit_whoever_needs_it),
		cmocka_unit_test(keeps_more_for_who_reads_a_copy),
		cmocka_unit_test(steps_down_before_a_higher_ballot),
		cmocka_unit_test(gives_up_when_nobody_answers),
		cmocka_unit_test(goes_on_after_a_long_sleep),
		cmocka_unit_test(hands_over_to_the_furthest),
		cmocka_unit_test(stands_at_once_when_handed_over_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
