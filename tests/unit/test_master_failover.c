/* A new master: what waits at first, for whom, and for how long; and the queues of locks, which are
 * put together again from what their members bring. */
#include <string.h>
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

/* Leave to cache is over, for the master too, whose clock may be the faster one. */
enum { CACHE_OVER_MS = LAB_CACHE_LEASE_MS + LAB_CACHE_LEASE_MS / 100 };

static uint64_t
send_set(struct lab_client *c, uint64_t node)
{
	struct op op = lab_set(node, "x");

	return lab_send_op(c, &op);
}

static uint64_t
send_lock(struct lab_client *c, uint64_t node, uint64_t owner, bool wait)
{
	struct op op = lab_acquire(node, owner, ++c->acquisition, LOCK_EXCLUSIVE, wait);

	return lab_send_op(c, &op);
}

static enum rc
answer(struct lab_client *c, uint64_t number)
{
	const struct msg_reply *reply = lab_reply(c, number);

	assert_non_null(reply);
	return reply->rc;
}

/* The client is back in its session, and has heard of the epoch. */
static void
back(struct lab_client *c)
{
	lab_reattach(c);
	for (int i = 0; i < 2; i++) {
		lab_send_keepalive(c);
		lab_take(c, MSG_keepalive_reply);
	}
}

static bool
lives(const struct lab *lab, const struct lab_client *c)
{
	struct tree_session t;

	return tree_session(replica_tree(lab->replica), c->session, &t);
}

/* ---- a lot that waits ---- */

enum { CROWD = 240, PARKED = CROWD * LIMIT_IN_FLIGHT };

/* Steps are taken until nothing is due any more at this moment. */
static size_t
count_steps(struct lab *lab)
{
	size_t n = 0;

	for (; mono_reached(lab->now, replica_deadline(lab->replica)); n++)
		lab_step(lab, (struct replica_event){.kind = REPLICA_TIMEOUT});
	return n;
}

/* Sixty thousand parked requests, all of a session on one node and behind an ordered one: no step
 * does more than a small part of what becomes possible when the barrier falls, and each request is
 * looked at a few times at most. */
static void
test_crowd_behind_the_barrier(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client crowd[CROWD], silent = lab_open_caching(lab, CROWD + 1);
	struct op close = {.code = OP_close_ephemeral};
	uint64_t node = lab_file(&silent, "f");
	size_t steps;

	(void)state;
	close.close_ephemeral.node = node;
	for (int i = 0; i < CROWD; i++)
		crowd[i] = lab_open(lab, (uint8_t)(i + 1));
	lab_restart(lab);
	for (int i = 0; i < CROWD; i++) {
		lab_reattach(&crowd[i]);
		for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
			lab_send_request(&crowd[i], ++crowd[i].number, n == 0, &close);
		assert_false(lab_closed(lab, crowd[i].conn));
	}
	lab_pass_ms(lab, CACHE_OVER_MS - 20);
	lab->slow_disk = true;
	lab->now = mono_add(lab->now, span_ms(20));
	steps = count_steps(lab);
	assert_in_range(steps, PARKED / 256, 2 * PARKED / 256);
	assert_true(replica_backlog(lab->replica) > 0);
	lab_free(lab);
}

/* ---- what waits, and for how long ---- */

static void
test_nobody_caches(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), silent = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	lab_restart(lab);
	back(&a);
	assert_int_equal(answer(&a, send_set(&a, node)), RC_OK);
	assert_true(lives(lab, &silent));
	lab_free(lab);
}

static void
test_waits_for_a_silent_cache(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), silent = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f"), other = lab_file(&a, "g"), number;
	struct op get = lab_get(other);

	(void)state;
	lab_restart(lab);
	back(&a);
	number = send_set(&a, node);
	assert_int_equal(lab_call(&a, &get, NULL), RC_OK); /* reads go on */
	lab_pass_ms(lab, CACHE_OVER_MS - 50);
	assert_null(lab_reply(&a, number));
	lab_pass_ms(lab, 50);
	assert_int_equal(answer(&a, number), RC_OK);
	assert_true(lab_traced(lab, "1 sessions that cache or wait have not come back"));
	assert_int_equal(answer(&a, send_set(&a, node)), RC_OK);
	assert_true(lives(lab, &silent));
	lab_free(lab);
}

/* It is back when it has had time to say all that it has to say: not by its first KeepAlive. */
static void
test_goes_on_when_all_are_back(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), b = lab_open_caching(lab, 2);
	struct lab_client c = lab_open_caching(lab, 3);
	uint64_t node = lab_file(&a, "f"), number;

	(void)state;
	lab_restart(lab);
	back(&a);
	back(&a); /* once more is not one more */
	number = send_set(&a, node);
	back(&c);
	lab_reattach(&b);
	lab_send_keepalive(&b);
	assert_non_null(lab_take(&b, MSG_keepalive_reply));
	assert_null(lab_reply(&a, number));
	lab_send_keepalive(&b);
	assert_int_equal(answer(&a, number), RC_OK);
	lab_free(lab);
}

/* However many KeepAlives overtake what it sends again. */
static void
test_keepalives_bring_nobody_back(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), b = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;

	(void)state;
	lab_restart(lab);
	back(&a);
	number = send_set(&a, node);
	lab_reattach(&b);
	for (uint64_t i = 1; i <= 3; i++)
		lab_send(&b, &(struct message){.code = MSG_keepalive,
		                               .keepalive = {b.session, b.epoch, i}});
	b.epoch--;
	lab_send_returned(&b); /* to another master */
	assert_null(lab_reply(&a, number));
	b.epoch++;
	lab_send_returned(&b);
	assert_int_equal(answer(&a, number), RC_OK);
	lab_free(lab);
}

/* Sessions of this epoch have seen nothing that could be wrong now. */
static void
test_new_sessions_are_not_waited_for(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), b;
	uint64_t node = lab_file(&a, "f"), number;

	(void)state;
	lab_restart(lab);
	b = lab_open_caching(lab, 2);
	number = send_set(&b, node);
	lab_disconnect(&b);
	back(&b);
	assert_null(lab_reply(&b, number));
	back(&a);
	assert_int_equal(answer(&b, number), RC_OK);
	lab_free(lab);
}

/* Everything that changes what can be cached; the state of locks cannot. */
static void
test_which_commands_wait(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), silent = lab_open_caching(lab, 2);
	uint64_t node[8], numbers[10];
	struct op open, ops[10] = {
		lab_create("new"), {.code = OP_set_contents}, {.code = OP_append},
		{.code = OP_set_acl}, {.code = OP_set_mtime}, {.code = OP_set_lock_delay},
		{.code = OP_make_ephemeral}, {.code = OP_close_ephemeral}, lab_delete("8"),
		{.code = OP_rename, .rename = {.parent = NODE_ROOT, .new_parent = NODE_ROOT}},
	};

	(void)state;
	(void)silent;
	for (int i = 0; i < 8; i++)
		node[i] = lab_file(&a, (char[]){(char)('1' + i), 0});
	ops[1].set_contents.node = node[0];
	ops[2].append.node = node[1];
	ops[3].set_acl = (struct op_set_acl){.node = node[2], .name = bytes_of("everyone")};
	ops[4].set_mtime.node = node[3];
	ops[5].set_lock_delay.node = node[4];
	ops[6].make_ephemeral.node = node[5];
	ops[7].close_ephemeral.node = node[6];
	ops[9].rename.name = bytes_of("1");
	ops[9].rename.new_name = bytes_of("2");
	open = (struct op){.code = OP_open_ephemeral, .open_ephemeral = {.node = node[6]}};
	lab_restart(lab);
	back(&a);
	assert_int_equal(lab_call(&a, &open, NULL), RC_OK);
	assert_int_equal(lab_lock(&a, node[6], 1, LOCK_EXCLUSIVE, false), RC_OK);
	lab_unlock(&a, node[6], 1, a.acquisition);
	for (int i = 0; i < 10; i++)
		numbers[i] = lab_send_op(&a, &ops[i]);
	for (int i = 0; i < 10; i++)
		assert_null(lab_reply(&a, numbers[i]));
	lab_pass_ms(lab, CACHE_OVER_MS);
	for (int i = 0; i < 10; i++) /* the master before may have told others of the file 6 */
		assert_int_equal(answer(&a, numbers[i]), i == 6 ? RC_BUSY : RC_OK);
	lab_free(lab);
}

/* ---- sessions that end meanwhile ---- */

/* Who shows an earlier session's nonce says that its caches are gone. */
static void
test_a_successor_stands_for_it(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), b = lab_open_caching(lab, 2), successor;

	(void)state;
	lab_restart(lab);
	back(&a);
	successor = lab_connect(lab, 3);
	lab_send_open(&successor, &b);
	lab_expect_opened(&successor);
	assert_false(lives(lab, &b));
	assert_int_equal(answer(&a, send_set(&a, lab_file(&a, "f"))), RC_OK);
	lab_free(lab);
}

/* The end of the earlier session may take away what others have cached. */
static void
test_a_successor_waits(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client silent = lab_open_caching(lab, 1), b = lab_open(lab, 2), successor, gone;

	(void)state;
	(void)silent;
	lab_restart(lab);
	successor = lab_connect(lab, 3);
	gone = lab_connect(lab, 4);
	lab_send_open(&successor, &b);
	lab_send_open(&successor, &b);
	lab_send_open(&gone, &b);
	lab_disconnect(&gone);
	lab_pass_ms(lab, CACHE_OVER_MS - 50);
	assert_null(lab_take(&successor, MSG_session_opened));
	assert_true(lives(lab, &b));
	lab_pass_ms(lab, 50);
	lab_expect_opened(&successor);
	assert_null(lab_take(&successor, MSG_session_opened));
	assert_false(lives(lab, &b));
	lab_free(lab);
}

static void
test_stepping_down_forgets_who_waits(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), b = lab_open_caching(lab, 2), successor;
	uint64_t node = lab_file(&a, "f"), number;

	(void)state;
	(void)b;
	lab_restart(lab);
	back(&a);
	successor = lab_connect(lab, 3);
	number = send_set(&a, node);
	lab_send_open(&successor, &a);
	lab_step_down(lab);
	lab_pass_ms(lab, 5000); /* and it is elected again */
	assert_null(lab_reply(&a, number));
	assert_null(lab_take(&successor, MSG_session_opened));
	back(&a);
	assert_int_equal(a.epoch, 3);
	lab_free(lab);
}

/* The expiry of a session that begins behind the barrier, with a shorter lease than the leave to
 * cache that others still have. */
static void
test_expiry_waits(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client silent = lab_open_caching(lab, 1), brief;

	(void)state;
	(void)silent;
	lab_setting(lab, "cache_lease", 1000);
	lab_setting(lab, "session_lease", 2000);
	lab_restart(lab);
	brief = lab_open(lab, 2);
	lab_pass_ms(lab, CACHE_OVER_MS - 50);
	assert_true(lives(lab, &brief));
	lab_pass_ms(lab, 100);
	assert_false(lives(lab, &brief));
	lab_free(lab);
}

/* ---- locks ---- */

static void
test_free_locks_are_there(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), silent = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	(void)silent;
	lab_restart(lab);
	back(&a);
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&a), 2);
	lab_free(lab);
}

/* Whoever waited for the lock has its place before all that it sent and that has to wait now. */
static void
test_places_do_not_wait(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client holder = lab_open_caching(lab, 1), first = lab_open_caching(lab, 2);
	struct lab_client late = lab_open_caching(lab, 3);
	uint64_t node = lab_file(&holder, "f"), other = lab_file(&holder, "g");
	struct op again = lab_acquire(node, 7, ++first.acquisition, LOCK_EXCLUSIVE, true);
	struct op set = lab_set(node, "x"), set_other = lab_set(other, "x");
	struct result result;

	(void)state;
	assert_int_equal(lab_lock(&holder, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_call(&first, &again, &result), RC_QUEUED);
	again.acquire.acquire.ticket = result.acquired.ticket;
	lab_restart(lab);
	back(&late);
	assert_int_equal(lab_lock(&late, node, 8, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_reattach(&first);
	lab_send_request(&first, ++first.number, true, &set_other);
	lab_send_op(&first, &set);
	assert_int_equal(lab_call(&first, &again, NULL), RC_QUEUED);
	back(&first);
	back(&holder);
	lab_unlock(&holder, node, 1, 1);
	assert_int_equal(lab_granted(&first), 7);
	assert_int_equal(lab_granted(&late), 0);
	lab_free(lab);
}

/* Who waited before comes first, however late in this while it says so. */
static void
test_held_locks_wait_for_the_queue(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client holder = lab_open_caching(lab, 1), first = lab_open_caching(lab, 2);
	struct lab_client late = lab_open_caching(lab, 3), silent = lab_open_caching(lab, 4);
	uint64_t node = lab_file(&holder, "f"), number;
	struct op again = lab_acquire(node, 7, ++first.acquisition, LOCK_EXCLUSIVE, true);
	struct result result;

	(void)state;
	(void)silent;
	assert_int_equal(lab_lock(&holder, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_call(&first, &again, &result), RC_QUEUED);
	again.acquire.acquire.ticket = result.acquired.ticket;
	lab_restart(lab);
	back(&late);
	back(&holder);
	assert_int_equal(lab_lock(&late, node, 8, LOCK_EXCLUSIVE, true), RC_QUEUED);
	assert_int_equal(lab_lock(&late, node, 9, LOCK_EXCLUSIVE, false), RC_BUSY_LOCK);
	lab_unlock(&holder, node, 1, 1);
	number = send_lock(&late, node, 9, false);
	assert_int_equal(lab_granted(&late), 0);
	assert_null(lab_reply(&late, number));
	lab_pass_ms(lab, 3000);
	back(&first);
	assert_int_equal(lab_call(&first, &again, NULL), RC_QUEUED);
	assert_int_equal(lab_granted(&first), 0);
	lab_pass_ms(lab, CACHE_OVER_MS - 3000);
	assert_int_equal(lab_granted(&first), 7);
	assert_int_equal(lab_granted(&late), 0);
	assert_int_equal(answer(&late, number), RC_BUSY_LOCK);
	lab_unlock(&first, node, 7, 1);
	assert_int_equal(lab_granted(&late), 8);
	lab_free(lab);
}

/* A holder has its lock by the same name and number as before, may change its mode, and let go. */
static void
test_holders_go_on(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), silent = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f");
	struct op lock = lab_acquire(node, 1, ++a.acquisition, LOCK_SHARED, true);
	struct result before, after;

	(void)state;
	(void)silent;
	assert_int_equal(lab_call(&a, &lock, &before), RC_OK);
	lab_restart(lab);
	back(&a);
	assert_int_equal(lab_call(&a, &lock, &after), RC_OK);
	assert_int_equal(after.acquired.fence, before.acquired.fence);
	assert_int_equal(after.acquired.lock_generation, before.acquired.lock_generation);
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, false), RC_OK);
	lab_unlock(&a, node, 1, a.acquisition);
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_FREE);
	lab_free(lab);
}

/* Having let go it does not come back past those who may have waited, not even at once. */
static void
holder_comes_back(bool wait)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), silent = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;

	(void)silent;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	lab_restart(lab);
	back(&a);
	lab->slow_disk = true;
	lab_send_op(&a, &(struct op){.code = OP_release, .release = {node, 1, a.acquisition}});
	number = send_lock(&a, node, 1, wait);
	lab_persist(lab);
	lab->slow_disk = false;
	if (wait)
		assert_int_equal(answer(&a, number), RC_QUEUED);
	assert_int_equal(lab_granted(&a), 0);
	assert_null(lab_reply(&a, number));
	lab_pass_ms(lab, CACHE_OVER_MS);
	if (wait)
		assert_int_equal(lab_granted(&a), 1);
	else
		assert_int_equal(answer(&a, number), RC_OK);
	lab_free(lab);
}

static void
test_holders_do_not_come_back_first(void **state)
{
	(void)state;
	holder_comes_back(false);
	holder_comes_back(true);
}

/* A holder that waits for its conversion gets it when the other one has let go. */
/* A holder that asks again for what it holds has it, also behind a release of its own that frees
 * nothing: in the queue it would wait for the exclusive one before it, which waits for it. */
static void
test_holder_asks_again_behind_a_release(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	struct lab_client silent = lab_open_caching(lab, 3);
	uint64_t node = lab_file(&silent, "f"), again;
	struct op held = lab_acquire(node, 7, 5, LOCK_SHARED, true);
	struct op wanted = lab_acquire(node, 8, 1, LOCK_EXCLUSIVE, true);
	struct op old_release = lab_release(node, 7, 4);
	struct op second = lab_acquire(node, 7, 6, LOCK_SHARED, true);
	struct result result;

	(void)state;
	assert_int_equal(lab_call(&a, &held, NULL), RC_OK);
	assert_int_equal(lab_call(&b, &wanted, &result), RC_QUEUED);
	wanted.acquire.acquire.ticket = result.acquired.ticket;
	lab_restart(lab);
	back(&a);
	back(&b);
	assert_int_equal(lab_call(&b, &wanted, NULL), RC_QUEUED);
	lab->slow_disk = true;
	lab_send_op(&a, &old_release);
	again = lab_send_op(&a, &second);
	lab_persist(lab);
	lab_persist(lab);
	assert_int_equal(answer(&a, again), RC_OK);
	lab_free(lab);
}

static void
test_waiting_conversion_goes_on(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), silent = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	(void)silent;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_SHARED, true), RC_OK);
	assert_int_equal(lab_lock(&a, node, 2, LOCK_SHARED, true), RC_OK);
	lab_restart(lab);
	back(&a);
	assert_int_equal(lab_lock(&a, node, 3, LOCK_SHARED, true), RC_QUEUED);
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_unlock(&a, node, 2, 2);
	assert_int_equal(lab_granted(&a), 1);
	assert_int_equal(lab_granted(&a), 0);
	lab_free(lab);
}

/* A lock-delay begins anew with each master, and those who wait for its end are in order then. */
static void
test_delay_runs_in_full(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open_caching(lab, 1), dead = lab_open_caching(lab, 2);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&dead, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	for (int i = 0; i < 15; i++) {
		lab_send_keepalive(&a);
		lab_pass_ms(lab, 1000);
	}
	assert_false(lives(lab, &dead));
	assert_int_equal(lab_look(&a, node).state, LOCK_STATE_DELAYED);
	lab_restart(lab);
	back(&a);
	assert_int_equal(lab_lock(&a, node, 5, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_pass_ms(lab, DEFAULT_LOCK_DELAY_S * 1000 / 2);
	lab_send_keepalive(&a);
	lab_pass_ms(lab, DEFAULT_LOCK_DELAY_S * 1000 / 2 - 100);
	assert_int_equal(lab_granted(&a), 0);
	lab_pass_ms(lab, 100);
	assert_int_equal(lab_granted(&a), 5);
	lab_free(lab);
}

/* ---- for whom it waits ---- */

/* It was a machine that neither caches nor waits: the others write at once. */
static void
test_a_lost_machine_without_waiters(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), lost = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");

	(void)state;
	assert_int_equal(lab_lock(&lost, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	lab_restart(lab);
	back(&a);
	assert_int_equal(answer(&a, send_set(&a, node)), RC_OK);
	assert_true(lives(lab, &lost));
	lab_free(lab);
}

static void
test_a_lost_machine_with_a_waiter(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), lost = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_lock(&lost, node, 2, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_restart(lab);
	back(&a);
	lab_unlock(&a, node, 1, 1);
	number = send_lock(&a, node, 3, true);
	assert_int_equal(answer(&a, number), RC_QUEUED);
	lab_pass_ms(lab, CACHE_OVER_MS - 100);
	assert_int_equal(lab_granted(&a), 0);
	lab_pass_ms(lab, 100);
	assert_int_equal(lab_granted(&a), 3);
	lab_free(lab);
}

static bool
awaited(const struct lab *lab, const struct lab_client *c)
{
	struct tree_session t;

	assert_true(tree_session(replica_tree(lab->replica), c->session, &t));
	return t.awaited;
}

/* The session's bit stands before it is told its place. */
static void
test_no_ticket_before_the_bit(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), number;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	lab->slow_disk = true;
	number = send_lock(&b, node, 2, true);
	assert_null(lab_reply(&b, number));
	lab_persist(lab);
	assert_true(awaited(lab, &b));
	assert_int_equal(answer(&b, number), RC_QUEUED);
	number = send_lock(&b, node, 3, true); /* now that it stands */
	assert_int_equal(answer(&b, number), RC_QUEUED);
	lab_free(lab);
}

/* Given up, or without its node, before it was told that it waits. */
static void
test_a_place_that_is_lost_before_it_is_told(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2), c = lab_open(lab, 3);
	uint64_t node = lab_file(&a, "f"), given_up, without;
	struct op gone = lab_delete("f"), cancel = lab_cancel(node, 2, 1);

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	lab->slow_disk = true;
	lab_send_op(&a, &gone);
	given_up = send_lock(&b, node, 2, true);
	without = send_lock(&c, node, 3, true);
	lab_send_op(&b, &cancel);
	assert_int_equal(answer(&b, given_up), RC_INTR);
	lab_persist(lab);
	assert_int_equal(answer(&c, without), RC_STALE);
	assert_null(lab_take(&c, MSG_granted));
	lab_free(lab);
}

static void
stay_ms(struct lab *lab, struct lab_client *a, struct lab_client *b, int64_t ms)
{
	for (; ms > 0; ms -= 3000) {
		lab_send_keepalive(a);
		lab_send_keepalive(b);
		lab_pass_ms(lab, 3000);
	}
}

/* Long after the last wait the bits are lowered, many in an entry, and raised again when needed. */
static void
test_bits_are_lowered(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f");
	size_t entries;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_lock(&b, node, 2, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_unlock(&a, node, 1, 1);
	assert_int_equal(lab_granted(&b), 2);
	assert_int_equal(lab_lock(&a, node, 3, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_give_up(&a, node, 3, 2);
	stay_ms(lab, &a, &b, 54000);
	assert_true(awaited(lab, &a) && awaited(lab, &b));
	entries = lab->entries;
	stay_ms(lab, &a, &b, 12000);
	assert_false(awaited(lab, &a) || awaited(lab, &b));
	assert_int_equal(lab->entries, entries + 1);
	assert_int_equal(lab_lock(&a, node, 4, LOCK_EXCLUSIVE, true), RC_QUEUED);
	assert_true(awaited(lab, &a));
	lab_restart(lab);
	back(&b);
	lab_unlock(&b, node, 2, 1);
	assert_int_equal(answer(&b, send_lock(&b, node, 5, true)), RC_QUEUED);
	assert_int_equal(lab_granted(&b), 0);
	lab_free(lab);
}

/* ---- locks that were freed by the last master ---- */

/* The lock is free when the epoch begins, and somebody waits for it: the grant came to nothing,
 * since its session had ended, and the next one was lost with the master. */
static void
free_with_a_waiter(struct lab *lab, struct lab_client *holder, struct lab_client *waiter,
                   uint64_t node, struct op *again)
{
	struct lab_client ended = lab_open(lab, 9);
	struct op end = {.code = OP_end_session}, let_go = lab_release(node, 1, 1);
	struct result result;
	struct result_acquired g;

	end.end_session =
	    (struct op_end_session){.session = ended.session, .cause = SESSION_CLOSED};
	*again = lab_acquire(node, 7, ++waiter->acquisition, LOCK_EXCLUSIVE, true);
	assert_int_equal(lab_lock(holder, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_lock(&ended, node, 1, LOCK_EXCLUSIVE, true), RC_QUEUED);
	assert_int_equal(lab_call(waiter, again, &result), RC_QUEUED);
	again->acquire.acquire.ticket = result.acquired.ticket;
	lab->slow_disk = true;
	lab_send_op(&ended, &end);
	lab_send_op(holder, &let_go);
	lab_step(lab, (struct replica_event){.kind = REPLICA_PERSISTED, .write = lab->ticket});
	lab->slow_disk = false;
	assert_false(tree_lock_held_by(replica_tree(lab->replica), waiter->session, 7,
	                               waiter->acquisition, node, &g));
}

static void
waiter_comes_back(int masters)
{
	struct lab *lab = lab_new();
	struct lab_client holder = lab_open(lab, 1), waiter = lab_open(lab, 2), other;
	uint64_t node = lab_file(&holder, "f");
	struct op again;

	other = lab_open(lab, 3);
	free_with_a_waiter(lab, &holder, &waiter, node, &again);
	for (int i = 0; i < masters; i++) {
		lab_restart(lab);
		back(&other);
		assert_int_equal(lab_lock(&other, node, 8, LOCK_EXCLUSIVE, true), RC_QUEUED);
		assert_int_equal(lab_granted(&other), 0);
		lab_give_up(&other, node, 8, other.acquisition);
	}
	assert_int_equal(lab_lock(&other, node, 9, LOCK_EXCLUSIVE, true), RC_QUEUED);
	lab_reattach(&waiter);
	assert_int_equal(lab_call(&waiter, &again, NULL), RC_QUEUED);
	lab_send_keepalive(&waiter);
	lab_send_keepalive(&waiter);
	assert_int_equal(lab_granted(&waiter), 7);
	lab_free(lab);
}

static void
test_freed_locks_wait_for_the_queue(void **state)
{
	(void)state;
	waiter_comes_back(1);
}

/* The next master has not waited for all, and its successor has to. */
static void
test_freed_locks_wait_over_two_masters(void **state)
{
	(void)state;
	waiter_comes_back(2);
}

/* ---- tickets ---- */

/* Waiters that are late for the barrier keep their order all the same, while an earlier command of
 * theirs is under way: the shared one does not pass the exclusive one before it. */
static void
test_late_tickets_keep_their_order(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client late = lab_open(lab, 1);
	uint64_t node = lab_file(&late, "f"), exclusive, shared;
	struct op held = lab_acquire(node, 3, 6, LOCK_SHARED, true);
	struct op first = lab_acquire(node, 1, 7, LOCK_EXCLUSIVE, true);
	struct op second = lab_acquire(node, 2, 8, LOCK_SHARED, true);
	struct result result;

	(void)state;
	assert_int_equal(lab_call(&late, &held, NULL), RC_OK);
	assert_int_equal(lab_call(&late, &first, &result), RC_QUEUED);
	first.acquire.acquire.ticket = result.acquired.ticket;
	assert_int_equal(lab_call(&late, &second, &result), RC_QUEUED);
	second.acquire.acquire.ticket = result.acquired.ticket;
	lab_restart(lab);
	lab_pass_ms(lab, LAB_CACHE_LEASE_MS * 11 / 10);
	lab_reattach(&late);
	lab->slow_disk = true;
	lab_send_op(&late, &held);
	exclusive = lab_send_op(&late, &first);
	shared = lab_send_op(&late, &second);
	lab_persist(lab);
	assert_int_equal(lab_reply(&late, exclusive)->rc, RC_QUEUED);
	assert_int_equal(lab_reply(&late, shared)->rc, RC_QUEUED);
	lab_free(lab);
}

/* A place in a queue is its holder's and nobody else's, and not to be made up. */
static void
test_forged_tickets(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	uint64_t node = lab_file(&a, "f"), other = lab_file(&a, "g");
	struct op real, forged[7];
	struct result result;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, true), RC_OK);
	assert_int_equal(lab_lock(&a, other, 1, LOCK_EXCLUSIVE, true), RC_OK);
	real = lab_acquire(node, 2, 9, LOCK_EXCLUSIVE, true);
	assert_int_equal(lab_call(&a, &real, &result), RC_QUEUED);
	real.acquire.acquire.ticket = result.acquired.ticket;
	for (int i = 0; i < 7; i++)
		forged[i] = real;
	forged[0].acquire.acquire.node = other;
	forged[1].acquire.acquire.owner++;
	forged[2].acquire.acquire.acquisition++;
	forged[3].acquire.acquire.ticket.epoch++;
	forged[4].acquire.acquire.ticket.place--;
	forged[5].acquire.acquire.ticket.code ^= 1;
	forged[6].acquire.acquire.ticket.code = 0;
	lab_restart(lab);
	back(&a);
	back(&b);
	for (int i = 0; i < 7; i++)
		assert_int_equal(lab_call(&a, &forged[i], NULL), RC_PERM);
	assert_int_equal(lab_call(&b, &real, NULL), RC_PERM);
	assert_int_equal(lab_call(&a, &real, NULL), RC_QUEUED);
	lab_free(lab);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_crowd_behind_the_barrier),
	    cmocka_unit_test(test_nobody_caches),
	    cmocka_unit_test(test_waits_for_a_silent_cache),
	    cmocka_unit_test(test_goes_on_when_all_are_back),
	    cmocka_unit_test(test_keepalives_bring_nobody_back),
	    cmocka_unit_test(test_new_sessions_are_not_waited_for),
	    cmocka_unit_test(test_which_commands_wait),
	    cmocka_unit_test(test_a_successor_stands_for_it),
	    cmocka_unit_test(test_a_successor_waits),
	    cmocka_unit_test(test_stepping_down_forgets_who_waits),
	    cmocka_unit_test(test_expiry_waits),
	    cmocka_unit_test(test_free_locks_are_there),
	    cmocka_unit_test(test_held_locks_wait_for_the_queue),
	    cmocka_unit_test(test_places_do_not_wait),
	    cmocka_unit_test(test_holders_go_on),
	    cmocka_unit_test(test_holders_do_not_come_back_first),
	    cmocka_unit_test(test_holder_asks_again_behind_a_release),
	    cmocka_unit_test(test_waiting_conversion_goes_on),
	    cmocka_unit_test(test_delay_runs_in_full),
	    cmocka_unit_test(test_a_lost_machine_without_waiters),
	    cmocka_unit_test(test_a_lost_machine_with_a_waiter),
	    cmocka_unit_test(test_no_ticket_before_the_bit),
	    cmocka_unit_test(test_a_place_that_is_lost_before_it_is_told),
	    cmocka_unit_test(test_bits_are_lowered),
	    cmocka_unit_test(test_freed_locks_wait_for_the_queue),
	    cmocka_unit_test(test_freed_locks_wait_over_two_masters),
	    cmocka_unit_test(test_late_tickets_keep_their_order),
	    cmocka_unit_test(test_forged_tickets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
