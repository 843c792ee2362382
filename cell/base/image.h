/* The image of a state: its fields as bytes, from which another process makes the same state. One
 * function names the fields, for writing and for reading, so that both agree; where they differ it
 * asks image_reads().
 *
 * An image that is read is checked like any bytes from outside: `bad` latches, numbers are zero and
 * bytes empty from then on, and the caller tests it once, at the end. */
#ifndef LSFS_BASE_IMAGE_H
#define LSFS_BASE_IMAGE_H

#include "cell/base/bytes.h"

struct image {
	struct buffer *to; /* where it is written; NULL: it is read */
	struct cursor from;
	bool bad;
};

/* An image that is appended to `to`, which must outlive it. */
struct image image_to(struct buffer *to);
/* An image that is read from `from`, which must outlive it. */
struct image image_from(struct bytes from);
/* True if the fields are set from the image. */
bool image_reads(const struct image *i);
/* Refuses an image that is read: no state has these fields. */
void image_refuse(struct image *i);
/* False if a field was missing or bad, or bytes are left over. */
bool image_done(const struct image *i);

/* A number: returns `value`, which is written, or the number that is read. */
uint64_t image_number(struct image *i, uint64_t value);
/* Bytes: `*b` is written, or becomes a heap copy of those that are read. The caller frees its old
 * value. */
void image_bytes(struct image *i, struct bytes *b);
/* The contents of a buffer, whose limit stays. */
void image_buffer(struct image *i, struct buffer *b);
/* An array of `len` bytes, in place. */
void image_array(struct image *i, void *data, size_t len);

/* A field with a number of any type. One that does not fit is bad. */
#define IMAGE(i, field)                                                      \
	do {                                                                 \
		const uint64_t number_ = image_number(i, (uint64_t)(field)); \
                                                                             \
		(field) = (__typeof__(field))number_;                        \
		if ((uint64_t)(field) != number_)                            \
			image_refuse(i);                                     \
	} while (0)
/* An instant or a span. */
#define IMAGE_TIME(i, field) IMAGE(i, (field).ns)

#endif
