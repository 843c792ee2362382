/* No step takes long, whatever a client may have brought about: while it lasts nobody is heard, and
 * that costs a master its mastership. What a step does is counted (rows that it changes, and frames
 * that it sends), and the time of the processor that it takes has to be within a multiple of what a
 * step may take: machines are slow, and sanitizers are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cell/base/memory.h"
#include "tests/unit/bare_world.h"
#include "tests/unit/tree_fixture.h"
#include "tests/unit/unit.h"

#ifdef __SANITIZE_ADDRESS__
enum { SPARE = 40 }; /* sanitizers slow a step down */
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
	struct op op = op_of_acquire(node, owner, 1, mode, false);

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
		       .principal = bytes_of("admin"), .principal_generation = 1,
		       .host = bytes_of("h"), .awaited = awaited));
	}
	put_all(f);
}

/* ---- what steps do ---- */

/* The most that one step has done: rows that it changed and frames that it sent; and the time of
 * the processor that it took. */
static size_t most_pieces;
static int64_t most_ns;
static void (*after_step)(const struct replica *r);

void __wrap_replica_step(struct replica *r, const struct replica_event *event,
                         struct replica_update *update);
void __real_replica_step(struct replica *r, const struct replica_event *event,
                         struct replica_update *update);

/* Of this thread: others may have the processor meanwhile. */
static int64_t
time_taken(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
	return (int64_t)t.tv_sec * SECOND + t.tv_nsec;
}

/* The linker puts this in the place of the one that the server calls. */
void
__wrap_replica_step(struct replica *r, const struct replica_event *event,
                    struct replica_update *update)
{
	const int64_t began = time_taken();
	int64_t took;

	__real_replica_step(r, event, update);
	took = time_taken() - began;
	if (update->rows.n + update->sends_n > most_pieces)
		most_pieces = update->rows.n + update->sends_n;
	assert_in_range(update->rows.n + update->sends_n, 0, LIMIT_STEP);
	if (took > most_ns)
		most_ns = took;
	if (after_step != NULL)
		after_step(r);
}

static void
measure_anew(void)
{
	most_pieces = 0;
	most_ns = 0;
}

static void
expect_short_steps(void)
{
	assert_in_range(most_ns, 0, span_ms(MOST_MS * SPARE).ns);
}

/* The administrator of the fixture is that of the world's cell file. */
static void
add_row(struct row_list *to, struct row row)
{
	if (row.deleted)
		return;
	if (row.table == ROWS_principals)
		row.values[COL_principals_public_key].bytes =
		    (struct bytes){seat_key(SEAT_ADMIN), NOISE_KEY};
	row_list_add(to, &row);
}

/* The replica starts with what the fixture has. */
static struct bare_world *
world_with(struct fixture *f)
{
	struct row_list changed = {0}, rows = {0};
	struct bare_world *w;

	tree_dirty_rows(f->tree, &changed);
	for (size_t i = 0; i < changed.n; i++)
		add_row(&rows, changed.rows[i]);
	w = world_of(&rows, tree_applied(f->tree));
	row_list_free(&rows);
	row_list_free(&changed);
	fixture_free(f);
	measure_anew();
	return w;
}

/* ---- ends of sessions ---- */

TEST(test_end_with_many_locks)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, MANY), s = put_session(f, 'a');
	struct bare_world *w;
	uint64_t node;

	for (uint64_t i = 0; i < MANY; i++) {
		struct op op = take(first + i, 1, EX);

		put(f, s, &op);
	}
	put_all(f);
	w = world_with(f);
	world_elect(w);
	world_pass_ms(w, 3 * WORLD_LEASE_MS); /* it expires, and its lock-delays, too */
	assert_false(tree_lock_after(world_tree(w), 0, &node));
	expect_short_steps();
	world_free(w);
}

TEST(test_end_with_many_owners)
{
	struct fixture *f = fixture_new();
	enum { FILES = LIMIT_SESSION_LOCKS / LIMIT_HOLDERS };
	const uint64_t first = put_files(f, FILES + 1), s = put_session(f, 'a');
	const struct op more = take(first + FILES, 0, SH);
	struct bare_world *w;
	uint64_t node;

	for (uint64_t i = 0; i < (uint64_t)FILES * LIMIT_HOLDERS; i++) {
		struct op op = take(first + i / LIMIT_HOLDERS, i, SH);

		put(f, s, &op);
	}
	put_all(f);
	assert_int_equal(run(f, s, &more), RC_FULL);
	w = world_with(f);
	world_elect(w);
	world_pass_ms(w, 3 * WORLD_LEASE_MS);
	assert_false(tree_lock_after(world_tree(w), 0, &node));
	expect_short_steps();
	world_free(w);
}

TEST(test_end_with_many_ephemeral_files)
{
	struct fixture *f = fixture_new();
	const uint64_t s = put_session(f, 'a'), first = put_files_of(f, s, MANY);
	struct bare_world *w;

	for (uint64_t i = 0; i < MANY; i++)
		put(f, s, OP(make_ephemeral, .node = first + i));
	put_all(f);
	w = world_with(f);
	world_elect(w);
	world_pass_ms(w, 2 * WORLD_LEASE_MS);
	assert_int_equal(tree_usage(world_tree(w)).nodes, 5);
	expect_short_steps();
	world_free(w);
}

/* ---- many sessions ---- */

/* Taking office with them, the barrier's fall, and the end of all at once. */
static void
many_sessions(bool awaited)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, MANY);
	struct tree_session t;
	struct bare_world *w;
	uint64_t id = 0;

	put_sessions(f, MANY, awaited);
	for (uint64_t i = 0; tree_session_after(f->tree, id, &t); i++, id = t.id) {
		struct op op = take(first + i % MANY, 1, EX);

		put(f, t.id, &op);
	}
	put_all(f);
	w = world_with(f);
	world_elect(w);
	world_pass_ms(w, 3 * WORLD_LEASE_MS);
	assert_false(tree_session_after(world_tree(w), 0, &t));
	expect_short_steps();
	world_free(w);
}

TEST(test_many_sessions)
{
	many_sessions(false);
}

TEST(test_many_sessions_that_cache)
{
	many_sessions(true);
}

/* A new master takes them over a few at a time, and those first that it hears of. */
TEST(test_session_comes_before_its_turn)
{
	struct fixture *f = fixture_new();
	struct bare_client last = {0};
	struct bare_world *w;

	put_sessions(f, MANY, true);
	last.session = put_session(f, 'z');
	w = world_with(f);
	last.world = w;
	memset(last.nonce, 'z', sizeof last.nonce);
	bare_connect_anew(&last);
	bare_send_open(&last); /* it is kept until there is a master */
	world_elect(w);
	bare_expect_opened(&last);
	expect_short_steps();
	world_free(w);
}

/* ---- many who wait ---- */

enum { CROWD = 4 };

/* Sessions whose every owner waits for one file, which `holder` has. */
static uint64_t
crowd_waits(struct bare_world *w, struct bare_client *holder, struct bare_client *crowd,
            enum lock_mode mode)
{
	uint64_t node = bare_file(holder, "f");

	assert_int_equal(bare_lock(holder, node, 1, EX), RC_OK);
	for (uint8_t i = 0; i < CROWD; i++) {
		crowd[i] = bare_open(w, 'A' + i);
		for (uint64_t owner = 0; owner < LIMIT_WAITERS / CROWD; owner++) {
			struct op op = op_of_acquire(node, owner, owner + 1, mode, true);

			bare_send_op(&crowd[i], &op);
			assert_false(world_closed(w, crowd[i].conn));
		}
	}
	assert_int_equal(bare_look(holder, node).waiters, LIMIT_WAITERS);
	measure_anew();
	return node;
}

TEST(test_many_waiters_are_granted)
{
	struct bare_world *w = world_new(1);
	struct bare_client a = bare_open(w, 1), crowd[CROWD];
	const uint64_t node = crowd_waits(w, &a, crowd, SH);

	bare_unlock(&a, node, 1, 1);
	world_pass_ms(w, 1);
	assert_int_equal(bare_look(&a, node).holders.count, LIMIT_HOLDERS);
	expect_short_steps();
	world_free(w);
}

TEST(test_many_waiters_file_is_deleted)
{
	struct bare_world *w = world_new(1);
	struct bare_client a = bare_open(w, 1), crowd[CROWD];
	struct op delete = op_of_delete("f");
	size_t told = 0;

	crowd_waits(w, &a, crowd, EX);
	assert_int_equal(bare_call(&a, &delete, NULL), RC_OK);
	world_pass_ms(w, 1);
	for (uint8_t i = 0; i < CROWD; i++)
		while (bare_take(&crowd[i], MSG_granted) != NULL)
			told++;
	assert_int_equal(told, LIMIT_WAITERS);
	expect_short_steps();
	world_free(w);
}

TEST(test_many_waiters_end)
{
	struct bare_world *w = world_new(1);
	struct bare_client a = bare_open(w, 1), crowd[CROWD];
	const uint64_t node = crowd_waits(w, &a, crowd, EX);

	for (int i = 0; i < 8; i++) {
		world_pass_ms(w, WORLD_LEASE_MS / 4);
		bare_send_keepalive(&a);
	}
	assert_int_equal(bare_look(&a, node).waiters, 0);
	expect_short_steps();
	world_free(w);
}

TEST(test_a_session_waits_for_so_much)
{
	struct bare_world *w = world_new(1);
	struct bare_client a = bare_open(w, 1), b = bare_open(w, 2);
	const uint64_t node = bare_file(&a, "f");
	struct op give_up;

	assert_int_equal(bare_lock(&a, node, 1, EX), RC_OK);
	for (uint64_t owner = 0; owner < LIMIT_SESSION_WAITERS; owner++)
		assert_int_equal(bare_lock(&b, node, owner, EX), RC_QUEUED);
	b.below = b.number + 1;
	assert_int_equal(bare_lock(&b, node, LIMIT_SESSION_WAITERS, EX), RC_FULL);
	give_up = op_of_cancel(node, 0, 1);
	assert_int_equal(bare_call(&b, &give_up, NULL), RC_OK);
	assert_int_equal(bare_lock(&b, node, LIMIT_SESSION_WAITERS, EX), RC_QUEUED);
	world_free(w);
}

/* A conversion that is refused takes nothing from its owner. */
TEST(test_a_session_that_may_not_wait_keeps_its_share)
{
	struct bare_world *w = world_new(1);
	struct bare_client a = bare_open(w, 1), b = bare_open(w, 2);
	const uint64_t full = bare_file(&a, "f"), shared = bare_file(&a, "g");
	uint64_t acquisition;

	assert_int_equal(bare_lock(&a, full, 1, EX), RC_OK);
	assert_int_equal(bare_lock(&a, shared, 2, SH), RC_OK);
	assert_int_equal(bare_lock(&b, shared, 1, SH), RC_OK);
	assert_int_equal(bare_lock(&a, shared, 2, EX), RC_QUEUED);
	b.below = b.number + 1;
	for (uint64_t owner = 2; owner < 2 + LIMIT_SESSION_WAITERS; owner++)
		assert_int_equal(bare_lock(&b, full, owner, EX), RC_QUEUED);
	b.below = b.number + 1;
	assert_int_equal(bare_lock(&b, shared, 1, EX), RC_FULL);
	assert_int_equal(tree_lock_holders(world_tree(w), b.session, 1, shared, &acquisition), 2);
	assert_int_not_equal(acquisition, 0);
	world_free(w);
}

/* ---- numbers ---- */

static clock_t
time_to_put(struct fixture *f, const struct op *op)
{
	clock_t began;

	for (int i = 0; i < 100; i++)
		put(f, READER, op);
	began = clock();
	put_all(f);
	return clock() - began;
}

/* A directory without room is not searched for the next number: that would cost as much each time.
 */
TEST(test_numbers_without_room)
{
	enum { NAMES = 30000 };
	struct fixture *f = fixture_new();
	const uint64_t d = new_directory(f, NODE_ROOT, "d");
	clock_t numbers, creates;
	char name[24];

	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof name, "x%010d", i);
		put(f, READER, OP(create, .parent = d, .name = bytes_of(name), .kind = NODE_FILE));
	}
	put_all(f);
	put(f, READER, OP(set_quota, .node = d, .which = QUOTA_NODES, .most = NAMES));
	put_all(f);
	creates =
	    time_to_put(f, OP(create, .parent = d, .name = bytes_of("new"), .kind = NODE_FILE));
	numbers = time_to_put(f, OP(number, .parent = d, .prefix = bytes_of("x")));
	assert_true(numbers < 4 * (creates + 1000));
	assert_int_equal(run(f, READER, OP(number, .parent = d, .prefix = bytes_of("x"))),
	                 RC_DQUOT);
	fixture_free(f);
}

/* Nor is one looked for that the session could not open. */
TEST(test_numbers_without_opens)
{
	enum { NAMES = 30000 };
	struct fixture *f = fixture_new();
	const uint64_t d = new_directory(f, NODE_ROOT, "d"), s = put_session(f, 'a');
	clock_t numbers, creates;
	char name[24];

	for (int i = 0; i < NAMES; i++) {
		snprintf(name, sizeof name, "x%010d", i);
		put(f, s,
		    OP(create, .parent = d, .name = bytes_of(name), .kind = NODE_FILE,
		       .ephemeral = i < LIMIT_SESSION_OPENS));
	}
	put_all(f);
	creates =
	    time_to_put(f, OP(create, .parent = d, .name = bytes_of("new"), .kind = NODE_FILE));
	assert_int_equal(run(f, s,
	                     OP(number, .parent = d, .prefix = bytes_of("x"), .ephemeral = 1)),
	                 RC_FULL);
	for (int i = 0; i < 100; i++)
		put(f, s, OP(number, .parent = d, .prefix = bytes_of("x"), .ephemeral = 1));
	numbers = clock();
	put_all(f);
	numbers = clock() - numbers;
	assert_true(numbers < 4 * (creates + 1000));
	fixture_free(f);
}

/* ---- deletions ---- */

/* A file whose lock many share, and a directory that had many names. */
TEST(test_what_had_much_is_deleted)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, LIMIT_REMOVED), s = put_session(f, 'a');
	struct op delete = {.code = OP_delete, .delete = {.parent = first - 1, .kind = NODE_FILE}};
	struct bare_client a = {.session = s};
	struct bare_world *w;
	char name[24];

	for (uint64_t i = 0; i < LIMIT_HOLDERS; i++) {
		struct op op = take(first, i, SH);

		put(f, s, &op);
	}
	put_all(f);
	w = world_with(f);
	world_elect(w);
	a.world = w;
	memset(a.nonce, 'a', LIMIT_NONCE);
	bare_attach(&a);
	for (int i = 0; i < LIMIT_REMOVED; i++) {
		snprintf(name, sizeof name, "%06d", i);
		delete.delete.name = bytes_of(name);
		a.below = a.number + 1;
		assert_int_equal(bare_call(&a, &delete, NULL), RC_OK);
		while (w->inbox_n > 0)
			free((void *)w->inbox[--w->inbox_n].frame.data);
	}
	delete = op_of_delete("many");
	delete.delete.kind = NODE_DIRECTORY;
	a.below = a.number + 1;
	assert_int_equal(bare_call(&a, &delete, NULL), RC_OK);
	assert_in_range(most_pieces, LIMIT_HOLDERS, LIMIT_STEP);
	expect_short_steps();
	world_free(w);
}

/* ---- much that becomes possible at once ---- */

enum { READERS = 64 };

/* Each session has one command that holds up its reads; all of them become durable at once. */
TEST(test_many_reads_behind_commands)
{
	struct bare_world *w = world_new(1);
	struct bare_client crowd[READERS];
	struct op set, get;
	uint64_t node;

	for (uint8_t i = 0; i < READERS; i++)
		crowd[i] = bare_open(w, 1 + i);
	node = bare_file(&crowd[0], "f");
	set = op_of_set(node, "x");
	get = op_of_get(node);
	world_slow_disk(w, true);
	for (int i = 0; i < READERS; i++) {
		bare_send_request(&crowd[i], ++crowd[i].number, true, &set);
		for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
			bare_send_op(&crowd[i], &get);
	}
	measure_anew();
	world_slow_disk(w, false);
	world_persist(w);
	world_pass_ms(w, 1);
	for (int i = 0; i < READERS; i++)
		assert_non_null(bare_reply(&crowd[i], crowd[i].number));
	expect_short_steps();
	world_free(w);
}

/* While the disk stands still they wait, in the log and for room in it. */
TEST(test_many_commands)
{
	struct bare_world *w = world_new(1);
	struct bare_client crowd[READERS];
	struct op set;

	for (uint8_t i = 0; i < READERS; i++)
		crowd[i] = bare_open(w, 1 + i);
	set = op_of_set(bare_file(&crowd[0], "f"), "x");
	world_slow_disk(w, true);
	for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
		for (int i = 0; i < READERS; i++)
			bare_send_op(&crowd[i], &set);
	world_slow_disk(w, false);
	world_persist(w);
	world_pass_ms(w, 1);
	for (int i = 0; i < READERS; i++)
		assert_non_null(bare_reply(&crowd[i], crowd[i].number));
	expect_short_steps();
	world_free(w);
}

enum { LOCKS = 600 };

/* Locks that are waited for, from the first on; and the one that has been released: it is the old
 * holder's until the log says that the barrier has fallen. */
static struct barrier {
	uint64_t first, freed;
	int steps; /* before it has fallen */
} barrier;

/* How many of the locks somebody has. */
static int
held(const struct tree *t, uint64_t first)
{
	uint64_t node = first - 1;
	int n = 0;

	while (tree_lock_after(t, node, &node))
		n++;
	return n;
}

static void
look_at_barrier(const struct replica *r)
{
	const struct tree *t = replica_tree(r);

	if (tree_lock_claimed(t, barrier.freed))
		barrier.steps++;
	else
		assert_int_equal(held(t, barrier.first), LOCKS);
}

/* When a barrier falls, more is granted than goes in one step; the log says that it has fallen when
 * all of it is granted, or the next master would take a lock for free that is somebody's. */
TEST(test_the_barrier_has_fallen_when_all_is_granted)
{
	struct fixture *f = fixture_new();
	const uint64_t first = put_files(f, LOCKS + 1), freed = first + LOCKS;
	struct bare_client holder = {.session = put_session(f, 'h')};
	struct bare_client waiter = {.session = put_session(f, 'w')};
	struct bare_world *w;

	put(f, 0, OP(await_session, .session = waiter.session, .awaited = 1));
	for (uint64_t node = first; node <= freed; node++) {
		struct op op = take(node, 1, EX);

		put(f, holder.session, &op);
	}
	put(f, holder.session, OP(release, .node = freed, .owner = 1, .acquisition = 1));
	put_all(f);
	w = world_with(f);
	world_elect(w);
	holder.world = waiter.world = w;
	memset(holder.nonce, 'h', LIMIT_NONCE);
	memset(waiter.nonce, 'w', LIMIT_NONCE);
	bare_attach(&holder);
	bare_attach(&waiter);
	for (uint64_t node = first; node < freed; node++) {
		assert_int_equal(bare_lock(&waiter, node, 1, EX), RC_QUEUED);
		bare_unlock(&holder, node, 1, 1);
	}
	assert_int_equal(held(world_tree(w), first), 0);
	assert_true(tree_lock_claimed(world_tree(w), freed));
	barrier = (struct barrier){first, freed, 0};
	after_step = look_at_barrier;
	bare_send_keepalive(&waiter);
	bare_send_keepalive(&waiter); /* it has come */
	after_step = NULL;
	assert_true(barrier.steps > LOCKS / LIMIT_STEP);
	assert_false(tree_lock_claimed(world_tree(w), freed));
	world_free(w);
}

/* ---- events ---- */

enum { DEPTH = 500 }; /* of directories in each other */

/* One session watches the trees of them all. */
static void
watch_trees(struct bare_client *c, uint64_t first)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct message m = {.code = MSG_watch, .watch = {c->session, c->epoch, .all = true}};

	for (uint64_t node = first; node < first + DEPTH; node++)
		wire_put_watch(&packed,
		               &(struct watch){.node = node,
		                               .mask = 1u << EVENT_CHILD_MODIFIED | WATCH_TREE});
	m.watch.watches = (struct wire_list){buffer_view(&packed), DEPTH};
	bare_send(c, &m);
	buffer_free(&packed);
}

/* Entries in which a file below all of them is written as often as one may, applied at once. */
TEST(test_many_events)
{
	struct fixture *f = fixture_new();
	struct bare_client c = {.session = put_session(f, 'c')};
	struct buffer steps = BUFFER(LIMIT_ENTRY), set = BUFFER(LIMIT_ENTRY);
	struct op op = op_of_set(0, "x");
	char path[2 * DEPTH + 4] = "";
	uint64_t lowest = NODE_ROOT;
	struct bare_world *w;

	for (size_t i = 0; i < DEPTH; i++) {
		lowest = new_directory(f, lowest, "d");
		memcpy(path + 2 * i, "/d/f", 5);
	}
	new_file(f, lowest, "f");
	w = c.world = world_with(f);
	world_elect(w);
	memset(c.nonce, 'c', LIMIT_NONCE);
	bare_attach(&c);
	watch_trees(&c, lowest + 1 - DEPTH);
	assert_non_null(bare_take(&c, MSG_watching));
	wire_put_op(&set, &op);
	for (int i = 0; i < LIMIT_TRANSACTION; i++)
		wire_put_step(&steps, &(struct step){STEP_DO, .path = bytes_of(path),
		                                     .op = buffer_view(&set)});
	op = (struct op){.code = OP_transaction};
	op.transaction.steps = (struct wire_list){buffer_view(&steps), LIMIT_TRANSACTION};
	world_slow_disk(w, true);
	for (int i = 0; i < 16; i++)
		bare_send_op(&c, &op);
	world_slow_disk(w, false);
	world_persist(w);
	world_pass_ms(w, 1000);
	assert_non_null(bare_reply(&c, c.number));
	assert_non_null(bare_take(&c, MSG_events));
	expect_short_steps();
	buffer_free(&steps);
	buffer_free(&set);
	world_free(w);
}
