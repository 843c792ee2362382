/* Epochs: each master begins one before it serves. */
#ifndef LSFS_TREE_EPOCH_H
#define LSFS_TREE_EPOCH_H

#include <stdint.h>

struct tree;

struct epochs {
	uint64_t current;      /* 0: none has begun */
	uint64_t settled;      /* the last one whose barrier has fallen */
	uint64_t first_number; /* the next instance number when the current one began */
};

/* Leaves out as many epochs. */
void epoch_skip(struct tree *t, uint64_t epochs);

#endif
