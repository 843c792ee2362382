/* Heap allocation that does not return NULL: when memory runs out the process aborts here, and
 * nowhere else. Callers compare sizes from messages and files with a limit before they allocate. */
#ifndef LSFS_BASE_MEMORY_H
#define LSFS_BASE_MEMORY_H

#include <stddef.h>

/* calloc: `count` zeroed elements of `size` bytes, freed with free(). count * size must not
 * overflow. */
void *memory_zero(size_t count, size_t size);
/* reallocarray: `old` (or NULL) resized to `count` elements of `size` bytes. Consumes `old`. */
void *memory_grow(void *old, size_t count, size_t size);

/* Makes room for one more element of an array {type *items; size_t n, room;}. */
#define ARRAY_ROOM(items, n, room)                                               \
	do {                                                                     \
		if ((n) == (room)) {                                             \
			(room) = (room) ? (room)*2 : 8;                          \
			(items) = memory_grow((items), (room), sizeof *(items)); \
		}                                                                \
	} while (0)

#endif
