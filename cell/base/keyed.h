/* Trees of structs that are sorted by one unsigned number in them: the RB trees of bsd/sys/tree.h,
 * with functions that take the number itself. `key` is an expression behind the arrow, `id` or
 * `node->number`. The head is an RB_HEAD(tree, type). */
#ifndef LSFS_BASE_KEYED_H
#define LSFS_BASE_KEYED_H

#include <bsd/sys/tree.h>
#include <stdint.h>
#include "cell/base/bytes.h"

/* tree_find: the element with that key; NULL if there is none.
 * tree_after: the one with the next greater key; NULL if there is none. */
#define KEYED_FUNCTIONS(tree, type, link, key, attributes)                     \
	attributes struct type *tree##_find(const struct tree *t, uint64_t k)  \
	{                                                                      \
		struct type *e = RB_ROOT(t);                                   \
                                                                               \
		while (e != NULL && e->key != k)                               \
			e = k < e->key ? RB_LEFT(e, link) : RB_RIGHT(e, link); \
		return e;                                                      \
	}                                                                      \
	attributes struct type *tree##_after(const struct tree *t, uint64_t k) \
	{                                                                      \
		struct type *e = RB_ROOT(t), *after = NULL;                    \
                                                                               \
		while (e != NULL)                                              \
			if (k < e->key) {                                      \
				after = e;                                     \
				e = RB_LEFT(e, link);                          \
			} else {                                               \
				e = RB_RIGHT(e, link);                         \
			}                                                      \
		return after;                                                  \
	}

/* The order of two numbers; of several, keyed_order(...) ?: keyed_order(...). */
static inline int
keyed_order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

#define KEYED_ORDER(tree, type, key)                                        \
	static int tree##_order(const struct type *a, const struct type *b) \
	{                                                                   \
		return keyed_order(a->key, b->key);                         \
	}

/* The order of two elements by bytes in them. */
#define BYTES_ORDER(tree, type, key)                                        \
	static int tree##_order(const struct type *a, const struct type *b) \
	{                                                                   \
		return bytes_compare(a->key, b->key);                       \
	}

/* A tree of one file. */
#define KEYED_TREE(tree, type, link, key)                                                    \
	KEYED_ORDER(tree, type, key)                                                         \
	RB_GENERATE_INTERNAL(tree, type, link, tree##_order, static __attribute__((unused))) \
	KEYED_FUNCTIONS(tree, type, link, key, static __attribute__((unused)))

/* A tree of one file by bytes, without these functions. */
#define BYTES_TREE(tree, type, link, key) \
	BYTES_ORDER(tree, type, key)      \
	RB_GENERATE_INTERNAL(tree, type, link, tree##_order, static __attribute__((unused)))

/* A tree of several files: in their header, and in the one file that makes it. */
#define KEYED_PROTOTYPE(tree, type, link)                           \
	RB_PROTOTYPE(tree, type, link, )                            \
	struct type *tree##_find(const struct tree *t, uint64_t k); \
	struct type *tree##_after(const struct tree *t, uint64_t k);
#define KEYED_GENERATE(tree, type, link, key)       \
	KEYED_ORDER(tree, type, key)                \
	RB_GENERATE(tree, type, link, tree##_order) \
	KEYED_FUNCTIONS(tree, type, link, key, )

#endif
