/* Whole cells of several replicas, with clients: what a fail-over costs, and what it must not. */
#include <stdio.h>
#include <string.h>
#include "tests/unit/replica_cell.h"
#include "tests/unit/unit.h"

/* To notice, to elect, to begin an epoch, to find it. */
enum { FAILOVER_MS = 900 };

static struct cell_replica *
other_than(struct cell *cell, const struct cell_replica *r)
{
	return &cell->replicas[r->id % cell->replicas_n];
}

static const struct cell_answer *
expect(struct cell_client *c, uint64_t token, int64_t ms)
{
	const struct cell_answer *a = cell_await(c, token, ms);

	assert_non_null(a);
	assert_int_equal(a->rc, RC_OK);
	return a;
}

static bool
lives(struct cell *cell, uint64_t session)
{
	struct tree_session t;

	return tree_session(replica_tree(cell_await_master(cell)->replica), session, &t);
}

static uint64_t
session_of(const struct cell_client *c)
{
	return client_status(c->client).session;
}

/* ---- a follower is slow ---- */

/* The cell goes at the speed of its fastest majority, and no other replica becomes master. */
static void
test_follower_with_a_stuck_disk(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f");
	struct cell_replica *master = cell_master(cell), *slow = other_than(cell, master);

	(void)state;
	slow->stuck = true;
	for (int i = 0; i < 20; i++) {
		expect(c, cell_append(c, node, "x"), 20);
		cell_pass_ms(cell, 3000);
		assert_ptr_equal(cell_master(cell), master);
	}
	slow->stuck = false;
	cell_pass_ms(cell, 1000);
	assert_string_equal(cell_read(c, node), "xxxxxxxxxxxxxxxxxxxx");
	cell_check_agreement(cell);
	cell_free(cell);
}

/* ---- the master goes ---- */

static void
test_master_killed(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), session = session_of(c);
	struct cell_replica *dead;

	(void)state;
	for (int round = 0; round < 5; round++) {
		dead = cell_master(cell);
		cell_kill(dead);
		expect(c, cell_append(c, node, "x"), FAILOVER_MS);
		assert_int_equal(cell_client_state(c), CLIENT_SAFE);
		cell_start(dead);
		cell_pass_ms(cell, 2000);
	}
	assert_string_equal(cell_read(c, node), "xxxxx");
	assert_true(session_of(c) == session && c->lost == 0);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* Whenever it dies, between what it was asked, proposed, applied and answered: what was asked for
 * happens once, and is answered once. */
static void
test_killed_at_every_moment(void **state)
{
	(void)state;
	for (int ms = 0; ms < 12; ms++) {
		struct cell *cell = cell_new(3);
		struct cell_client *c = cell_client(cell, true);
		uint64_t node = cell_file(c, "f"), token = cell_append(c, node, "x");
		struct cell_replica *master = cell_master(cell);

		cell_pass_ms(cell, ms);
		cell_kill(master);
		expect(c, token, FAILOVER_MS);
		expect(c, cell_append(c, node, "y"), FAILOVER_MS);
		assert_string_equal(cell_read(c, node), "xy");
		cell_start(master);
		cell_pass_ms(cell, 2000);
		cell_check_agreement(cell);
		cell_free(cell);
	}
}

/* The others hear it and would follow it for ever; it hears nobody, so it can't lead. */
static void
test_master_deaf(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), session = session_of(c);
	struct cell_replica *old = cell_master(cell);

	(void)state;
	old->deaf = true;
	expect(c, cell_append(c, node, "x"), 4000);
	cell_pass_ms(cell, 20000);
	expect(c, cell_append(c, node, "y"), 20); /* it does not disturb its successor */
	old->deaf = false;
	cell_pass_ms(cell, 2000);
	assert_string_equal(cell_read(c, node), "xy");
	assert_true(session_of(c) == session && c->lost == 0);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* Its connections stay up and say nothing. It is left for its successor all the same, and when it
 * goes on it answers nothing that is not so any more. */
static void
test_master_frozen(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true), *d = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), session = session_of(c);
	struct cell_replica *old = cell_master(cell);

	(void)state;
	cell_freeze(old);
	expect(c, cell_append(c, node, "x"), FAILOVER_MS);
	expect(d, cell_append(d, node, "y"), 20);
	cell_pass_ms(cell, 60000);
	cell_thaw(old);
	assert_string_equal(cell_read(d, node), "xy");
	cell_pass_ms(cell, 1000);
	assert_true(cell_master(cell) != old);
	assert_int_equal(px_role(replica_px(old->replica)), PX_FOLLOWER);
	assert_true(session_of(c) == session && c->lost + d->lost == 0);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* Who missed the announcement, because the replica that should have made it stood still, too, hears
 * of the master from the next one it listens to. */
static void
test_announced_late(void **state)
{
	struct cell *cell = cell_new(5);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), token;
	struct cell_replica *old = cell_master(cell), *mute;

	(void)state;
	mute = cell_listened_to(c);
	cell_freeze(old);
	cell_freeze(mute);
	token = cell_append(c, node, "x");
	cell_pass_ms(cell, 2000);
	assert_non_null(cell_master(cell));
	assert_null(cell_answer(c, token));
	cell_kill(mute);
	expect(c, token, 200);
	assert_int_equal(cell_client_state(c), CLIENT_SAFE);
	cell_free(cell);
}

/* Frozen with requests in its socket: it takes them when it goes on, and nothing comes of it. */
static void
test_frozen_with_requests(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true), *d = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), token;
	struct cell_replica *old = cell_master(cell);

	(void)state;
	cell_freeze(old);
	token = cell_append(c, node, "x");
	cell_client_freeze(c);
	expect(d, cell_append(d, node, "y"), FAILOVER_MS + CELL_CACHE_LEASE_MS + 100);
	cell_thaw(old);
	cell_pass_ms(cell, 500);
	cell_client_thaw(c);
	expect(c, token, FAILOVER_MS);
	assert_string_equal(cell_read(d, node), "yx");
	cell_pass_ms(cell, 1000);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* A master that the other replicas do not hear, but clients do: without its lease it tells nobody
 * anything. */
static void
test_master_cut_off(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true), *late;
	uint64_t node = cell_file(c, "f");
	struct cell_replica *old = cell_master(cell);

	(void)state;
	old->cut_off = true;
	expect(c, cell_append(c, node, "x"), FAILOVER_MS);
	assert_true(client_status(c->client).master != old->id);
	late = cell_client(cell, true);
	assert_true(client_status(late->client).master != old->id);
	assert_string_equal(cell_read(late, node), "x");
	old->cut_off = false;
	cell_pass_ms(cell, 2000);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* A master that is cut off does not know the sessions of its successor: whoever comes to it with
 * one must not take that for ended. */
static void
test_cut_off_ends_no_session(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_replica *old = cell_master(cell), *successor;
	struct cell_client *c;
	uint64_t node, session;

	(void)state;
	old->cut_off = true;
	cell_pass_ms(cell, 2000);
	successor = cell_await_master(cell);
	assert_ptr_not_equal(successor, old);
	c = cell_client(cell, true);
	session = session_of(c);
	node = cell_file(c, "f");
	cell_kill(successor);
	cell_pass_ms(cell, 3000);
	cell_start(successor);
	expect(c, cell_append(c, node, "x"), 10000);
	assert_int_equal(c->lost, 0);
	assert_true(session_of(c) == session && lives(cell, session));
	old->cut_off = false;
	cell_pass_ms(cell, 2000);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* Who does not want to wait for a lock is told that it is not free by a master with a lease only:
 * what this one knows of those who wait may be over. */
static void
test_busy_without_a_lease(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *a = cell_client(cell, false), *b = cell_client(cell, false);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *old = cell_master(cell);
	uint64_t node = cell_file(a, "f"), token;

	(void)state;
	expect(a, cell_lock(a, node, LOCK_EXCLUSIVE, false), 50);
	assert_int_equal(cell_await(b, cell_lock(b, node, LOCK_EXCLUSIVE, true), 50)->rc,
	                 RC_QUEUED);
	assert_int_equal(cell_await(c, cell_lock(c, node, LOCK_EXCLUSIVE, false), 50)->rc,
	                 RC_BUSY_LOCK);
	old->cut_off = true;
	cell_pass_ms(cell, 510);
	assert_false(replica_serving(old->replica, cell->now));
	token = cell_lock(c, node, LOCK_EXCLUSIVE, false);
	cell_pass_ms(cell, 10);
	assert_null(cell_answer(c, token));
	assert_int_equal(cell_await(c, token, 10000)->rc, RC_BUSY_LOCK);
	cell_free(cell);
}

/* What a master has no room for in its log is counted, so that the driver can hold back the rest.
 * It is the successor's when there is one. */
static void
test_backlog(void **state)
{
	enum { CLIENTS = 14, WRITES = CLIENTS * (LIMIT_WINDOW / LIMIT_CONTENTS - 1) };
	static const uint8_t contents[LIMIT_CONTENTS];
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false), *clients[CLIENTS] = {c};
	struct op op = {.code = OP_set_contents,
	                .set_contents = {.node = cell_file(c, "f"),
	                                 .contents = {contents, sizeof contents}}};
	struct cell_replica *old = cell_master(cell);
	uint64_t tokens[WRITES];

	(void)state;
	assert_int_equal(replica_backlog(old->replica), 0);
	for (int i = 1; i < CLIENTS; i++)
		clients[i] = cell_client(cell, false);
	old->cut_off = true;
	for (int i = 0; i < WRITES; i++)
		tokens[i] = cell_ask(clients[i % CLIENTS], &op);
	cell_pass_ms(cell, 20);
	assert_in_range(replica_backlog(old->replica), WRITES / 2 * sizeof contents,
	                WRITES * (sizeof contents + 200));
	old->cut_off = false;
	cell_pass_ms(cell, 2000);
	for (int i = 0; i < WRITES; i++)
		expect(clients[i % CLIENTS], tokens[i], 5000);
	for (int i = 0; i < 3; i++)
		assert_int_equal(replica_backlog(cell->replicas[i].replica), 0);
	cell_free(cell);
}

/* A master whose disk syncs nothing any more goes on with the others' for a while, then lets one of
 * them lead. */
static void
test_master_with_a_stuck_disk(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f");
	struct cell_replica *old = cell_master(cell);

	(void)state;
	old->stuck = true;
	expect(c, cell_append(c, node, "x"), 20);
	cell_pass_ms(cell, 4900);
	assert_ptr_equal(cell_master(cell), old);
	cell_pass_ms(cell, 300);
	assert_true(cell_await_master(cell) != old);
	expect(c, cell_append(c, node, "y"), FAILOVER_MS);
	cell_pass_ms(cell, 60000);
	assert_true(cell_master(cell) != old);
	old->stuck = false;
	cell_pass_ms(cell, 1000);
	assert_string_equal(cell_read(c, node), "xy");
	cell_check_agreement(cell);
	cell_free(cell);
}

static void
test_two_of_five_killed(void **state)
{
	struct cell *cell = cell_new(5);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f");

	(void)state;
	for (int i = 0; i < 2; i++) {
		cell_kill(cell_master(cell));
		expect(c, cell_append(c, node, "x"), FAILOVER_MS);
	}
	cell_pass_ms(cell, 1000);
	cell_check_agreement(cell);
	assert_string_equal(cell_read(c, node), "xx");
	cell_free(cell);
}

/* A planned restart costs milliseconds. */
static void
test_hand_over(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), token;
	struct cell_replica *old;

	(void)state;
	for (int round = 0; round < 5; round++) {
		cell_pass_ms(cell, 5000);
		old = cell_master(cell);
		token = cell_append(c, node, "x");
		cell_stop_cleanly(old);
		expect(c, token, 60);
		assert_true(cell_master(cell) != old);
		cell_kill(old);
		expect(c, cell_append(c, node, "y"), 60);
		cell_start(old);
	}
	assert_string_equal(cell_read(c, node), "xyxyxyxyxy");
	cell_free(cell);
}

static void
test_all_killed(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), token;

	(void)state;
	expect(c, cell_append(c, node, "x"), 20);
	for (int i = 0; i < 3; i++)
		cell_kill(&cell->replicas[i]);
	token = cell_append(c, node, "y");
	cell_pass_ms(cell, 3000);
	for (int i = 0; i < 3; i++)
		cell_start(&cell->replicas[i]);
	expect(c, token, 3000);
	assert_string_equal(cell_read(c, node), "xy");
	assert_int_equal(c->lost, 0);
	cell_free(cell);
}

/* ---- caches ---- */

/* All at once, each with a request: none loses its session, and one fail-over does. */
static void
test_sixty_clients_come_back(void **state)
{
	enum { N = 60 };
	struct cell *cell = cell_new(3);
	struct cell_client *c[N];
	uint64_t node[N], token[N], epoch;
	char name[16];

	(void)state;
	for (int i = 0; i < N; i++) {
		snprintf(name, sizeof name, "f%d", i);
		c[i] = cell_client(cell, true);
		node[i] = cell_file(c[i], name);
	}
	epoch = tree_epoch(replica_tree(cell_master(cell)->replica));
	cell_kill(cell_master(cell));
	for (int i = 0; i < N; i++)
		token[i] = cell_append(c[i], node[i], "x");
	for (int i = 0; i < N; i++)
		expect(c[i], token[i], FAILOVER_MS);
	cell_pass_ms(cell, 60000);
	assert_int_equal(tree_epoch(replica_tree(cell_master(cell)->replica)), epoch + 1);
	for (int i = 0; i < N; i++) {
		assert_int_equal(c[i]->lost, 0);
		assert_int_equal(cell_client_state(c[i]), CLIENT_SAFE);
		assert_string_equal(cell_read(c[i], node[i]), "x");
	}
	cell_free(cell);
}

static int64_t
first_write_after_a_failover(bool silent_caches)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true), *silent = cell_client(cell, silent_caches);
	uint64_t node = cell_file(c, "f"), token;
	int64_t waited;
	mono_t start;

	cell_client_freeze(silent);
	cell_kill(cell_master(cell));
	start = cell->now;
	token = cell_append(c, node, "x");
	waited = span_to_ms(mono_since(expect(c, token, 10000)->at, start));
	cell_free(cell);
	return waited;
}

static void
test_silent_sessions(void **state)
{
	int64_t waited = first_write_after_a_failover(true);

	(void)state;
	assert_in_range(first_write_after_a_failover(false), 1, FAILOVER_MS);
	assert_in_range(waited, CELL_CACHE_LEASE_MS, CELL_CACHE_LEASE_MS + FAILOVER_MS + 100);
}

/* ---- locks ---- */

static struct result_lock
look(struct cell *cell, uint64_t node)
{
	static uint8_t room[4096];
	struct op op = {.code = OP_get_lock, .get_lock = {.node = node}};
	struct buffer raw = BUFFER(sizeof room);
	struct result result;
	const struct tree *t = replica_tree(cell_await_master(cell)->replica);
	struct tree_session any;

	assert_true(tree_session_after(t, 0, &any));
	assert_int_equal(tree_read(t, any.id, 0, &op, &raw), RC_OK);
	memcpy(room, raw.data, raw.len);
	assert_int_equal(
	    wire_get_result(RESULT_lock, (struct bytes){room, raw.len}, &result), RC_OK);
	buffer_free(&raw);
	return result.lock;
}

/* The holder has its lock, by the same names, after any number of masters. */
static void
test_holder_survives(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f");
	struct cell_answer got = *expect(c, cell_lock(c, node, LOCK_EXCLUSIVE, true), 20);
	struct cell_replica *dead;

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct result_lock lock;
		struct lock_holder holder;
		struct cursor at;

		dead = cell_master(cell);
		cell_kill(dead);
		cell_pass_ms(cell, 15000);
		lock = look(cell, node);
		at = cursor_of(lock.holders.packed);
		assert_int_equal(lock.state, LOCK_STATE_EXCLUSIVE);
		assert_int_equal(lock.lock_generation, got.lock_generation);
		assert_true(wire_next_lock_holder(&at, &holder));
		assert_int_equal(holder.session, session_of(c));
		assert_int_equal(holder.fence, got.fence);
		cell_start(dead);
		cell_pass_ms(cell, 1000);
	}
	expect(c, cell_unlock(c, node, 1), 20);
	assert_int_equal(look(cell, node).state, LOCK_STATE_FREE);
	cell_free(cell);
}

/* Who came first is first, though it comes last to the new master. */
static void
test_waiters_keep_their_order(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *holder = cell_client(cell, true), *first = cell_client(cell, true);
	struct cell_client *second = cell_client(cell, true);
	uint64_t node = cell_file(holder, "f");

	(void)state;
	expect(holder, cell_lock(holder, node, LOCK_EXCLUSIVE, true), 20);
	assert_int_equal(cell_await(first, cell_lock(first, node, LOCK_EXCLUSIVE, true), 20)->rc,
	                 RC_QUEUED);
	assert_int_equal(cell_await(second, cell_lock(second, node, LOCK_EXCLUSIVE, true), 20)->rc,
	                 RC_QUEUED);
	cell_client_freeze(first);
	cell_kill(cell_master(cell));
	expect(holder, cell_unlock(holder, node, 1), FAILOVER_MS);
	cell_pass_ms(cell, 3000);
	assert_false(cell_granted(second, 1));
	cell_client_thaw(first);
	cell_pass_ms(cell, 1000);
	assert_true(cell_granted(first, 1));
	assert_false(cell_granted(second, 1));
	expect(first, cell_unlock(first, node, 1), 20);
	cell_pass_ms(cell, 20);
	assert_true(cell_granted(second, 1));
	cell_free(cell);
}

/* A holder that died stays a holder for its lease, counted anew by each master, and its lock away
 * from others for the whole lock-delay. */
static void
test_lock_delay_is_not_shortened(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *dead = cell_client(cell, false), *c = cell_client(cell, false);
	uint64_t node = cell_file(c, "f");
	mono_t end;

	(void)state;
	expect(dead, cell_lock(dead, node, LOCK_EXCLUSIVE, true), 20);
	assert_int_equal(cell_await(c, cell_lock(c, node, LOCK_EXCLUSIVE, true), 20)->rc,
	                 RC_QUEUED);
	cell_client_freeze(dead);
	cell_pass_ms(cell, CELL_LEASE_MS - 5000);
	cell_kill(cell_master(cell));
	cell_pass_ms(cell, CELL_LEASE_MS - 1000);
	assert_int_equal(look(cell, node).state, LOCK_STATE_EXCLUSIVE);
	cell_pass_ms(cell, 2500);
	assert_int_equal(look(cell, node).state, LOCK_STATE_DELAYED);
	cell_pass_ms(cell, 10000);
	for (int i = 0; i < 3; i++)
		if (cell->replicas[i].replica == NULL)
			cell_start(&cell->replicas[i]);
	cell_pass_ms(cell, 1000);
	cell_kill(cell_master(cell));
	cell_await_master(cell);
	end = mono_add(cell->now, span_s(DEFAULT_LOCK_DELAY_S));
	cell_pass_ms(cell, DEFAULT_LOCK_DELAY_S * 1000 - 50);
	assert_false(cell_granted(c, 1));
	cell_pass_ms(cell, 200);
	assert_true(cell_granted(c, 1));
	assert_true(mono_reached(c->granted_at[0], end));
	cell_free(cell);
}

/* ---- sessions ---- */

static void
test_end_of_session_over_a_failover(void **state)
{
	(void)state;
	for (int ms = 0; ms < 10; ms++) {
		struct cell *cell = cell_new(3);
		struct cell_client *c = cell_client(cell, true), *other = cell_client(cell, true);
		uint64_t node = cell_file(c, "f"), session = session_of(c);

		expect(c, cell_lock(c, node, LOCK_EXCLUSIVE, true), 20);
		cell_client_close(c);
		cell_pass_ms(cell, ms);
		cell_kill(cell_master(cell));
		cell_pass_ms(cell, FAILOVER_MS);
		assert_int_equal(cell_client_state(c), CLIENT_CLOSED);
		assert_false(lives(cell, session));
		expect(other, cell_lock(other, node, LOCK_EXCLUSIVE, false), 20); /* no delay */
		cell_free(cell);
	}
}

/* One that is not heard of is given its whole lease by each master, and then ended. */
static void
test_unheard_session_is_ended(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *dead = cell_client(cell, true);
	uint64_t session = session_of(dead);

	(void)state;
	cell_client_freeze(dead);
	cell_pass_ms(cell, CELL_LEASE_MS - 3000);
	cell_kill(cell_master(cell));
	cell_await_master(cell);
	cell_pass_ms(cell, CELL_LEASE_MS);
	assert_true(lives(cell, session));
	cell_pass_ms(cell, 500);
	assert_false(lives(cell, session));
	cell_free(cell);
}

static void
stop_two(struct cell *cell)
{
	struct cell_replica *master = cell_master(cell);

	cell_kill(other_than(cell, master));
	cell_kill(master);
}

static void
start_all(struct cell *cell)
{
	for (int i = 0; i < cell->replicas_n; i++)
		if (cell->replicas[i].replica == NULL)
			cell_start(&cell->replicas[i]);
}

/* Without a quorum calls wait, through jeopardy (Chubby, section 2.8), and then go on. */
static void
test_jeopardy_and_back(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), session = session_of(c), token;

	(void)state;
	stop_two(cell);
	token = cell_append(c, node, "x");
	cell_pass_ms(cell, CELL_LEASE_MS + 1000);
	assert_int_equal(cell_client_state(c), CLIENT_JEOPARDY);
	cell_pass_ms(cell, DEFAULT_GRACE_MS - 3000);
	assert_int_equal(cell_client_state(c), CLIENT_JEOPARDY);
	assert_null(cell_answer(c, token));
	start_all(cell);
	expect(c, token, 3000);
	assert_int_equal(cell_client_state(c), CLIENT_SAFE);
	assert_true(session_of(c) == session && c->lost == 0);
	cell_free(cell);
}

/* After the grace period the session is over, even if the cell has not noticed: it is ended as
 * expired before there is another one, and its lock is delayed. */
static void
test_grace_over(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, true);
	uint64_t node = cell_file(c, "f"), session = session_of(c), token;

	(void)state;
	expect(c, cell_lock(c, node, LOCK_EXCLUSIVE, true), 20);
	stop_two(cell);
	token = cell_append(c, node, "x");
	cell_pass_ms(cell, CELL_LEASE_MS + DEFAULT_GRACE_MS + 1000);
	assert_int_equal(cell_client_state(c), CLIENT_EXPIRED);
	assert_int_equal(cell_answer(c, token)->rc, RC_STALE);
	start_all(cell);
	cell_pass_ms(cell, 3000);
	assert_int_equal(cell_client_state(c), CLIENT_SAFE);
	assert_true(session_of(c) != session);
	assert_false(lives(cell, session));
	assert_int_equal(look(cell, node).state, LOCK_STATE_DELAYED);
	cell_free(cell);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_master_killed),
	    cmocka_unit_test(test_killed_at_every_moment),
	    cmocka_unit_test(test_master_deaf),
	    cmocka_unit_test(test_master_frozen),
	    cmocka_unit_test(test_announced_late),
	    cmocka_unit_test(test_frozen_with_requests),
	    cmocka_unit_test(test_master_cut_off),
	    cmocka_unit_test(test_cut_off_ends_no_session),
	    cmocka_unit_test(test_busy_without_a_lease),
	    cmocka_unit_test(test_backlog),
	    cmocka_unit_test(test_master_with_a_stuck_disk),
	    cmocka_unit_test(test_follower_with_a_stuck_disk),
	    cmocka_unit_test(test_sixty_clients_come_back),
	    cmocka_unit_test(test_two_of_five_killed),
	    cmocka_unit_test(test_hand_over),
	    cmocka_unit_test(test_all_killed),
	    cmocka_unit_test(test_silent_sessions),
	    cmocka_unit_test(test_holder_survives),
	    cmocka_unit_test(test_waiters_keep_their_order),
	    cmocka_unit_test(test_lock_delay_is_not_shortened),
	    cmocka_unit_test(test_end_of_session_over_a_failover),
	    cmocka_unit_test(test_unheard_session_is_ended),
	    cmocka_unit_test(test_jeopardy_and_back),
	    cmocka_unit_test(test_grace_over),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
