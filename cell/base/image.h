/* The image of a state: its fields as bytes, from which another process makes the same state. One
 * function names the fields, for writing and for reading, so that both agree; what has to be done
 * differently asks image_reads().
 *
 * An image that is read is checked as any bytes from outside: `bad` latches, numbers are zero and
 * bytes empty from then on, and the caller tests it once, at the end. */
#ifndef LSFS_BASE_IMAGE_H
#define LSFS_BASE_IMAGE_H

#include "cell/base/bytes.h"

struct image {
	struct buffer *to; /* written; NULL: read */
	struct cursor from;
	bool bad;
};

/* One that is appended to `to`, which must outlive it. */
struct image image_to(struct buffer *to);
/* One that is read from `from`, which must outlive it. */
struct image image_from(struct bytes from);
/* True if the fields are set by what is read. */
bool image_reads(const struct image *i);
/* The state that is read can't be. */
void image_refuse(struct image *i);
/* False if something was missing or bad, or is left over. */
bool image_done(const struct image *i);

/* A number: returns `value`, which is written, or what is read. */
uint64_t image_number(struct image *i, uint64_t value);
/* Bytes: `*b` is written; or becomes a heap copy of what is read, whose owner frees what it was. */
void image_bytes(struct image *i, struct bytes *b);
/* The contents of a buffer, whose limit stays. */
void image_buffer(struct image *i, struct buffer *b);
/* So many bytes in place. */
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
