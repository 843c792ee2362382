/* A master that lacks a signing key which is in force says nothing about what that key may have
 * signed: it has the client try again. */
#include <sodium.h>
#include <string.h>
#include "tests/unit/bare_world.h"
#include "tests/unit/unit.h"

static struct replica *
replica_of(const struct bare_world *w)
{
	return (struct replica *)server_replica(w->host->server);
}

static struct master_keys
whole(const struct bare_world *w)
{
	struct master_keys keys = {.n = 1};

	memcpy(keys.secret[0], w->host->identity.signing.secret[0], SIGN_SECRET);
	return keys;
}

/* The cell's keys are this one and the one that has signed until now, which the master lacks. */
static struct master_keys
lacking(void)
{
	static const uint8_t seed[crypto_sign_SEEDBYTES] = {1};
	struct master_keys keys = {.n = 1, .incomplete = true};
	uint8_t public_key[SIGN_PUBLIC];

	crypto_sign_seed_keypair(public_key, keys.secret[0], seed);
	return keys;
}

static struct op
wait_with(uint64_t node, struct ticket ticket)
{
	struct op op = op_of_acquire(node, 1, 1, LOCK_EXCLUSIVE, true);

	op.acquire.acquire.ticket = ticket;
	return op;
}

/* The client has not returned: what it says behind the acquire is not heard. */
TEST(test_ticket_of_the_missing_key)
{
	struct bare_world *w = world_new(1);
	struct bare_client holder = bare_open(w, 1), c = bare_open(w, 2);
	const uint64_t node = bare_file(&holder, "one");
	const struct master_keys keys = whole(w), lacks = lacking();
	struct op op = wait_with(node, (struct ticket){0});
	struct result queued;

	assert_int_equal(bare_lock(&holder, node, 1, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(bare_call(&c, &op, &queued), RC_QUEUED);
	world_restart(w);
	world_elect(w);
	replica_set_keys(replica_of(w), &lacks);
	bare_attach(&holder);
	bare_attach(&c);
	op = wait_with(node, queued.acquired.ticket);
	bare_send_op(&c, &op);
	assert_true(world_closed(w, c.conn));
	replica_set_keys(replica_of(w), &keys);
	bare_connect_anew(&c);
	bare_attach(&c);
	assert_int_equal(bare_call(&c, &op, NULL), RC_QUEUED);
	world_free(w);
}

static struct bytes
sequencer_of(struct bare_client *c, uint64_t node)
{
	const struct op op = {.code = OP_get_sequencer, .get_sequencer.node = node};
	struct result result;

	assert_int_equal(bare_lock(c, node, 1, LOCK_EXCLUSIVE), RC_OK);
	assert_int_equal(bare_call(c, &op, &result), RC_OK);
	return result.sequencer.sequencer;
}

static const struct message *
ask(struct bare_client *c, struct bytes sequencer, enum message_code answer)
{
	bare_send(c, &(struct message){.code = MSG_check_sequencer,
	                               .check_sequencer.sequencer = sequencer});
	return bare_take(c, answer);
}

TEST(test_sequencer_of_the_missing_key)
{
	struct bare_world *w = world_new(1);
	struct bare_client c = bare_open(w, 1);
	const struct bytes sequencer = sequencer_of(&c, bare_file(&c, "one"));
	const struct op op = {.code = OP_check_sequencer, .check_sequencer.sequencer = sequencer};
	const struct master_keys keys = whole(w), lacks = lacking();
	const struct message *m;
	struct result result;

	replica_set_keys(replica_of(w), &lacks);
	assert_int_equal(bare_call(&c, &op, NULL), RC_OLD_EPOCH);
	m = ask(&c, sequencer, MSG_redirect);
	assert_non_null(m);
	assert_int_equal(m->redirect.master, 0);
	replica_set_keys(replica_of(w), &keys);
	assert_int_equal(bare_call(&c, &op, &result), RC_OK);
	assert_int_equal(result.checked.why.len, 0);
	m = ask(&c, sequencer, MSG_sequencer_checked);
	assert_non_null(m);
	assert_int_equal(m->sequencer_checked.why.len, 0);
	world_free(w);
}
