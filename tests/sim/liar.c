/* A faulty replica: a member of the cell that holds its key. What it does is sound, what it says is
 * not: besides its messages, and in their place, it tells wrong marks and far rounds, votes others
 * out, asks for what it has, and says again what it said long ago. So it must not take anybody's
 * vote, nor the cell's elections, for longer than it goes on.
 *
 * Where members come and go, another one lies to new replicas only, until they have a signing key.
 *
 * What it has accepted, promised and granted it tells as it is: no majority of replicas that are
 * expected to crash, and no more, protects those who count on it (docs/paxos.md). */
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

enum { VERDICTS = 4 };

void
liar_draw(struct sim *s)
{
	struct liar *l = &s->liar;

	l->rng = rng_seeded(~s->seed);
	if (s->hosts_n < 3 || !rng_chance(&l->rng, 150))
		return;
	if (s->swarm.operators > 0) {
		l->greeter = 1 + (int)rng_below(&l->rng, (uint64_t)s->hosts_n);
		return;
	}
	l->id = 1 + (int)rng_below(&l->rng, (uint64_t)s->hosts_n);
	s->swarm.rates[FAULT_LIES] = 1 + (unsigned)rng_below(&l->rng, 300);
	/* With it, two would be faulty who are to find out a disk that has forgotten. */
	s->swarm.rates[FAULT_WIPED] = s->swarm.rates[FAULT_OLD_COPY] = 0;
}

void
liar_free(struct liar *l)
{
	for (int i = 0; i < LIAR_MEMORY; i++)
		free((void *)l->said[i].data);
}

int64_t
liar_delay(const struct sim *s)
{
	return s->liar.id != 0 ? s->swarm.chaos_ms * MS : 0;
}

static bool
lies(struct sim *s)
{
	if (!rng_chance(&s->liar.rng, s->swarm.rates[FAULT_LIES]))
		return false;
	s->stats.faults[FAULT_LIES]++;
	return true;
}

/* ---- what is not so ---- */

static int
anybody(struct sim *s)
{
	return 1 + (int)rng_below(&s->liar.rng, (uint64_t)s->hosts_n);
}

/* Near to what is so, small, or of any size. Here and below one number is drawn in a statement: in
 * which order two are is the compiler's choice, and a seed must be one run everywhere. */
static uint64_t
number(struct sim *s, uint64_t known)
{
	struct rng *r = &s->liar.rng;
	uint64_t far;

	switch (rng_below(r, 3)) {
	case 0:
		known += rng_below(r, 4);
		return known - rng_below(r, 3);
	case 1:
		return rng_below(r, 4);
	default:
		far = rng_next(r);
		return far >> rng_below(r, 64);
	}
}

/* Above all that it knows: none that it will use itself. Often the last one that there is. */
static struct ballot
far_ballot(struct sim *s, int of)
{
	struct rng *r = &s->liar.rng;
	const struct host *n = &s->hosts[s->liar.id - 1];
	const uint64_t known = px_status(replica_px(n->replica))->master.round;
	uint64_t above;

	if (rng_chance(r, 200))
		return (struct ballot){BALLOT_ROUND_MAX, (uint8_t)of};
	above = rng_next(r);
	above >>= rng_below(r, 60);
	return (struct ballot){known + 1000 + above, (uint8_t)of};
}

/* Of a replica as it is, as others have heard it, or of anything else. */
static struct mark
mark_of(struct sim *s, int id)
{
	const struct host *by = &s->hosts[anybody(s) - 1], *n = &s->hosts[id - 1];
	struct mark m = by->disk.marks[id];

	m.replica = (uint8_t)id;
	if (rng_chance(&s->liar.rng, 300)) {
		m.incarnation = number(s, n->disk.incarnation);
		m.slot = number(s, n->disk.highest);
		m.ballot = far_ballot(s, anybody(s));
	}
	if (rng_chance(&s->liar.rng, 300))
		m.start = number(s, m.start);
	if (rng_chance(&s->liar.rng, 300))
		m.slot += 1 + rng_below(&s->liar.rng, 100);
	if (rng_chance(&s->liar.rng, 300))
		m.proof = rng_next(&s->liar.rng);
	return m;
}

static struct wire_list
marks(struct sim *s, struct buffer *to)
{
	uint32_t n = 1 + (uint32_t)rng_below(&s->liar.rng, LIMIT_REPLICAS);

	for (uint32_t i = 0; i < n; i++) {
		struct mark m = mark_of(s, anybody(s));

		wire_put_mark(to, &m);
	}
	return (struct wire_list){buffer_view(to), n};
}

/* Whose seed is not the cell's, and often whose public half is. */
static struct bytes
signing_key(struct sim *s, struct buffer *to)
{
	uint8_t key[SIGN_SECRET];

	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (uint8_t)rng_next(&s->liar.rng);
	if (rng_chance(&s->liar.rng, 500))
		memcpy(key + SIGN_SECRET - SIGN_PUBLIC, signing_keys_public(), SIGN_PUBLIC);
	buffer_put_bytes(to, (struct bytes){key, sizeof key});
	return buffer_view(to);
}

/* ---- messages ---- */

/* Some of what a message says is wrong, as far as that has to do no harm. False: none of it. */
static bool
distort(struct sim *s, int to, struct message *m, struct buffer *packed)
{
	switch (m->code) {
	case MSG_heartbeat:
		m->heartbeat.marks = marks(s, packed);
		return true;
	case MSG_promise:
		m->promise.own = mark_of(s, anybody(s));
		return true;
	case MSG_accepted:
		m->accepted.own = mark_of(s, anybody(s));
		return true;
	case MSG_heartbeat_reply:
		m->heartbeat_reply.own = mark_of(s, anybody(s));
		m->heartbeat_reply.full = rng_chance(&s->liar.rng, 200);
		m->heartbeat_reply.keys = rng_next(&s->liar.rng);
		return true;
	case MSG_welcome:
		m->welcome.verdict = (uint8_t)rng_below(&s->liar.rng, VERDICTS);
		m->welcome.remembered = mark_of(s, to);
		return true;
	case MSG_hello:
		m->hello.incarnation = number(s, m->hello.incarnation);
		m->hello.start = number(s, m->hello.start);
		m->hello.last = number(s, m->hello.last);
		return true;
	case MSG_refused:
		m->refused.ballot = far_ballot(s, anybody(s));
		return true;
	case MSG_digest:
		m->digest.digest = rng_next(&s->liar.rng);
		return true;
	default:
		return false;
	}
}

static void
invent(struct sim *s, int to, struct message *m)
{
	struct rng *r = &s->liar.rng;
	const struct host *n = &s->hosts[to - 1];
	const struct ballot own = far_ballot(s, s->liar.id), any = far_ballot(s, anybody(s));
	const struct mark mark = mark_of(s, to);

	switch (rng_below(r, 7)) {
	case 0:
		*m = (struct message){.code = MSG_prepare, .prepare = {own, 1, UINT64_MAX / 2}};
		return;
	case 1:
		*m = (struct message){.code = MSG_refused, .refused = {any}};
		return;
	case 2:
		*m = (struct message){.code = MSG_hello, .hello = {.ballot = any}};
		m->hello.incarnation = number(s, n->disk.incarnation);
		m->hello.start = rng_next(r);
		m->hello.last = number(s, n->disk.highest);
		m->hello.proof = rng_next(r);
		return;
	case 3:
		*m = (struct message){.code = MSG_welcome,
		                      .welcome = {.ballot = {1, 0},
		                                  .incarnation = n->disk.incarnation,
		                                  .start = mark.start,
		                                  .verdict = (uint8_t)rng_below(r, VERDICTS),
		                                  .remembered = mark}};
		return;
	case 4:
		*m = (struct message){.code = MSG_fetch, .fetch = {.ballot = any}};
		m->fetch.pass = number(s, 1);
		m->fetch.first = number(s, n->disk.highest);
		return;
	case 5:
		*m = (struct message){.code = MSG_gather, .gather = {.ballot = own}};
		m->gather.first = number(s, 1);
		m->gather.last = number(s, n->disk.highest);
		return;
	default:
		*m = (struct message){.code = MSG_digest};
		m->digest.index = number(s, n->disk.highest);
		m->digest.digest = rng_next(r);
		return;
	}
}

static void
say(struct sim *s, int from, int to, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	sim_trace(s, "replica %d lies to replica %d", from, to);
	trace_frame(s, "lie", (uint64_t)to, buffer_view(&frame));
	link_put(s, from, to, buffer_view(&frame));
	buffer_free(&frame);
}

static void
say_distorted(struct sim *s, int to, struct bytes frame)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message m;

	must(wire_get_frame(frame, &m) == RC_OK);
	if (distort(s, to, &m, &packed))
		say(s, s->liar.id, to, &m);
	else
		link_put(s, s->liar.id, to, frame);
	buffer_free(&packed);
}

/* ---- what it said ---- */

static void
remember(struct sim *s, struct bytes frame)
{
	struct bytes *at = &s->liar.said[rng_below(&s->liar.rng, LIAR_MEMORY)];

	if (!rng_chance(&s->liar.rng, 50))
		return;
	free((void *)at->data);
	*at = bytes_copy(frame);
}

/* Perhaps to somebody else. */
static void
repeat(struct sim *s)
{
	const struct bytes frame = s->liar.said[rng_below(&s->liar.rng, LIAR_MEMORY)];
	const int to = anybody(s);

	if (frame.len > 0 && to != s->liar.id)
		link_put(s, s->liar.id, to, frame);
}

void
liar_send(struct sim *s, int to, struct bytes frame)
{
	struct message m;

	remember(s, frame);
	if (lies(s))
		say_distorted(s, to, frame);
	else
		link_put(s, s->liar.id, to, frame);
	if (lies(s)) {
		invent(s, to, &m);
		say(s, s->liar.id, to, &m);
	}
	if (lies(s))
		repeat(s);
}

/* ---- to a new replica ---- */

/* One faulty member is too few for that. */
static bool
has_other_voters(const struct host *n)
{
	int others = 0;

	for (int i = 0; i < n->disk.file.n; i++)
		others += n->disk.file.list[i].role == MEMBER_VOTER;
	return others > 1;
}

/* As long as it requests the signing key: a wrong one, or that it was removed. */
static void
run_greet(struct sim *s, struct event *e)
{
	const struct host *n = &s->hosts[e->who], *greeter = &s->hosts[s->liar.greeter - 1];
	struct message m = {.code = MSG_welcome, .welcome = {.verdict = WELCOME_NO_MEMBER}};
	struct buffer packed = BUFFER(SIGN_SECRET);
	struct event again = *e;

	if (s->calm || !n->up || n->disk.keys.keys.n > 0 || n->life != e->life)
		return;
	if (rng_chance(&s->liar.rng, 500))
		m = (struct message){.code = MSG_secret, .secret = {signing_key(s, &packed)}};
	if (greeter->up && greeter->paused_until <= s->now) {
		s->stats.faults[FAULT_LIES]++;
		say(s, s->liar.greeter, n->id, &m);
	}
	buffer_free(&packed);
	again.at = s->now + (int64_t)rng_below(&s->liar.rng, 100 * MS);
	heap_push(&s->heap, again);
}

void
liar_greet(struct sim *s, const struct host *n)
{
	if (s->liar.greeter != 0 && n->disk.keys.keys.n == 0 && has_other_voters(n))
		heap_push(&s->heap, (struct event){.at = s->now,
		                                   .run = run_greet,
		                                   .who = n->id - 1,
		                                   .life = n->life});
}
