/* The tables behind the codec: the schema's lists as data. A shape describes the fields of a C
 * struct: their offsets and encodings. The encoder, the decoder, the printer and the tests walk
 * shapes and contain no code for single messages. */
#ifndef LSFS_WIRE_SHAPE_H
#define LSFS_WIRE_SHAPE_H

#include <stddef.h>
#include "cell/wire/codec.h"

enum field_kind {
	FIELD_NUMBER,  /* `size` bytes, little endian */
	FIELD_INTEGER, /* a signed number */
	FIELD_BYTES,   /* struct bytes, at most `limit` bytes */
	FIELD_TEXT,    /* struct bytes, no NUL among them */
	FIELD_OP,      /* struct bytes, an encoded operation */
	FIELD_ENTRY,   /* struct bytes, an encoded log entry payload */
	FIELD_LIST,    /* struct wire_list of `sub`, at most `limit` elements */
	FIELD_PART,    /* a struct of shape `sub` in place */
};

struct shape;

struct field {
	size_t offset;
	const char *name;
	enum field_kind kind;
	uint8_t size; /* of a number */
	size_t limit;
	const struct shape *sub;
};

struct shape {
	const struct field *fields;
	size_t n;
	size_t size; /* of the struct */
};

/* The struct of any element that a list may have. */
union wire_element {
#define X(name, most) struct name name;
	WIRE_ELEMENTS(X)
#undef X
};

/* Offset of the alternatives: the start of the union. */
enum {
	OP_FIELDS = offsetof(struct op, lookup),
	RESULT_FIELDS = offsetof(struct result, none),
	MESSAGE_FIELDS = offsetof(struct message, request),
};

/* All alternatives of a kind, by their codes. */
struct variant_table {
	const struct variant *at;
	size_t n;
};
extern const struct variant_table shape_ops, shape_results, shape_messages;

/* The result of this kind; NULL if there is none. */
const struct variant *variant_of_result(unsigned kind);
/* The same of messages. */
const struct variant *variant_of_message(unsigned code);

/* The shapes of structs that are not alternatives. */
extern const struct shape shape_entry;
#define X(name, ...) extern const struct shape shape_##name;
WIRE_PARTS(X)
WIRE_ELEMENTS(X)
#undef X

/* Appends the encoded fields of the struct at `from`. */
void shape_put(const struct shape *shape, const void *from, struct buffer *to);
/* Decodes fields into the struct at `to`; malformed bytes latch the cursor's failure. */
void shape_get(const struct shape *shape, struct cursor *from, void *to);

#endif
