/* Heap allocation that does not return NULL: when memory runs out the process ends loudly here, at
 * the one place. Sizes that come from outside were compared with a limit before they get here. */
#ifndef LSFS_BASE_MEMORY_H
#define LSFS_BASE_MEMORY_H

#include <stddef.h>

void *memory_zero(size_t count, size_t size); /* calloc; count * size must not overflow */
void *memory_grow(void *old, size_t count, size_t size); /* reallocarray */

/* Makes room for one more element of an array {type *items; size_t n, room;}. */
#define ARRAY_ROOM(items, n, room)                                                             \
	do {                                                                                   \
		if ((n) == (room)) {                                                           \
			(room) = (room) ? (room) * 2 : 8;                                      \
			(items) = memory_grow((items), (room), sizeof *(items));               \
		}                                                                              \
	} while (0)

#endif
