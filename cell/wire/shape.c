#include "cell/wire/shape.h"

enum {
#define X(name, most) LIST_MAX_##name = LIMIT_##most,
	WIRE_ELEMENTS(X)
#undef X
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A list of the schema calls F(kind, name, argument) for each of its fields, and does not know in
 * which struct they are. So F is two macros in a row: OF(struct attr) FIELD begins each field with
 * the offset of its name in struct attr. */
#define OF(type) \
	{__builtin_offsetof(type,
#define FIELD(kind, name, argument) name), #name, FIELD_##kind(argument) \
	}                                                                \
	,
#define FIELD_u8(none) FIELD_NUMBER, 1, 0, NULL
#define FIELD_u32(none) FIELD_NUMBER, 4, 0, NULL
#define FIELD_u64(none) FIELD_NUMBER, 8, 0, NULL
#define FIELD_i64(none) FIELD_INTEGER, 8, 0, NULL
#define FIELD_bytes(max) FIELD_BYTES, 0, max, NULL
#define FIELD_text(max) FIELD_TEXT, 0, max, NULL
#define FIELD_op(max) FIELD_OP, 0, max, NULL
#define FIELD_entry(max) FIELD_ENTRY, 0, max, NULL
#define FIELD_list(of) FIELD_LIST, 0, LIST_MAX_##of, &shape_##of
#define FIELD_attr(none) PART(attr)
#define FIELD_ticket(none) PART(ticket)
#define FIELD_ballot(none) PART(ballot)
#define FIELD_acquire(none) PART(acquire)
#define FIELD_mark(none) PART(mark)
#define FIELD_guard(none) PART(guard)
#define PART(of) FIELD_PART, 0, 0, &shape_##of

#define FIELDS(id) static const struct field id##_fields[] = {WIRE_##id(OF(struct id) FIELD)};
#define SHAPE(id) {id##_fields, COUNT(id##_fields), sizeof(struct id)};
#define ALTERNATIVE(id) FIELDS(id) static const struct shape shape_##id = SHAPE(id)

#define X(name, ...) FIELDS(name) const struct shape shape_##name = SHAPE(name)
WIRE_PARTS(X)
WIRE_ELEMENTS(X)
X(entry)
#undef X

#define X(code, name, class, slot, result, node) ALTERNATIVE(op_##name)
WIRE_OPS(X)
#undef X

#define X(name) ALTERNATIVE(result_##name)
WIRE_RESULTS(X)
#undef X

#define X(code, name, turn) ALTERNATIVE(msg_##name)
WIRE_MESSAGES(X)
#undef X

static const struct variant ops[] = {
#define NODE_none(id) 0
#define NODE_node(id) offsetof(struct op, id.node)
#define NODE_parent(id) offsetof(struct op, id.parent)
#define NODE_acquire(id) offsetof(struct op, id.acquire.node)
#define X(code, id, class_, slot_, result_, node_) \
	[code] = {                                 \
	    .name = #id,                           \
	    .shape = &shape_op_##id,               \
	    .class = OP_CLASS_##class_,            \
	    .slot = SLOT_##slot_,                  \
	    .result = RESULT_##result_,            \
	    .node = NODE_##node_(id),              \
	},
    WIRE_OPS(X)
#undef X
};

static const struct variant results[] = {
#define X(id) [RESULT_##id] = {.name = #id, .shape = &shape_result_##id},
    WIRE_RESULTS(X)
#undef X
};

static const struct variant messages[] = {
#define X(code, id, turn_) [code] = {.name = #id, .shape = &shape_msg_##id, .turn = TURN_##turn_},
    WIRE_MESSAGES(X)
#undef X
};

const struct variant_table shape_ops = {ops, COUNT(ops)};
const struct variant_table shape_results = {results, COUNT(results)};
const struct variant_table shape_messages = {messages, COUNT(messages)};
