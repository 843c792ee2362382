/* The verdict on a cell and how near its limits are, by what its replicas answered. */
#include <stdio.h>
#include <string.h>
#include "cell/view/findings.h"
#include "cell/view/health.h"
#include "ctl/cell_status.h"
#include "tests/unit/unit.h"

/* A cell of `n` replicas; 1 is the master. */
struct cell {
	struct cell_file file;
	struct answer answers[LIMIT_REPLICAS];
};

static struct cell
cell_of(int n)
{
	struct cell c = {.file = {.name = "dc1", .replicas_n = n}};

	for (int i = 0; i < n; i++) {
		c.file.replicas[i] = (struct cell_file_replica){.id = (uint8_t)(i + 1),
		                                                .role = MEMBER_VOTER,
		                                                .address = "a:1"};
		c.answers[i] = (struct answer){
		    .heard = true,
		    .datagrams = true,
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

enum { NOTHING = -1 };

/* The worst severity, and the first finding; NULL: without any. */
static void
expect(const struct cell *c, int severity, const char *finding)
{
	json_t *all = health_json(&c->file, c->answers);
	json_t *findings = json_object_get(all, "problems");
	const json_t *first = json_array_get(findings, 0);
	char text[512];

	assert_int_equal(findings_worst(findings), severity);
	snprintf(text, sizeof text, "%s: %s", json_string_value(json_object_get(first, "object")),
	         json_string_value(json_object_get(first, "what")));
	if (finding == NULL)
		assert_null(first);
	else
		assert_string_equal(text, finding);
	json_decref(all);
}

TEST(test_good)
{
	for (int n = 1; n <= 7; n++) {
		const struct cell c = cell_of(n);

		expect(&c, NOTHING, NULL);
	}
}

TEST(test_one_more_failure)
{
	struct cell c = cell_of(3);

	lose(&c, 3);
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed");
	c = cell_of(5);
	lose(&c, 3);
	expect(&c, SEVERITY_WARNING, "replica 3 (a:1): cannot be reached: no answer");
	lose(&c, 4);
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: one more failure would stop it: 3 of 5 replicas work, and 3 are needed");
}

TEST(test_a_replica_that_does_not_vote)
{
	struct cell c = cell_of(3);

	c.answers[1].status.condition = CONDITION_REPAIRING;
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed");
	c = cell_of(3);
	c.answers[2].status.full = 1;
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed");
	c.answers[1].status.full = 1;
	expect(&c, SEVERITY_DOWN,
	       "dc1: no majority of its replicas works: 1 of 3 replicas work, and 2 are needed");
	c = cell_of(3);
	c.file.replicas[2].role = MEMBER_LEARNER;
	expect(&c, NOTHING, NULL);
}

/* Only the network between us and the replica is broken. */
TEST(test_the_master_hears_it)
{
	struct cell c = cell_of(3);

	lose(&c, 3);
	c.answers[0].progress[0] = (struct answer_progress){.id = 3, .heard_ms = 30};
	c.answers[0].progress_n = 1;
	expect(&c, SEVERITY_WARNING, "replica 3 (a:1): cannot be reached: no answer");
	c.answers[0].progress[0].heard_ms = 60000;
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed");
}

TEST(test_down)
{
	struct cell c = cell_of(3);

	lose(&c, 1);
	lose(&c, 2);
	expect(&c, SEVERITY_DOWN,
	       "dc1: has no master: 1 of 3 replicas can be reached, 2 are needed");
}

TEST(test_a_mount)
{
	json_t *findings = json_array();

	mount_text_findings(findings, "/ls/a", 0, "session: 1\nstate: safe\nmaster: 1\n");
	assert_int_equal(findings_worst(findings), NOTHING);
	mount_text_findings(findings, "/ls/a", 0, "session: 1\nstate: jeopardy\nmaster: 1\n");
	assert_int_equal(findings_worst(findings), SEVERITY_DOWN);
	assert_string_equal(json_string_value(json_object_get(json_array_get(findings, 0), "what")),
	                    "its session is not safe: jeopardy");
	json_decref(findings);
}

TEST(test_states_differ)
{
	struct cell c = cell_of(3);

	c.answers[0].status.disputed = 9;
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: its replicas have different states, and too few answer to tell which is "
	       "right: at entry 9");
}

/* The master's death would then stop the cell. */
TEST(test_followers_that_do_not_reach_each_other)
{
	struct cell c = cell_of(3);

	c.answers[1].links[0] = (struct answer_link){.id = 3, .down_ms = 2900};
	c.answers[1].links_n = 1;
	expect(&c, NOTHING, NULL);
	c.answers[1].links[0].down_ms = 3000;
	expect(&c, SEVERITY_DEGRADED,
	       "replicas 2 and 3: do not reach each other, and the next failure may stop the cell: "
	       "a:1 from a:1, for 3 s");
	lose(&c, 3); /* it is not reached by anybody */
	expect(&c, SEVERITY_DEGRADED,
	       "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed");
}

/* ---- limits ---- */

TEST(test_a_limit_is_near)
{
	struct cell c = cell_of(3);

	add_limit(&c.answers[0], "sessions", LIMIT_OF_CELL, 89, 100);
	expect(&c, NOTHING, NULL);
	c.answers[0].limits[0].used = 90;
	expect(&c, SEVERITY_DEGRADED, "the cell: a limit is near: sessions, 90 of 100 count");
	c = cell_of(3);
	add_limit(&c.answers[0], "replicas", LIMIT_OF_CELL, 7, 7);
	expect(&c, NOTHING, NULL);
	c = cell_of(3);
	add_limit(&c.answers[1], "disk", LIMIT_OF_REPLICA, 94, 100);
	expect(&c, NOTHING, NULL);
	c.answers[1].limits[0].used = 98;
	expect(&c, SEVERITY_DEGRADED, "replica 2: a limit is near: disk, 98 of 100 count");
	c = cell_of(3);
	add_limit(&c.answers[2], "clients", LIMIT_OF_REPLICA, 10, 10);
	expect(&c, SEVERITY_DEGRADED, "replica 3: a limit is near: clients, 10 of 10 count");
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
