/* A client that knows the protocol and keeps none of its rules, against a whole replica: every kind
 * of message with small numbers that collide, requests under numbers of others, acquisitions used
 * again, tickets copied from answers and altered, frames sent twice and on other connections, while
 * the disk is slow, the process is stopped and started, and time goes on. Whatever it does: nothing
 * aborts, what is true of every tree stays true, a client that keeps the rules is answered, and the
 * judge (hostile_judge.h) finds nothing wrong with how the hostile one is treated: whether what it
 * sends costs it the connection, and which answers it gets. What its locks and files are then is
 * not judged here; that is what the simulator's model is for.
 *
 *   test_hostile [SEED [SEEDS]]     runs these seeds; a failure prints the seed that shows it */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/unit/bare_world.h"
#include "tests/unit/hostile_judge.h"
#include "tests/unit/hostile_wishes.h"
#include "tests/unit/unit.h"

enum {
	SEEDS = 500,
	STEPS = 400,
	LINES = WISHES_SESSIONS, /* connections, and nonces */
	SENT = 64,               /* frames that are kept to be sent again */
	PATIENCE_S = 20,
	PREFIX = 4, /* bytes of a frame that say how long it is: transport knows that */
};

struct line {
	uint64_t conn, session;
	const char *principal;
	uint8_t nonce[LIMIT_NONCE]; /* of the last opening */
	size_t nonce_len;
	struct acquire asked[SENT]; /* by number */
};

struct play {
	uint64_t seed;
	struct wishes wishes;
	struct bare_world *world;
	struct line lines[LINES];
	struct judge judge;
	uint64_t number;
	struct {
		struct bytes frame;
		uint64_t conn;
	} sent[SENT];
	size_t sent_n;
	struct bare_client good;
	uint64_t good_file, waits_for; /* the number of the request under way */
	enum rc answer;
};

static uint64_t first = 1, seeds = SEEDS, playing;
static uint64_t answered[256]; /* to it, in all seeds, by result */
static uint64_t judged[4];     /* as of the judges, likewise */

static uint64_t
below(struct play *p, uint64_t bound)
{
	return rng_below(&p->wishes.rng, bound);
}

static bool
one_in(struct play *p, uint64_t n)
{
	return below(p, n) == 0;
}

/* ---- what comes back ---- */

static void
learn_ticket(struct play *p, const struct line *l, const struct msg_reply *r)
{
	struct acquire a = l->asked[r->number % SENT];
	struct result result;

	if (r->rc != RC_QUEUED || wire_get_result(RESULT_acquired, r->result, &result) != RC_OK)
		return;
	a.ticket = result.acquired.ticket;
	wishes_learn(&p->wishes, &a);
}

static void
expect_right(const struct play *p, const char *wrong)
{
	if (wrong != NULL)
		fail_msg("seed %llu: %s", (unsigned long long)p->seed, wrong);
}

static void
hear_line(struct play *p, struct line *l, const struct message *m)
{
	if (m->code == MSG_session_opened && m->session_opened.rc == RC_OK) {
		l->session = m->session_opened.session;
		p->wishes.sessions[l - p->lines] = l->session;
		expect_right(p, judge_opened(&p->judge, l->session,
		                             (struct bytes){l->nonce, l->nonce_len},
		                             bytes_of(l->principal)));
	} else if (m->code == MSG_reply) {
		answered[m->reply.rc]++;
		learn_ticket(p, l, &m->reply);
		expect_right(p, judge_answer(&p->judge, l->session, &m->reply));
	}
}

static void
hear(struct play *p, uint64_t conn, const struct message *m)
{
	if (conn == p->good.conn && m->code == MSG_reply && m->reply.number == p->waits_for) {
		p->waits_for = 0;
		p->answer = (enum rc)m->reply.rc;
	}
	if (conn == p->good.conn && m->code == MSG_session_opened && m->session_opened.rc == RC_OK)
		p->good.epoch = m->session_opened.epoch;
	for (int i = 0; i < LINES; i++)
		if (p->lines[i].conn == conn)
			hear_line(p, &p->lines[i], m);
}

static void
hear_all(struct play *p)
{
	struct bare_world *world = p->world;
	struct message m;

	p->judge.tree = world_tree(world);
	for (size_t i = 0; i < world->inbox_n; i++) {
		assert_int_equal(wire_get_frame(world->inbox[i].frame, &m), RC_OK);
		hear(p, world->inbox[i].conn, &m);
		free((void *)world->inbox[i].frame.data);
	}
	world->inbox_n = 0;
	for (size_t i = 0; i < world->closed_n; i++)
		for (int k = 0; k < LINES; k++)
			if (p->lines[k].conn == world->closed[i])
				p->lines[k].conn = 0;
	world->closed_n = 0;
}

/* ---- how it asks ---- */

/* The session that is open on it, as far as its client can know; 0: none. */
static uint64_t
open_on(const struct play *p, const struct line *l)
{
	struct tree_session t;

	return l->session != 0 && tree_session(p->judge.tree, l->session, &t) ? l->session : 0;
}

static void
deliver(struct play *p, struct line *l, struct bytes frame)
{
	struct message m;
	uint64_t session;
	bool breach = false;

	hear_all(p);
	if (l->conn == 0)
		return;
	session = open_on(p, l);
	if (wire_get_frame(frame, &m) == RC_OK) {
		breach = session != 0 && judge_is_breach(&p->judge, session, &m);
		if (session != 0 && !breach)
			judge_sent(&p->judge, session, &m);
		if (m.code == MSG_open_session && !breach &&
		    m.open_session.nonce.len <= LIMIT_NONCE) {
			l->nonce_len = m.open_session.nonce.len;
			memcpy(l->nonce, m.open_session.nonce.data, l->nonce_len);
		}
	}
	world_send(p->world, l->conn, frame);
	if (breach && !world_closed(p->world, l->conn))
		expect_right(p, "a breach does not cost the connection");
}

/* Sent now, or only kept, to come out of its turn. */
static void
send(struct play *p, struct line *l, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	size_t at = p->sent_n++ % SENT;

	wire_put_frame(&frame, m);
	assert_false(frame.failed);
	if (!one_in(p, 10))
		deliver(p, l, buffer_view(&frame));
	free((void *)p->sent[at].frame.data);
	p->sent[at].frame = buffer_take(&frame);
	p->sent[at].conn = l->conn;
}

static void
send_again(struct play *p, struct line *l)
{
	size_t at = below(p, SENT);

	if (p->sent[at].frame.data != NULL && (p->sent[at].conn == l->conn || one_in(p, 20)))
		deliver(p, l, p->sent[at].frame);
}

static void
send_request(struct play *p, struct line *l)
{
	struct op op = wishes_op(&p->wishes);
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct message m = {.code = MSG_request};
	struct msg_request *r = &m.request;

	wire_put_op(&encoded, &op);
	assert_false(encoded.failed);
	*r = (struct msg_request){
	    .session = one_in(p, 40) ? p->wishes.sessions[below(p, LINES)] : l->session,
	    .epoch = tree_epoch(world_tree(p->world)) - one_in(p, 40),
	    .number = one_in(p, 5) ? 1 + below(p, p->number) : ++p->number,
	    .ordered = one_in(p, 20),
	    .op = buffer_view(&encoded),
	};
	r->below = one_in(p, 4) ? below(p, r->number + 1) : 0;
	if (one_in(p, 100))
		r->below = r->number + 1;
	if (one_in(p, 100))
		r->number += LIMIT_NUMBERS;
	if (op.code == OP_acquire)
		l->asked[r->number % SENT] = op.acquire.acquire;
	send(p, l, &m);
	buffer_free(&encoded);
}

static void
send_open(struct play *p, struct line *l)
{
	uint8_t nonce[LIMIT_NONCE], earlier[LIMIT_NONCE];
	struct message m = {.code = MSG_open_session};
	size_t at = (size_t)(l - p->lines);

	memset(nonce, 'A' + (int)(one_in(p, 10) ? below(p, LINES) : at), sizeof nonce);
	memset(earlier, 'A' + (int)below(p, LINES), sizeof earlier);
	m.open_session = (struct msg_open_session){
	    .session = one_in(p, 10) ? p->wishes.sessions[below(p, LINES)] : 0,
	    .nonce = {nonce, one_in(p, 50) ? below(p, LIMIT_NONCE) : sizeof nonce},
	    .host = bytes_of("elsewhere"),
	    .caching = (uint8_t)below(p, 2),
	    .epoch = below(p, 3),
	    .earlier = one_in(p, 8) ? p->wishes.sessions[below(p, LINES)] : 0,
	    .earlier_nonce = {earlier, sizeof earlier},
	};
	send(p, l, &m);
}

static void
send_keepalive(struct play *p, struct line *l)
{
	struct message m = {.code = MSG_keepalive};

	m.keepalive = (struct msg_keepalive){
	    .session = one_in(p, 40) ? p->wishes.sessions[below(p, LINES)] : l->session,
	    .epoch = tree_epoch(world_tree(p->world)) - one_in(p, 10),
	    .sequence = one_in(p, 10) ? below(p, 10) : ++p->number,
	};
	send(p, l, &m);
}

/* Anything that can be said, and some of it damaged. Operators' commands are for those who may. */
static void
send_anything(struct play *p, struct line *l)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	struct message m;

	if (!values_message(&p->wishes.values, 1 + (unsigned)below(p, 48), &m) ||
	    m.code == MSG_operate)
		return;
	wire_put_frame(&frame, &m);
	assert_false(frame.failed);
	if (one_in(p, 2))
		frame.data[PREFIX + below(p, frame.len - PREFIX)] ^= (uint8_t)(1 + below(p, 255));
	deliver(p, l, buffer_view(&frame));
	buffer_free(&frame);
}

static void
connect_again(struct play *p, struct line *l)
{
	if (l->conn != 0 && !one_in(p, 3))
		world_disconnect(p->world, l->conn);
	l->session = 0;
	l->principal = one_in(p, 20) ? "other" : "mallory";
	l->nonce_len = 0;
	l->conn = world_connect(p->world, l->principal);
	if (!one_in(p, 20))
		send_open(p, l);
}

/* More commands than a session may have under way, while the disk stands still. */
static void
flood(struct play *p, struct line *l)
{
	const struct op op = {.code = OP_set_mtime,
	                      .set_mtime = {.node = p->wishes.files[0], .now = 1}};
	struct buffer encoded = BUFFER(LIMIT_ENTRY), frame = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_request};
	const uint64_t session = open_on(p, l);

	if (session == 0)
		return;
	world_slow_disk(p->world, true);
	wire_put_op(&encoded, &op);
	for (int i = 0; i <= LIMIT_IN_FLIGHT && !world_closed(p->world, l->conn); i++) {
		m.request = (struct msg_request){.session = session,
		                                 .epoch = tree_epoch(world_tree(p->world)),
		                                 .number = ++p->number,
		                                 .op = buffer_view(&encoded)};
		buffer_reset(&frame);
		wire_put_frame(&frame, &m);
		judge_sent(&p->judge, session, &m);
		world_send(p->world, l->conn, buffer_view(&frame));
	}
	if (!world_closed(p->world, l->conn))
		expect_right(p, "a session has more under way than it may");
	buffer_free(&encoded);
	buffer_free(&frame);
	world_slow_disk(p->world, false);
}

/* ---- the one who keeps the rules ---- */

static void
good_attach(struct play *p)
{
	p->good.epoch = 0;
	bare_connect_anew(&p->good);
	bare_send_open(&p->good);
	hear_all(p);
	assert_true(p->good.epoch != 0);
	bare_send_keepalive(&p->good);
}

static void
pass_ms(struct play *p, int64_t ms)
{
	for (; ms > 0; ms -= 2000) {
		world_pass_ms(p->world, ms < 2000 ? ms : 2000);
		if (!p->world->slow_disk || one_in(p, 2))
			world_persist(p->world);
		bare_send_keepalive(&p->good);
	}
}

static enum rc
good_asks(struct play *p, struct op op)
{
	p->waits_for = ++p->good.number;
	bare_send_request(&p->good, p->good.number, false, &op);
	for (int i = 0; i < PATIENCE_S; i++) {
		world_persist(p->world);
		hear_all(p);
		if (p->waits_for == 0)
			return p->answer;
		pass_ms(p, 1000);
	}
	fail_msg("seed %llu: the good client's %s is not answered", (unsigned long long)p->seed,
	         wire_op(op.code)->name);
	return RC_IO;
}

static void
good_works(struct play *p)
{
	uint64_t acquisition = ++p->good.acquisition;
	bool slow = p->world->slow_disk;
	enum rc rc;

	world_slow_disk(p->world, false);
	good_asks(p, op_of_create("good"));
	rc = good_asks(p, op_of_acquire(p->good_file, 1, acquisition, LOCK_EXCLUSIVE, false));
	good_asks(p, op_of_set(p->good_file, "mine"));
	if (rc == RC_OK)
		assert_int_equal(good_asks(p, op_of_release(p->good_file, 1, acquisition)), RC_OK);
	assert_int_equal(good_asks(p, (struct op){.code = OP_get_usage}), RC_OK);
	world_slow_disk(p->world, slow);
}

/* ---- a run ---- */

static void
restart(struct play *p)
{
	bool slow = p->world->slow_disk;

	world_slow_disk(p->world, false);
	world_restart(p->world);
	judge_new_master(&p->judge);
	hear_all(p);
	good_attach(p);
	for (int i = 0; i < LINES; i++)
		connect_again(p, &p->lines[i]);
	world_slow_disk(p->world, slow);
}

static void
step(struct play *p)
{
	struct line *l = &p->lines[below(p, LINES)];

	if (l->conn == 0)
		connect_again(p, l);
	switch (below(p, 40)) {
	case 0:
		connect_again(p, l);
		return;
	case 1:
		world_slow_disk(p->world, !p->world->slow_disk);
		return;
	case 2:
		send_anything(p, l);
		return;
	case 3:
		pass_ms(p, (int64_t)below(p, one_in(p, 6) ? 15000 : 1500));
		return;
	case 4:
		if (one_in(p, 5))
			send_open(p, l);
		else if (one_in(p, 20))
			flood(p, l);
		return;
	case 5:
		if (one_in(p, 5))
			good_works(p);
		return;
	case 6:
		if (one_in(p, 12))
			restart(p);
		return;
	case 7:
	case 8:
	case 9:
		send_again(p, l);
		return;
	case 10:
	case 11:
		if (l->session != 0 || one_in(p, 20))
			send_keepalive(p, l);
		return;
	case 12:
	case 13:
	case 14:
	case 15:
		world_persist(p->world);
		return;
	default:
		if (l->session != 0 || one_in(p, 20))
			send_request(p, l);
	}
}

static void
begin(struct play *p, uint64_t seed)
{
	char name[] = "lock0";

	*p = (struct play){.seed = seed, .wishes.rng = rng_seeded(seed)};
	p->wishes.values.rng = rng_seeded(seed);
	p->number = 1;
	p->world = world_new(seed);
	world_add_principal(p->world, "mallory");
	world_add_principal(p->world, "other");
	p->good = bare_open(p->world, 'g');
	p->good_file = bare_file(&p->good, "good");
	for (int i = 0; i < WISHES_FILES; i++, name[4]++)
		p->wishes.files[i] = bare_file(&p->good, name);
	for (int i = 0; i < LINES; i++)
		connect_again(p, &p->lines[i]);
}

static void
run(uint64_t seed)
{
	static struct play p;
	struct tree_session t;
	const char *broken;

	begin(&p, seed);
	for (int i = 0; i < STEPS; i++) {
		step(&p);
		hear_all(&p);
		values_free(&p.wishes.values);
		broken = tree_check(world_tree(p.world));
		if (broken != NULL)
			fail_msg("seed %llu: %s", (unsigned long long)seed, broken);
		assert_true(tree_session(world_tree(p.world), p.good.session, &t));
	}
	good_works(&p);
	for (int i = 0; i < SENT; i++)
		free((void *)p.sent[i].frame.data);
	for (size_t i = 0; i < sizeof judged / sizeof *judged; i++)
		judged[i] += p.judge.judged[i];
	judge_free(&p.judge);
	world_free(p.world);
}

/* A broken invariant ends the process: in which seed? */
static void
tell_seed(int signal)
{
	(void)signal;
	fprintf(stderr, "test_hostile: seed %llu\n", (unsigned long long)playing);
}

/* Was it taken seriously? */
static void
expect_variety(void)
{
	static const enum rc some[] = {RC_OK,   RC_QUEUED, RC_BUSY_LOCK,   RC_INTR,
	                               RC_PERM, RC_STALE,  RC_OLD_REQUEST, RC_INVAL};

	for (size_t i = 0; i < sizeof some / sizeof *some; i++)
		if (answered[some[i]] < seeds / 10)
			fail_msg("it was answered %s %llu times", rc_name(some[i]),
			         (unsigned long long)answered[some[i]]);
	for (size_t i = 0; i < sizeof judged / sizeof *judged; i++)
		if (judged[i] < seeds / 10)
			fail_msg("of rule %zu it was judged %llu times", i,
			         (unsigned long long)judged[i]);
}

TEST(test_hostile_client)
{
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		playing = seed;
		run(seed);
	}
	expect_variety();
}

int
main(int argc, char **argv)
{
	if (argc > 1)
		first = strtoull(argv[1], NULL, 10);
	if (argc > 1)
		seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	signal(SIGABRT, tell_seed);
	return unit_run(NULL, NULL);
}
