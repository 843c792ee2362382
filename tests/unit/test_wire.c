/* The codec: everything in the schema comes back as it went, and nothing malformed gets in. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include "cell/wire/codec.h"
#include "tests/unit/wire_values.h"

enum { ROUNDS = 30, CODES = 256 };

#define ONE(code, ...) +1
enum { MESSAGES = 0 WIRE_MESSAGES(ONE), OPS = 0 WIRE_OPS(ONE) };
#undef ONE

/* A heap block of exactly this size, so that a sanitizer sees a read after it. */
static struct bytes
exactly(struct bytes v)
{
	uint8_t *block = malloc(v.len > 0 ? v.len : 1);

	if (v.len > 0)
		memcpy(block, v.data, v.len);
	return (struct bytes){block, v.len};
}

static enum rc
get_frame_of(struct bytes v, bool with_right_prefix)
{
	struct bytes copy = exactly(v);
	struct message m;
	enum rc rc;

	if (with_right_prefix && v.len >= 4) {
		uint32_t len = (uint32_t)v.len - 4;

		for (int i = 0; i < 4; i++)
			((uint8_t *)copy.data)[i] = (uint8_t)(len >> (8 * i));
	}
	rc = wire_get_frame(copy, &m);
	free((void *)copy.data);
	return rc;
}

/* ---- round trips ---- */

TEST(test_messages_come_back)
{
	struct values v = {.rng = rng_seeded(1)};
	int messages = 0;

	for (unsigned code = 0; code < CODES; code++) {
		const struct variant *variant = variant_of_message(code);
		struct message sent, got;

		for (int i = 0; i < ROUNDS && values_message(&v, code, &sent); i++) {
			struct buffer b = BUFFER(LIMIT_FRAME);

			wire_put_frame(&b, &sent);
			assert_false(b.failed);
			assert_int_equal(wire_frame_length(buffer_view(&b)), b.len);
			assert_int_equal(wire_get_frame(buffer_view(&b), &got), RC_OK);
			assert_int_equal(got.code, code);
			assert_true(values_equal(variant->shape, &sent.request, &got.request));
			messages++;
			buffer_free(&b);
		}
		values_free(&v);
	}
	assert_int_equal(messages, MESSAGES * ROUNDS);
}

TEST(test_ops_come_back)
{
	struct values v = {.rng = rng_seeded(2)};
	int ops = 0;

	for (unsigned code = 0; code < CODES; code++) {
		const struct variant *variant = wire_op(code);
		struct op sent, got;

		for (int i = 0; i < ROUNDS && values_op(&v, code, &sent); i++) {
			struct buffer b = BUFFER(LIMIT_ENTRY);

			wire_put_op(&b, &sent);
			assert_false(b.failed);
			assert_int_equal(wire_get_op(buffer_view(&b), &got), RC_OK);
			assert_int_equal(got.code, code);
			assert_true(values_equal(variant->shape, &sent.lookup, &got.lookup));
			ops++;
			buffer_free(&b);
		}
		values_free(&v);
	}
	assert_int_equal(ops, OPS * ROUNDS);
}

TEST(test_results_come_back)
{
	struct values v = {.rng = rng_seeded(3)};

	for (unsigned kind = RESULT_none; kind <= RESULT_changes; kind++) {
		const struct variant *variant = variant_of_result(kind);
		struct result sent, got;

		for (int i = 0; i < ROUNDS; i++) {
			struct buffer b = BUFFER(LIMIT_FRAME);

			assert_true(values_result(&v, kind, &sent));
			wire_put_result(&b, &sent);
			assert_false(b.failed);
			assert_int_equal(wire_get_result(kind, buffer_view(&b), &got), RC_OK);
			assert_int_equal(got.kind, kind);
			assert_true(values_equal(variant->shape, &sent.none, &got.none));
			buffer_free(&b);
		}
		values_free(&v);
	}
}

TEST(test_entries_come_back)
{
	struct values v = {.rng = rng_seeded(4)};
	struct entry sent, got;

	for (int i = 0; i < ROUNDS; i++) {
		struct buffer b = BUFFER(LIMIT_ENTRY);

		values_fill(&v, &shape_entry, &sent);
		wire_put_entry(&b, &sent);
		assert_int_equal(wire_get_entry(buffer_view(&b), &got), RC_OK);
		assert_true(values_equal(&shape_entry, &sent, &got));
		buffer_free(&b);
		values_free(&v);
	}
}

TEST(test_list_is_walked)
{
	struct buffer packed = BUFFER(1000), b = BUFFER(1000);
	struct result sent = {.kind = RESULT_listing}, got;
	struct child child;
	struct cursor c;

	wire_put_child(&packed, &(struct child){7, NODE_FILE, bytes_of("a")});
	wire_put_child(&packed, &(struct child){8, NODE_DIRECTORY, bytes_of("b")});
	sent.listing.entries = (struct wire_list){buffer_view(&packed), 2};
	wire_put_result(&b, &sent);
	assert_int_equal(wire_get_result(RESULT_listing, buffer_view(&b), &got), RC_OK);

	c = cursor_of(got.listing.entries.packed);
	assert_true(wire_next_child(&c, &child));
	assert_int_equal(child.node, 7);
	assert_true(bytes_equal(child.name, bytes_of("a")));
	assert_true(wire_next_child(&c, &child));
	assert_int_equal(child.node, 8);
	assert_int_equal(child.kind, NODE_DIRECTORY);
	assert_false(wire_next_child(&c, &child));
	buffer_free(&packed);
	buffer_free(&b);
}

/* ---- what is malformed does not get in ---- */

/* No message is the beginning of another one, with the prefix as it was or made to fit. */
TEST(test_every_truncation_is_refused)
{
	struct values v = {.rng = rng_seeded(5)};

	for (unsigned code = 0; code < CODES; code++) {
		struct message m;

		for (int i = 0; i < 5 && values_message(&v, code, &m); i++) {
			struct buffer b = BUFFER(LIMIT_FRAME);

			wire_put_frame(&b, &m);
			assert_int_equal(get_frame_of(buffer_view(&b), false), RC_OK);
			for (size_t len = 0; len < b.len; len++) {
				struct bytes head = {b.data, len};

				assert_int_equal(get_frame_of(head, false), RC_BAD_MESSAGE);
				assert_int_equal(get_frame_of(head, true), RC_BAD_MESSAGE);
			}
			buffer_put_u8(&b, 0);
			assert_int_equal(get_frame_of(buffer_view(&b), false), RC_BAD_MESSAGE);
			assert_int_equal(get_frame_of(buffer_view(&b), true), RC_BAD_MESSAGE);
			buffer_free(&b);
		}
		values_free(&v);
	}
}

TEST(test_truncated_ops_results_and_entries_are_refused)
{
	struct values v = {.rng = rng_seeded(6)};
	struct buffer b = BUFFER(LIMIT_FRAME);
	struct op op;
	struct result r = {0};
	struct entry entry;

	for (unsigned code = 0; code < CODES; code++) {
		buffer_reset(&b);
		if (!values_op(&v, code, &op))
			continue;
		wire_put_op(&b, &op);
		for (size_t len = 0; len < b.len; len++)
			assert_int_equal(wire_get_op((struct bytes){b.data, len}, &op),
			                 RC_BAD_MESSAGE);
	}
	for (unsigned kind = RESULT_none; kind <= RESULT_changes; kind++) {
		buffer_reset(&b);
		assert_true(values_result(&v, kind, &r));
		wire_put_result(&b, &r);
		for (size_t len = 0; len < b.len; len++)
			assert_int_equal(wire_get_result(kind, (struct bytes){b.data, len}, &r),
			                 RC_BAD_MESSAGE);
	}
	buffer_reset(&b);
	values_fill(&v, &shape_entry, &entry);
	wire_put_entry(&b, &entry);
	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(wire_get_entry((struct bytes){b.data, len}, &entry),
		                 RC_BAD_MESSAGE);
	buffer_free(&b);
	values_free(&v);
}

TEST(test_codes_without_meaning_are_refused)
{
	for (unsigned code = 0; code < CODES; code++) {
		const uint8_t frame[] = {1, 0, 0, 0, (uint8_t)code}, *byte = frame + 4;
		struct op op;

		if (variant_of_message(code) == NULL)
			assert_int_equal(get_frame_of((struct bytes){frame, 5}, false),
			                 RC_BAD_MESSAGE);
		if (wire_op(code) == NULL)
			assert_int_equal(wire_get_op((struct bytes){byte, 1}, &op), RC_BAD_MESSAGE);
	}
	assert_null(variant_of_result(RESULT_changes + 1));
}

TEST(test_frame_length)
{
	static const struct {
		uint32_t prefix;
		size_t there;
		long expected;
	} cases[] = {
	    {1, 5, 5},
	    {1, 4, 0},
	    {1, 9, 5},
	    {0, 9, -1},
	    {100, 103, 0},
	    {100, 104, 104},
	    {LIMIT_FRAME, 50, 0},
	    {LIMIT_FRAME + 1, 50, -1},
	    {UINT32_MAX, 50, -1},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buffer b = BUFFER(200);

		buffer_put_u32(&b, cases[i].prefix);
		while (b.len < cases[i].there)
			buffer_put_u8(&b, 0);
		assert_int_equal(wire_frame_length(buffer_view(&b)), cases[i].expected);
		buffer_free(&b);
	}
	assert_int_equal(wire_frame_length((struct bytes){(const uint8_t *)"\1\0\0", 3}), 0);
	assert_int_equal(wire_frame_length((struct bytes){NULL, 0}), 0);
}

static enum rc
lookup_of(const char *fill, size_t len)
{
	struct buffer b = BUFFER(LIMIT_ENTRY);
	struct op op;
	enum rc rc;

	buffer_put_u8(&b, OP_lookup);
	buffer_put_u64(&b, NODE_ROOT);
	buffer_put_u32(&b, (uint32_t)len);
	for (size_t i = 0; i < len; i++)
		buffer_put_u8(&b, (uint8_t)*fill);
	rc = wire_get_op(buffer_view(&b), &op);
	buffer_free(&b);
	return rc;
}

TEST(test_limits_of_bytes)
{
	static const uint8_t long_name[LIMIT_PATH + 1] = {[0 ... LIMIT_PATH] = 'x'};
	struct op op = {.code = OP_lookup};
	struct buffer b = BUFFER(LIMIT_ENTRY);

	assert_int_equal(lookup_of("x", LIMIT_PATH), RC_OK);
	assert_int_equal(lookup_of("x", LIMIT_PATH + 1), RC_BAD_MESSAGE);
	assert_int_equal(lookup_of("", 1), RC_BAD_MESSAGE); /* a NUL in a text */

	op.lookup.name = (struct bytes){long_name, LIMIT_PATH};
	wire_put_op(&b, &op);
	assert_false(b.failed);
	op.lookup.name = (struct bytes){long_name, LIMIT_PATH + 1};
	wire_put_op(&b, &op);
	assert_true(b.failed);
	buffer_reset(&b);
	op.lookup.name = (struct bytes){(const uint8_t *)"a\0b", 3};
	wire_put_op(&b, &op);
	assert_true(b.failed);
	buffer_free(&b);
}

/* An entry whose list claims `count` commands in `len` bytes, of which `there` are. */
static enum rc
entry_of(uint32_t count, uint32_t len, size_t commands)
{
	struct buffer b = BUFFER(LIMIT_ENTRY);
	struct entry entry;
	enum rc rc;

	buffer_put_u32(&b, count);
	buffer_put_u32(&b, len);
	for (size_t i = 0; i < commands; i++)
		wire_put_command(&b, &(struct command){.op = bytes_of("x")});
	rc = wire_get_entry(buffer_view(&b), &entry);
	buffer_free(&b);
	return rc;
}

TEST(test_limits_of_lists)
{
	enum { ONE = 4 * 8 + 4 + 1 + 1 + 4 + 4 + 25 + 4 + 1 + 1 };

	assert_int_equal(entry_of(0, 0, 0), RC_OK);
	assert_int_equal(entry_of(2, 2 * ONE, 2), RC_OK);
	assert_int_equal(entry_of(1, 2 * ONE, 2), RC_BAD_MESSAGE);
	assert_int_equal(entry_of(3, 2 * ONE, 2), RC_BAD_MESSAGE);
	assert_int_equal(entry_of(UINT32_MAX, 2 * ONE, 2), RC_BAD_MESSAGE);
	assert_int_equal(entry_of(2, 2 * ONE - 1, 2), RC_BAD_MESSAGE);
	assert_int_equal(entry_of(2, UINT32_MAX, 2), RC_BAD_MESSAGE);
	assert_int_equal(entry_of(LIMIT_ENTRY_COMMANDS, LIMIT_ENTRY_COMMANDS * ONE,
	                          LIMIT_ENTRY_COMMANDS),
	                 RC_OK);
	assert_int_equal(entry_of(LIMIT_ENTRY_COMMANDS + 1, (LIMIT_ENTRY_COMMANDS + 1) * ONE,
	                          LIMIT_ENTRY_COMMANDS + 1),
	                 RC_BAD_MESSAGE);
}

TEST(test_too_long_lists_are_not_sent)
{
	struct buffer b = BUFFER(LIMIT_ENTRY);
	struct entry entry = {.commands.count = LIMIT_ENTRY_COMMANDS + 1};

	wire_put_entry(&b, &entry);
	assert_true(b.failed);
	buffer_free(&b);
}

/* ---- the meaning of operations ---- */

TEST(test_node_of_an_operation)
{
	struct op lookup = {.code = OP_lookup, .lookup = {.parent = 5}};
	struct op acquire = {.code = OP_acquire, .acquire.acquire = {.node = 6, .owner = 1}};
	struct op grant = {.code = OP_grant, .grant = {.session = 9, .acquire.node = 7}};
	struct op rename = {.code = OP_rename, .rename = {.parent = 3, .new_parent = 4}};
	struct op write = {.code = OP_set_contents, .set_contents = {.node = 8, .generation = 2}};
	struct op end = {.code = OP_end_session, .end_session = {.session = 9, .epoch = 1}};
	struct op usage = {.code = OP_get_usage};

	assert_int_equal(wire_op_node(&lookup), 5);
	assert_int_equal(wire_op_node(&acquire), 6);
	assert_int_equal(wire_op_node(&grant), 7);
	assert_int_equal(wire_op_node(&rename), 3);
	assert_int_equal(wire_op_node(&write), 8);
	assert_int_equal(wire_op_node(&end), 0);
	assert_int_equal(wire_op_node(&usage), 0);
}

TEST(test_columns_of_an_operation)
{
	assert_int_equal(wire_op(OP_lookup)->class, OP_CLASS_READ);
	assert_int_equal(wire_op(OP_acquire)->class, OP_CLASS_COMMAND);
	assert_int_equal(wire_op(OP_grant)->class, OP_CLASS_MASTER);
	assert_int_equal(wire_op(OP_lookup)->slot, SLOT_READ);
	assert_int_equal(wire_op(OP_acquire)->slot, SLOT_COMMAND);
	assert_int_equal(wire_op(OP_release)->slot, SLOT_URGENT);
	assert_int_equal(wire_op(OP_cancel)->slot, SLOT_URGENT);
	assert_int_equal(wire_op(OP_end_session)->slot, SLOT_COMMAND);
	assert_int_equal(wire_op(OP_get_listing)->result, RESULT_listing);
	assert_int_equal(wire_op(OP_create)->result, RESULT_created);
	assert_string_equal(wire_op(OP_set_contents)->name, "set_contents");
	assert_null(wire_op(200));
}

/* ---- the order on a connection ---- */

/* KeepAlives and their good answers overtake other messages. Every other message may refer to one
 * that was sent before it, and goes behind that. */
TEST(test_what_goes_first)
{
	const struct message messages[] = {
	    {MSG_keepalive, .keepalive = {.session = 1, .epoch = 2}},
	    {MSG_keepalive_reply, .keepalive_reply = {.rc = RC_OK}},
	    {MSG_keepalive_reply, .keepalive_reply = {.rc = RC_NO_SESSION}},
	    {MSG_returned, .returned = {1, 2}},
	    {MSG_redirect, .redirect = {1, 2}},
	};

	for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
		struct buffer frame = BUFFER(100);

		wire_put_frame(&frame, &messages[i]);
		assert_int_equal(wire_frame_goes_first(buffer_view(&frame)), i < 2);
		buffer_free(&frame);
	}
	assert_false(wire_frame_goes_first((struct bytes){0}));
}

TEST(test_what_is_bulk)
{
	const struct message messages[] = {
	    {MSG_accept, .accept = {.pass = 1}},
	    {MSG_gathered, .gathered = {.ballot = {1, 1}}},
	    {MSG_heartbeat, .heartbeat = {.sequence = 1}},
	    {MSG_keepalive, .keepalive = {.session = 1, .epoch = 2}},
	};

	for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
		struct buffer frame = BUFFER(200);

		wire_put_frame(&frame, &messages[i]);
		assert_int_equal(wire_frame_is_bulk(buffer_view(&frame)), i < 2);
		buffer_free(&frame);
	}
	assert_false(wire_frame_is_bulk((struct bytes){0}));
}
