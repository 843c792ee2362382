#include "tests/unit/px_lists.h"

#include <stdio.h>

const struct px_recovered nothing = {.incarnation = 1};
const struct px_recovered later = {.incarnation = 1, .promised = {7, 2}};
const struct ballot b2 = {5, 2}, b3 = {6, 3}, b4 = {7, 4};

struct bytes
change(struct list *to, uint64_t replaces, const char *members)
{
	struct buffer list = BUFFER(LIMIT_ENTRY), op = BUFFER(LIMIT_ENTRY);
	struct buffer command = BUFFER(LIMIT_ENTRY), payload = BUFFER(LIMIT_ENTRY);
	uint32_t n = 0;

	for (const char *at = members; *at; at += at[2] ? 3 : 2, n++)
		wire_put_member(&list, &(struct member){
			.id = (uint8_t)(at[0] - '0'),
			.role = at[1] == 'v' ? MEMBER_VOTER :
			        at[1] == 'l' ? MEMBER_LEARNER : MEMBER_REMOVED});
	wire_put_op(&op, &(struct op){.code = OP_set_members, .set_members = {
		.version = replaces, .members = {buffer_view(&list), n}}});
	wire_put_command(&command, &(struct command){.op = buffer_view(&op)});
	wire_put_entry(&payload, &(struct entry){.commands = {buffer_view(&command), 1}});
	assert_false(payload.failed);
	to->n = buffer_view(&payload).len;
	assert_true(to->n <= sizeof to->bytes);
	memcpy(to->bytes, buffer_view(&payload).data, to->n);
	buffer_free(&list);
	buffer_free(&op);
	buffer_free(&command);
	buffer_free(&payload);
	return (struct bytes){to->bytes, to->n};
}

struct log_entry
change_entry(struct list *to, uint64_t slot, struct ballot ballot, uint64_t replaces,
             const char *members)
{
	struct bytes payload = change(to, replaces, members);

	return (struct log_entry){.slot = slot, .ballot = ballot, .origin = ballot,
	                          .checksum = checksum(payload), .payload = payload};
}

void
propose_change(struct bench *b, uint64_t replaces, const char *members)
{
	struct list list;

	bench_step(b, (struct px_event){.kind = PX_PROPOSE,
	                                .payload = change(&list, replaces, members)});
}

void
accepted(struct bench *b, uint8_t from, struct ballot ballot, uint64_t upto)
{
	bench_receive(b, from, (struct message){.code = MSG_accepted,
						.accepted = {.ballot = ballot, .upto = upto}});
}

void
reply(struct bench *b, uint8_t from, struct ballot ballot, uint64_t sequence)
{
	bench_receive(b, from, (struct message){.code = MSG_heartbeat_reply, .heartbeat_reply = {
		.ballot = ballot, .sequence = sequence}});
}

void
heartbeat(struct bench *b, struct ballot ballot, uint64_t chosen)
{
	bench_receive(b, ballot.replica, (struct message){.code = MSG_heartbeat, .heartbeat = {
		.ballot = ballot, .chosen = chosen, .sequence = 1, .lease_ms = 500, .first = 1}});
}

struct bench
bench_listed(const char *members, uint64_t version, const struct px_recovered *recovered)
{
	struct px_config c = bench_config(1);

	c.members.n = 0;
	c.members.version = version;
	for (const char *at = members; *at; at += at[2] ? 3 : 2)
		c.members.list[c.members.n++] = (struct px_member){(uint8_t)(at[0] - '0'),
		                                                   at[1] == 'v'};
	return bench_of(&c, recovered);
}

void
stand(struct bench *b)
{
	bench_timeout(b);
	assert_int_equal(px_role(b->px), PX_CANDIDATE);
}

struct ballot
candidate(struct bench *b)
{
	stand(b);
	return bench_sent(b, 2, MSG_prepare, NULL)->prepare.ballot;
}

struct ballot
master(struct bench *b, const char *members)
{
	struct ballot mine;

	*b = bench_listed(members, 0, &nothing);
	mine = candidate(b);
	bench_promise(b, 2, mine, 0, NULL, 0);
	bench_persist(b, b->update.write);
	assert_int_equal(px_role(b->px), PX_MASTER);
	return mine;
}

void
only_asks_whether_it_is_gone(struct bench *b)
{
	for (int i = 0; i < 5; i++) {
		bench_timeout(b);
		assert_int_equal(px_role(b->px), PX_FOLLOWER);
		assert_non_null(bench_sent(b, 2, MSG_hello, NULL));
		assert_int_not_equal(px_condition(b->px), CONDITION_EXPELLED);
	}
	bench_welcome(b, 2, WELCOME_NO_MEMBER);
	bench_welcome(b, 3, WELCOME_NO_MEMBER);
	assert_int_equal(px_condition(b->px), CONDITION_EXPELLED);
	assert_true(mono_is_never(px_deadline(b->px)));
}

void
assert_members(const struct px *px, uint64_t version, const char *members)
{
	char text[64] = "";
	size_t n = 0;

	for (int i = 0; i < px_members(px)->n; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%u%c", i ? " " : "",
		                      px_members(px)->list[i].id,
		                      px_members(px)->list[i].voter ? 'v' : 'l');
	assert_string_equal(text, members);
	assert_int_equal(px_members(px)->version, version);
}
