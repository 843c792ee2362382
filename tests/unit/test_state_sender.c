/* One replica fetches the state of another: parts that are lost, doubled, late and damaged,
 * replicas that fall silent, copies that are dropped. All on a clock that the test moves. */
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/server/state_fetcher.h"
#include "cell/server/state_sender.h"
#include "tests/unit/unit.h"

enum { REPLICAS = 2, STATE = LIMIT_PART * 5 + 1234, READER = 9, TURNS_MAX = 1000000 };

/* A question or an answer on its way. */
struct letter {
	struct letter *next;
	uint8_t replica;
	bool is_part;
	struct msg_snapshot_request request;
	struct msg_copy_part part;
};

struct play {
	mono_t now;
	struct server_io io;
	struct state_sender *copies[REPLICAS], *other;
	struct state_fetcher *snapshot;
	struct letter *first, **last;
	uint8_t *state, *fetched;
	size_t fetched_n;
	bool is_fetched, checking;      /* there is a beginning of a state; it is looked at */

	/* what goes wrong */
	int lose, twice, damage, forget; /* the part of that number, from 1 */
	int silent;                      /* replica, from its third part on */
	bool no_room, no_state;          /* the copy cannot be made; the whole is refused, once */

	int parts, asked[REPLICAS + 1], made, ready_n;
	bool late;                       /* making takes a moment */
	mono_t made_at;                  /* the copy that is being made; MONO_NEVER: none */
	struct state_sender *maker;
	int copies_n;                    /* that are there */
	uint64_t randoms;
};

static struct play *play;

/* Turns of the world until the condition holds. */
#define UNTIL(p, condition)                                                                    \
	do {                                                                                   \
		for (int turns_ = 0; !(condition); turns_++) {                                 \
			turn(p);                                                               \
			assert_true(turns_ < TURNS_MAX);                                       \
		}                                                                              \
	} while (0)

/* ---- what they stand on ---- */

static mono_t
io_now(void *user)
{
	return ((struct play *)user)->now;
}

static void
io_random(void *user, void *to, size_t n)
{
	struct play *p = user;

	must(n == sizeof p->randoms);
	p->randoms++;
	memcpy(to, &p->randoms, n);
}

static void
io_make_copy(void *user, int place)
{
	struct play *p = user;

	must(mono_is_never(p->made_at)); /* one at a time */
	must(place >= 0 && place < STATE_SENDER_MAX);
	p->made_at = mono_add(p->now, span_ms(p->late ? 120 : 0));
}

static const char *
io_read_copy(void *user, int place, uint64_t offset, uint8_t *to, size_t n)
{
	struct play *p = user;

	(void)place;
	must(offset + n <= STATE);
	memcpy(to, p->state + offset, n);
	return NULL;
}

static void
io_drop_copy(void *user, int place)
{
	(void)place;
	((struct play *)user)->copies_n--;
}

static const char *
io_begin_fetch(void *user)
{
	struct play *p = user;

	must(!p->is_fetched);
	p->is_fetched = true;
	p->fetched_n = 0;
	return NULL;
}

static const char *
io_write_fetch(void *user, uint64_t offset, struct bytes data)
{
	struct play *p = user;

	must(p->is_fetched && offset == p->fetched_n && offset + data.len <= STATE);
	memcpy(p->fetched + offset, data.data, data.len);
	p->fetched_n += data.len;
	return NULL;
}

static void
io_check_fetch(void *user)
{
	((struct play *)user)->checking = true;
}

static void
io_drop_fetch(void *user)
{
	((struct play *)user)->is_fetched = false;
}

/* ---- the post ---- */

static struct letter *
post(struct play *p)
{
	struct letter *l = memory_zero(1, sizeof *l);

	*p->last = l;
	p->last = &l->next;
	return l;
}

static void
on_ask(void *user, uint8_t replica, const struct msg_snapshot_request *request)
{
	struct letter *l = post(user);

	l->replica = replica;
	l->request = *request;
	((struct play *)user)->maker = ((struct play *)user)->copies[replica - 1];
}

static void
post_part(struct play *p, uint8_t replica, const struct msg_copy_part *part)
{
	struct letter *l = post(p);

	l->is_part = true;
	l->replica = replica;
	l->part = *part;
	l->part.data = bytes_copy(part->data);
}

static void
on_answer(void *user, struct state_sender_reader reader, const struct msg_copy_part *part)
{
	struct play *p = play;
	uint8_t replica = (uint8_t)(1 + (struct state_sender **)user - p->copies);
	struct msg_copy_part changed = *part;

	must(reader.peer == READER && reader.conn == 0);
	if (part->rc == RC_OK) {
		p->parts++;
		if (p->parts == p->lose || (replica == p->silent && p->parts >= 3))
			return;
		changed.checksum ^= p->parts == p->damage;
		if (p->parts == p->twice)
			post_part(p, replica, &changed);
	}
	post_part(p, replica, &changed);
}

static void
deliver(struct play *p, struct letter *l)
{
	const struct msg_copy_part *from = &l->part;
	const struct msg_snapshot_part part = {
		.rc = from->rc, .copy = from->copy, .applied = from->applied, .size = from->size,
		.offset = from->offset, .data = from->data, .checksum = from->checksum,
	};
	const struct msg_copy_request request = {l->request.copy, l->request.offset};

	if (l->is_part && p->snapshot != NULL) {
		state_fetcher_part(p->snapshot, l->replica, &part);
	} else if (!l->is_part) {
		p->asked[l->replica]++;
		state_sender_ask(p->copies[l->replica - 1], (struct state_sender_reader){READER, 0},
		                 &request);
	}
}

static void
deliver_first(struct play *p)
{
	struct letter *l = p->first;

	if (l == NULL)
		return;
	p->first = l->next;
	if (p->first == NULL)
		p->last = &p->first;
	if (p->forget != 0 && p->parts == p->forget) {
		p->forget = 0;
		state_sender_forget(p->copies[0], (struct state_sender_reader){READER, 0});
	}
	deliver(p, l);
	free((void *)l->part.data.data);
	free(l);
}

/* ---- the play ---- */

static void
finish_copy(struct play *p)
{
	if (!mono_reached(p->now, p->made_at))
		return;
	p->made_at = MONO_NEVER;
	p->made++;
	p->copies_n += !p->no_room;
	state_sender_made(p->maker, p->no_room ? RC_NOSPC : RC_OK, 77, STATE,
	                  "No space left on device");
}

static void
finish_check(struct play *p)
{
	const bool good = p->fetched_n == STATE && !p->no_state &&
	                  memcmp(p->fetched, p->state, STATE) == 0;

	if (!p->checking)
		return;
	p->checking = false;
	p->no_state = false;
	if (!good)
		p->is_fetched = false;
	if (p->snapshot != NULL)
		state_fetcher_checked(p->snapshot, good ? NULL : "not what it was");
}

static void
timeout(struct play *p, struct state_sender *c)
{
	if (c != NULL && mono_reached(p->now, state_sender_deadline(c)))
		state_sender_timeout(c, p->now);
}

/* A moment passes. */
static void
turn(struct play *p)
{
	p->now = mono_add(p->now, span_ms(1));
	deliver_first(p);
	finish_copy(p);
	finish_check(p);
	for (int i = 0; i < REPLICAS; i++)
		timeout(p, p->copies[i]);
	timeout(p, p->other);
	if (p->snapshot != NULL && mono_reached(p->now, state_fetcher_deadline(p->snapshot)))
		state_fetcher_timeout(p->snapshot, p->now);
}

static void
on_ready(void *user)
{
	((struct play *)user)->ready_n++;
}

static void
start(struct play *p)
{
	memset(p, 0, sizeof *p);
	play = p;
	p->now = (mono_t){1000000000};
	p->made_at = MONO_NEVER;
	p->last = &p->first;
	p->state = malloc(STATE);
	p->fetched = malloc(STATE);
	for (size_t i = 0; i < STATE; i++)
		p->state[i] = (uint8_t)(i * 2654435761u >> 13);
	p->io = (struct server_io){
		.now = io_now, .random = io_random, .make_copy = io_make_copy,
		.read_copy = io_read_copy, .drop_copy = io_drop_copy,
		.begin_fetch = io_begin_fetch, .write_fetch = io_write_fetch,
		.check_fetch = io_check_fetch, .drop_fetch = io_drop_fetch, .user = p,
	};
	for (int i = 0; i < REPLICAS; i++)
		p->copies[i] = state_sender_new(&(struct state_sender_config){
			.io = &p->io, .answer = on_answer, .user = &p->copies[i],
		});
	p->maker = p->copies[0];
	p->snapshot = state_fetcher_new(&(struct state_fetcher_config){
		.io = &p->io, .patience = span_ms(300), .ask = on_ask, .ready = on_ready,
		.user = p,
	});
}

static void
stop_snapshot(struct play *p)
{
	state_fetcher_free(p->snapshot);
	p->snapshot = NULL;
}

/* Nothing is left but a state that is whole, or is being checked. */
static void
end(struct play *p)
{
	if (p->snapshot != NULL)
		stop_snapshot(p);
	while (p->first != NULL)
		deliver_first(p);
	assert_true(!p->is_fetched || p->ready_n > 0 || p->checking);
	UNTIL(p, mono_is_never(p->made_at)); /* a copy that was begun */
	for (int i = 0; i < REPLICAS; i++)
		state_sender_free(p->copies[i]);
	state_sender_free(p->other);
	assert_int_equal(p->copies_n, 0);
	free(p->state);
	free(p->fetched);
}

static void
fetch(struct play *p)
{
	UNTIL(p, (state_fetcher_need(p->snapshot, 1, 0), p->ready_n == 1));
}

/* ---- tests ---- */

static void
test_fetched(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.late = true;
	fetch(&p);
	assert_int_equal(p.parts, 6);
	assert_int_equal(p.made, 1);
	assert_in_range(p.asked[1], 7, 20); /* it was busy for a moment */
	/* It is enough: whatever is said from here on, nobody is asked. */
	state_fetcher_need(p.snapshot, 2, 0);
	state_fetcher_need(p.snapshot, 0, 0);
	end(&p);
	assert_int_equal(p.asked[2], 0);
}

static void
test_lost_and_doubled(void **unused)
{
	struct play p;

	(void)unused;
	for (int i = 1; i <= 6; i++) {
		start(&p);
		p.lose = i;
		p.twice = i % 6 + 1;
		fetch(&p);
		assert_int_equal(p.made, 1);
		end(&p);
	}
}

static void
test_damaged(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.damage = 4;
	fetch(&p);
	assert_int_equal(p.made, 2); /* all anew */
	end(&p);
}

static void
test_dropped_there(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.forget = 3;
	fetch(&p);
	assert_int_equal(p.made, 2);
	end(&p);
}

/* Whoever answers is stayed with; who falls silent is left for the one that is named by then. */
static void
test_another_replica(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.silent = 1;
	state_fetcher_need(p.snapshot, 1, 0);
	UNTIL(&p, p.parts >= 2);
	UNTIL(&p, (state_fetcher_need(p.snapshot, 2, 0), p.ready_n == 1));
	assert_int_equal(p.made, 2);
	assert_true(p.parts >= 2 + 4 + 6); /* thrice asked again in vain */
	end(&p);
}

static void
test_not_made(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.no_room = true;
	UNTIL(&p, (state_fetcher_need(p.snapshot, 1, 0), p.made == 2));
	p.no_room = false;
	fetch(&p);
	end(&p);
}

static void
test_whole_refused(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.no_state = true;
	fetch(&p);
	assert_int_equal(p.made, 2);
	end(&p);
}

static void
test_not_needed_any_more(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	UNTIL(&p, (state_fetcher_need(p.snapshot, 1, 0), p.is_fetched));
	state_fetcher_need(p.snapshot, 0, 0);
	assert_false(p.is_fetched);
	fetch(&p);
	end(&p);
}

/* One that is behind itself, or has lost its vote, may have a state that helps nobody. */
static void
test_no_newer(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	UNTIL(&p, (state_fetcher_need(p.snapshot, 1, 77), p.made == 2));
	assert_int_equal(p.ready_n, 0);
	UNTIL(&p, (state_fetcher_need(p.snapshot, 1, 76), p.ready_n == 1));
	end(&p);
}

/* Wherever it is stopped, nothing is left. */
static void
test_stopped(void **unused)
{
	struct play p;

	(void)unused;
	for (int i = 0; i <= 6; i++) {
		start(&p);
		state_fetcher_need(p.snapshot, 1, 0);
		UNTIL(&p, p.parts >= i);
		stop_snapshot(&p);
		end(&p);
	}
}

/* ---- copies ---- */

static struct msg_copy_part last_part;
static int answers_n;

static void
on_copy_answer(void *user, struct state_sender_reader reader, const struct msg_copy_part *part)
{
	(void)user;
	(void)reader;
	last_part = *part;
	answers_n++;
}

static void
ask_copy(struct state_sender *c, uint64_t conn, uint64_t copy, uint64_t offset)
{
	const struct msg_copy_request request = {copy, offset};

	state_sender_ask(c, (struct state_sender_reader){.conn = conn}, &request);
}

/* There is room for so many readers; a part is told once for each question, at first. */
static void
test_many_readers(void **unused)
{
	uint64_t ids[STATE_SENDER_MAX];
	struct state_sender *c;
	struct play p;

	(void)unused;
	start(&p);
	c = p.other = p.maker = state_sender_new(&(struct state_sender_config){
		.io = &p.io, .answer = on_copy_answer,
	});
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		ask_copy(c, (uint64_t)i + 1, 0, 0);
		assert_int_equal(last_part.rc, RC_BUSY);
		ids[i] = last_part.copy;
		assert_int_not_equal(ids[i], 0);
		assert_int_not_equal(ids[i], ids[(i + 1) % STATE_SENDER_MAX]);
	}
	ask_copy(c, 100, 0, 0);
	assert_int_equal(last_part.rc, RC_BUSY);
	assert_int_equal(last_part.copy, 0);
	ask_copy(c, 2, ids[0], 0);
	assert_int_equal(last_part.rc, RC_NOENT); /* somebody else's */
	UNTIL(&p, p.made == STATE_SENDER_MAX);

	answers_n = 0;
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		for (int k = 0; k < 5; k++)
			ask_copy(c, (uint64_t)i + 1, ids[i], LIMIT_PART);
	assert_int_equal(answers_n, 0);
	UNTIL(&p, answers_n == STATE_SENDER_MAX);
	assert_int_equal(last_part.rc, RC_OK);
	assert_int_equal(last_part.offset, LIMIT_PART);
	assert_int_equal(last_part.size, STATE);
	assert_int_equal(last_part.applied, 77);
	ask_copy(c, 1, ids[0], STATE);
	assert_int_equal(last_part.rc, RC_INVAL);

	state_sender_forget(c, (struct state_sender_reader){.conn = 1});
	ask_copy(c, 100, 0, 0);
	assert_int_not_equal(last_part.copy, 0);
	state_sender_forget(c, (struct state_sender_reader){.conn = 100}); /* while it is made */
	UNTIL(&p, p.made == STATE_SENDER_MAX + 1);
	ask_copy(c, 2, 0, 0); /* anew: some of it was read */
	assert_int_equal(last_part.rc, RC_BUSY);
	assert_int_not_equal(last_part.copy, ids[1]);
	UNTIL(&p, p.made == STATE_SENDER_MAX + 2);
	end(&p);
}

static void
begin_asking(struct play *p, struct state_sender **c, int64_t soon_ms)
{
	start(p);
	*c = p->other = p->maker = state_sender_new(&(struct state_sender_config){
		.io = &p->io, .answer = on_copy_answer, .soon = span_ms(soon_ms),
	});
	ask_copy(*c, 1, 0, 0);
	UNTIL(p, p->made == 1);
	answers_n = 0;
	ask_copy(*c, 1, last_part.copy, 0);
}

/* So many answers, and no more of them by themselves. */
static void
assert_answers(struct play *p, int n)
{
	const mono_t enough = mono_add(p->now, span_ms(STATE_SENDER_PACE_MS * 5));

	UNTIL(p, answers_n >= n && mono_reached(p->now, enough));
	assert_int_equal(answers_n, n);
}

/* Who comes back soon for the next part finds some on their way. */
static void
test_ahead(void **unused)
{
	struct state_sender *c;
	struct play p;

	(void)unused;
	begin_asking(&p, &c, 20000);
	UNTIL(&p, answers_n == 1);
	ask_copy(c, 1, last_part.copy, LIMIT_PART);
	UNTIL(&p, answers_n == 3);
	ask_copy(c, 1, last_part.copy, LIMIT_PART * 2);
	UNTIL(&p, answers_n == 5);
	assert_int_equal(last_part.offset, LIMIT_PART * 4);
	ask_copy(c, 1, last_part.copy, LIMIT_PART * 2); /* what was on its way is lost */
	UNTIL(&p, answers_n == 6);
	assert_int_equal(last_part.offset, LIMIT_PART * 2);
	assert_answers(&p, 6);
	end(&p);
}

/* A link that is slow carries one part at a time: other messages wait behind it. */
static void
test_not_ahead(void **unused)
{
	struct state_sender *c;
	struct play p;
	mono_t late;

	(void)unused;
	begin_asking(&p, &c, 10);
	for (int i = 1; i <= 3; i++) {
		UNTIL(&p, answers_n == i);
		late = mono_add(p.now, span_ms(10 + STATE_SENDER_PACE_MS * 5));
		UNTIL(&p, mono_reached(p.now, late));
		assert_int_equal(answers_n, i);
		ask_copy(c, 1, last_part.copy, (uint64_t)LIMIT_PART * (unsigned)i);
	}
	end(&p);
}

/* Who has read to the end keeps nobody from reading. */
static void
test_read_to_the_end(void **unused)
{
	struct state_sender *c;
	struct play p;

	(void)unused;
	start(&p);
	c = p.other = p.maker = state_sender_new(&(struct state_sender_config){
		.io = &p.io, .answer = on_copy_answer,
	});
	for (uint64_t conn = 1; conn <= STATE_SENDER_MAX + 2; conn++) {
		ask_copy(c, conn, 0, 0);
		assert_int_equal(last_part.rc, RC_BUSY);
		assert_int_not_equal(last_part.copy, 0);
		UNTIL(&p, p.made == (int)conn);
		answers_n = 0;
		ask_copy(c, conn, last_part.copy, STATE - 100);
		UNTIL(&p, answers_n == 1);
		assert_int_equal(last_part.data.len, 100);
	}
	/* It may ask for the end again. */
	ask_copy(c, STATE_SENDER_MAX + 2, last_part.copy, STATE - 100);
	UNTIL(&p, answers_n == 2);
	assert_int_equal(last_part.data.len, 100);
	end(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fetched), cmocka_unit_test(test_lost_and_doubled),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_dropped_there),
		cmocka_unit_test(test_another_replica), cmocka_unit_test(test_not_made),
		cmocka_unit_test(test_whole_refused), cmocka_unit_test(test_not_needed_any_more),
		cmocka_unit_test(test_no_newer), cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_many_readers),
		cmocka_unit_test(test_ahead), cmocka_unit_test(test_not_ahead),
		cmocka_unit_test(test_read_to_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
