/* Random well-formed values of everything in the schema: for round trips, and to be damaged. */
#ifndef LSFS_TESTS_WIRE_VALUES_H
#define LSFS_TESTS_WIRE_VALUES_H

#include "cell/base/rng.h"
#include "cell/wire/shape.h"

/* Owns what the values made from it refer to. */
struct values {
	struct rng rng;
	struct bytes *blocks;
	size_t n, room;
};

/* Frees that; the generator goes on where it is. */
void values_free(struct values *v);

/* Fills the struct at `to`, whose shape it is: numbers of all magnitudes, bytes mostly short but up
 * to 300, lists of up to three elements. */
void values_fill(struct values *v, const struct shape *shape, void *to);

/* Compares what the two structs mean: bytes by contents. */
bool values_equal(const struct shape *shape, const void *a, const void *b);

/* The alternative with this code, filled. False when the schema has none. */
bool values_message(struct values *v, unsigned code, struct message *m);
bool values_op(struct values *v, unsigned code, struct op *op);
bool values_result(struct values *v, unsigned kind, struct result *r);

#endif
