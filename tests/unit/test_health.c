/* What is wrong with a cell, by what its replicas answered. */
#include <string.h>
#include "cell/view/findings.h"
#include "cell/view/health.h"
#include "tests/unit/unit.h"

static struct cell_file cell_file = {
    .name = "dc1",
    .replicas =
        {
            {.id = 1, .role = MEMBER_VOTER, .address = "a:1"},
            {.id = 2, .role = MEMBER_VOTER, .address = "b:1"},
            {.id = 3, .role = MEMBER_VOTER, .address = "c:1"},
        },
    .replicas_n = 3,
};

static struct answer
saying(uint8_t self, enum replica_role role, uint8_t master)
{
	return (struct answer){
	    .heard = true,
	    .datagrams = true,
	    .status = {.self = self, .role = role, .master = master},
	};
}

static void
expect_first_problem(const struct answer answers[LIMIT_REPLICAS], const char *text)
{
	json_t *all = health_json(&cell_file, answers);
	json_t *problem = json_array_get(json_object_get(all, "problems"), 0);

	if (text == NULL)
		assert_null(problem);
	else
		assert_string_equal(json_string_value(json_object_get(problem, "what")), text);
	json_decref(all);
}

TEST(test_serves)
{
	const struct answer answers[LIMIT_REPLICAS] = {
	    saying(1, REPLICA_MASTER, 1),
	    saying(2, REPLICA_FOLLOWER, 1),
	    saying(3, REPLICA_FOLLOWER, 1),
	};

	expect_first_problem(answers, NULL);
}

TEST(test_only_we_cannot_reach_it)
{
	const struct answer answers[LIMIT_REPLICAS] = {
	    {.heard = false, .why = "no answer"},
	    saying(2, REPLICA_FOLLOWER, 1),
	    saying(3, REPLICA_FOLLOWER, 1),
	};

	expect_first_problem(answers, "its master cannot be reached from here: it is replica 1 "
	                              "for 2 of 3 replicas");
}

/* It has no lease yet, or no more. */
TEST(test_followed_and_not_serving)
{
	const struct answer answers[LIMIT_REPLICAS] = {
	    saying(1, REPLICA_ELECTED, 1),
	    saying(2, REPLICA_FOLLOWER, 1),
	    saying(3, REPLICA_FOLLOWER, 1),
	};

	expect_first_problem(answers, "has no master: 3 of 3 replicas can be reached, but have not "
	                              "elected one");
}

TEST(test_no_majority)
{
	const struct answer answers[LIMIT_REPLICAS] = {
	    {.heard = false, .why = "no answer"},
	    {.heard = false, .why = "no answer"},
	    saying(3, REPLICA_FOLLOWER, 1),
	};

	expect_first_problem(answers,
	                     "has no master: 1 of 3 replicas can be reached, 2 are needed");
}

/* The texts of another replica may be any bytes. */
TEST(test_limits_of_any_name)
{
	struct answer answers[LIMIT_REPLICAS] = {
	    saying(1, REPLICA_MASTER, 1),
	    saying(2, REPLICA_FOLLOWER, 1),
	    saying(3, REPLICA_FOLLOWER, 1),
	};

	answers[0].limits[0] = (struct answer_limit){.name = "\xff",
	                                             .unit = "\xfe",
	                                             .owner = LIMIT_OF_PRINCIPAL,
	                                             .used = 99,
	                                             .most = 100,
	                                             .principal = "ann\xe9"};
	answers[0].limits_n = 1;
	expect_first_problem(answers, "a limit is near: \\xff, 99 of 100 \\xfe");
}

TEST(test_versions_of_any_name)
{
	struct answer answers[LIMIT_REPLICAS] = {
	    saying(1, REPLICA_MASTER, 1),
	    saying(2, REPLICA_FOLLOWER, 1),
	    saying(3, REPLICA_FOLLOWER, 1),
	};

	for (int i = 0; i < 3; i++)
		strcpy(answers[i].version, i == 1 ? "1.\xff" : "1.0");
	expect_first_problem(answers, "its replicas run programs of different versions: 1.0 of 1 "
	                              "and 3, 1.\\xff of 2");
}

TEST(test_found_twice)
{
	json_t *findings = json_array();

	finding_add_detail(findings, FINDING_lease, "/ls/dc1/f", "by process %d", 1);
	finding_add_detail(findings, FINDING_lease, "/ls/dc1/f", "by process %d", 2);
	finding_add_detail(findings, FINDING_lease, "/ls/dc1/f", "by process %d", 1);
	assert_int_equal(json_array_size(findings), 2);
	json_decref(findings);
}
