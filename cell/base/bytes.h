/* Bytes: a view (`struct bytes`, owns nothing), a writer that grows up to a limit (`struct buffer`)
 * and a reader that latches its first error (`struct cursor`). All decoding in the system goes
 * through a cursor and all encoding through a buffer; numbers are little endian. */
#ifndef LSFS_BASE_BYTES_H
#define LSFS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A view of `len` bytes that somebody else owns; `data` may be NULL when `len` is 0. */
struct bytes {
	const uint8_t *data;
	size_t len;
};

/* The view of a NUL-terminated string, without its NUL. */
struct bytes bytes_of(const char *text);
bool bytes_equal(struct bytes a, struct bytes b);
/* Bytewise order, a prefix before the longer one: negative, 0 or positive. */
int bytes_compare(struct bytes a, struct bytes b);
/* A heap copy with a NUL behind it, to be freed by the caller. */
char *bytes_to_text(struct bytes b);
/* A heap copy; free((void *)copy.data). An empty view gives an empty copy with NULL data. */
struct bytes bytes_copy(struct bytes b);

/* A growing buffer. `failed` latches when `limit` would be exceeded: later writes do nothing, and
 * the caller asks once, at the end. Start: struct buffer b = BUFFER(limit); end: buffer_free. */
struct buffer {
	uint8_t *data;
	size_t len, room, limit;
	bool failed;
};

#define BUFFER(limit_) ((struct buffer){.limit = (limit_)})

void buffer_put(struct buffer *b, const void *data, size_t len);
void buffer_put_bytes(struct buffer *b, struct bytes v);
void buffer_put_u8(struct buffer *b, uint8_t v);
void buffer_put_u16(struct buffer *b, uint16_t v);
void buffer_put_u32(struct buffer *b, uint32_t v);
void buffer_put_u64(struct buffer *b, uint64_t v);
/* Overwrites four bytes written before, at `at`: for lengths known only afterwards. */
void buffer_patch_u32(struct buffer *b, size_t at, uint32_t v);
/* printf into the buffer (no NUL is kept). */
void buffer_printf(struct buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct bytes buffer_view(const struct buffer *b);
/* Hands the heap block over (free it) and leaves the buffer empty with its limit. */
struct bytes buffer_take(struct buffer *b);
void buffer_reset(struct buffer *b); /* empty, keeps its room */
void buffer_free(struct buffer *b);

/* A reader over a view. After the first short read `failed` stays set and every get answers zero
 * or an empty view; the caller asks once, at the end. */
struct cursor {
	const uint8_t *at, *end;
	bool failed;
};

struct cursor cursor_of(struct bytes v);
uint8_t cursor_u8(struct cursor *c);
uint16_t cursor_u16(struct cursor *c);
uint32_t cursor_u32(struct cursor *c);
uint64_t cursor_u64(struct cursor *c);
/* The next `len` bytes as a view into the source. */
struct bytes cursor_bytes(struct cursor *c, size_t len);
size_t cursor_left(const struct cursor *c);
/* True when everything was read and nothing failed. */
bool cursor_done(const struct cursor *c);

#endif
