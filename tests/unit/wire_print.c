#include "tests/unit/wire_print.h"

#include <inttypes.h>
#include "cell/wire/shape.h"

enum {
	PRINT_BYTES = 64,   /* longer values are shortened to their length */
	PRINT_ELEMENTS = 8, /* elements of a list that are printed; then dots */
};

static void print_fields(const struct shape *shape, const void *from, struct buffer *to);

static void
print_text(struct bytes text, struct buffer *to)
{
	buffer_put_u8(to, '"');
	for (size_t i = 0; i < text.len; i++) {
		uint8_t c = text.data[i];

		if (c == '"' || c == '\\')
			buffer_printf(to, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			buffer_printf(to, "\\x%02x", c);
		else
			buffer_put_u8(to, c);
	}
	buffer_put_u8(to, '"');
}

static void
print_bytes(const struct field *field, struct bytes v, struct buffer *to)
{
	struct op op;
	struct entry entry;

	if (field->kind == FIELD_OP && wire_get_op(v, &op) == RC_OK) {
		wire_print_op(to, &op);
	} else if (field->kind == FIELD_ENTRY && wire_get_entry(v, &entry) == RC_OK) {
		buffer_printf(to, "{");
		print_fields(&shape_entry, &entry, to);
		buffer_printf(to, "}");
	} else if (v.len > PRINT_BYTES) {
		buffer_printf(to, "<%zu bytes>", v.len);
	} else if (field->kind == FIELD_TEXT) {
		print_text(v, to);
	} else {
		for (size_t i = 0; i < v.len; i++)
			buffer_printf(to, "%02x", v.data[i]);
	}
}

static void
print_list(const struct field *field, const struct wire_list *list, struct buffer *to)
{
	struct cursor packed = cursor_of(list->packed);
	union wire_element element;

	buffer_printf(to, "%" PRIu32 "[", list->count);
	for (uint32_t i = 0; i < list->count; i++) {
		if (i == PRINT_ELEMENTS) {
			buffer_printf(to, " ...");
			break;
		}
		shape_get(field->sub, &packed, &element);
		buffer_printf(to, i == 0 ? "{" : " {");
		print_fields(field->sub, &element, to);
		buffer_printf(to, "}");
	}
	buffer_printf(to, "]");
}

static void
print_number(const struct field *field, const void *at, struct buffer *to)
{
	if (field->kind == FIELD_INTEGER)
		buffer_printf(to, "%" PRId64, *(const int64_t *)at);
	else if (field->size == 8)
		buffer_printf(to, "%" PRIu64, *(const uint64_t *)at);
	else if (field->size == 4)
		buffer_printf(to, "%" PRIu32, *(const uint32_t *)at);
	else
		buffer_printf(to, "%u", *(const uint8_t *)at);
}

static void
print_value(const struct field *field, const void *at, struct buffer *to)
{
	switch (field->kind) {
	case FIELD_NUMBER:
	case FIELD_INTEGER:
		print_number(field, at, to);
		break;
	case FIELD_BYTES:
	case FIELD_TEXT:
	case FIELD_OP:
	case FIELD_ENTRY:
		print_bytes(field, *(const struct bytes *)at, to);
		break;
	case FIELD_LIST:
		print_list(field, at, to);
		break;
	case FIELD_PART:
		buffer_printf(to, "{");
		print_fields(field->sub, at, to);
		buffer_printf(to, "}");
		break;
	}
}

static void
print_fields(const struct shape *shape, const void *from, struct buffer *to)
{
	for (size_t i = 0; i < shape->n; i++) {
		const struct field *field = &shape->fields[i];

		buffer_printf(to, i == 0 ? "%s=" : " %s=", field->name);
		print_value(field, (const uint8_t *)from + field->offset, to);
	}
}

void
wire_print_message(struct buffer *to, const struct message *m)
{
	const struct variant *v = variant_of_message(m->code);

	if (v == NULL) {
		buffer_printf(to, "message %u?", (unsigned)m->code);
		return;
	}
	buffer_printf(to, v->shape->n > 0 ? "%s " : "%s", v->name);
	print_fields(v->shape, (const uint8_t *)m + MESSAGE_FIELDS, to);
}

void
wire_print_op(struct buffer *to, const struct op *op)
{
	const struct variant *v = wire_op(op->code);

	if (v == NULL) {
		buffer_printf(to, "operation %u?", (unsigned)op->code);
		return;
	}
	buffer_printf(to, "%s{", v->name);
	print_fields(v->shape, (const uint8_t *)op + OP_FIELDS, to);
	buffer_printf(to, "}");
}
