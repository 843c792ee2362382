/* The client among several replicas: where it looks for the master, how it hears of a new one. */
#include "tests/unit/client_play.h"

/* Whoever says that it is not the master is left for the one that it names, at once. */
static void
test_redirect(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	uint8_t first, other;

	(void)unused;
	step_kind(p, CLIENT_DISCONNECTED);
	until_connect(p);
	first = p->update.replica;
	other = first % 3 + 1;
	step_kind(p, CLIENT_CONNECTED);
	receive(p, redirect_to(other, EPOCH + 1));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, other);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH - 1); /* a master of an earlier epoch */
	assert_int_equal(p->sent_n, 0);
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH + 1);
	assert_int_equal(client_status(p->client).epoch, EPOCH + 1);
	play_free(p);
}

/* The one that was lost, then each in turn, quickly; then with growing pauses. */
static void
test_replicas_in_turn(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	uint8_t tried[7];
	mono_t start = p->now;

	(void)unused;
	for (int i = 0; i < 7; i++) {
		step_kind(p, CLIENT_DISCONNECTED);
		until_connect(p);
		tried[i] = p->update.replica;
	}
	assert_in_range(mono_since(p->now, start).ns, 1, span_ms(3 * 10 + 3 * 20 + 40).ns);
	for (int i = 1; i < 7; i++)
		assert_int_equal(tried[i], tried[i - 1] % 3 + 1);
	play_free(p);
}

/* Nobody waits long for a replica that does not answer while there are others. */
static void
test_next_after_a_silent_one(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first = p->update.replica;
	mono_t start = p->now;

	(void)unused;
	step_kind(p, CLIENT_TIMEOUT);
	until_connect(p);
	assert_true(p->update.replica != first);
	step_kind(p, CLIENT_CONNECTED); /* opens, and hears nothing */
	until_connect(p);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH); /* and this one has no lease to give */
	until_connect(p);
	assert_in_range(mono_since(p->now, start).ns, 1, span_ms(3 * 500 + 3 * 20).ns);
	play_free(p);
}

/* Those who take each other for the master are not asked without a pause for ever. */
static void
test_hints_in_a_circle(void **unused)
{
	struct play *p = play_new(three());
	mono_t start = p->now;

	(void)unused;
	for (int i = 0; i < 20; i++) {
		uint8_t other = p->update.replica % 3 + 1;

		step_kind(p, CLIENT_CONNECTED);
		receive(p, redirect_to(other, EPOCH));
		until_connect(p);
		assert_int_equal(p->update.replica, other);
	}
	assert_true(mono_since(p->now, start).ns > span_ms(500).ns);
	play_free(p);
}

/* A second connection goes to another replica than the first, and to each of them alike. */
static void
test_second_connection(void **unused)
{
	unsigned by_replica[4] = {0};

	(void)unused;
	for (uint64_t seed = 0; seed < 300; seed++) {
		struct client_config with = three();
		struct play *p;
		uint8_t first;

		with.seed = seed;
		p = play_new(with);
		first = p->update.replica;
		assert_false(p->update.listen);
		step_kind(p, CLIENT_CONNECTED);
		opened(p, RC_OK, SESSION, EPOCH);
		assert_true(p->update.listen);
		assert_true(p->update.listen_to != first && p->update.listen_to != 0);
		by_replica[p->update.listen_to]++;
		step_kind(p, CLIENT_TIMEOUT);
		assert_false(p->update.listen);
		play_free(p);
	}
	for (int i = 1; i <= 3; i++)
		assert_in_range(by_replica[i], 70, 130);
}

static void
test_second_connection_breaks(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first;

	(void)unused;
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	for (int i = 0; i < 5; i++) {
		mono_t broke = p->now;

		first = p->update.listen_to;
		step(p, (struct client_event){.kind = CLIENT_DISCONNECTED, .standby = true});
		for (int j = 0; j < 10 && !p->update.listen; j++) {
			p->now = client_deadline(p->client);
			step_kind(p, CLIENT_TIMEOUT);
		}
		assert_true(p->update.listen && p->update.listen_to != first);
		assert_in_range(mono_since(p->now, broke).ns, 0, span_ms(50 << i).ns);
		assert_int_equal(state(p), CLIENT_SAFE);
	}
	play_free(p);
}

/* A master that stands still is left as soon as another one is announced. */
static void
test_announcement(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first = p->update.replica, next = first % 3 + 1;

	(void)unused;
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	keepalive_reply(p, RC_OK, last_sequence(p), LEASE_MS);
	request(p, 1, get_attr(9));
	receive_aside(p, redirect_to(0, EPOCH)); /* knows nobody */
	receive_aside(p, redirect_to(next, EPOCH - 1)); /* has slept */
	receive_aside(p, redirect_to(first, EPOCH)); /* says what we know */
	receive_aside(p, redirect_to(9, EPOCH)); /* is none of ours */
	assert_int_equal(client_status(p->client).in_flight, 1);
	assert_false(p->update.connect);
	receive_aside(p, redirect_to(next, EPOCH));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, next);
	receive_aside(p, redirect_to(first, EPOCH)); /* has not heard of it yet */
	assert_false(p->update.connect);
	reply(p, 1, RC_OK, &attr_result); /* from the one that was left */
	assert_int_equal(p->update.answers_n, 0);
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH + 1);
	assert_int_equal(p->sent[1].m.code, MSG_request);
	assert_int_equal(p->sent[1].m.request.epoch, EPOCH + 1);
	receive_aside(p, redirect_to(next, EPOCH + 1));
	assert_false(p->update.connect);
	/* The same one again, in a later epoch. */
	receive_aside(p, redirect_to(next, EPOCH + 2));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, next);
	play_free(p);
}

/* What is announced while a pause is waited for ends it. */
static void
test_announcement_in_a_pause(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);

	(void)unused;
	for (int i = 0; i < 12; i++) {
		step_kind(p, CLIENT_DISCONNECTED);
		if (i < 11)
			until_connect(p);
	}
	assert_false(p->update.connect);
	receive_aside(p, redirect_to(2, EPOCH + 1));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, 2);
	play_free(p);
}

/* Also by the first one who names the master of a new epoch, while it is looked for; and by one
 * that was asked before, and that we have not gone from yet. */
static void
test_new_epoch_in_a_pause(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	uint8_t at;

	(void)unused;
	for (int i = 0; i < 12; i++) {
		step_kind(p, CLIENT_DISCONNECTED);
		until_connect(p);
	}
	at = p->update.replica;
	step_kind(p, CLIENT_CONNECTED);
	receive(p, redirect_to(0, EPOCH));
	assert_false(p->update.connect);
	receive(p, redirect_to(at % 3 + 1, EPOCH + 1));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, at % 3 + 1);
	step_kind(p, CLIENT_CONNECTED);
	receive(p, redirect_to(at, EPOCH + 1));
	assert_true(p->update.connect);
	step_kind(p, CLIENT_CONNECTED);
	receive(p, redirect_to(at % 3 + 1, EPOCH + 1)); /* a circle */
	assert_false(p->update.connect);
	play_free(p);
}

/* A KeepAlive's answer from another epoch than the session was opened in renews nothing. */
static void
test_lease_of_an_old_epoch(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	mono_t end;
	struct message m = {.code = MSG_keepalive_reply};

	(void)unused;
	reconnect(p);
	end = client_status(p->client).lease_end;
	m.keepalive_reply = (struct msg_keepalive_reply){.rc = RC_OK, .epoch = EPOCH - 1,
	                                                 .sequence = last_sequence(p),
	                                                 .lease_ms = 60000};
	receive(p, &m);
	assert_int_equal(client_status(p->client).lease_end.ns, end.ns);
	until_connect(p);
	play_free(p);
}

/* ---- the cell tells its members ---- */

/* Voters of these ids; behind them a learner and a replica that was removed, if not 0. */
static const struct message *
members(uint64_t version, const char *voters, uint8_t learner, uint8_t removed)
{
	static struct message m;
	static uint8_t packed[4096];
	static const uint8_t key[32] = {7};
	struct buffer list = BUFFER(sizeof packed);
	struct member member = {.address = bytes_of("host:1"), .key = {key, sizeof key}};

	m = (struct message){.code = MSG_members, .members = {.version = version}};
	for (uint8_t role = MEMBER_LEARNER; role <= MEMBER_REMOVED; role++) {
		member.role = role;
		member.id = role == MEMBER_LEARNER ? learner : removed;
		m.members.members.count += member.id != 0;
		if (member.id != 0)
			wire_put_member(&list, &member);
	}
	member.role = MEMBER_VOTER;
	for (; *voters != '\0'; voters++, m.members.members.count++) {
		member.id = (uint8_t)(*voters - '0');
		wire_put_member(&list, &member);
	}
	assert_false(list.failed);
	memcpy(packed, list.data, list.len);
	m.members.members.packed = (struct bytes){packed, list.len};
	buffer_free(&list);
	return &m;
}

/* Those who are no members any more are not asked, and new ones are. */
static void
test_members_are_followed(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	const struct client_members *told = client_members(p->client);
	const char *turns = "546";

	(void)unused;
	assert_int_equal(told->n, 0);
	receive(p, members(50, "54", 6, 3));
	assert_true(p->update.members_changed);
	assert_int_equal(told->n, 3);
	assert_int_equal(told->version, 50);
	assert_int_equal(told->list[0].id, 5);
	assert_true(told->list[1].voter && !told->list[2].voter);
	assert_string_equal(told->list[2].address, "host:1");
	assert_int_equal(told->list[2].key[0], 7);
	for (int i = 0; i < 7; i++) {
		uint8_t before = p->update.replica;
		const char *at = strchr(turns, '0' + before);

		step_kind(p, CLIENT_DISCONNECTED);
		until_connect(p);
		assert_false(p->update.members_changed);
		if (i > 1)
			assert_int_equal(p->update.replica, turns[(at - turns + 1) % 3] - '0');
	}
	step_kind(p, CLIENT_CONNECTED);
	receive(p, redirect_to(5, EPOCH + 1));
	assert_int_equal(p->update.replica, 5);
	play_free(p);
}

/* An older list, the same one again, one of nobody and one that names no address change nothing. */
static void
test_members_of_old(void **unused)
{
	struct message nowhere = {.code = MSG_members, .members = {.version = 60}};
	struct buffer list = BUFFER(LIMIT_FRAME);
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);

	(void)unused;
	receive(p, members(0, "12", 0, 0));
	assert_true(p->update.members_changed);
	receive(p, members(50, "1234", 0, 0));
	assert_true(p->update.members_changed);
	receive(p, members(50, "12", 0, 0));
	assert_false(p->update.members_changed);
	receive(p, members(49, "12", 0, 0));
	assert_false(p->update.members_changed);
	receive(p, members(51, "", 1, 2));
	assert_false(p->update.members_changed);
	wire_put_member(&list, &(struct member){.id = 1, .role = MEMBER_VOTER});
	nowhere.members.members = (struct wire_list){buffer_view(&list), 1};
	receive(p, &nowhere);
	assert_false(p->update.members_changed);
	buffer_free(&list);
	assert_int_equal(client_members(p->client)->n, 4);
	assert_int_equal(client_members(p->client)->version, 50);
	assert_int_equal(state(p), CLIENT_SAFE);
	play_free(p);
}

/* The second connection leaves a replica that was removed; there is none without a second one. */
static void
test_members_aside(void **unused)
{
	struct play *p = play_new(three());
	uint8_t first = p->update.replica, second;
	char left[3] = {0};

	(void)unused;
	step_kind(p, CLIENT_CONNECTED);
	opened(p, RC_OK, SESSION, EPOCH);
	second = p->update.listen_to;
	left[0] = (char)('0' + first);
	left[1] = (char)('0' + (6 - first - second));
	receive_aside(p, members(50, left, 0, second));
	assert_true(p->update.members_changed && p->update.listen);
	assert_int_equal(p->update.listen_to, 6 - first - second);
	left[1] = '\0';
	receive(p, members(51, left, 0, 0));
	assert_true(p->update.listen);
	assert_int_equal(p->update.listen_to, 0);
	step_kind(p, CLIENT_TIMEOUT);
	assert_false(p->update.listen);
	play_free(p);
}

/* The one at which the session is may go: it says so itself when another one is master. */
static void
test_members_without_ours(void **unused)
{
	uint64_t sequence;
	struct play *p = play_safe_of(three(), &sequence);
	uint8_t at = p->update.replica;

	(void)unused;
	receive(p, members(50, "89", 0, at));
	assert_false(p->update.connect);
	assert_int_equal(state(p), CLIENT_SAFE);
	receive(p, redirect_to(9, EPOCH + 1));
	assert_true(p->update.connect);
	assert_int_equal(p->update.replica, 9);
	receive(p, members(51, "8", 0, 9)); /* on the connection that was left */
	assert_true(p->update.members_changed);
	until_connect(p);
	assert_int_equal(p->update.replica, 8);
	play_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_redirect),
	    cmocka_unit_test(test_replicas_in_turn),
	    cmocka_unit_test(test_next_after_a_silent_one),
	    cmocka_unit_test(test_hints_in_a_circle),
	    cmocka_unit_test(test_second_connection),
	    cmocka_unit_test(test_second_connection_breaks),
	    cmocka_unit_test(test_announcement),
	    cmocka_unit_test(test_announcement_in_a_pause),
	    cmocka_unit_test(test_new_epoch_in_a_pause),
	    cmocka_unit_test(test_lease_of_an_old_epoch),
	    cmocka_unit_test(test_members_are_followed),
	    cmocka_unit_test(test_members_of_old),
	    cmocka_unit_test(test_members_aside),
	    cmocka_unit_test(test_members_without_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
