/* What operators ask of a cell: replicas that come and go, another master, the end of a session;
 * and what the replicas and their clients are told. */
#include <stdio.h>
#include <string.h>
#include "tests/unit/replica_cell.h"
#include "tests/unit/unit.h"

static struct cell_replica *
other_than(struct cell *cell, const struct cell_replica *r)
{
	return &cell->replicas[r->id % cell->first_n];
}

static void
expect_operated(struct cell *cell, struct msg_operate ask, enum rc rc, uint64_t id,
                const char *why)
{
	struct msg_operated got = cell_operate(cell, &ask);

	assert_int_equal(got.rc, rc);
	assert_int_equal(got.id, id);
	if (!bytes_equal(got.why, bytes_of(why)))
		fail_msg("%.*s", (int)got.why.len, got.why.data);
}

static struct msg_operate
adding(uint8_t like)
{
	struct member m = cell_member(like, MEMBER_LEARNER);

	return (struct msg_operate){
		.what = OPERATION_ADD_REPLICA, .address = m.address, .key = m.key};
}

static struct msg_operate
removing(uint64_t id)
{
	return (struct msg_operate){.what = OPERATION_REMOVE_REPLICA, .id = id};
}

static struct msg_operate
transferring(uint64_t id)
{
	return (struct msg_operate){.what = OPERATION_TRANSFER, .id = id};
}

static struct msg_operate
destroying(uint64_t session, bool keep_delay)
{
	return (struct msg_operate){.what = OPERATION_DESTROY_SESSION,
	                            .id = session,
	                            .keep_delay = keep_delay};
}

static uint64_t
session_of(const struct cell_client *c)
{
	return client_status(c->client).session;
}

/* As the replica has applied it; 0: it has no such member. */
static enum member_role
role_at(const struct cell_replica *r, uint8_t id)
{
	struct member m;

	if (!tree_member_after(replica_tree(r->replica), (uint8_t)(id - 1), &m) || m.id != id)
		return 0;
	return m.role;
}

static void
await_role(struct cell *cell, uint8_t id, enum member_role role, int64_t ms)
{
	for (int64_t i = 0; i < ms && role_at(cell_await_master(cell), id) != role; i++)
		cell_pass_ms(cell, 1);
	assert_int_equal(role_at(cell_await_master(cell), id), role);
}

static void
append(struct cell_client *c, uint64_t node, int times)
{
	for (int i = 0; i < times; i++) {
		const struct cell_answer *a = cell_await(c, cell_append(c, node, "x"), 3000);

		assert_non_null(a);
		assert_int_equal(a->rc, RC_OK);
	}
}

/* ---- replicas come and go ---- */

/* Everybody else may be gone but a majority of those who are members now. */
static void
test_replace_the_master(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *first = cell_master(cell), *new;
	struct message ask = {.code = MSG_operate};
	uint64_t node = cell_file(c, "f");

	(void)state;
	append(c, node, 30);
	cell->saves = true;
	expect_operated(cell, adding(4), RC_OK, 4, "");
	expect_operated(cell, adding(4), RC_OK, 4, ""); /* asked twice */
	append(c, node, 10);
	assert_int_equal(role_at(first, 4), MEMBER_LEARNER);
	new = cell_join(cell);
	await_role(cell, 4, MEMBER_VOTER, 3000);
	assert_true(cell_traced(cell_master(cell), "replica 4 has caught up and gets a vote"));
	cell_pass_ms(cell, 500);
	assert_int_equal(replica_condition(new->replica), CONDITION_VOTING);
	assert_int_equal(role_at(new, 4), MEMBER_VOTER);

	first = cell_master(cell);
	ask.operate = removing(first->id);
	assert_null(cell_question(first, "admin", &ask, MSG_operated));
	assert_true(cell->operator.redirected); /* the next one knows that it is done */
	assert_ptr_not_equal(cell_await_master(cell), first);
	expect_operated(cell, removing(first->id), RC_OK, first->id, "");
	append(c, node, 10);
	for (int i = 0; i < 3000 && replica_condition(first->replica) != CONDITION_EXPELLED; i++)
		cell_pass_ms(cell, 1);
	assert_int_equal(replica_condition(first->replica), CONDITION_EXPELLED);
	cell_kill(first);
	cell_kill(other_than(cell, first));
	append(c, node, 10);
	assert_int_equal(strlen(cell_read(c, node)), 60);
	assert_int_equal(c->lost, 0);
	cell_pass_ms(cell, 200);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* A cell grows from one replica to three, and shrinks again. */
static void
test_grow_and_shrink(void **state)
{
	struct cell *cell = cell_new(1);
	struct cell_client *c = cell_client(cell, false);
	uint64_t node = cell_file(c, "f");

	(void)state;
	for (uint8_t id = 2; id <= 3; id++) {
		expect_operated(cell, adding(id), RC_OK, id, "");
		cell_join(cell);
		append(c, node, 5);
		cell->saves = true;
		append(c, node, 1);
		await_role(cell, id, MEMBER_VOTER, 5000);
	}
	expect_operated(cell, removing(1), RC_OK, 1, "");
	append(c, node, 5);
	expect_operated(cell, removing(cell_await_master(cell)->id), RC_OK,
	                cell_await_master(cell)->id, "");
	append(c, node, 5);
	expect_operated(cell, removing(cell_await_master(cell)->id), RC_INVAL,
	                cell_await_master(cell)->id,
	                cell_await_master(cell)->id == 2 ? "replica 2 is the last one with a vote"
	                                                 : "replica 3 is the last one with a vote");
	append(c, node, 5);
	cell_free(cell);
}

/* The dead one is replaced; before that no other may go. */
static void
test_replace_a_dead_one(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *dead = other_than(cell, cell_master(cell));
	uint8_t alive = other_than(cell, dead)->id;
	uint64_t node = cell_file(c, "f");
	char why[100];

	(void)state;
	cell_kill(dead);
	cell_pass_ms(cell, 12000);
	snprintf(why, sizeof why,
	         "replica %u has not answered for 12 s: 1 of 2 voters would remain", dead->id);
	expect_operated(cell, removing(alive), RC_INVAL, alive, why);
	expect_operated(cell, removing(77), RC_NOENT, 0, "there is no replica 77");
	expect_operated(cell, removing(dead->id), RC_OK, dead->id, "");
	expect_operated(cell, adding(4), RC_OK, 4, "");
	cell->saves = true;
	cell_join(cell);
	append(c, node, 5);
	await_role(cell, 4, MEMBER_VOTER, 3000);
	cell_kill(&cell->replicas[alive - 1]);
	append(c, node, 5);
	cell_free(cell);
}

/* Who has died a moment ago can't be counted on: the others are asked anew. */
static void
test_one_has_just_died(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *dead = other_than(cell, cell_master(cell));
	uint8_t alive = other_than(cell, dead)->id;
	uint64_t node = cell_file(c, "f");
	char why[100];

	(void)state;
	append(c, node, 3);
	cell_pass_ms(cell, 500);
	cell_kill(dead);
	snprintf(why, sizeof why, "replica %u has not answered for 2 s: 1 of 2 voters would remain",
	         dead->id);
	expect_operated(cell, removing(alive), RC_INVAL, alive, why);
	append(c, node, 3);
	expect_operated(cell, removing(dead->id), RC_OK, dead->id, "");
	append(c, node, 3);
	cell_free(cell);
}

/* When the operator is told, a majority of those who stay knows the change as chosen: he may
 * destroy who went, and one more can go with it. */
static void
test_told_when_it_holds(void **state)
{
	struct cell *cell = cell_new(4);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *master = cell_master(cell), *gone = other_than(cell, master);
	uint64_t node = cell_file(c, "f");
	const struct tree *t;

	(void)state;
	cell_pass_ms(cell, 500);
	expect_operated(cell, removing(gone->id), RC_OK, gone->id, "");
	t = replica_tree(master->replica);
	assert_true(tree_applied(t) > tree_members_version(t));
	gone->cut_off = master->cut_off = true; /* with all that they have sent */
	cell_kill(gone);
	cell_kill(master);
	append(c, node, 3);
	cell_free(cell);
}

/* The second one waits until the first is through. */
static void
test_one_change_at_a_time(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	const struct message add = {.code = MSG_operate, .operate = adding(4)};
	const struct message more = {.code = MSG_operate, .operate = adding(5)};
	const struct message *m;

	(void)state;
	cell_say(cell_master(cell), "admin", &add);
	m = cell_question(cell_master(cell), "admin", &more, MSG_operated);
	assert_non_null(m);
	assert_int_equal(m->operated.rc, RC_OK);
	assert_int_equal(m->operated.id, 5);
	assert_int_equal(role_at(cell_master(cell), 4), MEMBER_LEARNER);
	cell_pass_ms(cell, 100);
	assert_int_equal(client_members(c->client)->n, 5);
	cell_free(cell);
}

/* An operator whose master goes before it has answered asks the next one, and all is done once. */
static void
test_master_lost_meanwhile(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_replica *master = cell_master(cell);
	const struct message ask = {.code = MSG_operate, .operate = adding(4)};

	(void)state;
	master->cut_off = true;
	cell_say(master, "admin", &ask);
	cell_pass_ms(cell, 4000);
	assert_true(cell->operator.redirected);
	assert_int_equal(cell->operator.frame.len, 0);
	master->cut_off = false;
	expect_operated(cell, adding(4), RC_OK, 4, "");
	expect_operated(cell, adding(5), RC_OK, 5, "");
	cell_pass_ms(cell, 1000);
	cell_check_agreement(cell);
	cell_free(cell);
}

/* ---- who is told ---- */

static void
test_members_are_told(void **state)
{
	const struct message ask = {.code = MSG_members_request};
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	const struct client_members *told = client_members(c->client);
	struct cell_replica *follower = other_than(cell, cell_master(cell));
	const struct message *m;

	(void)state;
	assert_int_equal(told->n, 3);
	assert_int_equal(told->version, 0);
	assert_string_equal(told->list[2].address, "host3:1");
	assert_true(follower->members_changed); /* at its start */
	follower->members_changed = false;
	m = cell_question(follower, "nobody", &ask, MSG_members);
	assert_non_null(m);
	assert_int_equal(m->members.members.count, 3);
	expect_operated(cell, adding(4), RC_OK, 4, "");
	cell_pass_ms(cell, 200);
	assert_true(follower->members_changed);
	assert_true(cell_traced(follower, "members: 1 2 3 4 (learner)\n"));
	assert_int_equal(told->n, 4);
	assert_false(told->list[3].voter);
	assert_true(told->version > 0);
	expect_operated(cell, removing(4), RC_OK, 4, "");
	cell_pass_ms(cell, 200);
	assert_int_equal(told->n, 3);
	m = cell_question(follower, "nobody", &ask, MSG_members);
	assert_int_equal(m->members.members.count, 4); /* the removed one, too */
	assert_int_equal(m->members.version, told->version);
	cell_free(cell);
}

/* The list that a replica sent to another one in its last step; version 0: none. */
static struct msg_members
told_to(const struct cell_replica *r, uint8_t peer)
{
	struct message m;

	for (size_t i = 0; i < r->update.sends_n; i++) {
		const struct replica_send *s = &r->update.sends[i];

		if (s->to_peer && s->peer == peer && wire_get_frame(s->frame, &m) == RC_OK &&
		    m.code == MSG_members)
			return m.members;
	}
	return (struct msg_members){0};
}

static void
say_as_peer(struct cell_replica *to, uint8_t from, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	cell_replica_event(to, (struct replica_event){.kind = REPLICA_PEER,
	                                              .peer = from,
	                                              .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

/* Who speaks up after it was away is told who the members are, by whomever hears it. */
static void
test_who_was_away_is_told(void **state)
{
	const struct message hello = {.code = MSG_hello, .hello = {.ballot = {1, 0}, .start = 5}};
	const struct message prepare = {.code = MSG_prepare, .prepare = {.ballot = {1, 3}}};
	const struct message beat = {.code = MSG_heartbeat, .heartbeat = {.ballot = {1, 3}}};
	struct cell *cell = cell_new(3);
	struct cell_replica *follower = other_than(cell, cell_master(cell));

	(void)state;
	say_as_peer(follower, 3, &hello);
	assert_int_equal(told_to(follower, 3).version, 0); /* the list of the cell file stands */
	expect_operated(cell, adding(4), RC_OK, 4, "");
	cell_pass_ms(cell, 200);
	say_as_peer(follower, 3, &hello);
	assert_int_equal(told_to(follower, 3).members.count, 4);
	assert_true(told_to(follower, 3).version > 0);
	say_as_peer(follower, 3, &prepare);
	assert_int_equal(told_to(follower, 3).members.count, 4);
	say_as_peer(follower, 3, &beat);
	assert_int_equal(told_to(follower, 3).version, 0);
	cell_free(cell);
}

/* It goes by the newest list that it was told until it has applied that, and passes it on. */
static void
test_who_was_away_listens(void **state)
{
	struct message told = {.code = MSG_members};
	const struct message hello = {.code = MSG_hello, .hello = {.ballot = {1, 0}, .start = 5}};
	struct cell *cell = cell_new(3);
	struct cell_replica *r = other_than(cell, cell_master(cell));
	const uint8_t ids[] = {1, 2, 3, 9};
	struct buffer packed = BUFFER(1000);
	const uint64_t version = tree_applied(replica_tree(r->replica)) + 5;

	(void)state;
	assert_int_equal(replica_members(r->replica).members.count, 3);
	r->members_changed = false;
	told.members.version = version;
	for (int i = 0; i < 4; i++) {
		const struct member m = cell_member(ids[i], MEMBER_VOTER);

		wire_put_member(&packed, &m);
	}
	told.members.members = (struct wire_list){buffer_view(&packed), 4};
	say_as_peer(r, 2, &told);
	assert_true(r->members_changed);
	assert_int_equal(replica_members(r->replica).version, version);
	assert_int_equal(replica_members(r->replica).members.count, 4);
	assert_true(bytes_equal(replica_members(r->replica).members.packed, buffer_view(&packed)));
	say_as_peer(r, 5, &hello);
	assert_int_equal(told_to(r, 5).version, version);
	r->members_changed = false;
	say_as_peer(r, 2, &told); /* the same again; an older one; none */
	told.members.version = version - 1;
	say_as_peer(r, 2, &told);
	told.members = (struct msg_members){.version = version + 1};
	say_as_peer(r, 2, &told);
	assert_false(r->members_changed);
	assert_int_equal(replica_members(r->replica).version, version);
	expect_operated(cell, adding(4), RC_OK, 4, "");
	cell_pass_ms(cell, 200);
	assert_int_equal(replica_members(r->replica).version, version);
	for (uint8_t id = 5; id <= LIMIT_REPLICAS; id++)
		expect_operated(cell, adding(id), RC_OK, id, "");
	cell_pass_ms(cell, 200);
	assert_true(replica_members(r->replica).version > version && r->members_changed);
	assert_int_equal(replica_members(r->replica).members.count, LIMIT_REPLICAS);
	cell_free(cell);
	buffer_free(&packed);
}

/* One that was removed, or never was a member, has no say in who is one. */
static void
test_who_was_removed_is_not_believed(void **state)
{
	struct message told = {.code = MSG_members, .members.version = UINT64_MAX};
	struct cell *cell = cell_new(3);
	struct cell_replica *master = cell_master(cell), *gone = other_than(cell, master);
	struct member of = cell_member(gone->id, MEMBER_VOTER);
	struct buffer packed = BUFFER(1000);
	uint64_t version;

	(void)state;
	cell_pass_ms(cell, 500);
	expect_operated(cell, removing(gone->id), RC_OK, gone->id, "");
	version = replica_members(master->replica).version;
	wire_put_member(&packed, &of);
	told.members.members = (struct wire_list){buffer_view(&packed), 1};
	say_as_peer(master, gone->id, &told);
	say_as_peer(master, 77, &told);
	assert_int_equal(replica_members(master->replica).version, version);
	cell_free(cell);
	buffer_free(&packed);
}

/* Before there is a list, a replica that is asked says so; nobody who listens is bothered. */
static void
test_no_members_yet(void **state)
{
	const struct message ask = {.code = MSG_members_request};
	struct cell *cell = cell_new(3);
	const struct message *m;

	(void)state;
	expect_operated(cell, adding(4), RC_OK, 4, "");
	m = cell_question(cell_join(cell), "nobody", &ask, MSG_members);
	assert_non_null(m);
	assert_int_equal(m->members.members.count, 0);
	cell_free(cell);
}

/* Who hangs up, or is cut off for what he says, is not answered any more. */
static void
test_operator_leaves(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_replica *master = cell_master(cell);
	const struct message ask = {.code = MSG_operate, .operate = adding(4)};
	struct message nonsense = {.code = MSG_keepalive, .keepalive = {.session = 5}};
	struct buffer frame = BUFFER(100);

	(void)state;
	master->cut_off = true;
	cell_say(master, "admin", &ask);
	cell_pass_ms(cell, 20);
	wire_put_frame(&frame, &nonsense);
	cell_replica_event(master, (struct replica_event){.kind = REPLICA_FRAME,
	                                                  .conn = cell->operator.conn,
	                                                  .frame = buffer_view(&frame)});
	buffer_free(&frame);
	master->cut_off = false;
	cell_pass_ms(cell, 2000);
	assert_int_equal(role_at(cell_await_master(cell), 4), MEMBER_LEARNER);
	assert_true(cell->operator.gone);
	assert_int_equal(cell->operator.frame.len, 0);
	cell_free(cell);
}

/* A client that knows of one old replica only finds the others. */
static void
test_client_finds_new_members(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *old = cell_client(cell, false), *c;
	uint64_t node = cell_file(old, "f");

	(void)state;
	cell->saves = true;
	expect_operated(cell, adding(4), RC_OK, 4, "");
	cell_join(cell);
	append(old, node, 3);
	await_role(cell, 4, MEMBER_VOTER, 3000);
	expect_operated(cell, transferring(4), RC_OK, 4, "");
	assert_int_equal(cell_await_master(cell)->id, 4);
	cell_kill(&cell->replicas[0]);
	c = cell_client(cell, false); /* it is configured with the first three */
	append(c, node, 3);
	assert_int_equal(client_status(c->client).master, 4);
	cell_free(cell);
}

static struct msg_status_reply
status(struct cell_replica *r)
{
	const struct message ask = {.code = MSG_status_request};
	const struct message *m = cell_question(r, "nobody", &ask, MSG_status_reply);

	assert_non_null(m);
	return m->status_reply;
}

static void
test_status(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *master = cell_master(cell), *dead;
	struct msg_status_reply s;
	struct progress p;
	struct cursor from;

	(void)state;
	dead = other_than(cell, master);
	cell_file(c, "f");
	cell_pass_ms(cell, 500);
	s = status(dead);
	assert_int_equal(s.condition, CONDITION_VOTING);
	assert_int_equal(s.progress.count, 0);
	assert_int_equal(s.digest, tree_digest(replica_tree(dead->replica)));
	assert_int_equal(s.first, 1);
	cell_replica_event(dead, (struct replica_event){.kind = REPLICA_FULL, .on = true});
	assert_true(status(dead).full);
	cell_pass_ms(cell, 300);
	cell_kill(dead);
	cell_pass_ms(cell, 7000);
	s = status(master);
	assert_false(s.full);
	assert_int_equal(s.progress.count, 3);
	from = cursor_of(s.progress.packed);
	while (wire_next_progress(&from, &p)) {
		assert_int_equal(p.role, MEMBER_VOTER);
		assert_int_equal(p.full, p.id == dead->id);
		assert_int_equal(p.match, s.last);
		if (p.id == dead->id)
			assert_in_range(p.heard_ms, 7000, 7200);
		else
			assert_in_range(p.heard_ms, 0, 200);
		assert_true(bytes_equal(p.address, cell_member(p.id, MEMBER_VOTER).address));
	}
	cell_free(cell);
}

/* Who was removed while it was cut off is told by nobody, but says that it is alone. */
static void
test_alone(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_replica *old = cell_master(cell), *new;

	(void)state;
	old->cut_off = true;
	cell_pass_ms(cell, 3000);
	new = cell_await_master(cell);
	assert_int_equal(status(old).condition, CONDITION_VOTING);
	expect_operated(cell, removing(old->id), RC_OK, old->id, "");
	cell_pass_ms(cell, 8000);
	assert_int_equal(status(old).condition, CONDITION_ALONE);
	assert_int_equal(status(new).condition, CONDITION_VOTING);
	assert_int_equal(status(other_than(cell, old)).condition, CONDITION_VOTING);
	old->cut_off = false;
	cell_pass_ms(cell, 2000);
	assert_int_equal(status(old).condition, CONDITION_EXPELLED);
	cell_free(cell);
}

/* ---- who may ---- */

static void
test_strangers(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	struct cell_replica *master = cell_master(cell);
	const struct msg_operate all[] = {adding(4), removing(2), transferring(0),
	                                  destroying(session_of(c), false)};
	const struct message *m;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct message ask = {.code = MSG_operate, .operate = all[i]};

		m = cell_question(master, "mallory", &ask, MSG_operated);
		assert_non_null(m);
		assert_int_equal(m->operated.rc, RC_PERM);
		assert_true(bytes_equal(m->operated.why, bytes_of("not an administrator")));
	}
	cell_pass_ms(cell, 100);
	assert_ptr_equal(cell_master(cell), master);
	assert_int_equal(tree_members_version(replica_tree(master->replica)), 0);
	assert_int_equal(c->lost, 0);
	cell_free(cell);
}

static void
test_asked_of_the_wrong_one(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_replica *follower = other_than(cell, cell_master(cell));
	const struct message ask = {.code = MSG_operate, .operate = adding(4)};

	(void)state;
	cell_say(follower, "admin", &ask);
	cell_pass_ms(cell, 100);
	assert_true(cell->operator.redirected);
	assert_int_equal(cell->operator.frame.len, 0);
	assert_int_equal(role_at(cell_master(cell), 4), 0);
	cell_free(cell);
}

/* A master that is cut off does not know what its successor did: it sends operators away. */
static void
test_cut_off_answers_no_operator(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_replica *old = cell_master(cell);
	const struct message list = {.code = MSG_sessions_request};
	struct message end = {.code = MSG_operate};
	struct message remove = {.code = MSG_operate, .operate = removing(9)};
	struct cell_client *c;

	(void)state;
	old->cut_off = true;
	cell_pass_ms(cell, 2000);
	c = cell_client(cell, false);
	assert_ptr_not_equal(cell_master(cell), old);
	end.operate = destroying(session_of(c), false);
	assert_null(cell_question(old, "admin", &list, MSG_sessions));
	assert_true(cell->operator.redirected);
	assert_null(cell_question(old, "admin", &end, MSG_operated));
	assert_true(cell->operator.redirected);
	assert_null(cell_question(old, "admin", &remove, MSG_operated));
	assert_true(cell->operator.redirected);
	old->cut_off = false;
	cell_free(cell);
}

static void
test_nonsense(void **state)
{
	struct cell *cell = cell_new(1);

	(void)state;
	expect_operated(cell, (struct msg_operate){.what = 99}, RC_INVAL, 0, "no such operation");
	expect_operated(cell, transferring(0), RC_INVAL, 0,
	                "no other replica with a vote has answered lately");
	expect_operated(cell, transferring(1), RC_OK, 1, "");
	cell_free(cell);
}

/* ---- another master ---- */

static void
test_transfer(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *c = cell_client(cell, false);
	uint64_t node = cell_file(c, "f");

	(void)state;
	cell_pass_ms(cell, 200);
	for (uint8_t id = 1; id <= 3; id++) {
		mono_t asked = cell->now;

		expect_operated(cell, transferring(id), RC_OK, id, "");
		assert_int_equal(cell_await_master(cell)->id, id);
		assert_true(mono_since(cell->now, asked).ns < span_ms(200).ns);
		append(c, node, 1);
		cell_pass_ms(cell, 200);
	}
	cell_kill(&cell->replicas[0]);
	cell_pass_ms(cell, 5000);
	expect_operated(cell, transferring(1), RC_INVAL, 1, "replica 1 has not answered for 5 s");
	expect_operated(cell, transferring(0), RC_OK, 2, "");
	assert_int_equal(cell_await_master(cell)->id, 2);
	cell_free(cell);
}

/* ---- the end of a session ---- */

static void
test_destroy_session(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *a = cell_client(cell, false), *b = cell_client(cell, false);
	uint64_t node = cell_file(a, "f");

	(void)state;
	assert_int_equal(cell_await(a, cell_lock(a, node, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	expect_operated(cell, destroying(session_of(a), false), RC_OK, session_of(a), "");
	cell_pass_ms(cell, 10);
	assert_int_equal(a->lost, 1);
	assert_int_equal(cell_await(b, cell_lock(b, node, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	/* As if its client had died. */
	expect_operated(cell, destroying(session_of(b), true), RC_OK, session_of(b), "");
	cell_pass_ms(cell, 1000);
	assert_int_equal(b->lost, 1);
	assert_int_equal(cell_await(a, cell_lock(a, node, LOCK_EXCLUSIVE, false), 50)->rc,
	                 RC_BUSY_LOCK);
	cell_pass_ms(cell, DEFAULT_LOCK_DELAY_S * 1000);
	assert_int_equal(cell_await(a, cell_lock(a, node, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	expect_operated(cell, destroying(12345, false), RC_NO_SESSION, 12345, "");
	cell_free(cell);
}

/* A lock of the session goes to nobody while the session's client may believe to have it. */
static void
test_a_destroyed_session_is_told_first(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *a = cell_client(cell, false), *b = cell_client(cell, false);
	uint64_t node = cell_file(a, "f");
	const struct message ask = {.code = MSG_operate,
	                            .operate = destroying(session_of(a), false)};

	(void)state;
	assert_int_equal(cell_await(a, cell_lock(a, node, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	assert_int_equal(cell_await(b, cell_lock(b, node, LOCK_EXCLUSIVE, true), 50)->rc,
	                 RC_QUEUED);
	cell_say(cell_master(cell), "admin", &ask);
	for (int i = 0; i < 100 && a->lost == 0; i++)
		cell_pass_ms(cell, 1);
	assert_int_equal(a->lost, 1);
	assert_int_equal(b->grants_n, 0);
	cell_pass_ms(cell, 100);
	assert_int_equal(b->grants_n, 1);
	cell_free(cell);
}

/* A client that can't be told has as long as leave to cache may last; its waiting acquire is given
 * up at once, and when it is heard again it learns that the session is over. */
static void
test_a_destroyed_session_that_is_not_heard(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *a = cell_client(cell, false), *b = cell_client(cell, false),
			   *c = cell_client(cell, false);
	uint64_t held = cell_file(a, "held"), wanted = cell_file(a, "wanted");
	const struct message ask = {.code = MSG_operate,
	                            .operate = destroying(session_of(a), false)};

	(void)state;
	assert_int_equal(cell_await(a, cell_lock(a, held, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	assert_int_equal(cell_await(b, cell_lock(b, wanted, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	assert_int_equal(cell_await(a, cell_lock(a, wanted, LOCK_EXCLUSIVE, true), 50)->rc,
	                 RC_QUEUED);
	assert_int_equal(cell_await(c, cell_lock(c, wanted, LOCK_EXCLUSIVE, true), 50)->rc,
	                 RC_QUEUED);
	assert_int_equal(cell_await(b, cell_lock(b, held, LOCK_EXCLUSIVE, true), 50)->rc,
	                 RC_QUEUED);
	cell_client_freeze(a);
	cell_say(cell_master(cell), "admin", &ask);
	assert_int_equal(cell_await(b, cell_unlock(b, wanted, 1), 50)->rc, RC_OK);
	cell_pass_ms(cell, 50);
	assert_int_equal(c->grants_n, 1);
	cell_pass_ms(cell, CELL_CACHE_LEASE_MS - 100);
	assert_int_equal(b->grants_n, 0);
	assert_int_equal(cell->operator.frame.len, 0);
	cell_pass_ms(cell, 300);
	assert_int_equal(b->grants_n, 1);
	assert_int_equal(cell->operator.m.operated.rc, RC_OK);
	cell_client_thaw(a);
	cell_pass_ms(cell, 100);
	assert_int_equal(a->lost, 1);
	cell_free(cell);
}

/* Under a new master it waits until the others have dropped what they cached. */
static void
test_destroy_behind_the_barrier(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *a = cell_client(cell, true), *b = cell_client(cell, true);
	uint64_t session = session_of(a);
	const struct message ask = {.code = MSG_operate, .operate = destroying(session, false)};

	(void)state;
	cell_client_freeze(b);
	cell_kill(cell_master(cell));
	cell_say(cell_await_master(cell), "admin", &ask);
	cell_pass_ms(cell, CELL_CACHE_LEASE_MS - 2000);
	assert_int_equal(cell->operator.frame.len, 0);
	cell_pass_ms(cell, 3000);
	assert_true(cell->operator.frame.len > 0);
	assert_int_equal(cell->operator.m.operated.rc, RC_OK);
	cell_pass_ms(cell, 100);
	assert_int_equal(a->lost, 1);
	cell_free(cell);
}

static size_t
sessions_seen_by(struct cell *cell, const char *principal, struct session_row rows[2])
{
	const struct message ask = {.code = MSG_sessions_request};
	const struct message *m = cell_question(cell_master(cell), principal, &ask, MSG_sessions);
	struct cursor from;
	size_t n = 0;

	assert_non_null(m);
	assert_int_equal(m->sessions.more, 0);
	assert_in_range(m->sessions.sessions.count, 0, 2);
	from = cursor_of(m->sessions.sessions.packed);
	while (n < 2 && wire_next_session_row(&from, &rows[n]))
		n++;
	return n;
}

static void
test_list_sessions(void **state)
{
	struct cell *cell = cell_new(3);
	struct cell_client *a = cell_client(cell, false), *b = cell_client(cell, false);
	uint64_t node = cell_file(a, "f");
	struct session_row rows[2];

	(void)state;
	assert_int_equal(cell_await(b, cell_lock(b, node, LOCK_EXCLUSIVE, false), 50)->rc, RC_OK);
	cell_pass_ms(cell, 20000);
	assert_int_equal(sessions_seen_by(cell, "admin", rows), 2);
	assert_int_equal(rows[0].session, session_of(a));
	assert_int_equal(rows[1].session, session_of(b));
	assert_int_equal(rows[0].locks, 0);
	assert_int_equal(rows[1].locks, 1);
	assert_int_equal(rows[0].lease_ms, CELL_LEASE_MS);
	assert_in_range(rows[0].heard_ms, 0, CELL_LEASE_MS);
	assert_true(bytes_equal(rows[0].host, bytes_of("here")));
	assert_true(bytes_equal(rows[0].principal, bytes_of("admin")));
	assert_int_equal(sessions_seen_by(cell, "mallory", rows), 0);
	cell_free(cell);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace_the_master),
		cmocka_unit_test(test_grow_and_shrink),
		cmocka_unit_test(test_replace_a_dead_one),
		cmocka_unit_test(test_one_has_just_died),
		cmocka_unit_test(test_told_when_it_holds),
		cmocka_unit_test(test_one_change_at_a_time),
		cmocka_unit_test(test_master_lost_meanwhile),
		cmocka_unit_test(test_members_are_told),
		cmocka_unit_test(test_who_was_away_is_told),
		cmocka_unit_test(test_who_was_away_listens),
		cmocka_unit_test(test_who_was_removed_is_not_believed),
		cmocka_unit_test(test_no_members_yet),
		cmocka_unit_test(test_operator_leaves),
		cmocka_unit_test(test_client_finds_new_members),
		cmocka_unit_test(test_status),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_asked_of_the_wrong_one),
		cmocka_unit_test(test_cut_off_answers_no_operator),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_transfer),
		cmocka_unit_test(test_destroy_session),
		cmocka_unit_test(test_a_destroyed_session_is_told_first),
		cmocka_unit_test(test_a_destroyed_session_that_is_not_heard),
		cmocka_unit_test(test_destroy_behind_the_barrier),
		cmocka_unit_test(test_list_sessions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
