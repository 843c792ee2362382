#include "cell/wire/shape.h"

/* The maximum number of elements of a list, by the shape of its elements. */
enum {
	LIST_MAX_child = LIMIT_LISTING,
	LIST_MAX_lock_holder = LIMIT_HOLDERS,
	LIST_MAX_command = LIMIT_ENTRY_COMMANDS,
	LIST_MAX_log_entry = LIMIT_FRAME, /* limited by the frame alone */
	LIST_MAX_slot_header = LIMIT_FRAME,
	LIST_MAX_member = LIMIT_MEMBERS,
	LIST_MAX_mark = LIMIT_MEMBERS,
	LIST_MAX_progress = LIMIT_MEMBERS,
	LIST_MAX_session_row = LIMIT_SESSIONS,
	LIST_MAX_setting_value = LIMIT_SETTINGS,
	LIST_MAX_setting_row = LIMIT_SETTINGS,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Each shape is a static table in a function of its own, so that `struct here`, which the offsets
 * refer to, can be another struct in each function. */
#define FIELD(kind, name, argument) FIELD_##kind(name, argument)
#define FIELD_u8(name, none) {FIELD_NUMBER, 1, AT(name), 0, NULL, #name},
#define FIELD_u32(name, none) {FIELD_NUMBER, 4, AT(name), 0, NULL, #name},
#define FIELD_u64(name, none) {FIELD_NUMBER, 8, AT(name), 0, NULL, #name},
#define FIELD_i64(name, none) {FIELD_INTEGER, 8, AT(name), 0, NULL, #name},
#define FIELD_bytes(name, max) {FIELD_BYTES, 0, AT(name), max, NULL, #name},
#define FIELD_text(name, max) {FIELD_TEXT, 0, AT(name), max, NULL, #name},
#define FIELD_op(name, max) {FIELD_OP, 0, AT(name), max, NULL, #name},
#define FIELD_entry(name, max) {FIELD_ENTRY, 0, AT(name), max, NULL, #name},
#define FIELD_list(name, of) {FIELD_LIST, 0, AT(name), LIST_MAX_##of, shape_of_##of, #name},
#define FIELD_attr(name, none) PART(name, attr)
#define FIELD_ticket(name, none) PART(name, ticket)
#define FIELD_ballot(name, none) PART(name, ballot)
#define FIELD_acquire(name, none) PART(name, acquire)
#define FIELD_mark(name, none) PART(name, mark)
#define PART(name, of) {FIELD_PART, 0, AT(name), 0, shape_of_##of, #name},
#define AT(name) offsetof(here, name)

#define SHAPE(function, type, list)                                                             \
	const struct shape *function(void)                                                      \
	{                                                                                       \
		typedef struct type here;                                                       \
		static const struct field fields[] = {list(FIELD)};                             \
		static const struct shape shape = {fields, COUNT(fields), sizeof(here)};        \
		return &shape;                                                                  \
	}

#define X(name) SHAPE(shape_of_##name, name, WIRE_##name)
WIRE_PARTS(X)
X(entry)
#undef X

#define X(code, name, class, urgency, result) static SHAPE(op_##name, op_##name, WIRE_op_##name)
WIRE_OPS(X)
#undef X

#define X(name) static SHAPE(result_##name, result_##name, WIRE_result_##name)
WIRE_RESULTS(X)
#undef X

#define X(code, name, turn) static SHAPE(msg_##name, msg_##name, WIRE_msg_##name)
WIRE_MESSAGES(X)
#undef X

static const struct variant ops[] = {
#define X(code, id, class, urgency, result)                                                     \
	[code] = {#id, op_##id, OP_CLASS_##class, OP_##urgency, RESULT_##result, TURN_ORDER},
	WIRE_OPS(X)
#undef X
};

static const struct variant results[] = {
#define X(id) [RESULT_##id] = {.name = #id, .shape = result_##id},
	WIRE_RESULTS(X)
#undef X
};

static const struct variant messages[] = {
#define X(code, id, order) [code] = {.name = #id, .shape = msg_##id, .turn = TURN_##order},
	WIRE_MESSAGES(X)
#undef X
};

static const struct variant *
variant_at(const struct variant *table, size_t n, unsigned code)
{
	return code < n && table[code].name != NULL ? &table[code] : NULL;
}

const struct variant *
variant_of_op(unsigned code)
{
	return variant_at(ops, COUNT(ops), code);
}

const struct variant *
variant_of_result(unsigned kind)
{
	return variant_at(results, COUNT(results), kind);
}

const struct variant *
variant_of_message(unsigned code)
{
	return variant_at(messages, COUNT(messages), code);
}
