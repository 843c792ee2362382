/* Digests through the log: replicas that applied the same entries must agree not only in what they
 * answered (tree_digest), but in what they hold. A slice of the nodes is compared at a time, so
 * that it costs the same however large the tree is. */
#ifndef LSFS_TREE_SLICE_H
#define LSFS_TREE_SLICE_H

#include <stdint.h>

struct slices {
	uint64_t behind; /* the next slice begins behind this node */
};

#endif
