/* Bytes: a view (`struct bytes`, owns nothing), a writer that grows up to a limit (`struct buffer`)
 * and a reader that latches its first error (`struct cursor`). All decoding in the system goes
 * through a cursor and all encoding through a buffer; numbers are little endian. */
#ifndef LSFS_BASE_BYTES_H
#define LSFS_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A view of `len` bytes, which it does not own; `data` may be NULL when `len` is 0. */
struct bytes {
	const uint8_t *data;
	size_t len;
};

/* The view of a NUL-terminated string, without its NUL. */
struct bytes bytes_of(const char *text);
/* True when both views have the same length and contents. */
bool bytes_equal(struct bytes a, struct bytes b);
/* Bytewise order, a prefix before the longer view: negative, 0 or positive. */
int bytes_compare(struct bytes a, struct bytes b);
/* Reads the whole text as a decimal number, which may begin with a minus sign; false if it is none.
 * A number beyond 10^15 is stored as some number beyond 10^15. */
bool bytes_number(struct bytes text, int64_t *number);
/* A heap copy with a NUL after it, to be freed by the caller. */
char *bytes_to_text(struct bytes b);
/* A heap copy; free((void *)copy.data). An empty view gives an empty copy with NULL data. */
struct bytes bytes_copy(struct bytes b);
/* Frees the old bytes of `to`, which it owns, and copies the new ones. */
void bytes_set(struct bytes *to, struct bytes from);

/* A growing buffer. `failed` latches when `limit` would be exceeded: later writes do nothing, and
 * the caller tests it once, at the end. Declare it with struct buffer b = BUFFER(limit) and free it
 * with buffer_free. */
struct buffer {
	uint8_t *data;
	size_t len, room, limit;
	bool failed;
};

#define BUFFER(limit_) ((struct buffer){.limit = (limit_)})

/* Appends bytes. Beyond the limit nothing is appended, by this function and the next ones, and
 * `failed` is set. */
void buffer_put(struct buffer *b, const void *data, size_t len);
/* The same for a view. */
void buffer_put_bytes(struct buffer *b, struct bytes v);
/* Appends a number of 8 bits, little-endian like the others. */
void buffer_put_u8(struct buffer *b, uint8_t v);
/* Appends one of 16 bits. */
void buffer_put_u16(struct buffer *b, uint16_t v);
/* Appends one of 32 bits. */
void buffer_put_u32(struct buffer *b, uint32_t v);
/* Appends one of 64 bits. */
void buffer_put_u64(struct buffer *b, uint64_t v);
/* Overwrites the four bytes at offset `at`, written before: for lengths known only afterwards. */
void buffer_patch_u32(struct buffer *b, size_t at, uint32_t v);
/* Appends formatted text, without a NUL. */
void buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The buffer's contents; valid until the next call that changes the buffer. */
struct bytes buffer_view(const struct buffer *b);
/* Hands the heap block to the caller, who frees it, and leaves the buffer empty with its limit. */
struct bytes buffer_take(struct buffer *b);
/* Empties the buffer and clears `failed`; the heap block is kept for the next use. */
void buffer_reset(struct buffer *b);
/* Frees the heap block and leaves the buffer empty with its limit. */
void buffer_free(struct buffer *b);

/* A reader over a view. After the first short read `failed` stays set and every read returns zero
 * or an empty view; the caller tests it once, at the end. */
struct cursor {
	const uint8_t *at, *end;
	bool failed;
};

/* A cursor at the beginning of `v`, which must outlive it. */
struct cursor cursor_of(struct bytes v);
/* The next number of 8 bits, little-endian like the others; 0 once the cursor has failed. */
uint8_t cursor_u8(struct cursor *c);
/* The next one of 32 bits. */
uint32_t cursor_u32(struct cursor *c);
/* The next one of 64 bits. */
uint64_t cursor_u64(struct cursor *c);
/* The next `len` bytes as a view into the source. */
struct bytes cursor_bytes(struct cursor *c, size_t len);
/* The number of bytes that were not read yet. */
size_t cursor_left(const struct cursor *c);
/* True when everything was read and no read was short. */
bool cursor_done(const struct cursor *c);

#endif
