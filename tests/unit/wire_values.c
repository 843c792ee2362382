#include "tests/unit/wire_values.h"

#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/wire/codec.h"

void
values_free(struct values *v)
{
	for (size_t i = 0; i < v->n; i++)
		free((void *)v->blocks[i].data);
	free(v->blocks);
	*v = (struct values){.rng = v->rng};
}

static struct bytes
keep(struct values *v, struct buffer *b)
{
	must(!b->failed);
	ARRAY_ROOM(v->blocks, v->n, v->room);
	return v->blocks[v->n++] = buffer_take(b);
}

static uint64_t
random_number(struct values *v)
{
	const uint64_t number = rng_next(&v->rng);

	return number >> rng_below(&v->rng, 64);
}

static struct bytes
random_bytes(struct values *v, const struct field *field)
{
	struct buffer b = BUFFER(field->limit);
	size_t most = rng_chance(&v->rng, 100) ? 300 : 20;
	size_t len = rng_below(&v->rng, (most < field->limit ? most : field->limit) + 1);

	for (size_t i = 0; i < len; i++) {
		uint8_t byte = (uint8_t)rng_next(&v->rng);

		buffer_put_u8(&b, field->kind == FIELD_TEXT && byte == 0 ? ' ' : byte);
	}
	return keep(v, &b);
}

static struct bytes
random_op(struct values *v)
{
	struct buffer b = BUFFER(LIMIT_ENTRY);
	struct op op;

	while (!values_op(v, (unsigned)rng_below(&v->rng, 256), &op))
		continue;
	wire_put_op(&b, &op);
	return keep(v, &b);
}

static struct bytes
random_entry(struct values *v)
{
	struct buffer b = BUFFER(LIMIT_ENTRY);
	struct entry entry;

	values_fill(v, &shape_entry, &entry);
	wire_put_entry(&b, &entry);
	return keep(v, &b);
}

static struct wire_list
random_list(struct values *v, const struct field *field)
{
	struct wire_list list = {.count = (uint32_t)rng_below(&v->rng, 4)};
	struct buffer b = BUFFER(LIMIT_FRAME);
	union wire_element element;

	for (uint32_t i = 0; i < list.count; i++) {
		values_fill(v, field->sub, &element);
		shape_put(field->sub, &element, &b);
	}
	list.packed = keep(v, &b);
	return list;
}

static void
fill_number(struct values *v, const struct field *field, void *at)
{
	uint64_t number = random_number(v);

	if (field->size == 1)
		*(uint8_t *)at = (uint8_t)number;
	else if (field->size == 4)
		*(uint32_t *)at = (uint32_t)number;
	else
		*(uint64_t *)at = field->kind == FIELD_INTEGER && number % 2 ? -number : number;
}

void
values_fill(struct values *v, const struct shape *shape, void *to)
{
	for (size_t i = 0; i < shape->n; i++) {
		const struct field *field = &shape->fields[i];
		void *at = (uint8_t *)to + field->offset;

		switch (field->kind) {
		case FIELD_NUMBER:
		case FIELD_INTEGER:
			fill_number(v, field, at);
			break;
		case FIELD_BYTES:
		case FIELD_TEXT:
			*(struct bytes *)at = random_bytes(v, field);
			break;
		case FIELD_OP:
			*(struct bytes *)at = random_op(v);
			break;
		case FIELD_ENTRY:
			*(struct bytes *)at = random_entry(v);
			break;
		case FIELD_LIST:
			*(struct wire_list *)at = random_list(v, field);
			break;
		case FIELD_PART:
			values_fill(v, field->sub, at);
			break;
		}
	}
}

static bool
field_equal(const struct field *field, const void *a, const void *b)
{
	const struct wire_list *left = a, *right = b;

	switch (field->kind) {
	case FIELD_NUMBER:
	case FIELD_INTEGER:
		return memcmp(a, b, field->size) == 0;
	case FIELD_LIST:
		return left->count == right->count && bytes_equal(left->packed, right->packed);
	case FIELD_PART:
		return values_equal(field->sub, a, b);
	default:
		return bytes_equal(*(const struct bytes *)a, *(const struct bytes *)b);
	}
}

bool
values_equal(const struct shape *shape, const void *a, const void *b)
{
	for (size_t i = 0; i < shape->n; i++) {
		size_t offset = shape->fields[i].offset;

		if (!field_equal(&shape->fields[i], (const uint8_t *)a + offset,
		                 (const uint8_t *)b + offset))
			return false;
	}
	return true;
}

bool
values_message(struct values *v, unsigned code, struct message *m)
{
	const struct variant *variant = variant_of_message(code);

	if (variant == NULL)
		return false;
	m->code = code;
	values_fill(v, variant->shape, (uint8_t *)m + MESSAGE_FIELDS);
	return true;
}

bool
values_op(struct values *v, unsigned code, struct op *op)
{
	const struct variant *variant = wire_op(code);

	if (variant == NULL)
		return false;
	op->code = code;
	values_fill(v, variant->shape, (uint8_t *)op + OP_FIELDS);
	return true;
}

bool
values_result(struct values *v, unsigned kind, struct result *r)
{
	const struct variant *variant = variant_of_result(kind);

	if (variant == NULL)
		return false;
	r->kind = kind;
	values_fill(v, variant->shape, (uint8_t *)r + RESULT_FIELDS);
	return true;
}
