/* Clients that do what comes to their mind: acquire, release, cancel, send again, break
 * connections, die. Whatever they did: what was given up is not held afterwards, and when each
 * holder lets go as soon as it has the lock, everybody who waits gets it. */
#include <stdio.h>
#include <string.h>
#include "cell/base/rng.h"
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

enum { SEEDS = 40, STEPS = 300, CLIENTS = 3, NODES = 2, OWNERS = 3, SENT_MAX = STEPS };

struct sent {
	uint64_t number;
	struct op op;
};

struct actor {
	struct lab_client client;
	struct sent sent[SENT_MAX];
	size_t sent_n;
	bool given_up[2 * STEPS]; /* by acquisition */
	uint8_t names;            /* nonces used */
};

struct play {
	struct lab *lab;
	struct rng rng;
	struct actor actors[CLIENTS];
	uint64_t nodes[NODES];
	bool convert; /* owners ask again for what they may hold */
	uint64_t owners;
};

static uint64_t
below(struct play *p, uint64_t bound)
{
	return rng_below(&p->rng, bound);
}

static bool
lives(struct play *p, struct actor *a)
{
	struct tree_session t;

	return tree_session(replica_tree(p->lab->replica), a->client.session, &t);
}

static void
come_in(struct play *p, struct actor *a)
{
	bool slow = p->lab->slow_disk;

	p->lab->slow_disk = false;
	lab_persist(p->lab);
	a->client = lab_open(p->lab, (uint8_t)(1 + 80 * (a - p->actors) + a->names++ % 80));
	a->sent_n = 0;
	memset(a->given_up, 0, sizeof a->given_up);
	p->lab->slow_disk = slow;
}

static void
send(struct actor *a, struct op op)
{
	a->sent[a->sent_n].op = op;
	a->sent[a->sent_n++].number = lab_send_op(&a->client, &op);
}

static struct op
random_acquire(struct play *p, struct actor *a)
{
	uint64_t owner = p->convert ? 1 + below(p, OWNERS) : ++p->owners;

	return lab_acquire(p->nodes[below(p, NODES)], owner, ++a->client.acquisition,
	                   below(p, 2) ? LOCK_SHARED : LOCK_EXCLUSIVE, below(p, 4) > 0);
}

/* A cancel or release of one of the acquires it sent. */
static void
give_up(struct actor *a, size_t which, bool cancel)
{
	const struct acquire *q = &a->sent[which].op.acquire.acquire;

	if (a->sent[which].op.code != OP_acquire)
		return;
	a->given_up[q->acquisition] = true;
	if (cancel)
		send(a, lab_cancel(q->node, q->owner, q->acquisition));
	else
		send(a, lab_release(q->node, q->owner, q->acquisition));
}

static void
act(struct play *p, struct actor *a)
{
	size_t some = a->sent_n > 0 ? below(p, a->sent_n) : 0;

	switch (below(p, 12)) {
	case 0:
	case 1:
	case 2:
		send(a, random_acquire(p, a));
		return;
	case 3:
	case 4:
		if (a->sent_n > 0)
			give_up(a, some, below(p, 2));
		return;
	case 5:
		if (a->sent_n > 0)
			lab_send_request(&a->client, a->sent[some].number, false,
			                 &a->sent[some].op);
		return;
	case 6:
		lab_send_op(&a->client, &(struct op){.code = OP_get_usage});
		return;
	case 7:
		p->lab->slow_disk = !p->lab->slow_disk;
		lab_persist(p->lab);
		return;
	case 8:
		lab_disconnect(&a->client);
		lab_reattach(&a->client);
		return;
	case 9:
		lab_pass_ms(p->lab, (int64_t)below(p, 3000));
		return;
	default:
		lab_send_keepalive(&a->client);
	}
}

static struct actor *
actor_of(struct play *p, uint64_t session)
{
	for (int i = 0; i < CLIENTS; i++)
		if (p->actors[i].client.session == session)
			return &p->actors[i];
	fail_msg("a lock is held by a session that nobody has");
	return NULL;
}

/* Every holder of the lock lets go. */
static void
let_go(struct play *p, uint64_t node, const struct result_lock *lock)
{
	struct cursor at = cursor_of(lock->holders.packed);
	struct lock_holder h;

	while (wire_next_lock_holder(&at, &h)) {
		struct actor *a = actor_of(p, h.session);
		struct op op = lab_release(node, h.owner, h.acquisition);

		assert_true(p->convert || !a->given_up[h.acquisition]);
		lab_send_op(&a->client, &op);
	}
}

static bool
is_free(struct play *p, uint64_t node)
{
	struct op op = lab_get_lock(node);
	struct result result;

	assert_int_equal(lab_call(&p->actors[0].client, &op, &result), RC_OK);
	let_go(p, node, &result.lock);
	if (result.lock.state != LOCK_STATE_FREE)
		return false;
	assert_int_equal(result.lock.waiters, 0);
	return true;
}

static void
expect_peace(struct play *p)
{
	int64_t seconds = 0;

	p->lab->slow_disk = false;
	lab_persist(p->lab);
	for (int i = 0; i < CLIENTS; i++)
		if (lives(p, &p->actors[i]))
			lab_reattach(&p->actors[i].client);
		else
			come_in(p, &p->actors[i]);
	while (!is_free(p, p->nodes[0]) || !is_free(p, p->nodes[1])) {
		assert_true(++seconds < STEPS);
		for (int i = 0; i < CLIENTS; i++)
			lab_send_keepalive(&p->actors[i].client);
		lab_pass_ms(p->lab, 1000);
	}
}

static void
play(uint64_t seed)
{
	static struct play p;

	memset(&p, 0, sizeof p);
	p.lab = lab_new();
	p.rng = rng_seeded(seed);
	p.convert = seed % 2;
	for (int i = 0; i < CLIENTS; i++)
		come_in(&p, &p.actors[i]);
	p.nodes[0] = lab_file(&p.actors[0].client, "f");
	p.nodes[1] = lab_file(&p.actors[0].client, "g");
	for (int i = 0; i < STEPS; i++) {
		struct actor *a = &p.actors[below(&p, CLIENTS)];

		if (below(&p, 4) == 0)
			lab_persist(p.lab);
		if (!lives(&p, a))
			come_in(&p, a);
		else
			act(&p, a);
	}
	expect_peace(&p);
	lab_free(p.lab);
}

static void
test_random(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		print_message("seed %llu\n", (unsigned long long)seed);
		play(seed);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
