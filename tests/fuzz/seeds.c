/* seeds DIRECTORY: writes well-formed inputs for the fuzz targets tree and replica, one below
 * DIRECTORY/NAME for each operation, so that the fuzzer begins after the decoders. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include "tests/fuzz/entry.h"

/* As the targets make them: the first session, and its file. */
enum { SESSION = 5, NODE = 6 };

/* As fuzz_replica.c counts kinds of steps: of the first client, or replica 2. */
enum { FRAME, PEER, CONNECT, PASS };

static const char *directory;

static void
write_input(const char *target, const char *name, const struct buffer *input)
{
	char path[PATH_MAX];
	FILE *f;

	must(!input->failed);
	snprintf(path, sizeof path, "%s/%s/seed_%s", directory, target, name);
	f = fopen(path, "we");
	if (f == NULL || fwrite(input->data, 1, input->len, f) != input->len || fclose(f) != 0) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		must(false);
	}
}

static const struct op operations[] = {
    {.code = OP_lookup, .lookup = {NODE_ROOT, {(const uint8_t *)"f", 1}}},
    {.code = OP_get_contents, .get_contents = {.node = NODE}},
    {.code = OP_get_listing, .get_listing = {.node = NODE_ROOT}},
    {.code = OP_get_lock, .get_lock = {NODE}},
    {.code = OP_get_queue, .get_queue = {NODE_ROOT, 1}},
    {.code = OP_create,
     .create = {NODE_ROOT, {(const uint8_t *)"e", 1}, NODE_FILE, .ephemeral = 1}},
    {.code = OP_set_contents,
     .set_contents = {.node = NODE, .contents = {(const uint8_t *)"text", 4}}},
    {.code = OP_append, .append = {NODE, {(const uint8_t *)"more", 4}}},
    {.code = OP_rename,
     .rename = {NODE_ROOT, {(const uint8_t *)"f", 1}, NODE_ROOT, {(const uint8_t *)"g", 1}, 0}},
    {.code = OP_delete, .delete = {NODE_ROOT, {(const uint8_t *)"f", 1}, NODE_FILE}},
    {.code = OP_set_acl, .set_acl = {NODE, 1, {(const uint8_t *)"admin", 5}}},
    {.code = OP_set_lock_delay, .set_lock_delay = {NODE, 3}},
    {.code = OP_acquire,
     .acquire.acquire = {.node = NODE,
                         .owner = 1,
                         .acquisition = 1,
                         .mode = LOCK_EXCLUSIVE,
                         .wait = 1,
                         .delay_s = -1,
                         .default_delay_s = 5}},
    {.code = OP_release, .release = {NODE, 1, 1}},
    {.code = OP_cancel, .cancel = {NODE, 1, 1}},
    {.code = OP_make_ephemeral, .make_ephemeral = {NODE}},
    {.code = OP_end_session, .end_session = {.session = SESSION, .cause = SESSION_CLOSED}},
    {.code = OP_begin_epoch, .begin_epoch.ballot = {2, 1}},
    {.code = OP_set_setting, .set_setting = {1, 20000}},
    {.code = OP_add_principal,
     .add_principal = {{(const uint8_t *)"ann", 3},
                       {(const uint8_t *)"0123456789abcdef0123456789abcdef", 32}}},
    {.code = OP_rotate_key,
     .rotate_key = {{(const uint8_t *)"a newer key with its 32 letters.", 32},
                    {(const uint8_t *)"an older key with its 32 letters", 32},
                    {NULL, 0}}},
    {.code = OP_restore, .restore = {1000}},
};

/* ---- tree: entries of one command ---- */

static void
put_entry(struct buffer *input, uint64_t session, const struct op *op)
{
	struct buffer payload = BUFFER(LIMIT_ENTRY);

	fuzz_put_entry(&payload, session, op);
	buffer_put_u8(input, (uint8_t)(payload.len >> 8));
	buffer_put_u8(input, (uint8_t)payload.len);
	buffer_put_bytes(input, buffer_view(&payload));
	buffer_free(&payload);
}

static void
seed_tree(const struct op *op)
{
	const bool masters = wire_op(op->code)->class == OP_CLASS_MASTER;
	struct buffer input = BUFFER(LIMIT_ENTRY);

	put_entry(&input, masters ? 0 : SESSION, op);
	write_input("tree", wire_op(op->code)->name, &input);
	buffer_free(&input);
}

/* ---- replica: a client that opens a session and asks ---- */

static void
put_step(struct buffer *input, uint8_t kind, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	struct bytes body = {0};

	if (m != NULL) {
		wire_put_frame(&frame, m);
		must(!frame.failed && frame.len > 4);
		body = (struct bytes){frame.data + 4, frame.len - 4};
	}
	buffer_put_u8(input, kind);
	buffer_put_u8(input, (uint8_t)(body.len >> 8));
	buffer_put_u8(input, (uint8_t)body.len);
	buffer_put_bytes(input, body);
	buffer_free(&frame);
}

static void
put_opening(struct buffer *input)
{
	struct message m = {.code = MSG_open_session};

	m.open_session = (struct msg_open_session){.nonce = bytes_of("0123456789abcdef"),
	                                           .host = bytes_of("h"),
	                                           .caching = 1};
	buffer_put_u8(input, 0);
	put_step(input, FRAME, &m);
	m = (struct message){.code = MSG_keepalive};
	m.keepalive = (struct msg_keepalive){.session = SESSION, .epoch = 1, .sequence = 1};
	put_step(input, FRAME, &m);
}

static void
seed_replica(const struct op *op)
{
	const struct op create = {
	    .code = OP_create,
	    .create = {NODE_ROOT, {(const uint8_t *)"f", 1}, NODE_FILE},
	};
	struct buffer input = BUFFER(LIMIT_FRAME), encoded = BUFFER(LIMIT_ENTRY);
	struct message m = {.code = MSG_request};

	put_opening(&input);
	for (uint64_t number = 1; number <= 2; number++) {
		buffer_reset(&encoded);
		wire_put_op(&encoded, number == 1 ? &create : op);
		m.request = (struct msg_request){.session = SESSION,
		                                 .epoch = 1,
		                                 .number = number,
		                                 .below = 1,
		                                 .op = buffer_view(&encoded)};
		put_step(&input, FRAME, &m);
	}
	put_step(&input, PASS, NULL);
	write_input("replica", wire_op(op->code)->name, &input);
	buffer_free(&encoded);
	buffer_free(&input);
}

/* What another replica may send to one of three: each message with numbers that fit. */
static void
seed_peer(const char *name, const struct message *m)
{
	struct buffer input = BUFFER(LIMIT_FRAME);

	buffer_put_u8(&input, 1);
	put_step(&input, PEER, m);
	put_step(&input, PASS, NULL);
	write_input("replica", name, &input);
	buffer_free(&input);
}

int
main(int argc, char **argv)
{
	struct message m = {.code = MSG_prepare, .prepare = {{3, 2}, 1, 0}};

	must(argc == 2);
	directory = argv[1];
	for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
		if (wire_op(operations[i].code)->class != OP_CLASS_READ)
			seed_tree(&operations[i]);
		seed_replica(&operations[i]);
	}
	seed_peer("prepare", &m);
	m = (struct message){.code = MSG_heartbeat};
	m.heartbeat = (struct msg_heartbeat){.ballot = {3, 2}, .sequence = 1, .lease_ms = 500};
	seed_peer("heartbeat", &m);
	m = (struct message){.code = MSG_hello, .hello = {.ballot = {1, 0}, .incarnation = 1}};
	seed_peer("hello", &m);
	m = (struct message){.code = MSG_welcome};
	m.welcome = (struct msg_welcome){.ballot = {1, 0}, .incarnation = 1, .start = 1};
	seed_peer("welcome", &m);
	m = (struct message){.code = MSG_accept, .accept = {.ballot = {3, 2}, .first = 1}};
	seed_peer("accept", &m);
	return 0;
}
