/* The sending side of state transfer, on a clock that the test moves: the readers that a replica
 * serves. The decisions of the fetching side stand in tests/transcripts/state_fetch; whole
 * transfers, which end at any moment, run in the simulator. */
#include <string.h>

#include "cell/base/must.h"
#include "cell/copy/state_transfer.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

enum { STATE = LIMIT_PART * 5 + 1234, TURNS_MAX = 1000000 };

struct play {
	mono_t now;
	struct clock_io clock;
	struct copy_io files;
	struct state_sender *sender;
	int made;
	mono_t made_at; /* the copy that is being made; MONO_NEVER: none */
	int copies_n;   /* that are there */
	uint64_t randoms;
};

/* Turns of the world until the condition holds. */
#define UNTIL(p, condition)                                    \
	do {                                                   \
		for (int turns_ = 0; !(condition); turns_++) { \
			turn(p);                               \
			assert_true(turns_ < TURNS_MAX);       \
		}                                              \
	} while (0)

/* ---- what it stands on ---- */

static mono_t
io_now(void *user, int64_t *wall_ns)
{
	(void)wall_ns;
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
make_copy(void *user, int place)
{
	struct play *p = user;

	must(mono_is_never(p->made_at)); /* one at a time */
	must(place >= 0 && place < STATE_SENDER_MAX);
	p->made_at = p->now;
}

static const char *
read_copy(void *user, int place, uint64_t offset, uint8_t *to, size_t n)
{
	(void)user;
	(void)place;
	must(offset + n <= STATE);
	memset(to, 0, n);
	return NULL;
}

static void
drop_copy(void *user, int place)
{
	(void)place;
	((struct play *)user)->copies_n--;
}

/* There is none. */
static void
drop_fetch(void *user)
{
	(void)user;
}

/* ---- the play ---- */

static void
finish_copy(struct play *p)
{
	if (!mono_reached(p->now, p->made_at))
		return;
	p->made_at = MONO_NEVER;
	p->made++;
	p->copies_n++;
	state_sender_made(p->sender, RC_OK, 77, STATE, NULL);
}

/* A moment passes. */
static void
turn(struct play *p)
{
	p->now = mono_add(p->now, span_ms(1));
	finish_copy(p);
	if (mono_reached(p->now, state_sender_deadline(p->sender)))
		state_sender_timeout(p->sender, p->now);
}

static void
start(struct play *p)
{
	memset(p, 0, sizeof *p);
	p->now = (mono_t){1000000000};
	p->made_at = MONO_NEVER;
	p->clock = (struct clock_io){.now = io_now, .random = io_random, .user = p};
	p->files = (struct copy_io){
	    .make = make_copy,
	    .read = read_copy,
	    .drop = drop_copy,
	    .drop_fetch = drop_fetch,
	    .user = p,
	};
}

static void
end(struct play *p)
{
	UNTIL(p, mono_is_never(p->made_at)); /* a copy that was begun */
	if (p->sender != NULL)
		state_sender_free(p->sender);
	assert_int_equal(p->copies_n, 0);
}

/* ---- administrators ---- */

static struct msg_state_refused refused_client;

static void
on_client_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	struct message m;

	(void)user;
	assert_int_equal(replica, 0);
	assert_int_equal(conn, 7);
	assert_int_equal(wire_get_frame(frame, &m), RC_OK);
	assert_int_equal(m.code, MSG_state_refused);
	refused_client = m.state_refused;
}

/* A client gets a copy, if it is an administrator. */
TEST(test_administrators_only)
{
	struct buffer request = BUFFER(64);
	struct state_transfer *x;
	struct play p;

	start(&p);
	x = state_transfer_new(&(struct state_transfer_config){.clock = &p.clock,
	                                                       .files = &p.files,
	                                                       .send = on_client_send,
	                                                       .user = &p});
	wire_put_frame(&request, &(struct message){.code = MSG_state_request});
	assert_true(state_transfer_client(x, 7, false, buffer_view(&request)));
	assert_int_equal(refused_client.rc, RC_PERM);
	assert_true(mono_is_never(p.made_at));
	assert_true(state_transfer_client(x, 7, true, buffer_view(&request)));
	assert_int_equal(refused_client.rc, RC_BUSY);
	assert_false(mono_is_never(p.made_at));
	p.made_at = MONO_NEVER;
	p.copies_n++;
	state_transfer_forget(x, 7);
	state_transfer_made(x, RC_OK, 77, STATE, NULL);
	state_transfer_free(x);
	buffer_free(&request);
	end(&p);
}

/* ---- many readers ---- */

/* The last answer: a part, or a refusal (its code and the copy's number). */
static struct msg_state_part last_part;
static enum rc last_rc;
static int answers_n;

static void
on_answer(void *user, struct state_sender_reader reader, const struct message *m)
{
	(void)user;
	(void)reader;
	last_rc = m->code == MSG_state_part ? RC_OK : (enum rc)m->state_refused.rc;
	if (m->code == MSG_state_part)
		last_part = m->state_part;
	else
		last_part = (struct msg_state_part){.copy = m->state_refused.copy};
	answers_n++;
}

static struct state_sender *
start_sender(struct play *p, int64_t soon_ms)
{
	p->sender = state_sender_new(&(struct state_sender_config){.clock = &p->clock,
	                                                           .files = &p->files,
	                                                           .send = on_answer,
	                                                           .soon = span_ms(soon_ms)});
	return p->sender;
}

static void
ask_copy(struct state_sender *c, uint64_t conn, uint64_t copy, uint64_t offset)
{
	const struct msg_state_request request = {copy, offset};

	state_sender_ask(c, (struct state_sender_reader){.conn = conn}, &request);
}

/* There is room for so many readers; a part is told once for each question, at first. */
TEST(test_many_readers)
{
	uint64_t ids[STATE_SENDER_MAX];
	struct state_sender *c;
	struct play p;

	start(&p);
	c = start_sender(&p, 0);
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		ask_copy(c, (uint64_t)i + 1, 0, 0);
		assert_int_equal(last_rc, RC_BUSY);
		ids[i] = last_part.copy;
		assert_int_not_equal(ids[i], 0);
		assert_int_not_equal(ids[i], ids[(i + 1) % STATE_SENDER_MAX]);
	}
	ask_copy(c, 100, 0, 0);
	assert_int_equal(last_rc, RC_BUSY);
	assert_int_equal(last_part.copy, 0);
	ask_copy(c, 2, ids[0], 0);
	assert_int_equal(last_rc, RC_NOENT); /* somebody else's */
	UNTIL(&p, p.made == STATE_SENDER_MAX);

	answers_n = 0;
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		for (int k = 0; k < 5; k++)
			ask_copy(c, (uint64_t)i + 1, ids[i], LIMIT_PART);
	assert_int_equal(answers_n, 0);
	UNTIL(&p, answers_n == STATE_SENDER_MAX);
	assert_int_equal(last_rc, RC_OK);
	assert_int_equal(last_part.offset, LIMIT_PART);
	assert_int_equal(last_part.size, STATE);
	assert_int_equal(last_part.applied, 77);
	ask_copy(c, 1, ids[0], STATE);
	assert_int_equal(last_rc, RC_INVAL);

	state_sender_forget(c, (struct state_sender_reader){.conn = 1});
	ask_copy(c, 100, 0, 0);
	assert_int_not_equal(last_part.copy, 0);
	state_sender_forget(c, (struct state_sender_reader){.conn = 100}); /* while it is made */
	UNTIL(&p, p.made == STATE_SENDER_MAX + 1);
	ask_copy(c, 2, 0, 0); /* anew: some of it was read */
	assert_int_equal(last_rc, RC_BUSY);
	assert_int_not_equal(last_part.copy, ids[1]);
	UNTIL(&p, p.made == STATE_SENDER_MAX + 2);
	end(&p);
}

static void
begin_asking(struct play *p, struct state_sender **c, int64_t soon_ms)
{
	start(p);
	*c = start_sender(p, soon_ms);
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
TEST(test_ahead)
{
	struct state_sender *c;
	struct play p;

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
TEST(test_not_ahead)
{
	struct state_sender *c;
	struct play p;
	mono_t late;

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
TEST(test_read_to_the_end)
{
	struct state_sender *c;
	struct play p;

	start(&p);
	c = start_sender(&p, 0);
	for (uint64_t conn = 1; conn <= STATE_SENDER_MAX + 2; conn++) {
		ask_copy(c, conn, 0, 0);
		assert_int_equal(last_rc, RC_BUSY);
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
