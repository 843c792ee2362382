/* Messages that no sound replica sends must not bring one down: random ones, at random times, with
 * numbers near the edges; what is recorded and sent in answer stays sound. */
#include "tests/unit/px_bench.h"

#include "cell/base/rng.h"

static struct rng rng;

static uint64_t
number(uint64_t bound)
{
	return rng_chance(&rng, 20) ? UINT64_MAX - rng_below(&rng, 2) : rng_below(&rng, bound);
}

static struct ballot
some_ballot(uint8_t from)
{
	return (struct ballot){number(40), rng_chance(&rng, 900) ? from : (uint8_t)number(5)};
}

static struct wire_list
some_entries(uint8_t from, bool headers)
{
	struct log_entry e[4];
	size_t n = rng_below(&rng, 5);
	uint64_t first = number(12);

	for (size_t i = 0; i < n; i++) {
		e[i] = bench_entry(first + i, some_ballot(from), some_ballot(from), "payload");
		if (rng_chance(&rng, 700))
			e[i].origin = (struct ballot){1, 1};
		if (rng_chance(&rng, 50))
			e[i].checksum++;
	}
	return headers ? bench_headers(e, n) : bench_list(e, n);
}

static struct message
some_message(struct ballot own, uint8_t from, struct wire_list entries, struct wire_list headers)
{
	struct ballot ballot = rng_chance(&rng, 500) ? own : some_ballot(from);
	const struct wire_list none = {0};

	switch (rng_below(&rng, 13)) {
	case 0:
		return (struct message){.code = MSG_prepare,
		                        .prepare = {ballot, number(12), number(12)}};
	case 1:
		return (struct message){.code = MSG_promise,
		                        .promise = {ballot, number(12), number(12), headers, {0}}};
	case 2:
		return (struct message){.code = MSG_accept,
		                        .accept = {ballot, number(12), number(3), number(12),
		                                   rng_chance(&rng, 500) ? headers : none,
		                                   entries}};
	case 3:
		return (struct message){.code = MSG_accepted,
		                        .accepted = {ballot, number(12), {0}}};
	case 4:
		return (struct message){.code = MSG_refused, .refused = {ballot}};
	case 5:
		return (struct message){.code = MSG_heartbeat,
		                        .heartbeat = {.ballot = ballot,
		                                      .chosen = number(12),
		                                      .sequence = number(9),
		                                      .lease_ms = (uint32_t)number(600),
		                                      .trim = number(12),
		                                      .first = number(12),
		                                      .last = number(12)}};
	case 6:
		return (struct message){.code = MSG_heartbeat_reply,
		                        .heartbeat_reply = {.ballot = ballot,
		                                            .sequence = number(9),
		                                            .upto = number(12),
		                                            .durable = number(12),
		                                            .durable_applied = number(12)}};
	case 8:
		return (struct message){.code = MSG_hello,
		                        .hello = {ballot, number(4), number(3) << 32 | number(3),
		                                  number(12), 0}};
	case 9:
		return (
		    struct message){.code = MSG_welcome,
		                    .welcome = {.ballot = ballot,
		                                .incarnation = number(3),
		                                .start = BENCH_START,
		                                .remembered = {.replica = 1, .slot = number(12)},
		                                .verdict =
		                                    (uint8_t)(rng_chance(&rng, 30) ? number(5)
		                                                                   : 0)}};
	case 11:
		return (struct message){.code = MSG_gather,
		                        .gather = {ballot, number(12), number(12)}};
	case 12:
		return (struct message){.code = MSG_gathered, .gathered = {ballot, entries}};
	case 7:
		return (
		    struct message){.code = MSG_fetch,
		                    .fetch = {ballot, number(3), number(12), (uint8_t)number(1)}};
	default:
		return (struct message){.code = MSG_hand_over,
		                        .hand_over = {ballot, number(12), (uint8_t)number(4)}};
	}
}

static void
check_update(const struct bench *b)
{
	struct message m;

	for (size_t i = 0; i < b->update.sends_n; i++) {
		assert_int_equal(wire_get_frame(b->update.sends[i].frame, &m), RC_OK);
		assert_in_range(b->update.sends[i].to, 2, 4); /* 4 may be a new member */
	}
	assert_int_equal(b->update.write != 0, b->update.records_n != 0);
	assert_true(px_chosen(b->px) <= px_last(b->px));
}

static void
survives_garbage(void **state)
{
	uint64_t masters = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct bench b = bench_new(3, &(struct px_recovered){.incarnation = 1});
		struct ballot own = {1, 1}; /* its latest */
		uint64_t ticket = 0;

		rng = rng_seeded(seed);
		for (int i = 0; i < 200; i++) {
			uint8_t from = (uint8_t)rng_below(&rng, 5);
			struct wire_list entries = some_entries(from, false);
			struct wire_list headers = some_entries(from, true);
			uint64_t what = rng_below(&rng, 10);

			bench_pass(&b, (int64_t)rng_below(&rng, 60));
			if (what < 6)
				bench_receive(&b, from, some_message(own, from, entries, headers));
			else if (what == 6 && !mono_is_never(px_deadline(b.px)))
				bench_timeout(&b);
			else if (what == 7)
				bench_propose(&b, "own");
			else if (what == 8)
				bench_step(&b, (struct px_event){.kind = PX_APPLIED,
				                                 .slot = px_chosen(b.px)});
			else
				bench_persist(&b, ticket);
			ticket = b.update.write ? b.update.write : ticket;
			check_update(&b);
			if (bench_sent(&b, 2, MSG_prepare, NULL))
				own = bench_sent(&b, 2, MSG_prepare, NULL)->prepare.ballot;
			masters += px_role(b.px) == PX_MASTER;
			free((void *)entries.packed.data);
			free((void *)headers.packed.data);
		}
		bench_free(&b);
	}
	assert_true(masters > 100); /* or the master's side was not tried */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(survives_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
