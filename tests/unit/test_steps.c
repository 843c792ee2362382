/* No step takes long, whatever a client may have brought about: while it lasts nobody is heard, and
 * that costs a master its mastership. What a step does is counted (rows that it changes, and frames
 * that it sends), and the time of the processor that it takes has to be within a multiple of what a
 * step may take: machines are slow, and sanitizers are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/unit/lab.h"
#include "tests/unit/tree_fixture.h"
#include "tests/unit/unit.h"

#ifdef __SANITIZE_ADDRESS__
enum { SPARE = 20 }; /* sanitizers slow a step down */
#else
enum { SPARE = 2 };
#endif

enum {
	MANY = 16384,
	MOST_MS = 10, /* of processor time for a step; so many times SPARE here */
};

static const enum lock_mode EX = LOCK_EXCLUSIVE, SH = LOCK_SHARED;

/* ---- a cell in which there is much ---- */

/* Many commands to an entry; `number`: 0, so no results are kept. */
static void
put(struct fixture *f, uint64_t session, const struct op *op)
{
	struct command c = {.stamp_ns = SECOND_NS, .session = session};

	entry_add(f, &c, op);
	if (f->packed_n == 512)
		entry_apply(f);
}

static void
put_all(struct fixture *f)
{
	if (f->packed_n > 0)
		entry_apply(f);
}

static struct op
take(uint64_t node, uint64_t owner, enum lock_mode mode)
{
	struct op op = lab_acquire(node, owner, 1, mode, false);

	op.acquire.acquire.delay_s = 3;
	return op;
}

/* So many files, made by the session; returns the first one's number. */
static uint64_t
put_files_of(struct fixture *f, uint64_t session, uint64_t n)
{
	const uint64_t directory = new_directory(f, NODE_ROOT, "many");
	char name[24];

	for (uint64_t i = 0; i < n; i++) {
		snprintf(name, sizeof name, "%06llu", (unsigned long long)i);
		put(f, session,
		    OP(create, .parent = directory, .name = bytes_of(name), .kind = NODE_FILE));
	}
	put_all(f);
	return directory + 1;
}

static uint64_t
put_files(struct fixture *f, uint64_t n)
{
	return put_files_of(f, READER, n);
}

static uint64_t
put_session(struct fixture *f, uint8_t name)
{
	char nonce[LIMIT_NONCE + 1] = "";

	memset(nonce, name, LIMIT_NONCE);
	return new_session(f, nonce);
}

/* Others that nobody ever hears of. */
static void
put_sessions(struct fixture *f, uint64_t n, bool awaited)
{
	char nonce[32]; /* its first LIMIT_NONCE bytes */

	for (uint64_t i = 0; i < n; i++) {
		snprintf(nonce, sizeof nonce, "%09llu is silent", (unsigned long long)i);
		put(f, 0,
		    OP(create_session, .nonce = {(const uint8_t *)nonce, LIMIT_NONCE},
		       .principal = bytes_of("many"), .host = bytes_of("h"), .awaited = awaited));
	}
	put_all(f);
}

static void
elect(struct lab *lab)
{
	for (int i = 0; i < 5000 && !replica_serving(lab->replica, lab->now); i++)
		lab_pass_ms(lab, 1);
	assert_true(replica_serving(lab->replica, lab->now));
}

/* The replica starts with what the fixture has. */
static struct lab *
lab_of(struct fixture *f)
{
	struct lab *lab = lab_new();
	struct row_list changed = {0};

	lab_stop(lab);
	row_list_free(&lab->rows);
	tree_dirty_rows(f->tree, &changed);
	for (size_t i = 0; i < changed.n; i++)
		if (!changed.rows[i].deleted)
			row_list_add(&lab->rows, &changed.rows[i]);
	row_list_free(&changed);
	fixture_free(f);
	lab->update = (struct replica_update){0};
	lab_boot(lab);
	lab->forgets = true;
	lab->most_pieces = 0;
	lab->most_time = (span_t){0};
	return lab;
}

static void
expect_short_steps(struct lab *lab)
{
	assert_in_range(lab->most_time.ns, 0, span_ms(MOST_MS * SPARE).ns);
}

/* ---- ends of sessions ---- */

static void
test_end_with_many_locks(void **state)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, MANY), s = put_session(f, 'a');
	struct lab *lab;
	uint64_t node;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		struct op op = take(first + i, 1, EX);

		put(f, s, &op);
	}
	put_all(f);
	lab = lab_of(f);
	elect(lab);
	lab_pass_ms(lab, 3 * LAB_LEASE_MS); /* it expires, and its lock-delays, too */
	assert_false(tree_lock_after(replica_tree(lab->replica), 0, &node));
	expect_short_steps(lab);
	lab_free(lab);
}

static void
test_end_with_many_owners(void **state)
{
	struct fixture *f = fixture_new();
	enum { FILES = 8 };
	const uint64_t first = put_files(f, FILES), s = put_session(f, 'a');
	struct lab *lab;
	uint64_t node;

	(void)state;
	for (uint64_t i = 0; i < (uint64_t)FILES * LIMIT_HOLDERS; i++) {
		struct op op = take(first + i / LIMIT_HOLDERS, i, SH);

		put(f, s, &op);
	}
	put_all(f);
	lab = lab_of(f);
	elect(lab);
	lab_pass_ms(lab, 3 * LAB_LEASE_MS);
	assert_false(tree_lock_after(replica_tree(lab->replica), 0, &node));
	expect_short_steps(lab);
	lab_free(lab);
}

static void
test_end_with_many_ephemeral_files(void **state)
{
	struct fixture *f = fixture_new();
	const uint64_t s = put_session(f, 'a'), first = put_files_of(f, s, MANY);
	struct lab *lab;

	(void)state;
	for (uint64_t i = 0; i < MANY; i++)
		put(f, s, OP(make_ephemeral, .node = first + i));
	put_all(f);
	lab = lab_of(f);
	elect(lab);
	lab_pass_ms(lab, 2 * LAB_LEASE_MS);
	assert_int_equal(tree_usage(replica_tree(lab->replica)).nodes, 5);
	expect_short_steps(lab);
	lab_free(lab);
}

/* ---- many sessions ---- */

/* Taking office with them, the barrier's fall, and the end of all at once. */
static void
many_sessions(bool awaited)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, MANY);
	struct tree_session t;
	struct lab *lab;
	uint64_t id = 0;

	put_sessions(f, MANY, awaited);
	for (uint64_t i = 0; tree_session_after(f->tree, id, &t); i++, id = t.id) {
		struct op op = take(first + i % MANY, 1, EX);

		put(f, t.id, &op);
	}
	put_all(f);
	lab = lab_of(f);
	elect(lab);
	lab_pass_ms(lab, 3 * LAB_LEASE_MS);
	assert_false(tree_session_after(replica_tree(lab->replica), 0, &t));
	expect_short_steps(lab);
	lab_free(lab);
}

static void
test_many_sessions(void **state)
{
	(void)state;
	many_sessions(false);
}

static void
test_many_sessions_that_cache(void **state)
{
	(void)state;
	many_sessions(true);
}

/* A new master takes them over a few at a time, and those first that it hears of. */
static void
test_session_comes_before_its_turn(void **state)
{
	struct fixture *f = fixture_new();
	struct lab_client last = {0};
	struct lab *lab;

	(void)state;
	put_sessions(f, MANY, true);
	last.session = put_session(f, 'z');
	lab = lab_of(f);
	last.lab = lab;
	memset(last.nonce, 'z', sizeof last.nonce);
	lab_reconnect(&last);
	lab_send_open(&last, NULL); /* it is kept until there is a master */
	elect(lab);
	lab_expect_opened(&last);
	expect_short_steps(lab);
	lab_free(lab);
}

/* ---- many who wait ---- */

enum { CROWD = 4 };

/* Sessions whose every owner waits for one file, which `holder` has. */
static uint64_t
crowd_waits(struct lab *lab, struct lab_client *holder, struct lab_client *crowd,
            enum lock_mode mode)
{
	uint64_t node = lab_file(holder, "f");

	lab->forgets = true;
	assert_int_equal(lab_lock(holder, node, 1, EX, true), RC_OK);
	for (uint8_t i = 0; i < CROWD; i++) {
		crowd[i] = lab_open(lab, 'A' + i);
		for (uint64_t owner = 0; owner < LIMIT_WAITERS / CROWD; owner++) {
			struct op op = lab_acquire(node, owner, owner + 1, mode, true);

			lab_send_op(&crowd[i], &op);
			assert_false(lab_closed(lab, crowd[i].conn));
		}
	}
	assert_int_equal(lab_look(holder, node).waiters, LIMIT_WAITERS);
	lab->most_pieces = 0;
	lab->most_time = (span_t){0};
	return node;
}

static void
test_many_waiters_are_granted(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), crowd[CROWD];
	const uint64_t node = crowd_waits(lab, &a, crowd, SH);

	(void)state;
	lab_unlock(&a, node, 1, 1);
	lab_pass_ms(lab, 1);
	assert_int_equal(lab_look(&a, node).holders.count, LIMIT_HOLDERS);
	expect_short_steps(lab);
	lab_free(lab);
}

static void
test_many_waiters_file_is_deleted(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), crowd[CROWD];
	struct op delete = lab_delete("f");
	size_t told = 0;

	(void)state;
	crowd_waits(lab, &a, crowd, EX);
	assert_int_equal(lab_call(&a, &delete, NULL), RC_OK);
	lab_pass_ms(lab, 1);
	for (uint8_t i = 0; i < CROWD; i++)
		while (lab_take(&crowd[i], MSG_granted) != NULL)
			told++;
	assert_int_equal(told, LIMIT_WAITERS);
	expect_short_steps(lab);
	lab_free(lab);
}

static void
test_many_waiters_end(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), crowd[CROWD];
	const uint64_t node = crowd_waits(lab, &a, crowd, EX);

	(void)state;
	for (int i = 0; i < 8; i++) {
		lab_pass_ms(lab, LAB_LEASE_MS / 4);
		lab_send_keepalive(&a);
	}
	assert_int_equal(lab_look(&a, node).waiters, 0);
	expect_short_steps(lab);
	lab_free(lab);
}

static void
test_a_session_waits_for_so_much(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	const uint64_t node = lab_file(&a, "f");

	(void)state;
	lab->forgets = true;
	assert_int_equal(lab_lock(&a, node, 1, EX, true), RC_OK);
	for (uint64_t owner = 0; owner < LIMIT_SESSION_WAITERS; owner++)
		assert_int_equal(lab_lock(&b, node, owner, EX, true), RC_QUEUED);
	b.below = b.number + 1;
	assert_int_equal(lab_lock(&b, node, LIMIT_SESSION_WAITERS, EX, true), RC_FULL);
	lab_give_up(&b, node, 0, 1);
	assert_int_equal(lab_lock(&b, node, LIMIT_SESSION_WAITERS, EX, true), RC_QUEUED);
	lab_free(lab);
}

/* ---- deletions ---- */

/* A file whose lock many share, and a directory that had many names. */
static void
test_what_had_much_is_deleted(void **state)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, LIMIT_REMOVED), s = put_session(f, 'a');
	struct op delete = {.code = OP_delete, .delete = {.parent = first - 1, .kind = NODE_FILE}};
	struct lab_client a = {.session = s};
	struct lab *lab;
	char name[24];

	(void)state;
	for (uint64_t i = 0; i < LIMIT_HOLDERS; i++) {
		struct op op = take(first, i, SH);

		put(f, s, &op);
	}
	put_all(f);
	lab = lab_of(f);
	elect(lab);
	a.lab = lab;
	memset(a.nonce, 'a', LIMIT_NONCE);
	lab_reattach(&a);
	for (int i = 0; i < LIMIT_REMOVED; i++) {
		snprintf(name, sizeof name, "%06d", i);
		delete.delete.name = bytes_of(name);
		a.below = a.number + 1;
		assert_int_equal(lab_call(&a, &delete, NULL), RC_OK);
		while (lab->inbox_n > 0)
			free((void *)lab->inbox[--lab->inbox_n].frame.data);
	}
	delete = lab_delete("many");
	delete.delete.kind = NODE_DIRECTORY;
	a.below = a.number + 1;
	assert_int_equal(lab_call(&a, &delete, NULL), RC_OK);
	assert_in_range(lab->most_pieces, LIMIT_HOLDERS, LIMIT_STEP);
	assert_in_range(lab->most_time.ns, 0, span_ms(MOST_MS * SPARE).ns);
	lab_free(lab);
}

/* ---- much that becomes possible at once ---- */

enum { READERS = 64 };

/* Each session has one command that holds up its reads; all of them become durable at once. */
static void
test_many_reads_behind_commands(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client crowd[READERS];
	struct op set, get;
	uint64_t node;

	(void)state;
	for (uint8_t i = 0; i < READERS; i++)
		crowd[i] = lab_open(lab, 1 + i);
	node = lab_file(&crowd[0], "f");
	set = lab_set(node, "x");
	get = lab_get(node);
	lab->forgets = lab->slow_disk = true;
	for (int i = 0; i < READERS; i++) {
		lab_send_request(&crowd[i], ++crowd[i].number, true, &set);
		for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
			lab_send_op(&crowd[i], &get);
	}
	lab->most_pieces = 0;
	lab->slow_disk = false;
	lab_persist(lab);
	lab_pass_ms(lab, 1);
	for (int i = 0; i < READERS; i++)
		assert_non_null(lab_reply(&crowd[i], crowd[i].number));
	expect_short_steps(lab);
	lab_free(lab);
}

/* While the disk stands still they wait, in the log and for room in it. */
static void
test_many_commands(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client crowd[READERS];
	struct op set;

	(void)state;
	for (uint8_t i = 0; i < READERS; i++)
		crowd[i] = lab_open(lab, 1 + i);
	set = lab_set(lab_file(&crowd[0], "f"), "x");
	lab->forgets = lab->slow_disk = true;
	for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
		for (int i = 0; i < READERS; i++)
			lab_send_op(&crowd[i], &set);
	lab->slow_disk = false;
	lab_persist(lab);
	lab_pass_ms(lab, 1);
	for (int i = 0; i < READERS; i++)
		assert_non_null(lab_reply(&crowd[i], crowd[i].number));
	expect_short_steps(lab);
	lab_free(lab);
}

enum { LOCKS = 600 };

/* How many of the locks somebody has. */
static int
held(const struct lab *lab, uint64_t first)
{
	uint64_t node = first - 1;
	int n = 0;

	while (tree_lock_after(replica_tree(lab->replica), node, &node))
		n++;
	return n;
}

/* When a barrier falls, more is granted than goes in one step; the log says that it has fallen when
 * all of it is granted, or the next master would take a lock for free that is somebody's. */
static void
test_the_barrier_has_fallen_when_all_is_granted(void **state)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, LOCKS + 1), freed = first + LOCKS;
	struct lab_client holder = {.session = put_session(f, 'h')};
	struct lab_client waiter = {.session = put_session(f, 'w')};
	struct lab *lab;

	(void)state;
	put(f, 0, OP(await_session, .session = waiter.session, .awaited = 1));
	for (uint64_t node = first; node <= freed; node++) {
		struct op op = take(node, 1, EX);

		put(f, holder.session, &op);
	}
	put(f, holder.session, OP(release, .node = freed, .owner = 1, .acquisition = 1));
	put_all(f);
	lab = lab_of(f);
	elect(lab);
	holder.lab = waiter.lab = lab;
	memset(holder.nonce, 'h', LIMIT_NONCE);
	memset(waiter.nonce, 'w', LIMIT_NONCE);
	lab_reattach(&holder);
	lab_reattach(&waiter);
	for (uint64_t node = first; node < freed; node++) {
		assert_int_equal(lab_lock(&waiter, node, 1, EX, true), RC_QUEUED);
		lab_unlock(&holder, node, 1, 1);
	}
	assert_int_equal(held(lab, first), 0);
	assert_true(tree_lock_claimed(replica_tree(lab->replica), freed));
	lab->slow_disk = true;
	lab_send_keepalive(&waiter);
	lab_send_keepalive(&waiter); /* it has come */
	for (int i = 0; i < 100 && tree_lock_claimed(replica_tree(lab->replica), freed); i++) {
		struct replica_event durable = {.kind = REPLICA_PERSISTED, .write = lab->ticket};

		lab->ticket = 0;
		lab_step(lab, durable);
		if (!tree_lock_claimed(replica_tree(lab->replica), freed))
			assert_int_equal(held(lab, first), LOCKS);
		lab_step(lab, (struct replica_event){.kind = REPLICA_TIMEOUT});
	}
	assert_false(tree_lock_claimed(replica_tree(lab->replica), freed));
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_end_with_many_locks),
	    cmocka_unit_test(test_end_with_many_owners),
	    cmocka_unit_test(test_end_with_many_ephemeral_files),
	    cmocka_unit_test(test_many_sessions),
	    cmocka_unit_test(test_many_sessions_that_cache),
	    cmocka_unit_test(test_session_comes_before_its_turn),
	    cmocka_unit_test(test_many_waiters_are_granted),
	    cmocka_unit_test(test_many_waiters_file_is_deleted),
	    cmocka_unit_test(test_many_waiters_end),
	    cmocka_unit_test(test_a_session_waits_for_so_much),
	    cmocka_unit_test(test_what_had_much_is_deleted),
	    cmocka_unit_test(test_many_reads_behind_commands),
	    cmocka_unit_test(test_many_commands),
	    cmocka_unit_test(test_the_barrier_has_fallen_when_all_is_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
