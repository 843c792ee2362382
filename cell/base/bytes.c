#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/bytes.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"

/* ---- views ---- */

struct bytes
bytes_of(const char *text)
{
	return (struct bytes){(const uint8_t *)text, strlen(text)};
}

bool
bytes_equal(struct bytes a, struct bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

int
bytes_compare(struct bytes a, struct bytes b)
{
	size_t common = a.len < b.len ? a.len : b.len;
	int order = common > 0 ? memcmp(a.data, b.data, common) : 0;

	return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

bool
bytes_number(struct bytes text, int64_t *number)
{
	const bool minus = text.len > 1 && text.data[0] == '-';

	*number = 0;
	for (size_t n = minus; n < text.len; n++) {
		if (text.data[n] < '0' || text.data[n] > '9')
			return false;
		if (*number < INT64_C(1000000000000000))
			*number = *number * 10 + (text.data[n] - '0');
	}
	if (minus)
		*number = -*number;
	return text.len > 0;
}

char *
bytes_to_text(struct bytes b)
{
	char *text = memory_zero(b.len + 1, 1);

	if (b.len > 0)
		memcpy(text, b.data, b.len);
	return text;
}

struct bytes
bytes_copy(struct bytes b)
{
	uint8_t *copy;

	if (b.len == 0)
		return (struct bytes){NULL, 0};
	copy = memory_grow(NULL, b.len, 1);
	memcpy(copy, b.data, b.len);
	return (struct bytes){copy, b.len};
}

void
bytes_set(struct bytes *to, struct bytes from)
{
	struct bytes old = *to;

	*to = bytes_copy(from);
	free((void *)old.data);
}

/* ---- the writer ---- */

enum { BUFFER_ROOM_MIN = 64 };

/* The address at which `len` more bytes may be stored; NULL, with `failed` set, when the limit
 * would be exceeded. `spare` bytes are allocated after them, but not counted. */
static uint8_t *
buffer_space(struct buffer *b, size_t len, size_t spare)
{
	must(b->len <= b->limit);
	if (b->failed || len > b->limit - b->len) {
		b->failed = true;
		return NULL;
	}
	if (b->data == NULL || len + spare > b->room - b->len) {
		size_t room = b->room < BUFFER_ROOM_MIN ? BUFFER_ROOM_MIN : b->room * 2;

		if (room < b->len + len + spare)
			room = b->len + len + spare;
		b->data = memory_grow(b->data, room, 1);
		b->room = room;
	}
	return b->data + b->len;
}

void
buffer_put(struct buffer *b, const void *data, size_t len)
{
	uint8_t *space = buffer_space(b, len, 0);

	if (space == NULL || len == 0)
		return;
	memcpy(space, data, len);
	b->len += len;
}

void
buffer_put_bytes(struct buffer *b, struct bytes v)
{
	buffer_put(b, v.data, v.len);
}

static void
store_little_endian(uint8_t *at, size_t size, uint64_t v)
{
	for (size_t i = 0; i < size; i++)
		at[i] = (uint8_t)(v >> (8 * i));
}

static void
put_number(struct buffer *b, size_t size, uint64_t v)
{
	uint8_t *space = buffer_space(b, size, 0);

	if (space == NULL)
		return;
	store_little_endian(space, size, v);
	b->len += size;
}

void
buffer_put_u8(struct buffer *b, uint8_t v)
{
	put_number(b, sizeof v, v);
}

void
buffer_put_u16(struct buffer *b, uint16_t v)
{
	put_number(b, sizeof v, v);
}

void
buffer_put_u32(struct buffer *b, uint32_t v)
{
	put_number(b, sizeof v, v);
}

void
buffer_put_u64(struct buffer *b, uint64_t v)
{
	put_number(b, sizeof v, v);
}

void
buffer_patch_u32(struct buffer *b, size_t at, uint32_t v)
{
	if (b->failed)
		return; /* the four bytes at `at` may never have been written */
	must(b->len >= sizeof v && at <= b->len - sizeof v);
	store_little_endian(b->data + at, sizeof v, v);
}

void
buffer_printf(struct buffer *b, const char *format, ...)
{
	va_list arguments;
	uint8_t *space;
	int len;

	va_start(arguments, format);
	len = vsnprintf(NULL, 0, format, arguments);
	va_end(arguments);
	must(len >= 0);

	space = buffer_space(b, (size_t)len, 1); /* vsnprintf also writes a NUL */
	if (space == NULL)
		return;
	va_start(arguments, format);
	vsnprintf((char *)space, (size_t)len + 1, format, arguments);
	va_end(arguments);
	b->len += (size_t)len;
}

struct bytes
buffer_view(const struct buffer *b)
{
	return (struct bytes){b->data, b->len};
}

struct bytes
buffer_take(struct buffer *b)
{
	struct bytes taken = buffer_view(b);

	*b = BUFFER(b->limit);
	return taken;
}

void
buffer_reset(struct buffer *b)
{
	b->len = 0;
	b->failed = false;
}

void
buffer_free(struct buffer *b)
{
	free(b->data);
	*b = BUFFER(b->limit);
}

/* ---- the reader ---- */

struct cursor
cursor_of(struct bytes v)
{
	static const uint8_t nothing[1];
	const uint8_t *at = v.len > 0 ? v.data : nothing;

	return (struct cursor){at, at + v.len, false};
}

size_t
cursor_left(const struct cursor *c)
{
	return (size_t)(c->end - c->at);
}

struct bytes
cursor_bytes(struct cursor *c, size_t len)
{
	struct bytes v = {c->at, len};

	if (c->failed || len > cursor_left(c)) {
		c->failed = true;
		return (struct bytes){NULL, 0};
	}
	c->at += len;
	return v;
}

static uint64_t
get_number(struct cursor *c, size_t size)
{
	struct bytes v = cursor_bytes(c, size);
	uint64_t number = 0;

	for (size_t i = 0; i < v.len; i++)
		number |= (uint64_t)v.data[i] << (8 * i);
	return number;
}

uint8_t
cursor_u8(struct cursor *c)
{
	return (uint8_t)get_number(c, sizeof(uint8_t));
}

uint32_t
cursor_u32(struct cursor *c)
{
	return (uint32_t)get_number(c, sizeof(uint32_t));
}

uint64_t
cursor_u64(struct cursor *c)
{
	return get_number(c, sizeof(uint64_t));
}

bool
cursor_done(const struct cursor *c)
{
	return !c->failed && c->at == c->end;
}
