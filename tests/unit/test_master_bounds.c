/* Bounds of the master: what a session may have under way, and how much a crowd of them costs. They
 * run in the simulated world, which checks each step of a replica against LIMIT_STEP. */
#include <stdio.h>
#include <string.h>
#include "tests/transcripts/cell_player.h"
#include "tests/unit/unit.h"

static struct player *
new_cell(void)
{
	struct player *p = player_new();

	player_do(p, "cell 1");
	player_do(p, "bare a");
	player_do(p, "a: create f");
	return p;
}

static int
count(const char *said, const char *what)
{
	int n = 0;

	for (; (said = strstr(said, what)) != NULL; said += strlen(what))
		n++;
	return n;
}

static bool
has(const char *said, const char *what)
{
	return count(said, what) > 0;
}

static void
say_times(struct player *p, int n, const char *command)
{
	for (int i = 0; i < n; i++)
		player_do(p, "%s", command);
}

/* ---- one session ---- */

/* So many may be in flight, one more is a breach. */
static void
expect_limit(struct player *p, const char *command, int most)
{
	for (int i = 0; i < most; i++)
		assert_false(has(player_do(p, "%s", command), "closed"));
	assert_true(has(player_do(p, "%s", command), "the connection is closed"));
	player_do(p, "a: attach");
}

/* Each kind has room of its own. */
static void
test_in_flight_limits(void **state)
{
	struct player *p = new_cell();

	(void)state;
	player_do(p, "disk 1 stuck 100s");
	player_do(p, "a: ordered write f x");
	expect_limit(p, "a: write f x", LIMIT_IN_FLIGHT - 1);
	expect_limit(p, "a: close f", 0);
	expect_limit(p, "a: read f", LIMIT_IN_FLIGHT);
	expect_limit(p, "a: unlock f by 1 acquisition 1", LIMIT_URGENT);
	player_free(p);
}

/* So many bytes may be in flight, one command more is a breach; what reads, and what gives a lock
 * back, goes on. What was answered counts no more. */
static void
test_in_flight_bytes(void **state)
{
	enum { MOST = LIMIT_WINDOW / LIMIT_CONTENTS };
	static const char write[] = "a: write f fill 262080"; /* 64 below the limit */
	struct player *p = new_cell();

	(void)state;
	for (int i = 0; i < 2; i++) {
		player_do(p, "disk 1 stuck 100s");
		say_times(p, MOST, write);
		assert_true(has(player_do(p, "a: read f"), "read f: ok"));
		assert_false(has(player_do(p, "a: unlock f by 1 acquisition 1"), "closed"));
		assert_int_equal(count(player_do(p, "disk 1 writes"), ": ok"), MOST + 1);
	}
	player_do(p, "disk 1 stuck 100s");
	expect_limit(p, write, MOST);
	player_do(p, "disk 1 writes");
	assert_true(has(player_do(p, "%s", write), ": ok"));
	player_free(p);
}

/* Marks that wait for each other, of sessions that end meanwhile, too. */
static void
test_many_marks(void **state)
{
	enum { MARKS = 200 };
	struct player *p = new_cell();
	const char *said;

	(void)state;
	player_do(p, "bare b");
	player_do(p, "bare c");
	player_do(p, "b: create g");
	player_do(p, "disk 1 stuck 100s");
	for (int i = 0; i < MARKS; i++) {
		player_do(p, "a: mark f");
		player_do(p, "b: mark g");
		player_do(p, "c: stat f");
	}
	player_do(p, "b: end");
	said = player_do(p, "disk 1 writes");
	assert_int_equal(count(said, "mark f: ok, generation 1, ephemeral"), MARKS);
	assert_int_equal(count(said, "stat f: ok, generation 1, ephemeral"), MARKS);
	player_free(p);
}

/* ---- crowds ---- */

/* A hand-over for each of a hundred, in the entry of the release, by growing tokens. */
static void
test_hundred_waiters(void **state)
{
	struct player *p = new_cell();
	uint64_t token = 0;

	(void)state;
	player_do(p, "bare b");
	player_do(p, "a: lock f by 1 exclusive wait");
	for (int owner = 2; owner <= 101; owner++)
		assert_true(has(player_do(p, "%c: lock f by %d exclusive wait",
		                          owner % 2 ? 'a' : 'b', owner),
		                "queued"));
	assert_true(has(player_do(p, "a: look f"), "100 waiting"));
	player_do(p, "show log");
	for (int owner = 1; owner <= 100; owner++) {
		const char *said = player_do(p, "%c: unlock f by %d", owner % 2 ? 'a' : 'b', owner);
		unsigned long is = 0, to = 0;

		assert_int_equal(count(said, "log "), 2);
		assert_int_equal(count(said, "granted f"), 1);
		assert_int_equal(sscanf(strstr(said, "granted f"),
		                        "granted f to %lu, acquisition %*u, lock generation %*u, "
		                        "token %lu",
		                        &to, &is),
		                 2);
		assert_int_equal(to, owner + 1);
		assert_true(is > token);
		token = is;
	}
	player_free(p);
}

static void
lock_many(struct player *p, int n)
{
	player_do(p, "bare b");
	for (int i = 0; i < n; i++) {
		player_do(p, "b: create many%d", i);
		player_do(p, "b: lock many%d by 1 exclusive", i);
	}
}

/* A session with more locks than go in one entry ends part by part, and each part hands over. */
static void
test_an_end_in_parts(void **state)
{
	enum { LOCKS = 3 * LIMIT_ENDING - 10 };
	struct player *p = new_cell();
	const char *said, *end, *first, *last;

	(void)state;
	lock_many(p, LOCKS);
	player_do(p, "a: lock many%d by 2 exclusive wait", LOCKS - 1);
	player_do(p, "a: lock many0 by 3 exclusive wait");
	player_do(p, "show log");
	said = player_do(p, "b: end");
	end = strstr(said, "finish_session");
	first = strstr(said, "grant many0 ");
	last = strstr(said, "grant many757 ");
	assert_true(count(said, "finish_session") > 2); /* the answers kept for it, too */
	assert_true(end != NULL && first != NULL && last != NULL && first < end && end < last);
	player_free(p);
}

/* A new master goes on with it, when nobody's cache can be wrong any more. */
static void
test_an_end_in_parts_over_a_restart(void **state)
{
	struct player *p = new_cell();

	(void)state;
	player_do(p, "bare a caching");
	lock_many(p, 3 * LIMIT_ENDING - 10);
	player_do(p, "disk 1 stuck 100s");
	player_do(p, "b: end");
	player_do(p, "crash 1");
	player_do(p, "disk 1 writes");
	player_do(p, "start 1");
	player_do(p, "show log");
	assert_false(has(player_do(p, "run 3s"), "finish_session"));
	assert_true(has(player_do(p, "run 3s"), "finish_session"));
	player_free(p);
}

/* The master remembers so many files that only their maker knows; then it forgets the oldest. */
static void
test_so_many_files_are_remembered(void **state)
{
	struct player *p = new_cell();

	(void)state;
	player_do(p, "bare b");
	player_do(p, "a: create g");
	for (int i = 1; i < LIMIT_UNSHARED; i++)
		player_do(p, "b: number %d below %d create f%d", i, i, i);
	assert_true(has(player_do(p, "a: mark f"), "BUSY"));
	assert_true(has(player_do(p, "a: mark g"), "ok"));
	player_free(p);
}

enum { CROWD = 64 };

/* Requests of a crowd that wait behind a barrier, all of a session on one node and behind an
 * ordered one: when it falls each is looked at a few times at most. */
static void
test_crowd_behind_the_barrier(void **state)
{
	struct player *p = new_cell();
	uint64_t events;

	(void)state;
	player_do(p, "bare silent caching");
	for (int i = 0; i < CROWD; i++)
		player_do(p, "bare c%d", i);
	player_do(p, "crash 1");
	player_do(p, "start 1");
	for (int i = 0; i < CROWD; i++) {
		player_do(p, "c%d: attach", i);
		for (int n = 0; n < LIMIT_IN_FLIGHT; n++)
			player_do(p, "c%d: %sclose f", i, n == 0 ? "ordered " : "");
	}
	assert_int_equal(count(player_do(p, "run 4900ms"), "close f: ok"), 0);
	events = p->s->stats.events;
	assert_int_equal(count(player_do(p, "run 200ms"), "close f: ok"), CROWD * LIMIT_IN_FLIGHT);
	assert_in_range(p->s->stats.events - events, CROWD * LIMIT_IN_FLIGHT,
	                3 * CROWD * LIMIT_IN_FLIGHT);
	player_free(p);
}

/* All at once after a fail-over: none loses its session, and there is one epoch more. */
static void
test_sixty_clients_come_back(void **state)
{
	enum { N = 60 };
	struct player *p = player_new();

	(void)state;
	player_do(p, "cell 3");
	for (int i = 0; i < N; i++) {
		player_do(p, "bare c%d caching", i);
		player_do(p, "c%d: create f%d", i, i);
	}
	player_do(p, "crash master");
	player_do(p, "until master");
	for (int i = 0; i < N; i++)
		assert_true(has(player_do(p, "c%d: back", i), "is open, epoch 2"));
	assert_int_equal(count(player_do(p, "run 6s"), "lease 16000 ms"), N);
	for (int i = 0; i < N; i++)
		assert_true(has(player_do(p, "c%d: append f%d x", i, i), ": ok"));
	player_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_in_flight_limits),
	    cmocka_unit_test(test_in_flight_bytes),
	    cmocka_unit_test(test_many_marks),
	    cmocka_unit_test(test_hundred_waiters),
	    cmocka_unit_test(test_an_end_in_parts),
	    cmocka_unit_test(test_an_end_in_parts_over_a_restart),
	    cmocka_unit_test(test_so_many_files_are_remembered),
	    cmocka_unit_test(test_crowd_behind_the_barrier),
	    cmocka_unit_test(test_sixty_clients_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
