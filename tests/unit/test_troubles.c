/* Replicas in trouble: whose state is not that of the others, and whose disks are full. */
#include <string.h>
#include "cell/tree/internal.h"
#include "tests/unit/replica_cell.h"
#include "tests/unit/unit.h"

enum { EVERY = 16 };

static struct cell_replica *
other_than(struct cell *cell, const struct cell_replica *r)
{
	return &cell->replicas[r->id % cell->first_n];
}

static enum rc
call(struct cell_client *c, const struct op *op)
{
	const struct cell_answer *a = cell_await(c, cell_ask(c, op), 3000);

	assert_non_null(a);
	return a->rc;
}

static enum rc
append(struct cell_client *c, uint64_t node, const char *text)
{
	struct op op = {.code = OP_append, .append = {.node = node, .data = bytes_of(text)}};

	return call(c, &op);
}

static enum rc
set(struct cell_client *c, uint64_t node, const char *text)
{
	struct op op = {.code = OP_set_contents,
	                .set_contents = {.node = node, .contents = bytes_of(text)}};

	return call(c, &op);
}

static enum rc
create(struct cell_client *c, const char *name)
{
	struct op op = {.code = OP_create,
	                .create = {.parent = NODE_ROOT, .name = bytes_of(name),
	                           .kind = NODE_FILE}};

	return call(c, &op);
}

static enum rc
unlink_file(struct cell_client *c, const char *name)
{
	struct op op = {.code = OP_delete,
	                .delete = {.parent = NODE_ROOT, .name = bytes_of(name),
	                           .kind = NODE_FILE}};

	return call(c, &op);
}

/* ---- states that differ ---- */

/* What goes wrong in memory, or by a mistake of ours, changes a state behind the log's back. */
static struct tree *
state_of(struct cell_replica *r)
{
	return (struct tree *)replica_tree(r->replica);
}

static void
work(struct cell_client *c, uint64_t node, int entries)
{
	for (int i = 0; i < entries; i++)
		assert_int_equal(set(c, node, "something"), RC_OK);
}

static struct cell *
cell_with_digests(int replicas, struct cell_client **c, uint64_t *node)
{
	struct cell *cell = cell_new(replicas);

	for (int i = 0; i < replicas; i++)
		cell_kill(&cell->replicas[i]);
	cell->digest_every = EVERY;
	for (int i = 0; i < replicas; i++)
		cell_start(&cell->replicas[i]);
	*c = cell_client(cell, false);
	*node = cell_file(*c, "f");
	return cell;
}

static void
expect_diverged(struct cell *cell, const struct cell_replica *only)
{
	for (int i = 0; i < cell->replicas_n; i++)
		assert_int_equal(cell->replicas[i].diverged, &cell->replicas[i] == only);
	if (only != NULL)
		assert_true(cell_traced(only, "the state differs from that of the majority"));
}

/* The log tells digests, and nobody finds fault with them; also over changes of the master. */
static void
test_equal_states(void **state)
{
	struct cell_client *c;
	uint64_t node, told = 0, before;
	struct cell *cell = cell_with_digests(3, &c, &node);

	(void)state;
	before = tree_applied(state_of(cell_master(cell)));
	work(c, node, 5 * EVERY);
	cell_pass_ms(cell, 300);
	told = tree_applied(state_of(cell_master(cell))) - before - 5 * EVERY;
	assert_in_range(told, 5, 6);
	cell_kill(cell_master(cell));
	work(c, node, 3 * EVERY);
	expect_diverged(cell, NULL);
	cell_free(cell);
}

/* The next digest finds it. */
static void
test_another_history(void **state)
{
	struct cell_client *c;
	uint64_t node;
	struct cell *cell = cell_with_digests(3, &c, &node);
	struct cell_replica *wrong = other_than(cell, cell_master(cell));

	(void)state;
	work(c, node, EVERY);
	cell_pass_ms(cell, 500);
	state_of(wrong)->position.digest ^= 1;
	work(c, node, EVERY);
	cell_pass_ms(cell, 200);
	expect_diverged(cell, wrong);
	work(c, node, 2 * EVERY);
	expect_diverged(cell, wrong);
	cell_free(cell);
}

/* A bit that flips in a file's contents is found when the wandering slice comes by. */
static void
test_flipped_bit(void **state)
{
	struct cell_client *c;
	uint64_t node, other;
	struct cell *cell = cell_with_digests(3, &c, &node);
	struct cell_replica *wrong = other_than(cell, cell_master(cell));
	struct node *n;

	(void)state;
	other = cell_file(c, "other");
	assert_int_equal(set(c, other, "contents"), RC_OK);
	cell_pass_ms(cell, 500);
	n = node_find(state_of(wrong), other);
	assert_non_null(n);
	((uint8_t *)n->contents.data)[3] ^= 4;
	work(c, node, 3 * EVERY);
	cell_pass_ms(cell, 200);
	expect_diverged(cell, wrong);
	cell_free(cell);
}

/* A master that is wrong gives up its mastership. */
static void
test_wrong_master(void **state)
{
	struct cell_client *c;
	uint64_t node;
	struct cell *cell = cell_with_digests(3, &c, &node);
	struct cell_replica *wrong = cell_master(cell);

	(void)state;
	state_of(wrong)->position.digest ^= 1;
	work(c, node, 2 * EVERY);
	cell_pass_ms(cell, 200);
	expect_diverged(cell, wrong);
	assert_ptr_not_equal(cell_await_master(cell), wrong);
	assert_true(cell_traced(wrong, "no longer master"));
	cell_free(cell);
}

/* With nobody to compare with, nothing is told. */
/* Two of three are there: nobody knows which is right, and both say so. The third one decides. */
static void
test_two_that_differ(void **state)
{
	struct cell_client *c;
	uint64_t node;
	struct cell *cell = cell_with_digests(3, &c, &node);
	const struct message ask = {.code = MSG_status_request};
	struct cell_replica *master = cell_master(cell), *wrong = other_than(cell, master);
	struct cell_replica *away = &cell->replicas[6 - master->id - wrong->id - 1];
	const struct message *status;

	(void)state;
	work(c, node, EVERY);
	cell_pass_ms(cell, 500);
	cell_kill(away);
	state_of(wrong)->position.digest ^= 1;
	work(c, node, EVERY);
	cell_pass_ms(cell, 5000);
	expect_diverged(cell, NULL);
	assert_true(cell_traced(master, "replicas have different states, at entry"));
	assert_true(cell_traced(wrong, "the state differs from that of replica"));
	status = cell_question(master, "admin", &ask, MSG_status_reply);
	assert_int_not_equal(status->status_reply.disputed, 0);
	cell_start(away);
	work(c, node, EVERY);
	cell_pass_ms(cell, 1000);
	expect_diverged(cell, wrong);
	status = cell_question(cell_await_master(cell), "admin", &ask, MSG_status_reply);
	assert_int_equal(status->status_reply.disputed, 0);
	cell_free(cell);
}

static void
test_nobody_to_compare_with(void **state)
{
	struct cell_client *c;
	uint64_t node, before;
	struct cell *cell = cell_with_digests(1, &c, &node);

	(void)state;
	before = tree_applied(state_of(cell_master(cell)));
	work(c, node, 5 * EVERY);
	assert_int_equal(tree_applied(state_of(cell_master(cell))), before + 5 * EVERY);
	cell_free(cell);
}

/* ---- full disks ---- */

static void
disk_full(struct cell_replica *r, bool on)
{
	cell_replica_event(r, (struct replica_event){.kind = REPLICA_FULL, .on = on});
	cell_pass_ms(r->cell, 300);
}

/* A master without room hands over to one that has it; nobody notices more than that. */
static void
test_full_master(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *full = cell_master(cell), *next;
	uint64_t node = cell_file(c, "f");

	(void)state;
	cell_pass_ms(cell, 500);
	disk_full(full, true);
	next = cell_await_master(cell);
	assert_ptr_not_equal(next, full);
	assert_true(cell_traced(full, "the disk is full: replica"));
	assert_int_equal(append(c, node, "x"), RC_OK);
	assert_ptr_equal(cell_await_master(cell), next);
	/* Two are full: no majority has room, and the third is master. */
	disk_full(next, true);
	cell_pass_ms(cell, 500);
	assert_true(cell_await_master(cell) != full && cell_await_master(cell) != next);
	assert_int_equal(append(c, node, "x"), RC_NOSPC);
	disk_full(full, false);
	assert_int_equal(append(c, node, "x"), RC_OK);
	cell_free(cell);
}

/* What gives room back works, and what only takes turns. */
static void
test_no_room(void **state)
{
	const struct message open = {
		.code = MSG_open_session,
		.open_session = {.nonce = bytes_of("0123456789abcdef"), .host = bytes_of("there")},
	};
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *master = cell_master(cell);
	uint64_t node = cell_file(c, "f");
	const struct message *m;

	(void)state;
	assert_int_equal(set(c, node, "12345"), RC_OK);
	assert_int_equal(create(c, "old"), RC_OK);
	disk_full(other_than(cell, master), true);
	disk_full(other_than(cell, other_than(cell, master)), true);
	disk_full(master, true);
	assert_ptr_equal(cell_master(cell), master); /* nobody is better off */
	assert_true(cell_traced(master, "nothing that grows is taken"));
	assert_int_equal(create(c, "new"), RC_NOSPC);
	assert_int_equal(append(c, node, "6"), RC_NOSPC);
	assert_int_equal(set(c, node, "123456"), RC_NOSPC);
	assert_string_equal(cell_read(c, node), "12345");
	m = cell_question(master, "admin", &open, MSG_session_opened);
	assert_non_null(m);
	assert_int_equal(m->session_opened.rc, RC_FULL);

	assert_int_equal(create(c, "f"), RC_OK); /* opens it */
	assert_int_equal(set(c, node, "54321"), RC_OK);
	assert_int_equal(set(c, node, "1"), RC_OK);
	assert_int_equal(cell_await(c, cell_lock(c, node, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	assert_int_equal(cell_await(c, cell_unlock(c, node, 1), 50)->rc, RC_OK);
	assert_int_equal(unlink_file(c, "old"), RC_OK);
	for (int i = 0; i < 2; i++)
		disk_full(&cell->replicas[i], false);
	assert_int_equal(append(c, node, "2"), RC_OK);
	assert_int_equal(create(c, "new"), RC_OK);
	assert_int_equal(c->lost, 0);
	cell_free(cell);
}

/* A request that took effect before the disks were full is answered as it was decided, if its
 * client has not heard and asks again. */
static void
test_asked_again_without_room(void **state)
{
	struct cell *cell = cell_new(1);
	struct cell_client *c = cell_client(cell, false);
	uint64_t node = cell_file(c, "f"), token, applied;

	(void)state;
	applied = tree_applied(state_of(cell_master(cell)));
	token = cell_append(c, node, "x");
	while (tree_applied(state_of(cell_master(cell))) == applied)
		cell_pass_ms(cell, 1);
	cell_kill(&cell->replicas[0]); /* with its answer on the way */
	assert_null(cell_answer(c, token));
	cell_start(&cell->replicas[0]);
	cell_replica_event(&cell->replicas[0],
	                   (struct replica_event){.kind = REPLICA_FULL, .on = true});
	assert_int_equal(cell_await(c, token, 5000)->rc, RC_OK);
	assert_string_equal(cell_read(c, node), "x");
	assert_int_equal(append(c, node, "y"), RC_NOSPC);
	cell_free(cell);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_states),
		cmocka_unit_test(test_another_history),
		cmocka_unit_test(test_flipped_bit),
		cmocka_unit_test(test_wrong_master),
		cmocka_unit_test(test_two_that_differ),
		cmocka_unit_test(test_nobody_to_compare_with),
		cmocka_unit_test(test_full_master),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_asked_again_without_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
