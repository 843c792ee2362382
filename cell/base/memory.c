#include <stdint.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"

/* malloc may return NULL for zero bytes, which here would look like running out of memory. */
static size_t
bytes_for(size_t count, size_t size)
{
	must(size > 0);
	must(count <= SIZE_MAX / size);
	return count > 0 ? count * size : 1;
}

void *
memory_zero(size_t count, size_t size)
{
	void *block = calloc(1, bytes_for(count, size));

	must(block != NULL && "out of memory");
	return block;
}

void *
memory_grow(void *old, size_t count, size_t size)
{
	void *block = realloc(old, bytes_for(count, size));

	must(block != NULL && "out of memory");
	return block;
}
