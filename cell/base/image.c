#include "cell/base/image.h"

#include <string.h>

struct image
image_to(struct buffer *to)
{
	return (struct image){.to = to};
}

struct image
image_from(struct bytes from)
{
	return (struct image){.from = cursor_of(from)};
}

bool
image_reads(const struct image *i)
{
	return i->to == NULL;
}

void
image_refuse(struct image *i)
{
	i->bad = true;
	i->from.failed = true;
}

bool
image_done(const struct image *i)
{
	return i->to != NULL ? !i->to->failed : !i->bad && cursor_done(&i->from);
}

uint64_t
image_number(struct image *i, uint64_t value)
{
	if (i->to == NULL)
		return cursor_u64(&i->from);
	buffer_put_u64(i->to, value);
	return value;
}

/* The next bytes that are read: a view. */
static struct bytes
next(struct image *i)
{
	const uint64_t len = cursor_u64(&i->from);

	if (len > cursor_left(&i->from))
		image_refuse(i);
	return cursor_bytes(&i->from, i->bad ? 0 : (size_t)len);
}

static void
put(struct image *i, struct bytes b)
{
	buffer_put_u64(i->to, b.len);
	buffer_put_bytes(i->to, b);
}

void
image_bytes(struct image *i, struct bytes *b)
{
	if (i->to == NULL)
		*b = bytes_copy(next(i));
	else
		put(i, *b);
}

void
image_buffer(struct image *i, struct buffer *b)
{
	if (i->to != NULL) {
		put(i, buffer_view(b));
		return;
	}
	buffer_reset(b);
	buffer_put_bytes(b, next(i));
	if (b->failed)
		image_refuse(i);
}

void
image_array(struct image *i, void *data, size_t len)
{
	struct bytes from;

	if (i->to != NULL) {
		buffer_put(i->to, data, len);
		return;
	}
	from = cursor_bytes(&i->from, len);
	memset(data, 0, len);
	if (from.len == len)
		memcpy(data, from.data, len);
}
