/* One replica: taking office, losing it, going on from what was stored. */
#include <string.h>
#include "cell/wire/codec.h"
#include "tests/unit/lab.h"
#include "tests/unit/unit.h"

static void
test_takes_office(void **state)
{
	struct lab *lab = lab_new();

	(void)state;
	assert_int_equal(px_role(replica_px(lab->replica)), PX_MASTER);
	assert_int_equal(tree_epoch(replica_tree(lab->replica)), 1);
	assert_true(lab_traced(lab, "master of epoch 1"));
	lab_restart(lab);
	assert_int_equal(tree_epoch(replica_tree(lab->replica)), 2);
	lab_free(lab);
}

/* A client that comes before the election is over is answered when it is. */
static void
test_early_client(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = {.lab = lab}, gone;
	const struct message *m;

	(void)state;
	lab_stop(lab);
	lab_boot(lab);
	a = lab_connect(lab, 1);
	gone = lab_connect(lab, 2);
	lab_send_open(&a, NULL);
	lab_send_open(&gone, NULL);
	lab_disconnect(&gone);
	assert_null(lab_take(&a, MSG_session_opened));
	assert_false(replica_serving(lab->replica, lab->now));
	lab_pass_ms(lab, 1000);
	m = lab_take(&a, MSG_session_opened);
	assert_int_equal(m->session_opened.rc, RC_OK);
	assert_int_equal(m->session_opened.epoch, 2);
	assert_null(lab_take(&gone, MSG_session_opened));
	lab_free(lab);
}

/* What is not an open_session is sent away until then. */
static void
test_early_request(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a;

	(void)state;
	lab_stop(lab);
	lab_boot(lab);
	a = lab_connect(lab, 1);
	lab_send_keepalive(&a);
	assert_non_null(lab_take(&a, MSG_redirect));
	lab_free(lab);
}

static struct msg_status_reply
ask_status(struct lab_client *c)
{
	const struct message *m;

	lab_send(c, &(struct message){.code = MSG_status_request});
	m = lab_take(c, MSG_status_reply);
	assert_non_null(m);
	return m->status_reply;
}

/* Asked on a connection without a session; before the election is over, too. */
static void
test_status(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), asking = lab_connect(lab, 2);
	const struct tree *tree = replica_tree(lab->replica);
	uint64_t node = lab_file(&a, "f");
	struct msg_status_reply s;

	(void)state;
	assert_int_equal(lab_lock(&a, node, 1, LOCK_EXCLUSIVE, false), RC_OK);
	lab_pass_ms(lab, 1000);
	s = ask_status(&asking);
	assert_int_equal(s.self, 1);
	assert_int_equal(s.role, REPLICA_MASTER);
	assert_int_equal(s.master, 1);
	assert_int_equal(s.epoch, 1);
	assert_in_range(s.master_since_ns, 1, lab->wall_ns - 1000000000);
	assert_int_equal(s.applied, tree_applied(tree));
	assert_int_equal(s.chosen, s.applied);
	assert_int_equal(s.last, s.applied);
	assert_int_equal(s.sessions, 1);
	assert_int_equal(s.locks_held, 1);
	lab_stop(lab);
	lab_boot(lab);
	asking = lab_connect(lab, 2);
	s = ask_status(&asking);
	assert_int_not_equal(s.role, REPLICA_MASTER);
	assert_int_equal(s.master_since_ns, 0);
	assert_int_equal(s.chosen, s.applied);
	assert_int_equal(s.sessions, 1);
	lab_free(lab);
}

/* Nothing has to be done there for a long time. */
static void
test_status_of_an_idle_cell(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client asking = lab_connect(lab, 1);

	(void)state;
	assert_int_equal(ask_status(&asking).condition, CONDITION_VOTING);
	lab_pass_ms(lab, 60000);
	assert_int_equal(ask_status(&asking).condition, CONDITION_VOTING);
	lab_free(lab);
}

static void
test_steps_down(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	struct op op = lab_create("f");
	uint64_t number;

	(void)state;
	lab->slow_disk = true;
	number = lab_send_op(&a, &op);
	lab_step(lab, (struct replica_event){.kind = REPLICA_STOP});
	lab_persist(lab);
	lab_pass_ms(lab, 50);
	lab_persist(lab);
	assert_true(lab_traced(lab, "no longer master"));
	assert_non_null(lab_take(&a, MSG_redirect));
	assert_null(lab_reply(&a, number));
	lab_send_keepalive(&a); /* its session is not on this connection any more */
	assert_null(lab_take(&a, MSG_keepalive_reply));
	lab_free(lab);
}

/* After it stepped down and was elected again, the same replica goes on in a new epoch. */
static void
test_elected_again(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	struct op set = lab_set(node, "x");

	(void)state;
	lab_step_down(lab);
	lab_pass_ms(lab, 5000);
	assert_true(replica_serving(lab->replica, lab->now));
	assert_int_equal(tree_epoch(replica_tree(lab->replica)), 2);
	lab_reattach(&a);
	assert_int_equal(a.epoch, 2);
	assert_int_equal(lab_call(&a, &set, NULL), RC_OK);
	lab_free(lab);
}

/* The rows of each step bring state.db to the applied index; a replica that starts from them is the
 * same as the one that went on. */
static void
test_restart_from_rows(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t node = lab_file(&a, "f");
	struct op set = lab_set(node, "kept"), get = lab_get(node);
	struct op lock = lab_acquire(node, 1, 1, LOCK_EXCLUSIVE, false);
	struct result result;
	uint64_t digest;

	(void)state;
	assert_int_equal(lab_call(&a, &set, NULL), RC_OK);
	assert_int_equal(lab->update.applied, tree_applied(replica_tree(lab->replica)));
	assert_int_equal(lab_call(&a, &lock, NULL), RC_OK);
	digest = tree_digest(replica_tree(lab->replica));
	lab_stop(lab);
	lab_boot(lab);
	assert_true(tree_digest(replica_tree(lab->replica)) == digest);
	lab_pass_ms(lab, 1000);
	lab_reattach(&a);
	assert_int_equal(lab_call(&a, &get, &result), RC_OK);
	assert_true(bytes_equal(result.contents.contents, bytes_of("kept")));
	lock = lab_acquire(node, 2, 2, LOCK_EXCLUSIVE, false);
	assert_int_equal(lab_call(&a, &lock, NULL), RC_BUSY_LOCK);
	lab_free(lab);
}

/* A session whose client is back within a lease of the restart lives on; one that is not is ended.
 */
static void
test_sessions_over_restart(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1), b = lab_open(lab, 2);
	struct tree_session t;

	(void)state;
	lab_freeze_ms(lab, 3600 * 1000);
	lab_restart(lab);
	lab_pass_ms(lab, LAB_LEASE_MS - 2000);
	lab_reattach(&a);
	lab_pass_ms(lab, 3000);
	assert_true(tree_session(replica_tree(lab->replica), a.session, &t));
	assert_false(tree_session(replica_tree(lab->replica), b.session, &t));
	lab_free(lab);
}

static void
test_peers_garbage(void **state)
{
	struct lab *lab = lab_new();

	(void)state;
	lab_step(lab, (struct replica_event){
	                  .kind = REPLICA_PEER, .peer = 2, .frame = bytes_of("nonsense")});
	assert_true(lab_traced(lab, "a malformed message from replica 2"));
	assert_true(replica_serving(lab->replica, lab->now));
	lab_free(lab);
}

/* What is durable in state.db need not be kept in the log. */
static void
test_saved_trims(void **state)
{
	struct lab *lab = lab_new();
	struct lab_client a = lab_open(lab, 1);
	uint64_t applied;

	(void)state;
	lab_file(&a, "f");
	applied = tree_applied(replica_tree(lab->replica));
	lab_step(lab, (struct replica_event){.kind = REPLICA_SAVED, .index = applied});
	lab_pass_ms(lab, 1000);
	assert_true(px_first(replica_px(lab->replica)) >= applied);
	lab_file(&a, "g");
	lab_free(lab);
}

static const struct member four[] = {
	{.id = 1, .role = MEMBER_VOTER}, {.id = 2, .role = MEMBER_VOTER},
	{.id = 3, .role = MEMBER_VOTER}, {.id = 4, .role = MEMBER_VOTER},
};

/* One whose state is lost hears a list of the first `n` of these: how many it goes by then. */
static uint32_t
members_after_hearing(uint64_t own_version, uint64_t version, int n)
{
	const struct replica_config config = {
		.members = four, .members_n = 3, .members_version = own_version,
		.paxos = {.self = 1, .lease = span_ms(500), .heartbeat = span_ms(100), .seed = 1},
		.master = {.cell = "lab", .drift_permille = 0},
	};
	const struct px_recovered recovered = {.incarnation = 2, .promised = {1, 2}};
	struct buffer packed = BUFFER(1000), frame = BUFFER(2000);
	struct message told = {.code = MSG_members, .members.version = version};
	struct replica_update update = {0};
	struct replica *r;
	uint32_t count;

	for (int i = 0; i < n; i++)
		wire_put_member(&packed, &four[i]);
	told.members.members = (struct wire_list){buffer_view(&packed), (uint32_t)n};
	wire_put_frame(&frame, &told);
	r = replica_new(&config, tree_new("lab"), &recovered, (mono_t){1});
	replica_step(r, &(struct replica_event){.kind = REPLICA_PEER, .now = {1}, .peer = 2,
	                                        .frame = buffer_view(&frame)}, &update);
	count = replica_members(r).members.count;
	replica_free(r);
	replica_update_free(&update);
	buffer_free(&packed);
	buffer_free(&frame);
	return count;
}

/* What the cell file says is not given up for an older list, of one who was away. */
static void
test_a_cell_file_has_its_version(void **state)
{
	(void)state;
	assert_int_equal(members_after_hearing(9, 8, 2), 3);
	assert_int_equal(members_after_hearing(9, 10, 4), 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_takes_office),
	    cmocka_unit_test(test_early_client),
	    cmocka_unit_test(test_early_request),
	    cmocka_unit_test(test_status),
	    cmocka_unit_test(test_status_of_an_idle_cell),
	    cmocka_unit_test(test_steps_down),
	    cmocka_unit_test(test_elected_again),
	    cmocka_unit_test(test_restart_from_rows),
	    cmocka_unit_test(test_sessions_over_restart),
	    cmocka_unit_test(test_peers_garbage),
	    cmocka_unit_test(test_saved_trims),
	    cmocka_unit_test(test_a_cell_file_has_its_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
