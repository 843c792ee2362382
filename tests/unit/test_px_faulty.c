/* A replica of three that is a member, holds its key, and says anything: nobody loses its vote or
 * ends for that, and when it is silent the other two have a master who gets something chosen. */
#include "tests/unit/px_bench.h"

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/paxos/ballot.h"

enum { SOUND = 2, FAULTY = 3, STEPS = 400, SETTLE_MS = 200000 };

static struct rng rng;

/* ---- the two others, whose messages and records arrive at once ---- */

struct cell {
	struct bench sides[SOUND];
};

static void
on_update(struct cell *c, int from)
{
	struct px_update u = c->sides[from].update;

	/* What the step has made; the bench's own is cleared by the steps that follow. */
	c->sides[from].update = (struct px_update){0};
	assert_int_equal(u.write != 0, u.records_n != 0);
	if (u.write != 0) {
		bench_persist(&c->sides[from], u.write);
		on_update(c, from);
	}
	for (size_t i = 0; i < u.sends_n; i++) {
		const int to = u.sends[i].to - 1;
		struct message m;

		assert_int_equal(wire_get_frame(u.sends[i].frame, &m), RC_OK);
		if (to >= SOUND)
			continue;
		bench_receive(&c->sides[to], (uint8_t)(from + 1), m);
		on_update(c, to);
	}
	px_update_free(&u);
}

static void
pass(struct cell *c, int64_t ms)
{
	for (int i = 0; i < SOUND; i++) {
		c->sides[i].now = mono_add(c->sides[i].now, span_ms(ms));
		if (mono_reached(c->sides[i].now, px_deadline(c->sides[i].px))) {
			bench_step(&c->sides[i], (struct px_event){.kind = PX_TIMEOUT});
			on_update(c, i);
		}
	}
}

static void
begin(struct cell *c, uint64_t seed)
{
	static const struct px_recovered nothing = {.incarnation = 1};

	for (int i = 0; i < SOUND; i++) {
		struct px_config config = bench_config(3);

		config.self = (uint8_t)(i + 1);
		config.key[0] = (uint8_t)(i + 1);
		config.start = seed << 8 | (uint64_t)i;
		config.seed = seed + (uint64_t)i;
		c->sides[i] = bench_mute(&config, &nothing);
	}
}

static void
end(struct cell *c)
{
	for (int i = 0; i < SOUND; i++)
		bench_free(&c->sides[i]);
}

static int
master(const struct cell *c)
{
	for (int i = 0; i < SOUND; i++)
		if (px_role(c->sides[i].px) == PX_MASTER &&
		    px_lease_valid(c->sides[i].px, c->sides[i].now))
			return i;
	return -1;
}

/* ---- the third one ---- */

/* Small, near to what is known, or at an edge. */
static uint64_t
number(uint64_t known)
{
	static const unsigned edges[] = {0, 1, 28, 31, 32, 62, 63};

	switch (rng_below(&rng, 4)) {
	case 0:
		return rng_below(&rng, 4);
	case 1:
		return known + rng_below(&rng, 3) - rng_below(&rng, 2);
	case 2:
		return ((uint64_t)1 << edges[rng_below(&rng, 7)]) - rng_below(&rng, 2);
	default:
		return rng_next(&rng) >> rng_below(&rng, 64);
	}
}

static struct ballot
some_ballot(const struct px *px)
{
	return (struct ballot){number(px_master(px).round + 1),
	                       rng_chance(&rng, 800) ? FAULTY : (uint8_t)number(2)};
}

static struct mark
some_mark(const struct px *px)
{
	return (struct mark){(uint8_t)(rng_below(&rng, 4)), number(1),
	                     number(BENCH_START),           some_ballot(px),
	                     number(px_last(px)),           number(0)};
}

static struct wire_list
some_list(const struct px *px, enum message_code code, struct buffer *to)
{
	const uint32_t n = (uint32_t)rng_below(&rng, 4);
	const uint64_t first = number(px_last(px));

	for (uint32_t i = 0; i < n; i++) {
		struct log_entry e = bench_entry(first + i, some_ballot(px), some_ballot(px), "x");
		struct mark mark = some_mark(px);

		e.checksum += rng_chance(&rng, 100);
		if (code == MSG_heartbeat)
			wire_put_mark(to, &mark);
		else if (code == MSG_promise)
			wire_put_slot_header(to,
			                     &(struct slot_header){e.slot, e.ballot, e.origin,
			                                           e.checksum, some_ballot(px)});
		else
			wire_put_log_entry(to, &e);
	}
	return (struct wire_list){buffer_view(to), n};
}

/* Any message, with fields that are as they should be, or not. The last ones tell of entries: from
 * lies about these no majority protects a log that counts them (nor does any log of crash-tolerant
 * replicas), but from all others. */
enum { OF_ENTRIES = 5 };

/* clang-format off */
static void
say_anything(struct cell *c, int to, struct ballot asked, bool of_entries)
{
	static const enum message_code codes[] = {
		MSG_prepare, MSG_refused, MSG_heartbeat, MSG_fetch, MSG_hand_over, MSG_hello,
		MSG_welcome, MSG_gather, MSG_promise, MSG_accept, MSG_accepted, MSG_heartbeat_reply,
		MSG_gathered};
	const size_t codes_n = sizeof codes / sizeof codes[0];
	const struct px *px = c->sides[to].px;
	struct buffer packed = BUFFER(LIMIT_FRAME), headers = BUFFER(LIMIT_FRAME);
	struct ballot b = rng_chance(&rng, 500) ? asked : some_ballot(px);
	const uint64_t last = px_last(px);
	struct message m = {
		.code = codes[rng_below(&rng, of_entries ? codes_n : codes_n - OF_ENTRIES)]};
	struct wire_list list = some_list(px, m.code, &packed);

	switch (m.code) {
	case MSG_prepare:
		m.prepare = (struct msg_prepare){b, number(last), number(last)};
		break;
	case MSG_promise:
		m.promise = (struct msg_promise){b, number(last), number(last), list,
		                                 some_mark(px)};
		break;
	case MSG_accept:
		m.accept = (struct msg_accept){b, number(last), number(0), number(last),
		                               some_list(px, MSG_promise, &headers), list};
		break;
	case MSG_accepted:
		m.accepted = (struct msg_accepted){b, number(last), some_mark(px)};
		break;
	case MSG_refused:
		m.refused.ballot = b;
		break;
	case MSG_heartbeat:
		m.heartbeat = (struct msg_heartbeat){
			b, of_entries ? number(last) : 0, number(9), (uint32_t)number(500),
			number(last),
			number(last), number(last), list, number(3), number(300)};
		break;
	case MSG_heartbeat_reply:
		m.heartbeat_reply = (struct msg_heartbeat_reply){
			b, number(9), number(last), number(last), number(last), 0, some_mark(px),
			(uint32_t)number(0), number(last)};
		break;
	case MSG_fetch:
		m.fetch = (struct msg_fetch){b, number(0), number(last), (uint8_t)number(0)};
		break;
	case MSG_hand_over:
		m.hand_over = (struct msg_hand_over){b, number(last), (uint8_t)number(2)};
		break;
	case MSG_hello:
		m.hello = (struct msg_hello){b, number(1), number(1), number(last), number(0)};
		break;
	case MSG_welcome:
		m.welcome = (struct msg_welcome){
			.ballot = b, .incarnation = number(1), .start = number(BENCH_START),
			.verdict = (uint8_t)rng_below(&rng, 4), .remembered = some_mark(px)};
		break;
	case MSG_gather:
		m.gather = (struct msg_gather){b, number(last), number(last)};
		break;
	default:
		m.gathered = (struct msg_gathered){b, list};
		break;
	}
	bench_receive(&c->sides[to], FAULTY, m);
	on_update(c, to);
	buffer_free(&headers);
	buffer_free(&packed);
}
/* clang-format on */

static void
check_votes(const struct cell *c)
{
	for (int i = 0; i < SOUND; i++) {
		const enum replica_condition now = px_condition(c->sides[i].px);

		assert_true(now == CONDITION_VOTING || now == CONDITION_JOINING);
	}
}

static uint64_t
most_chosen(const struct cell *c)
{
	const uint64_t a = px_chosen(c->sides[0].px), b = px_chosen(c->sides[1].px);

	return a > b ? a : b;
}

/* In silence: one that is bound by a lease that the faulty one asked for waits that out. */
static void
check_alive(struct cell *c, bool of_entries)
{
	const uint64_t before = most_chosen(c);
	bool served = false;

	for (int64_t ms = 0; ms < SETTLE_MS; ms += 20) {
		const int m = master(c);

		served = served || m >= 0;
		if (served && (of_entries || most_chosen(c) > before))
			break;
		if (m >= 0 && px_room(c->sides[m].px)) {
			bench_propose(&c->sides[m], "sound");
			on_update(c, m);
		}
		pass(c, 20);
	}
	assert_true(served && (of_entries || most_chosen(c) > before));
	check_votes(c);
}

/* Seeds of a long run: FAULTY_SEEDS in the environment. */
TEST(a_faulty_one_stops_nobody_for_good)
{
	const char *many = getenv("FAULTY_SEEDS");
	const uint64_t seeds = many != NULL ? strtoull(many, NULL, 10) : 300;

	for (uint64_t seed = 1; seed <= seeds; seed++) {
		const bool of_entries = seed % 2 == 0;
		struct cell c;

		rng = rng_seeded(seed);
		begin(&c, seed);
		for (int i = 0; i < STEPS; i++) {
			const int to = (int)rng_below(&rng, SOUND);
			const int m = master(&c);

			if (rng_chance(&rng, 300))
				pass(&c, (int64_t)rng_below(&rng, 200));
			if (m >= 0 && px_room(c.sides[m].px) && rng_chance(&rng, 200)) {
				bench_propose(&c.sides[m], "own");
				on_update(&c, m);
			}
			say_anything(&c, to, px_master(c.sides[rng_below(&rng, SOUND)].px),
			             of_entries);
			check_votes(&c);
		}
		check_alive(&c, of_entries);
		end(&c);
	}
}
