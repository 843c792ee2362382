/* What lsctl doctor finds in the answers of replicas, and in the modes of key files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/view/health.h"
#include "ctl/cell_status.h"
#include "tests/unit/unit.h"

static const struct cell_file members = {
    .name = "dc1",
    .replicas = {{.id = 1, .role = MEMBER_VOTER, .address = "a:1"},
                 {.id = 2, .role = MEMBER_VOTER, .address = "b:1"},
                 {.id = 5, .role = MEMBER_VOTER, .address = "c:1"}},
    .replicas_n = 3,
};

struct cell {
	struct answer answers[LIMIT_REPLICAS];
};

static struct cell
sound(void)
{
	struct cell c = {0};

	for (int i = 0; i < 3; i++)
		c.answers[i] = (struct answer){
		    .heard = true,
		    .datagrams = true,
		    .status = {.self = members.replicas[i].id, .master = 1},
		};
	c.answers[0].status.role = REPLICA_MASTER;
	return c;
}

/* All findings, as "object: what|"; the caller frees the text. */
static char *
found(const json_t *findings)
{
	char *all = strdup("");
	const json_t *one;
	size_t i;

	json_array_foreach(findings, i, one) {
		char *longer;

		assert_true(json_string_length(json_object_get(one, "do")) > 0);
		assert_true(asprintf(&longer, "%s%s: %s|", all,
		                     json_string_value(json_object_get(one, "object")),
		                     json_string_value(json_object_get(one, "what"))) >= 0);
		free(all);
		all = longer;
	}
	return all;
}

static void
expect(const struct cell *c, const char *text)
{
	json_t *health = health_json(&members, c->answers);
	char *all = found(json_object_get(health, "problems"));

	assert_string_equal(all, text);
	free(all);
	json_decref(health);
}

TEST(test_all_is_well)
{
	const struct cell c = sound();

	expect(&c, "");
}

TEST(test_clocks)
{
	struct cell c = sound();

	c.answers[1].ahead_ms = -1900;
	c.answers[2].ahead_ms = 2000;
	expect(&c, "");
	c.answers[1].ahead_ms = -61500;
	c.answers[2].ahead_ms = 3000;
	expect(&c,
	       "replica 2 (b:1): its time of day differs from that of this machine: 61.5 s behind|"
	       "replica 5 (c:1): its time of day differs from that of this machine: 3.0 s ahead|");
}

TEST(test_unreachable)
{
	struct cell c = sound();

	c.answers[2] = (struct answer){.why = "connection refused"};
	expect(&c, "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed|"
	           "replica 5 (c:1): cannot be reached: connection refused|");
	c.answers[0] = (struct answer){.why = "no answer in time"};
	expect(&c, "dc1: has no master: 1 of 3 replicas can be reached, 2 are needed|"
	           "replica 1 (a:1): cannot be reached: no answer in time|"
	           "replica 5 (c:1): cannot be reached: connection refused|");
}

TEST(test_conditions)
{
	struct cell c = sound();

	c.answers[1].status.condition = CONDITION_LOST;
	c.answers[2].status.full = 1;
	c.answers[0].status.disputed = 7;
	expect(&c,
	       "dc1: no majority of its replicas works: 1 of 3 replicas work, and 2 are needed|"
	       "dc1: its replicas have different states, and too few answer to tell which is "
	       "right: at entry 7|replica 2 (b:1): has an older state than it has acknowledged, "
	       "and has lost its vote|replica 5 (c:1): has no room on its disk|");
}

/* A replica that is joining or a learner is in order. */
TEST(test_each_condition)
{
	struct cell c = sound();

	c.answers[1].status.condition = CONDITION_REPAIRING;
	expect(&c, "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed|"
	           "replica 2 (b:1): lacks part of its log or of its state, which comes from the "
	           "others|");
	c.answers[1].status.condition = CONDITION_OUTDATED;
	expect(&c, "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed|"
	           "replica 2 (b:1): speaks an earlier minor version than the log is written in|");
	c.answers[1].status.condition = CONDITION_LEARNER;
	expect(&c, "dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are "
	           "needed|");
}

TEST(test_a_limit)
{
	struct cell c = sound();

	c.answers[0].limits_n = 1;
	c.answers[0].limits[0] =
	    (struct answer_limit){"sessions", "count", LIMIT_OF_CELL, 95, 100, ""};
	expect(&c, "the cell: a limit is near: sessions, 95 of 100 count|");
}

TEST(test_a_disk_that_is_nearly_full)
{
	struct cell c = sound();

	c.answers[1].limits_n = 1;
	c.answers[1].limits[0] =
	    (struct answer_limit){"disk", "bytes", LIMIT_OF_REPLICA, 98, 100, ""};
	expect(&c, "replica 2: a limit is near: disk, 98 of 100 bytes|");
}

/* Each end tells how long it has lacked the other: the one that has for longer is right. */
TEST(test_a_link)
{
	struct cell c = sound();

	c.answers[1].links_n = c.answers[2].links_n = 1;
	c.answers[1].links[0] = (struct answer_link){5, 12000};
	c.answers[2].links[0] = (struct answer_link){2, -1};
	expect(&c, "replicas 2 and 5: do not reach each other, and the next failure may stop the "
	           "cell: c:1 from b:1, for 12 s|");
}

TEST(test_datagrams)
{
	struct cell c = sound();

	c.answers[2].datagrams = false;
	expect(&c, "replica 5 (c:1): answers over TCP, but not over UDP|");
}

TEST(test_versions)
{
	struct cell c = sound();

	for (int i = 0; i < 3; i++)
		snprintf(c.answers[i].version, sizeof c.answers[i].version, "1.0");
	expect(&c, "");
	snprintf(c.answers[1].version, sizeof c.answers[1].version, "1.1");
	expect(&c, "dc1: its replicas run programs of different versions: 1.0 of 1 and 5, 1.1 of "
	           "2|");
}

/* ---- keys ---- */

static void
expect_key(const char *path, mode_t mode, const char *what)
{
	json_t *findings = json_array();
	char *all, *text;

	assert_int_equal(chmod(path, mode), 0);
	doctor_key(findings, path);
	all = found(findings);
	assert_true(asprintf(&text, "%s: %s|", path, what ? what : "") > 0);
	assert_string_equal(all, what ? text : "");
	free(all);
	free(text);
	json_decref(findings);
}

TEST(test_keys)
{
	char path[] = "/tmp/lsfs-doctor.XXXXXX";
	int fd = mkstemp(path);
	json_t *findings = json_array();

	assert_true(fd >= 0);
	close(fd);
	expect_key(path, 0600, NULL);
	expect_key(path, 0400, NULL);
	expect_key(path, 0640, "others may read or write this key: mode 0640");
	expect_key(path, 0602, "others may read or write this key: mode 0602");
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 4711, 0), 0);
		expect_key(path, 0600, "this key belongs to another user: its id is 4711");
	}
	unlink(path);
	doctor_key(findings, path);
	assert_int_equal(json_array_size(findings), 0);
	json_decref(findings);
}
