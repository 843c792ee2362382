/* Random commands that mean something to a given tree, and bytes that mean nothing. */
#ifndef LSFS_TESTS_TREE_RANDOM_H
#define LSFS_TESTS_TREE_RANDOM_H

#include "cell/base/rng.h"
#include "cell/tree/tree.h"

/* Appends an encoded entry of one to four commands to `payload`. */
void random_entry(struct rng *rng, const struct tree *t, struct buffer *payload);
/* The same, of commands most of which declare what they change. */
void random_declaring_entry(struct rng *rng, const struct tree *t, struct buffer *payload);
/* A transaction; valid until the next call. */
struct op random_transaction(struct rng *r, const struct tree *t);
void random_read(struct rng *rng, const struct tree *t, struct op *op);
/* A live session, or 0 or a dead one now and then. */
uint64_t random_session(struct rng *rng, const struct tree *t);
/* Flips, cuts, repeats or inserts some bytes. */
void random_damage(struct rng *rng, struct buffer *bytes);

#endif
