#include <string.h>
#include "cell/base/must.h"
#include "cell/wire/codec.h"
#include "cell/wire/shape.h"

static bool
has_nul(struct bytes v)
{
	return v.len > 0 && memchr(v.data, '\0', v.len) != NULL;
}

/* ---- alternatives ---- */

static const struct variant *
variant_at(const struct variant_table *table, unsigned code)
{
	return code < table->n && table->at[code].name != NULL ? &table->at[code] : NULL;
}

const struct variant *
wire_op(unsigned code)
{
	return variant_at(&shape_ops, code);
}

const struct variant *
variant_of_result(unsigned kind)
{
	return variant_at(&shape_results, kind);
}

const struct variant *
variant_of_message(unsigned code)
{
	return variant_at(&shape_messages, code);
}

/* ---- encoding ---- */

static void
number_put(const struct field *field, const uint8_t *from, struct buffer *to)
{
	switch (field->size) {
	case 1:
		buffer_put_u8(to, *from);
		break;
	case 4:
		buffer_put_u32(to, *(const uint32_t *)(const void *)from);
		break;
	default:
		must(field->size == 8);
		buffer_put_u64(to, *(const uint64_t *)(const void *)from);
	}
}

static void
bytes_put(const struct field *field, struct bytes v, struct buffer *to)
{
	if (v.len > field->limit || (field->kind == FIELD_TEXT && has_nul(v))) {
		to->failed = true;
		return;
	}
	buffer_put_u32(to, (uint32_t)v.len);
	buffer_put_bytes(to, v);
}

static void
list_put(const struct field *field, const struct wire_list *list, struct buffer *to)
{
	if (list->count > field->limit || list->packed.len > LIMIT_FRAME) {
		to->failed = true;
		return;
	}
	buffer_put_u32(to, list->count);
	buffer_put_u32(to, (uint32_t)list->packed.len);
	buffer_put_bytes(to, list->packed);
}

void
shape_put(const struct shape *shape, const void *from, struct buffer *to)
{
	for (size_t i = 0; i < shape->n; i++) {
		const struct field *field = &shape->fields[i];
		const void *at = (const uint8_t *)from + field->offset;

		switch (field->kind) {
		case FIELD_NUMBER:
		case FIELD_INTEGER:
			number_put(field, at, to);
			break;
		case FIELD_BYTES:
		case FIELD_TEXT:
		case FIELD_OP:
		case FIELD_ENTRY:
			bytes_put(field, *(const struct bytes *)at, to);
			break;
		case FIELD_LIST:
			list_put(field, at, to);
			break;
		case FIELD_PART:
			shape_put(field->sub, at, to);
			break;
		}
	}
}

/* ---- decoding ---- */

static void
number_get(const struct field *field, struct cursor *from, uint8_t *to)
{
	switch (field->size) {
	case 1:
		*to = cursor_u8(from);
		break;
	case 4:
		*(uint32_t *)(void *)to = cursor_u32(from);
		break;
	default:
		must(field->size == 8);
		*(uint64_t *)(void *)to = cursor_u64(from);
	}
}

static struct bytes
bytes_get(const struct field *field, struct cursor *from)
{
	size_t len = cursor_u32(from);
	struct bytes v;

	if (len > field->limit)
		from->failed = true;
	v = cursor_bytes(from, len);
	if (field->kind == FIELD_TEXT && has_nul(v))
		from->failed = true;
	return v;
}

/* Checks every element, so that a list never has a malformed element when it is walked later. */
static struct wire_list
list_get(const struct field *field, struct cursor *from)
{
	uint32_t count = cursor_u32(from);
	size_t len = cursor_u32(from);
	struct wire_list list = {cursor_bytes(from, len), count};
	struct cursor packed = cursor_of(list.packed);
	union wire_element element;

	must(field->sub->size <= sizeof element);
	if (count > field->limit)
		from->failed = true;
	for (uint32_t i = 0; i < count && !from->failed; i++) {
		shape_get(field->sub, &packed, &element);
		from->failed = packed.failed;
	}
	if (!cursor_done(&packed))
		from->failed = true;
	return list;
}

void
shape_get(const struct shape *shape, struct cursor *from, void *to)
{
	for (size_t i = 0; i < shape->n; i++) {
		const struct field *field = &shape->fields[i];
		void *at = (uint8_t *)to + field->offset;

		switch (field->kind) {
		case FIELD_NUMBER:
		case FIELD_INTEGER:
			number_get(field, from, at);
			break;
		case FIELD_BYTES:
		case FIELD_TEXT:
		case FIELD_OP:
		case FIELD_ENTRY:
			*(struct bytes *)at = bytes_get(field, from);
			break;
		case FIELD_LIST:
			*(struct wire_list *)at = list_get(field, from);
			break;
		case FIELD_PART:
			shape_get(field->sub, from, at);
			break;
		}
	}
}

/* Decodes the alternative `v` (NULL: an unknown code) from the rest of `from`, which must have no
 * bytes left after it. */
static bool
variant_get(const struct variant *v, struct cursor *from, void *to)
{
	if (v == NULL || from->failed)
		return false;
	shape_get(v->shape, from, to);
	return cursor_done(from);
}

/* ---- frames ---- */

enum { FRAME_PREFIX = sizeof(uint32_t) };

void
wire_put_frame(struct buffer *to, const struct message *m)
{
	const struct variant *v = variant_of_message(m->code);
	size_t start = to->len;

	must(v != NULL);
	buffer_put_u32(to, 0);
	buffer_put_u8(to, (uint8_t)m->code);
	shape_put(v->shape, (const uint8_t *)m + MESSAGE_FIELDS, to);
	if (to->failed)
		return;
	if (to->len - start - FRAME_PREFIX > LIMIT_FRAME) {
		to->failed = true;
		return;
	}
	buffer_patch_u32(to, start, (uint32_t)(to->len - start - FRAME_PREFIX));
}

long
wire_frame_length(struct bytes from)
{
	struct cursor c = cursor_of(from);
	uint32_t len = cursor_u32(&c);

	if (c.failed)
		return 0;
	if (len == 0 || len > LIMIT_FRAME)
		return -1;
	return len <= cursor_left(&c) ? (long)(FRAME_PREFIX + len) : 0;
}

unsigned
wire_frame_code(struct bytes frame)
{
	return frame.len > FRAME_PREFIX ? frame.data[FRAME_PREFIX] : 0;
}

static enum message_turn
turn_of(unsigned code)
{
	const struct variant *v = variant_of_message(code);

	return v != NULL ? v->turn : TURN_ORDER;
}

/* The end of a session is reported after its last replies. */
bool
wire_frame_goes_first(struct bytes frame)
{
	const unsigned code = wire_frame_code(frame);

	if (code == MSG_keepalive_reply &&
	    (frame.len <= FRAME_PREFIX + 1 || frame.data[FRAME_PREFIX + 1] != RC_OK))
		return false;
	return turn_of(code) == TURN_FIRST;
}

bool
wire_frame_is_bulk(struct bytes frame)
{
	return turn_of(wire_frame_code(frame)) == TURN_BULK;
}

enum rc
wire_get_frame(struct bytes frame, struct message *m)
{
	struct cursor c = cursor_of(frame);

	memset(m, 0, sizeof *m);
	if (wire_frame_length(frame) != (long)frame.len)
		return RC_BAD_MESSAGE;
	cursor_u32(&c);
	m->code = cursor_u8(&c);
	if (!variant_get(variant_of_message(m->code), &c, (uint8_t *)m + MESSAGE_FIELDS))
		return RC_BAD_MESSAGE;
	return RC_OK;
}

/* ---- operations ---- */

void
wire_put_op(struct buffer *to, const struct op *op)
{
	const struct variant *v = wire_op(op->code);

	must(v != NULL);
	buffer_put_u8(to, (uint8_t)op->code);
	shape_put(v->shape, (const uint8_t *)op + OP_FIELDS, to);
}

enum rc
wire_get_op(struct bytes from, struct op *op)
{
	struct cursor c = cursor_of(from);

	memset(op, 0, sizeof *op);
	op->code = cursor_u8(&c);
	if (!variant_get(wire_op(op->code), &c, (uint8_t *)op + OP_FIELDS))
		return RC_BAD_MESSAGE;
	return RC_OK;
}

bool
wire_op_changes_node(enum op_code code)
{
	const struct variant *v = wire_op(code);

	return v->class == OP_CLASS_COMMAND && v->result == RESULT_attr &&
	       code != OP_open_ephemeral;
}

enum result_kind
wire_answer_kind(enum op_code code, enum rc rc)
{
	if (rc == RC_OK || (rc == RC_QUEUED && code == OP_acquire))
		return wire_op(code)->result;
	return rc == RC_ACCES ? RESULT_refused : RESULT_none;
}

const struct attr *
wire_result_attr(const struct result *r)
{
	switch (r->kind) {
	case RESULT_attr:
		return &r->attr.attr;
	case RESULT_created:
		return &r->created.attr;
	case RESULT_numbered:
		return &r->numbered.attr;
	case RESULT_contents:
		return &r->contents.attr;
	case RESULT_renamed:
		return &r->renamed.attr;
	default:
		return NULL;
	}
}

uint8_t
wire_result_rights(const struct result *r)
{
	const struct attr *attr = wire_result_attr(r);
	const bool made = r->kind == RESULT_created && r->created.fresh != 0;

	if (attr == NULL)
		return 0;
	return made && attr->kind == NODE_FILE ? attr->rights | RIGHT_READ | RIGHT_WRITE
	                                       : attr->rights;
}

uint64_t
wire_op_node(const struct op *op)
{
	const size_t node = wire_op(op->code)->node;

	return node == 0 ? 0 : *(const uint64_t *)(const void *)((const uint8_t *)op + node);
}

void
wire_op_set_node(struct op *op, uint64_t node)
{
	const size_t at = wire_op(op->code)->node;

	must(at != 0);
	*(uint64_t *)(void *)((uint8_t *)op + at) = node;
}

struct bytes *
wire_op_bytes(struct op *op, size_t nth)
{
	const struct shape *shape = wire_op(op->code)->shape;

	for (size_t i = 0; i < shape->n; i++) {
		const struct field *field = &shape->fields[i];
		uint8_t *const at = (uint8_t *)op + OP_FIELDS + field->offset;

		if (field->kind == FIELD_LIST && nth-- == 0)
			return &((struct wire_list *)(void *)at)->packed;
		if ((field->kind == FIELD_BYTES || field->kind == FIELD_TEXT) && nth-- == 0)
			return (struct bytes *)(void *)at;
	}
	return NULL;
}

/* ---- results ---- */

void
wire_put_result(struct buffer *to, const struct result *r)
{
	const struct variant *v = variant_of_result(r->kind);

	must(v != NULL);
	shape_put(v->shape, (const uint8_t *)r + RESULT_FIELDS, to);
}

enum rc
wire_get_result(enum result_kind kind, struct bytes from, struct result *r)
{
	struct cursor c = cursor_of(from);

	memset(r, 0, sizeof *r);
	r->kind = kind;
	if (!variant_get(variant_of_result(kind), &c, (uint8_t *)r + RESULT_FIELDS))
		return RC_BAD_MESSAGE;
	return RC_OK;
}

/* ---- log entries and list elements ---- */

void
wire_put_entry(struct buffer *to, const struct entry *e)
{
	shape_put(&shape_entry, e, to);
}

enum rc
wire_get_entry(struct bytes from, struct entry *e)
{
	struct cursor c = cursor_of(from);

	memset(e, 0, sizeof *e);
	shape_get(&shape_entry, &c, e);
	return cursor_done(&c) ? RC_OK : RC_BAD_MESSAGE;
}

struct bytes
wire_entry_of(const struct op *op, int64_t stamp_ns)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY), commands = encoded, payload = encoded;
	struct command command = {.stamp_ns = stamp_ns};

	wire_put_op(&encoded, op);
	command.op = buffer_view(&encoded);
	wire_put_command(&commands, &command);
	wire_put_entry(&payload, &(struct entry){.commands = {buffer_view(&commands), 1}});
	must(!encoded.failed && !commands.failed && !payload.failed);
	buffer_free(&encoded);
	buffer_free(&commands);
	return buffer_take(&payload);
}

/* Offset of the operation's code in an entry of one command: after four numbers and a length. */
enum { ONE_COMMAND_OP = 4 + 4 + 4 * 8 + 4 };

bool
wire_entry_members(struct bytes payload, struct op_set_members *change)
{
	struct entry entry;
	struct command command;
	struct cursor c;
	struct op op;

	if (payload.len <= ONE_COMMAND_OP || payload.data[ONE_COMMAND_OP] != OP_set_members ||
	    wire_get_entry(payload, &entry) != RC_OK || entry.commands.count != 1)
		return false;
	c = cursor_of(entry.commands.packed);
	if (!wire_next_command(&c, &command) || command.session != 0 ||
	    wire_get_op(command.op, &op) != RC_OK || op.code != OP_set_members)
		return false;
	*change = op.set_members;
	return true;
}

static bool
element_next(const struct shape *shape, struct cursor *from, void *value)
{
	if (cursor_left(from) == 0)
		return false;
	shape_get(shape, from, value);
	must(!from->failed); /* the list was checked when it was decoded, or made by this process */
	return true;
}

#define X(name, most)                                                     \
	void wire_put_##name(struct buffer *to, const struct name *value) \
	{                                                                 \
		shape_put(&shape_##name, value, to);                      \
	}                                                                 \
	bool wire_next_##name(struct cursor *from, struct name *value)    \
	{                                                                 \
		return element_next(&shape_##name, from, value);          \
	}
WIRE_ELEMENTS(X)
