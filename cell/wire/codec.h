/* Encoding and decoding of everything in wire/schema.h, driven by one table.
 *
 * Every decoder is total: any bytes give a value or RC_BAD_MESSAGE, nothing is allocated, and every
 * length was compared with its limit and with what is there. Decoded values are views into `from`.
 * Encoders append to a buffer; a value over its limit, or a NUL in a text, latches its failure. */
#ifndef LSFS_WIRE_CODEC_H
#define LSFS_WIRE_CODEC_H

#include "cell/wire/types.h"

struct shape;

/* One of the alternatives of struct op, struct result or struct message. */
struct variant {
	const char *name; /* NULL: the code is not used */
	const struct shape *shape;
	enum message_turn turn; /* of messages; the others of operations: */
	enum op_class class;
	enum slot_kind slot;     /* the limits that count for a request with it */
	enum result_kind result; /* of its success */
	size_t node;             /* see wire_op_node: offset in struct op; 0: none */
};

/* A frame on a stream: u32 length of what follows, u8 message code, fields. */
void wire_put_frame(struct buffer *to, const struct message *m);
/* Finds the first whole frame in `from`: its total length (prefix included), 0 when more bytes are
 * needed, or -1 when the prefix is over LIMIT_FRAME or zero. */
long wire_frame_length(struct bytes from);
/* The message code of a frame (0: none), without checking the rest: for callers that look for one
 * kind of message. */
unsigned wire_frame_code(struct bytes frame);
/* True if the frame overtakes all others on its connection: its message has the turn FIRST, and
 * reports no end of a session. */
bool wire_frame_goes_first(struct bytes frame);
/* True if the turn of the frame's message is BULK: no other message may wait for it. */
bool wire_frame_is_bulk(struct bytes frame);
/* Decodes one whole frame, as written by wire_put_frame. */
enum rc wire_get_frame(struct bytes frame, struct message *m);

/* An operation: u8 code, fields. */
void wire_put_op(struct buffer *to, const struct op *op);
/* Views lead into `from`. RC_OK or RC_BAD_MESSAGE. */
enum rc wire_get_op(struct bytes from, struct op *op);
/* The row of the schema for an operation; NULL if none has this code. */
const struct variant *wire_op(unsigned code);
/* True if the command changes one node alone, which is there, and is answered with its
 * attributes. */
bool wire_op_changes_node(enum op_code code);
/* The kind of result that an answer with this code has. */
enum result_kind wire_answer_kind(enum op_code code, enum rc rc);
/* The node of an operation, for ordering and lock queues (rename, delete and create: the parent
 * directory); 0: none. */
uint64_t wire_op_node(const struct op *op);
/* Makes it the node of the operation, which has one. */
void wire_op_set_node(struct op *op, uint64_t node);
/* The nth field of bytes of the operation, counted from 0, lists included; NULL: it has fewer. */
struct bytes *wire_op_bytes(struct op *op, size_t nth);
/* The attributes in a result with which a file may be opened; NULL if it has none. */
const struct attr *wire_result_attr(const struct result *r);
/* The rights with which a handle may be opened by them. The maker of a file has it open as it
 * likes, as in POSIX, whatever rights the attributes show. */
uint8_t wire_result_rights(const struct result *r);

/* A result, without its kind, which the reader knows from its request. */
void wire_put_result(struct buffer *to, const struct result *r);
/* The same; `kind` follows from the request (wire_answer_kind). */
enum rc wire_get_result(enum result_kind kind, struct bytes from, struct result *r);

/* The payload of a log entry. */
void wire_put_entry(struct buffer *to, const struct entry *e);
/* Likewise. */
enum rc wire_get_entry(struct bytes from, struct entry *e);

/* The payload of an entry with one command of the master's own, a heap block. */
struct bytes wire_entry_of(const struct op *op, int64_t stamp_ns);

/* If the entry changes the cell's members: true, with the operation in *change. All other entries
 * are recognized by a few bytes. */
bool wire_entry_members(struct bytes payload, struct op_set_members *change);

/* List elements: wire_put_NAME appends one to the buffer that becomes list.packed; wire_next_NAME
 * takes the next from a cursor over list.packed, which was checked when the list was decoded: false
 * at the end. */
#define X(name, most)                                                      \
	void wire_put_##name(struct buffer *to, const struct name *value); \
	bool wire_next_##name(struct cursor *from, struct name *value);
WIRE_ELEMENTS(X)
#undef X

#endif
