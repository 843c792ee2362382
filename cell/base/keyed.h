/* Trees of structs that are sorted by one unsigned number in them, or by bytes: the RB trees of
 * bsd/sys/tree.h, with functions that take the key itself. `key` is an expression behind the arrow,
 * `id` or `node->number`. The head is an RB_HEAD(tree, type). */
#ifndef LSFS_BASE_KEYED_H
#define LSFS_BASE_KEYED_H

#include <bsd/sys/tree.h>
#include <stdint.h>
#include "cell/base/bytes.h"

/* The order of two numbers; of several, keyed_order(...) ?: keyed_order(...). */
static inline int
keyed_order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

#define ORDER_FUNCTION(tree, type, key, order)                              \
	static int tree##_order(const struct type *a, const struct type *b) \
	{                                                                   \
		return order(a->key, b->key);                               \
	}

/* tree_find: the element with that key; NULL if there is none.
 * tree_after: the one with the next greater key; NULL if there is none. */
#define FIND_FUNCTIONS(tree, type, link, key, of, order, attributes)      \
	attributes struct type *tree##_find(const struct tree *t, of k)   \
	{                                                                 \
		struct type *e = RB_ROOT(t);                              \
		int c;                                                    \
                                                                          \
		while (e != NULL && (c = order(k, e->key)) != 0)          \
			e = c < 0 ? RB_LEFT(e, link) : RB_RIGHT(e, link); \
		return e;                                                 \
	}                                                                 \
	attributes struct type *tree##_after(const struct tree *t, of k)  \
	{                                                                 \
		struct type *e = RB_ROOT(t), *after = NULL;               \
                                                                          \
		while (e != NULL)                                         \
			if (order(k, e->key) < 0) {                       \
				after = e;                                \
				e = RB_LEFT(e, link);                     \
			} else {                                          \
				e = RB_RIGHT(e, link);                    \
			}                                                 \
		return after;                                             \
	}

/* A tree of one file. */
#define FILE_TREE(tree, type, link, key, of, order)                                          \
	ORDER_FUNCTION(tree, type, key, order)                                               \
	RB_GENERATE_INTERNAL(tree, type, link, tree##_order, static __attribute__((unused))) \
	FIND_FUNCTIONS(tree, type, link, key, of, order, static __attribute__((unused)))
#define KEYED_TREE(tree, type, link, key) FILE_TREE(tree, type, link, key, uint64_t, keyed_order)
#define BYTES_TREE(tree, type, link, key) \
	FILE_TREE(tree, type, link, key, struct bytes, bytes_compare)

/* A tree of several files: in their header, and in the one file that makes it. */
#define SHARED_PROTOTYPE(tree, type, link, of)                \
	RB_PROTOTYPE(tree, type, link, )                      \
	struct type *tree##_find(const struct tree *t, of k); \
	struct type *tree##_after(const struct tree *t, of k);
#define SHARED_TREE(tree, type, link, key, of, order) \
	ORDER_FUNCTION(tree, type, key, order)        \
	RB_GENERATE(tree, type, link, tree##_order)   \
	FIND_FUNCTIONS(tree, type, link, key, of, order, )
#define KEYED_PROTOTYPE(tree, type, link) SHARED_PROTOTYPE(tree, type, link, uint64_t)
#define KEYED_GENERATE(tree, type, link, key) \
	SHARED_TREE(tree, type, link, key, uint64_t, keyed_order)
#define BYTES_PROTOTYPE(tree, type, link) SHARED_PROTOTYPE(tree, type, link, struct bytes)
#define BYTES_GENERATE(tree, type, link, key) \
	SHARED_TREE(tree, type, link, key, struct bytes, bytes_compare)

#endif
