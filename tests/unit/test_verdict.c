/* The verdict on a cell and how near its limits are, by what its replicas answered. */
#include <string.h>
#include "ctl/health.h"
#include "ctl/limits.h"
#include "ctl/verdict.h"
#include "tests/unit/unit.h"

/* A cell of `n` replicas; 1 is the master. */
struct cell {
	struct cell_file file;
	struct answer answers[LIMIT_REPLICAS];
};

static struct cell
cell_of(int n)
{
	struct cell c = {.file = {.replicas_n = n}};

	for (int i = 0; i < n; i++) {
		c.file.replicas[i] = (struct cell_file_replica){.id = (uint8_t)(i + 1),
		                                                .role = MEMBER_VOTER,
		                                                .address = "a:1"};
		c.answers[i] = (struct answer){
		    .heard = true,
		    .status = {.self = (uint8_t)(i + 1),
		               .role = i == 0 ? REPLICA_MASTER : REPLICA_FOLLOWER,
		               .master = 1},
		};
	}
	return c;
}

static void
lose(struct cell *c, int id)
{
	c->answers[id - 1] = (struct answer){.why = "no answer"};
}

static void
add_limit(struct answer *a, const char *name, enum limit_owner owner, uint64_t used, uint64_t most)
{
	struct answer_limit *l = &a->limits[a->limits_n++];

	*l = (struct answer_limit){.unit = "count", .owner = owner, .used = used, .most = most};
	strcpy(l->name, name);
}

/* The verdict, with this first reason; NULL: without any. */
static void
expect(const struct cell *c, enum verdict verdict, const char *reason)
{
	json_t *all = health_json(&c->file, c->answers), *reasons = json_array();

	assert_string_equal(verdict_name(verdict_of(all, reasons)), verdict_name(verdict));
	if (reason == NULL)
		assert_int_equal(json_array_size(reasons), 0);
	else
		assert_string_equal(json_string_value(json_array_get(reasons, 0)), reason);
	json_decref(reasons);
	json_decref(all);
}

TEST(test_good)
{
	for (int n = 1; n <= 7; n++) {
		const struct cell c = cell_of(n);

		expect(&c, VERDICT_GOOD, NULL);
	}
}

TEST(test_one_more_failure)
{
	struct cell c = cell_of(3);

	lose(&c, 3);
	expect(&c, VERDICT_DEGRADED, "2 of 3 replicas work, and 2 are needed");
	c = cell_of(5);
	lose(&c, 3);
	expect(&c, VERDICT_GOOD, NULL);
	lose(&c, 4);
	expect(&c, VERDICT_DEGRADED, "3 of 5 replicas work, and 3 are needed");
}

TEST(test_a_replica_that_does_not_vote)
{
	struct cell c = cell_of(3);

	c.answers[1].status.condition = CONDITION_REPAIRING;
	expect(&c, VERDICT_DEGRADED, "2 of 3 replicas work, and 2 are needed");
	c = cell_of(3);
	c.answers[2].status.full = 1;
	expect(&c, VERDICT_DEGRADED, "2 of 3 replicas work, and 2 are needed");
	c = cell_of(3);
	c.file.replicas[2].role = MEMBER_LEARNER;
	expect(&c, VERDICT_GOOD, NULL);
}

/* Only the network between us and the replica is broken. */
TEST(test_the_master_hears_it)
{
	struct cell c = cell_of(3);

	lose(&c, 3);
	c.answers[0].progress[0] = (struct answer_progress){.id = 3, .heard_ms = 30};
	c.answers[0].progress_n = 1;
	expect(&c, VERDICT_GOOD, NULL);
	c.answers[0].progress[0].heard_ms = 60000;
	expect(&c, VERDICT_DEGRADED, "2 of 3 replicas work, and 2 are needed");
}

TEST(test_down)
{
	struct cell c = cell_of(3);

	lose(&c, 1);
	lose(&c, 2);
	expect(&c, VERDICT_DOWN, "no master: 1 of 3 replicas can be reached, 2 are needed");
}

TEST(test_a_mount_in_jeopardy)
{
	json_t *status =
	    json_pack("{s:s, s:s, s:i}", "mountpoint", "/ls/a", "state", "jeopardy", "master", 1);
	json_t *reasons = json_array();

	assert_int_equal(verdict_of(status, reasons), VERDICT_DOWN);
	assert_string_equal(json_string_value(json_array_get(reasons, 0)),
	                    "the mount's session is not safe: jeopardy");
	json_decref(reasons);
	json_decref(status);
}

TEST(test_states_differ)
{
	struct cell c = cell_of(3);

	c.answers[0].status.disputed = 9;
	expect(&c, VERDICT_DEGRADED,
	       "replicas have different states, and too few answer to tell which is right");
}

/* ---- limits ---- */

TEST(test_a_limit_is_near)
{
	struct cell c = cell_of(3);

	add_limit(&c.answers[0], "sessions", LIMIT_OF_CELL, 89, 100);
	expect(&c, VERDICT_GOOD, NULL);
	c.answers[0].limits[0].used = 90;
	expect(&c, VERDICT_DEGRADED, "sessions of the cell: 90 of 100 count");
	c = cell_of(3);
	add_limit(&c.answers[2], "clients", LIMIT_OF_REPLICA, 10, 10);
	expect(&c, VERDICT_DEGRADED, "clients of replica 3: 10 of 10 count");
}

/* A follower's numbers are older than the master's. */
TEST(test_the_master_tells_of_the_cell)
{
	struct cell c = cell_of(3);
	json_t *limits;

	add_limit(&c.answers[1], "sessions", LIMIT_OF_CELL, 5, 100);
	add_limit(&c.answers[0], "sessions", LIMIT_OF_CELL, 7, 100);
	c.answers[1].status.applied = 10;
	limits = limits_of_replicas(&c.file, c.answers);
	assert_int_equal(json_array_size(limits), 1);
	assert_true(limit_percent(json_array_get(limits, 0)) > 6.9);
	json_decref(limits);
	lose(&c, 1);
	limits = limits_of_replicas(&c.file, c.answers);
	assert_int_equal(json_array_size(limits), 1);
	assert_true(limit_percent(json_array_get(limits, 0)) < 5.1);
	json_decref(limits);
}

TEST(test_the_longest_queue)
{
	json_t *limits = json_array();
	json_t *locks =
	    json_pack("[{s:s, s:[i], s:[]}, {s:s, s:[i, i], s:[i]}]", "path", "/a", "waiters", 1,
	              "holders", "path", "/b", "waiters", 1, 2, "holders", 3);

	limits_add_locks(limits, locks);
	assert_string_equal(json_string_value(json_object_get(json_array_get(limits, 0), "of")),
	                    "/b");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(limits, 0), "used")), 2);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(limits, 1), "used")), 1);
	json_decref(locks);
	json_decref(limits);
}
