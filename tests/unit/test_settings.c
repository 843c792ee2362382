/* The settings of a cell: how they are written, what is refused, and that a promise which was
 * lowered is waited for by every master until it is over. */
#include <string.h>
#include "cell/base/setting.h"
#include "tests/unit/replica_cell.h"
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

/* ---- as text ---- */

static void
expect_text(enum setting code, const char *text, uint64_t value, const char *printed)
{
	char back[SETTING_TEXT];
	uint64_t got = 0;

	if (!setting_parse((uint8_t)code, text, &got))
		fail_msg("%s: no value", text);
	assert_int_equal(got, value);
	setting_print((uint8_t)code, value, back);
	assert_string_equal(back, printed);
}

static void
test_text(void **state)
{
	uint64_t value;

	(void)state;
	expect_text(SETTING_session_lease, "12s", 12000, "12s");
	expect_text(SETTING_session_lease, "60s", 60000, "1m");
	expect_text(SETTING_session_lease, "1500ms", 1500, "1500ms");
	expect_text(SETTING_quota_bytes, "1G", 1 << 30, "1G");
	expect_text(SETTING_quota_bytes, "1025", 1025, "1025");
	expect_text(SETTING_quota_nodes, "100000", 100000, "100000");
	assert_false(setting_parse(SETTING_session_lease, "12", &value));
	assert_false(setting_parse(SETTING_session_lease, "s", &value));
	assert_false(setting_parse(SETTING_session_lease, "-1s", &value));
	assert_false(setting_parse(SETTING_session_lease, "1 s", &value));
	assert_false(setting_parse(SETTING_session_lease, "1G", &value));
	assert_false(setting_parse(SETTING_quota_nodes, "1K", &value));
	assert_false(setting_parse(SETTING_quota_bytes, "999999999999999999G", &value));
	assert_false(setting_parse(SETTING_quota_bytes, "9999999999999999999", &value));
	assert_int_equal(setting_named("heartbeat", 9), SETTING_heartbeat);
	assert_int_equal(setting_named("heartbea", 8), 0);
	assert_null(setting_info(0));
	assert_null(setting_info(SETTING_CODES));
}

/* ---- the lease of sessions ---- */

static uint32_t
lease_told(struct lab_client *c)
{
	const struct message *m;

	lab_send_keepalive(c);
	m = lab_take(c, MSG_keepalive_reply);
	assert_non_null(m);
	assert_int_equal(m->keepalive_reply.rc, RC_OK);
	return m->keepalive_reply.lease_ms;
}

static bool
lives(const struct lab *lab, const struct lab_client *c)
{
	struct tree_session t;

	return tree_session(replica_tree(lab->replica), c->session, &t);
}

static uint64_t
longest(const struct lab *lab)
{
	return tree_setting_longest(replica_tree(lab->replica), SETTING_session_lease);
}

/* It is in the log, and so known to every later master, before anybody is promised more. */
static void
test_raised(void **state)
{
	const struct message ask = {
	    .code = MSG_operate,
	    .operate = {.what = OPERATION_SET,
	                .setting = bytes_of("session_lease"),
	                .value = 30000}};
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), operator = lab_connect(lab, 0);

	(void)state;
	lab->slow_disk = true;
	lab_send(&operator, &ask);
	assert_int_equal(lease_told(&a), LAB_LEASE_MS);
	assert_null(lab_take(&operator, MSG_operated));
	lab_persist(lab);
	assert_non_null(lab_take(&operator, MSG_operated));
	lab->slow_disk = false;
	assert_int_equal(longest(lab), 30000);
	lab_reattach(&a);
	assert_int_equal(lease_told(&a), 30000);
	lab_pass_ms(lab, 29000);
	assert_true(lives(lab, &a));
	lab_pass_ms(lab, 1500);
	assert_false(lives(lab, &a));
	lab_free(lab);
}

/* A session may count on what was promised before it was lowered: no master ends it sooner. */
static void
test_lowered(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);

	(void)state;
	lab_setting(lab, "session_lease", 40000);
	lab_reattach(&a);
	assert_int_equal(lease_told(&a), 40000);
	lab_setting(lab, "session_lease", 6000);
	assert_int_equal(longest(lab), 40000);
	lab_pass_ms(lab, 10000);
	lab_restart(lab); /* the one that promised is gone */
	lab_pass_ms(lab, 39000);
	assert_true(lives(lab, &a));
	lab_pass_ms(lab, 1500);
	assert_false(lives(lab, &a));
	assert_int_equal(longest(lab), 6000);
	lab_free(lab);
}

/* One old lease later nobody counts on it, and a new master waits no longer. */
static void
test_lowered_is_over(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a;

	(void)state;
	lab_setting(lab, "session_lease", 40000);
	lab_setting(lab, "session_lease", 6000);
	lab_pass_ms(lab, 20000);
	lab_setting(lab, "session_lease", 7000); /* lowered later than that: it begins anew */
	lab_pass_ms(lab, 40000);
	assert_int_equal(longest(lab), 40000);
	lab_pass_ms(lab, 500);
	assert_int_equal(longest(lab), 7000);
	a = lab_open(lab, 1);
	lab_restart(lab);
	lab_pass_ms(lab, 6900);
	assert_true(lives(lab, &a));
	lab_pass_ms(lab, 300);
	assert_false(lives(lab, &a));
	lab_free(lab);
}

/* Raised again before that, nothing is left to be waited for. */
static void
test_raised_again(void **state)
{
	struct lab *lab = lab_new();
	struct tree_note lowered;

	(void)state;
	lab_setting(lab, "session_lease", 40000);
	lab_setting(lab, "session_lease", 6000);
	lab_setting(lab, "session_lease", 50000);
	assert_int_equal(longest(lab), 50000);
	assert_false(tree_setting_lowered_after(replica_tree(lab->replica), 0, &lowered));
	lab_pass_ms(lab, 100000);
	assert_int_equal(longest(lab), 50000);
	lab_free(lab);
}

static void
test_refused(void **state)
{
	struct lab *lab = lab_new();
	uint64_t before = tree_applied(replica_tree(lab->replica));

	(void)state;
	assert_int_equal(lab_set_setting(lab, "colour", 1), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "session_lease", 0), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "session_lease", 999), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "session_lease", 60001), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "session_lease", 4999), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "cache_lease", 12001), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "heartbeat", 167), RC_RANGE);
	assert_int_equal(lab_set_setting(lab, "session_lease", LAB_LEASE_MS), RC_OK);
	assert_int_equal(tree_applied(replica_tree(lab->replica)), before);
	lab_free(lab);
}

/* ---- what replicas go by ---- */

static struct msg_operated
set(struct cell *cell, const char *name, uint64_t value)
{
	const struct msg_operate ask = {
	    .what = OPERATION_SET, .setting = bytes_of(name), .value = value};

	return cell_operate(cell, &ask);
}

/* Every replica knows the master's lease, and none stands before it is over. */
static void
test_master_lease(void **state)
{
	struct cell *cell = cell_new(3);

	(void)state;
	assert_int_equal(set(cell, "master_lease", 4000).rc, RC_OK);
	cell_pass_ms(cell, 1000);
	cell_kill(cell_master(cell));
	cell_pass_ms(cell, 3700);
	assert_null(cell_master(cell));
	cell_pass_ms(cell, 1500);
	assert_non_null(cell_master(cell));
	cell_free(cell);
}

static void
test_only_administrators(void **state)
{
	struct cell *cell = cell_new(3);
	const struct message ask = {
	    .code = MSG_operate,
	    .operate = {.what = OPERATION_SET,
	                .setting = bytes_of("session_lease"),
	                .value = 20000}};
	const struct message request = {.code = MSG_settings_request};
	const struct message *m = cell_question(cell_master(cell), "mallory", &ask, MSG_operated);
	struct setting_row row;
	struct cursor rows;

	(void)state;
	assert_int_equal(m->operated.rc, RC_PERM);
	m = cell_question(&cell->replicas[0], "mallory", &request, MSG_settings);
	assert_int_equal(m->settings.settings.count, SETTING_CODES - 1);
	rows = cursor_of(m->settings.settings.packed);
	assert_true(wire_next_setting_row(&rows, &row));
	assert_true(bytes_equal(row.name, bytes_of("session_lease")));
	assert_int_equal(row.value, 12000);
	cell_free(cell);
}

/* ---- the minor version of the log ---- */

static void
start_as(struct cell *cell, int id, uint32_t minor)
{
	struct cell_replica *r = &cell->replicas[id - 1];

	if (r->replica != NULL)
		cell_kill(r);
	r->minor = minor;
	cell_start(r);
	cell_pass_ms(cell, 3000);
}

static uint64_t
log_minor(struct cell *cell)
{
	return tree_setting(replica_tree(cell_await_master(cell)->replica), SETTING_minor_version);
}

static enum replica_condition
condition(const struct cell *cell, int id)
{
	return replica_condition(cell->replicas[id - 1].replica);
}

static struct cell *
new_cell_of(uint32_t minor)
{
	struct cell *cell = cell_new(3);

	for (int id = 1; id <= 3; id++)
		start_as(cell, id, minor);
	assert_int_equal(log_minor(cell), minor);
	return cell;
}

static void
add_replica(struct cell *cell, uint8_t id)
{
	const struct member m = cell_member(id, MEMBER_LEARNER);
	const struct msg_operate ask = {
	    .what = OPERATION_ADD_REPLICA, .address = m.address, .key = m.key};

	assert_int_equal(cell_operate(cell, &ask).rc, RC_OK);
}

static bool
votes(struct cell *cell, uint8_t id)
{
	const struct px_members *members = px_members(replica_px(cell_await_master(cell)->replica));

	for (int i = 0; i < members->n; i++)
		if (members->list[i].id == id)
			return members->list[i].voter;
	return false;
}

/* A rolling upgrade: one replica after the other, and the cell goes on. */
static void
test_minor_is_raised_when_all_have_told(void **state)
{
	struct cell *cell = cell_new(3);

	(void)state;
	for (int id = 1; id <= 3; id++) {
		assert_int_equal(log_minor(cell), 0);
		start_as(cell, id, 2);
	}
	assert_int_equal(log_minor(cell), 2);
	cell_free(cell);
}

/* One that is away may come back with what it had. */
static void
test_minor_waits_for_one_that_is_away(void **state)
{
	struct cell *cell = cell_new(3);

	(void)state;
	cell_kill(&cell->replicas[2]);
	start_as(cell, 1, 1);
	start_as(cell, 2, 1);
	cell_pass_ms(cell, 10000);
	assert_int_equal(log_minor(cell), 0);
	start_as(cell, 3, 0);
	assert_int_equal(log_minor(cell), 0);
	assert_int_equal(condition(cell, 3), CONDITION_VOTING);
	cell_free(cell);
}

static void
test_minor_waits_for_learners(void **state)
{
	struct cell *cell = cell_new(3);

	(void)state;
	add_replica(cell, 4);
	for (int id = 1; id <= 3; id++)
		start_as(cell, id, 1);
	assert_int_equal(log_minor(cell), 0);
	cell->replicas[3].minor = 1;
	cell_join(cell);
	cell_pass_ms(cell, 3000);
	assert_int_equal(log_minor(cell), 1);
	cell_free(cell);
}

/* It reads nothing that it might misread, after any number of starts. */
static void
test_an_older_one_stops(void **state)
{
	struct cell *cell = new_cell_of(1);
	uint64_t applied;

	(void)state;
	start_as(cell, 3, 0);
	assert_int_equal(condition(cell, 3), CONDITION_OUTDATED);
	applied = tree_applied(replica_tree(cell->replicas[2].replica));
	start_as(cell, 3, 0);
	assert_int_equal(condition(cell, 3), CONDITION_OUTDATED);
	assert_int_equal(tree_applied(replica_tree(cell->replicas[2].replica)), applied);
	start_as(cell, 3, 1);
	assert_int_equal(condition(cell, 3), CONDITION_VOTING);
	cell_free(cell);
}

static void
test_an_older_one_gets_no_vote(void **state)
{
	struct cell *cell = new_cell_of(1);

	(void)state;
	cell->saves = true;
	add_replica(cell, 4);
	cell_join(cell);
	cell_pass_ms(cell, 5000);
	assert_int_equal(condition(cell, 4), CONDITION_OUTDATED);
	assert_false(votes(cell, 4));
	start_as(cell, 4, 1);
	assert_true(votes(cell, 4));
	cell_free(cell);
}

static void
test_nobody_else_sets_the_minor(void **state)
{
	struct cell *cell = cell_new(3);

	(void)state;
	assert_int_equal(set(cell, "minor_version", 1).rc, RC_RANGE);
	assert_int_equal(log_minor(cell), 0);
	cell_free(cell);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_text),         cmocka_unit_test(test_raised),
	    cmocka_unit_test(test_lowered),      cmocka_unit_test(test_lowered_is_over),
	    cmocka_unit_test(test_raised_again), cmocka_unit_test(test_refused),
	    cmocka_unit_test(test_master_lease), cmocka_unit_test(test_only_administrators),
	    cmocka_unit_test(test_minor_is_raised_when_all_have_told),
	    cmocka_unit_test(test_minor_waits_for_one_that_is_away),
	    cmocka_unit_test(test_minor_waits_for_learners),
	    cmocka_unit_test(test_an_older_one_stops),
	    cmocka_unit_test(test_an_older_one_gets_no_vote),
	    cmocka_unit_test(test_nobody_else_sets_the_minor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
