#include "cell/server/state_transfer.h"

#include <sodium.h>
#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/server/state_sender.h"
#include "cell/server/state_fetcher.h"
#include "cell/wire/codec.h"

struct state_transfer {
	struct state_transfer_config config;
	struct state_sender *sender;
	struct state_fetcher *fetcher;
};

static void
send_message(struct state_transfer *x, uint8_t replica, uint64_t conn, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	x->config.send(x->config.user, replica, conn, buffer_view(&frame));
	sodium_memzero(frame.data, frame.len); /* the frame may contain the key */
	buffer_free(&frame);
}

/* ---- copies ---- */

/* Replicas and clients are sent different messages with the same fields. */
static void
on_answer(void *user, struct state_sender_reader reader, const struct msg_copy_part *part)
{
	struct message m = {.code = MSG_copy_part, .copy_part = *part};

	if (reader.peer != 0)
		m = (struct message){
			.code = MSG_snapshot_part,
			.snapshot_part = {
				.rc = part->rc, .copy = part->copy, .applied = part->applied,
				.size = part->size, .offset = part->offset, .data = part->data,
				.checksum = part->checksum,
			},
		};
	send_message(user, reader.peer, reader.conn, &m);
}

static void
on_ask(void *user, uint8_t replica, const struct msg_snapshot_request *request)
{
	send_message(user, replica, 0, &(struct message){
		.code = MSG_snapshot_request, .snapshot_request = *request,
	});
}

static void
on_copy_begun(void *user, uint8_t replica)
{
	struct state_transfer *x = user;

	x->config.copy_begun(x->config.user, replica);
}

static void
on_ready(void *user)
{
	struct state_transfer *x = user;

	x->config.ready(x->config.user);
}

static void
answer_replica(struct state_transfer *x, uint8_t from, const struct msg_snapshot_request *r)
{
	state_sender_ask(x->sender, (struct state_sender_reader){.peer = from},
	                 &(struct msg_copy_request){.copy = r->copy, .offset = r->offset});
}

bool
state_transfer_client(struct state_transfer *x, uint64_t conn, bool admin, struct bytes frame)
{
	static const struct message refusal = {
		.code = MSG_copy_part, .copy_part = {.rc = RC_PERM},
	};
	struct message m;

	if (wire_frame_code(frame) != MSG_copy_request ||
	    wire_get_frame(frame, &m) != RC_OK)
		return false;
	if (admin)
		state_sender_ask(x->sender, (struct state_sender_reader){.conn = conn},
		                 &m.copy_request);
	else
		send_message(x, 0, conn, &refusal);
	return true;
}

void
state_transfer_forget(struct state_transfer *x, uint64_t conn)
{
	state_sender_forget(x->sender, (struct state_sender_reader){.conn = conn});
}

void
state_transfer_need(struct state_transfer *x, uint8_t replica, uint64_t applied)
{
	state_fetcher_need(x->fetcher, replica, applied);
}

/* ---- replicas ---- */

static void
give_secret(struct state_transfer *x, uint8_t to)
{
	server_io_log(x->config.io, SERVER_INFO,
	              "replica %u asks for the cell's signing key, and gets it", to);
	send_message(x, to, 0, &(struct message){
		.code = MSG_secret, .secret = {.key = {x->config.identity->signing, SIGN_SECRET}},
	});
}

/* So that a replica which was removed before its first start does not wait for the key. */
static void
refuse_secret(struct state_transfer *x, uint8_t to)
{
	send_message(x, to, 0, &(struct message){
		.code = MSG_welcome, .welcome = {.verdict = WELCOME_NO_MEMBER},
	});
}

/* A removed replica is given nothing more. But its answers are accepted: a master that has removed
 * itself may be the only replica whose state reaches the beginning of its log. */
static void
on_message(struct state_transfer *x, uint8_t from, bool member, const struct message *m)
{
	if (m->code == MSG_snapshot_part)
		state_fetcher_part(x->fetcher, from, &m->snapshot_part);
	else if (m->code == MSG_snapshot_request && member)
		answer_replica(x, from, &m->snapshot_request);
	else if (m->code == MSG_secret_request && member)
		give_secret(x, from);
	else if (m->code == MSG_secret_request)
		refuse_secret(x, from);
}

bool
state_transfer_peer(struct state_transfer *x, uint8_t from, bool member, struct bytes frame)
{
	struct message m;

	switch (wire_frame_code(frame)) {
	case MSG_snapshot_request:
	case MSG_snapshot_part:
	case MSG_secret_request:
	case MSG_secret: /* ignored: this replica has the key */
		if (wire_get_frame(frame, &m) == RC_OK)
			on_message(x, from, member, &m);
		return true;
	default:
		return false;
	}
}

/* ---- life ---- */

struct state_transfer *
state_transfer_new(const struct state_transfer_config *config)
{
	struct state_transfer *x = memory_zero(1, sizeof *x);

	x->config = *config;
	x->sender = state_sender_new(&(struct state_sender_config){
		.io = config->io, .answer = on_answer, .begun = on_copy_begun,
		.part_max = config->part_max, .user = x,
	});
	x->fetcher = state_fetcher_new(&(struct state_fetcher_config){
		.io = config->io, .patience = config->patience, .ask = on_ask,
		.ready = on_ready, .user = x,
	});
	return x;
}

void
state_transfer_made(struct state_transfer *x, enum rc rc, uint64_t applied, uint64_t size,
                    const char *why)
{
	state_sender_made(x->sender, rc, applied, size, why);
}

void
state_transfer_checked(struct state_transfer *x, const char *why)
{
	state_fetcher_checked(x->fetcher, why);
}

mono_t
state_transfer_deadline(const struct state_transfer *x)
{
	return mono_min(state_sender_deadline(x->sender), state_fetcher_deadline(x->fetcher));
}

void
state_transfer_timeout(struct state_transfer *x, mono_t now)
{
	state_sender_timeout(x->sender, now);
	state_fetcher_timeout(x->fetcher, now);
}

void
state_transfer_free(struct state_transfer *x)
{
	if (x == NULL)
		return;
	state_sender_free(x->sender);
	state_fetcher_free(x->fetcher);
	free(x);
}
