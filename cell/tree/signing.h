/* The public signing keys of a cell since its key was rotated for the first time; before that the
 * cell file alone names its key. The secret halves are no part of the state. */
#ifndef LSFS_TREE_SIGNING_H
#define LSFS_TREE_SIGNING_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/base/bytes.h"

struct tree;

enum { SIGNING_KEY = 32 };

struct tree_signing {
	uint8_t keys[2 * SIGNING_KEY]; /* the newest, and the one before */
	uint64_t since;                /* log index of the last rotation; 0: none */
};

/* Drops the keys: a restored cell has a key of its own. */
void signing_clear(struct tree *t);
/* Sets the keys to those that were stored; false if they are damaged. */
bool signing_load(struct tree *t, uint64_t since, struct bytes newest, struct bytes former);

#endif
