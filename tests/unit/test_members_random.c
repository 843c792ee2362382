/* Replicas come, go, crash and are cut off at random while a client writes: nothing acknowledged is
 * lost, nothing is written twice, and when the trouble is over all members have the same state.
 * Usage: test_members_random [SEED [COUNT]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/rng.h"
#include "tests/unit/replica_cell.h"
#include "tests/unit/unit.h"

enum { SEEDS = 40, STEPS = 60, WRITES = CELL_ANSWERS - 8, CONTENTS = 64 };

static uint64_t first_seed = 1, seeds = SEEDS;

struct run {
	struct cell *cell;
	struct rng rng;
	struct cell_client *client;
	uint64_t node, written; /* tokens of the writes are 2 .. written + 1 */
	unsigned added, removed;
};

static uint64_t
below(struct run *r, uint64_t n)
{
	return rng_below(&r->rng, n);
}

static struct cell_replica *
any(struct run *r)
{
	return &r->cell->replicas[below(r, (uint64_t)r->cell->replicas_n)];
}

static enum member_role
role_of(struct cell *cell, const struct tree *t, uint8_t id)
{
	struct member m;

	(void)cell;
	if (!tree_member_after(t, (uint8_t)(id - 1), &m) || m.id != id)
		return 0;
	return m.role;
}

/* ---- what happens ---- */

/* A replica that the cell has as a member by now is started; a driver ends one that is told that
 * it is no member any more. */
static void
follow_members(struct run *r)
{
	struct cell *cell = r->cell;
	const struct cell_replica *master = cell_master(cell);

	if (master != NULL && cell->replicas_n < CELL_REPLICAS &&
	    role_of(cell, replica_tree(master->replica), (uint8_t)(cell->replicas_n + 1)) != 0) {
		cell_join(cell);
		r->added++;
	}
	for (int i = 0; i < cell->replicas_n; i++) {
		struct cell_replica *one = &cell->replicas[i];

		if (one->replica == NULL ||
		    replica_condition(one->replica) != CONDITION_EXPELLED)
			continue;
		cell_kill(one);
		one->gone = true;
		r->removed++;
	}
}

static void
operate(struct run *r)
{
	struct cell *cell = r->cell;
	const struct member new = cell_member((uint8_t)(cell->replicas_n + 1), MEMBER_LEARNER);
	struct message ask = {.code = MSG_operate};
	struct cell_replica *master = cell_master(cell);

	if (master == NULL)
		return;
	if (below(r, 2) && cell->replicas_n < CELL_REPLICAS)
		ask.operate = (struct msg_operate){.what = OPERATION_ADD_REPLICA,
		                                   .address = new.address,
		                                   .key = new.key};
	else
		ask.operate = (struct msg_operate){.what = below(r, 4) ? OPERATION_REMOVE_REPLICA
		                                                       : OPERATION_TRANSFER,
		                                   .id = any(r)->id};
	cell_say(master, "admin", &ask);
}

static void
trouble(struct run *r)
{
	struct cell_replica *one = any(r);

	switch (below(r, 5)) {
	case 0:
		if (one->replica != NULL)
			cell_kill(one);
		return;
	case 1:
	case 2:
		if (one->replica == NULL && !one->gone)
			cell_start(one);
		return;
	default:
		one->cut_off = !one->cut_off && below(r, 2);
	}
}

static void
step(struct run *r)
{
	for (uint64_t n = below(r, 5); n > 0 && r->written < WRITES; n--) {
		cell_append(r->client, r->node, "x");
		r->written++;
	}
	if (below(r, 3) == 0)
		operate(r);
	if (below(r, 4) == 0)
		trouble(r);
	cell_pass_ms(r->cell, (int64_t)below(r, 400));
	follow_members(r);
}

/* ---- the trouble is over ---- */

static void
heal(struct run *r)
{
	for (int i = 0; i < r->cell->replicas_n; i++) {
		struct cell_replica *one = &r->cell->replicas[i];

		one->cut_off = false;
		if (one->replica == NULL && !one->gone)
			cell_start(one);
	}
	for (int i = 0; i < 100; i++) {
		cell_pass_ms(r->cell, 100);
		follow_members(r);
	}
}

/* Who could not hear that he was removed knows it no better. */
static void
check_members(struct run *r)
{
	const struct tree *first = replica_tree(cell_await_master(r->cell)->replica);

	for (int i = 0; i < r->cell->replicas_n; i++) {
		const struct cell_replica *one = &r->cell->replicas[i];
		enum member_role role = role_of(r->cell, first, one->id);

		if (role == MEMBER_REMOVED || one->gone)
			continue;
		assert_int_equal(role, MEMBER_VOTER); /* learners have caught up */
		assert_int_equal(replica_condition(one->replica), CONDITION_VOTING);
		assert_int_equal(tree_applied(replica_tree(one->replica)), tree_applied(first));
		assert_true(tree_digest(replica_tree(one->replica)) == tree_digest(first));
		assert_false(one->diverged);
	}
}

/* Each write is answered, once, and there as often as it was answered well. */
static void
check_writes(struct run *r)
{
	struct op op = {.code = OP_get_attr, .get_attr = {.node = r->node}};
	struct buffer result = BUFFER(4096);
	struct result attr;

	assert_int_equal(r->client->lost, 0);
	for (uint64_t token = 2; token <= r->written + 1; token++) {
		const struct cell_answer *a = cell_await(r->client, token, 5000);

		assert_non_null(a);
		assert_int_equal(a->rc, RC_OK);
	}
	assert_int_equal(tree_read(replica_tree(cell_await_master(r->cell)->replica),
	                           client_status(r->client->client).session, 0, &op, &result),
	                 RC_OK);
	assert_int_equal(wire_get_result(RESULT_attr, buffer_view(&result), &attr), RC_OK);
	assert_int_equal(attr.attr.attr.size, r->written);
	buffer_free(&result);
}

static void
run(uint64_t seed, unsigned *added, unsigned *removed)
{
	struct run r = {.rng = rng_seeded(seed)};

	r.cell = cell_new_seeded(1 + 2 * (int)below(&r, 3), seed);
	r.cell->saves = true;
	r.cell->digest_every = 32;
	r.client = cell_client(r.cell, false);
	r.node = cell_file(r.client, "f");
	for (int i = 0; i < STEPS; i++)
		step(&r);
	heal(&r);
	check_members(&r);
	check_writes(&r);
	*added += r.added;
	*removed += r.removed;
	cell_free(r.cell);
}

static void
test_random(void **state)
{
	unsigned added = 0, removed = 0;

	(void)state;
	for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
		fprintf(stderr, "# seed %llu\n", (unsigned long long)seed);
		run(seed, &added, &removed);
	}
	fprintf(stderr, "# %u replicas joined, %u left\n", added, removed);
	assert_true(added >= seeds && removed >= seeds / 2);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};

	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 10);
	if (argc > 2)
		seeds = strtoull(argv[2], NULL, 10);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
